"""A run that goes on elsewhere: with another strategy, on other devices."""

from __future__ import annotations

from pathlib import Path

import msgspec

from engine import catalog
from engine.checkpoint import CheckpointDamaged, read_manifest
from engine.problems import Problem
from engine.spec import RunSpec


def spec_elsewhere(spec: RunSpec, strategy: str | None, devices: tuple[str, ...] | None) -> RunSpec:
    """`spec` with another strategy (full or short name) and other devices; None: as before.

    Raises UnknownName.
    """
    if strategy is not None:
        full_name = catalog.strategy(strategy, catalog.recipe(spec.recipe)).name
        spec = msgspec.structs.replace(spec, strategy=full_name)
    return spec if devices is None else msgspec.structs.replace(spec, devices=devices)


def format_problems(folder: Path, spec: RunSpec) -> list[Problem]:
    """Why the framework of `spec` cannot read the checkpoint in `folder`."""
    try:
        saved_by = read_manifest(folder).strategy
    except CheckpointDamaged:
        return []  # that is for whoever verifies it to say
    theirs, ours = (name.partition("/")[0] for name in (saved_by, spec.strategy))
    if theirs == ours:
        return []
    text = f"{spec.strategy} cannot read a checkpoint of {saved_by}: choose a {theirs} strategy."
    return [Problem("strategy", text)]
