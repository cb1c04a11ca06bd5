"""The settings of a run as rows: what differs from the defaults, and from another run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine.scripts import secrets
from engine.scripts.options import Option, read_options, values_in
from engine.scripts.secrets import looks_secret, shown_setting, shown_words
from engine.spec.field_info import FieldInfo, Setting
from engine.spec.recipe_file import RecipeInfo, script_name
from engine.spec.run_spec import FIELDS, RunSpec
from engine.spec.script_spec import DECIDED_BY_SCRIPT

RECIPE_DEFAULTS = ("batch_size", "epochs", "steps", "learning_rate")
"""Fields whose default the recipe chooses."""

HIDDEN = "(not stored)"

WHAT, RECIPE, OPTIONS, VARIABLES = "Run", "Recipe", "Script options", "Variables"
"""Groups beside those of the fields."""


class SettingRow(msgspec.Struct, frozen=True):
    """One setting of a run."""

    name: str
    title: str
    group: str
    value: str
    default: str | None = None
    """None: it has none, or it is not known."""

    was: str | None = None
    """The value in the other run; None: there is none, or it does not have this setting."""

    has_other: bool = False
    """Whether it was compared with another run."""

    doc: str = ""
    note: str = ""
    """What a person should know beside the value."""

    @property
    def differs_from_default(self) -> bool:
        """Whether it was chosen."""
        return self.default is not None and self.value != self.default

    @property
    def differs_from_other(self) -> bool:
        """Whether the other run has another value, or none."""
        return self.has_other and self.value != (self.was or "")

    @property
    def differs(self) -> bool:
        """Whether it differs from its default or from the other run."""
        return self.differs_from_default or self.differs_from_other


class Described(NamedTuple):
    """A run, as far as its settings are concerned."""

    spec: RunSpec
    recipe: RecipeInfo | None = None
    """None: it is not known any more."""

    device_names: Mapping[str, str] = {}


class _Row(NamedTuple):
    title: str
    group: str
    value: str
    default: str | None = None
    doc: str = ""


def setting_rows(run: Described, other: Described | None = None) -> list[SettingRow]:
    """Return every setting of `run`, in the order of the form; `other` is what it is compared with.

    Settings that the run does not use, such as those of a recipe in the run of a script, are left
    out. Values of secret variables are never in it.
    """
    own = _rows(run)
    theirs = _rows(other) if other is not None else {}
    found = []
    for name in [*own, *(name for name in theirs if name not in own)]:
        row = own.get(name) or theirs[name]._replace(value="", default=None)
        was = theirs[name].value if name in theirs else None
        found.append(
            SettingRow(
                name, row.title, row.group, row.value, row.default, was, other is not None, row.doc
            )
        )
    return found


def setting_text(value: Setting | Sequence[str] | None, field: FieldInfo | None = None) -> str:
    """Return a value as a person reads it: `on`, `3e-4`, `none`."""
    match value:
        case None:
            return ""
        case bool():
            return "on" if value else "off"
        case int() | float() if field is not None and field.zero and not value:
            return field.zero
        case float():
            return f"{value:g}"
        case str():
            if field is not None and value in field.choices:
                return field.choice_text(value)
            if field is not None and field.zero and not value:
                return field.zero
            return value
        case int():
            return str(value)
        case _:
            return ", ".join(value)


def _rows(run: Described) -> dict[str, _Row]:
    spec, rows = run.spec, dict[str, _Row]()
    if spec.is_imported:  # nothing is known but what the files of the other program say
        rows["imported_from"] = _Row("Imported from", WHAT, spec.imported_from)
        return rows | _of_recipe(spec, None)
    devices = [run.device_names.get(device, device) for device in spec.devices]
    if spec.is_script:
        rows["command"] = _Row("Command", WHAT, shlex.join(shown_words(spec.command)))
        rows["working_folder"] = _Row("Folder", WHAT, spec.working_folder)
    else:
        name = spec.recipe if run.recipe is None else run.recipe.name
        rows["recipe"] = _Row("Recipe", WHAT, name or script_name(Path(spec.recipe)))
    rows["strategy"] = _Row("Strategy", WHAT, spec.strategy)
    rows["devices"] = _Row("Devices", WHAT, ", ".join(devices))
    if spec.interpreter:
        rows["interpreter"] = _Row("Python", WHAT, spec.interpreter, "")
    if spec.is_script:
        if spec.resume_arguments:
            rows["resume_arguments"] = _Row("Resume with", WHAT, spec.resume_arguments, "")
        output = setting_text(spec.output_figures)
        rows["output_figures"] = _Row("Figures from the output", WHAT, output, "on")
        rows |= _options(spec)
    if not spec.is_script:
        rows |= _of_recipe(spec, run.recipe)
    for name, field in FIELDS.items():
        if spec.is_script and name in DECIDED_BY_SCRIPT:
            continue
        default = field.default
        if run.recipe is not None and name in RECIPE_DEFAULTS:
            default = getattr(run.recipe, name)
        value = setting_text(getattr(spec, name), field)
        doc = field.help(in_form=True)
        rows[name] = _Row(field.title, field.group, value, setting_text(default, field), doc)
    for name, text in spec.variables.items():
        shown = HIDDEN if looks_secret(name, text) else text
        rows[f"variable {name}"] = _Row(name, VARIABLES, shown)
    for name in spec.secret_variables:
        mark = spec.fingerprints.get(name)
        shown = f"{HIDDEN} (fingerprint {mark})" if mark else HIDDEN
        rows[f"variable {name}"] = _Row(name, VARIABLES, shown)
    return rows


def _of_recipe(spec: RunSpec, recipe: RecipeInfo | None) -> dict[str, _Row]:
    rows = {}
    for field in recipe.fields if recipe is not None else ():
        value = spec.settings.get(field.name, field.default)
        default = setting_text(field.default, field)
        rows[f"settings.{field.name}"] = _Row(
            field.label or field.name, RECIPE, _shown(field.name, value, field), default, field.doc
        )
    for name, value in spec.settings.items():  # of a recipe that has changed since
        if f"settings.{name}" not in rows:
            rows[f"settings.{name}"] = _Row(name, RECIPE, _shown(name, value))
    return rows


def _shown(name: str, value: Setting | None, field: FieldInfo | None = None) -> str:
    shown = shown_setting(name, value)
    return HIDDEN if shown == secrets.HIDDEN else setting_text(shown, field)


def _options(spec: RunSpec) -> dict[str, _Row]:
    """Return the options in the command of a script; their defaults as its source says them now."""
    options = read_options(Path(spec.recipe)) if spec.recipe.endswith(".py") else ()
    known = {option.name: option for option in options}
    words = list(spec.command)
    name = Path(spec.recipe).name
    place = next((i for i, word in enumerate(words) if Path(word).name == name), -1)
    values, rest = values_in(options, words[place + 1 :])
    found: dict[str, object] = {option.name: option.default_text for option in options}
    found |= values
    rows = {
        f"option {name}": _Row(
            known[name].title,
            OPTIONS,
            secrets.HIDDEN
            if looks_secret(name.replace("-", "_"), str(value))
            else _option_text(value),
            _default_text(known[name]),
            known[name].doc,
        )
        for name, value in found.items()
        if value not in ("", None)
    }
    left = iter(range(len(rest)))
    for number in left:
        word = rest[number]
        if not word.startswith("-") or word == "--":
            continue
        flag, equals, text = word.partition("=")
        if not equals and number + 1 < len(rest) and not rest[number + 1].startswith("-"):
            text = rest[next(left)]
        shown = (
            secrets.HIDDEN
            if looks_secret(flag.strip("-").replace("-", "_"), text)
            else text or "on"
        )
        rows[f"option {flag}"] = _Row(flag.lstrip("-"), OPTIONS, shown)
    return rows


def _default_text(option: Option) -> str | None:
    return option.default_text or (None if option.default is None else _option_text(option.default))


def _option_text(value: object) -> str:
    match value:
        case bool():
            return "on" if value else "off"
        case float():
            return f"{value:g}"
        case list() | tuple():
            return " ".join(map(str, value))
        case _:
            return str(value)
