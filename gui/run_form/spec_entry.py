"""What is entered in the run form, as a spec; and which of its fields take nothing else."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import FIELDS, RunSpec
from engine.spec.strategy import Strategy
from engine.spec.validation import Problem
from gui.run_form.form_layout import entered_values
from gui.run_form.form_mode import FormMode
from gui.widgets.entry_fields import Field


def entered_spec(
    fields: Mapping[str, Field],
    settings: Mapping[str, Field],
    recipe: RecipeInfo,
    strategy: Strategy,
    devices: tuple[str, ...],
    name: str,
) -> tuple[RunSpec, list[Problem]]:
    """The spec, where a field that holds no value has its default; and those fields' problems."""
    found: list[Problem] = []
    own = entered_values(settings, "settings.", found)
    spec = RunSpec(
        recipe=recipe.reference,
        strategy=strategy.name,
        devices=devices,
        name=name,
        settings={
            info.name: own[info.name]
            for info in recipe.fields
            if own.get(info.name, info.default) != info.default
        },
        **entered_values(fields, "", found),  # type: ignore[arg-type]  # each to its own type
    )
    return spec, found


def apply_refusals(
    fields: Mapping[str, Field], strategy: Strategy, mode: FormMode, spec: RunSpec
) -> None:
    """Let the fields of `spec`, which is what is entered, take no value that `mode` or `strategy`
    would refuse. What a strategy refuses may depend on the fields before."""
    for name, field in fields.items():
        info = FIELDS[name]
        spec = replace(spec, **{name: info.default})
        if held := mode.fixed_value(name):
            field.set_refusal(held.reason, held.value)
        else:
            field.set_refusal(strategy.refusal(name, spec))
        if info.choices and not field.refusal:
            others = {choice: replace(spec, **{name: choice}) for choice in info.choices}
            field.set_choice_refusals(
                {choice: strategy.refusal(name, other) for choice, other in others.items()}
            )
        spec = replace(spec, **{name: field.value_or_default()})
