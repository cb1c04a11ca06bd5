"""What takes part in a race: the settings of the form with other strategies, sizes and devices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from engine.planning import race
from engine.planning.race import CannotRace
from engine.spec import catalog
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.spec.validation import problems


def race_entrants(
    spec: RunSpec,
    recipe: RecipeInfo,
    known_gpus: Collection[str],
    default_python: Callable[[str], str],
    *,
    all_strategies: bool,
    batch_sizes: Sequence[int] = (),
    precisions: Sequence[str] = (),
    device_counts: Sequence[int] = (),
) -> tuple[RunSpec, ...]:
    """Return what would be raced: of `all_strategies` those that can run with the settings. What is
    installed, the race says.

    `default_python` returns that of a framework on the machine of the race. Something empty has
    the value of `spec`. Raises CannotRace, whose text is a sentence.
    """
    own = catalog.strategy(spec.strategy)
    strategies = catalog.strategies_for(recipe) if all_strategies else (own,)
    found = race.entrants(
        spec, recipe, strategies, batch_sizes, precisions, device_counts, default_python
    )
    if not all_strategies:
        return found  # the race says why one cannot run
    return tuple(
        each
        for each in found
        if not problems(each, recipe, catalog.strategy(each.strategy), known_gpus)
    )


__all__ = ["CannotRace", "race_entrants"]
