"""Describes the model of a recipe by its layers, and writes that to the facts of the run."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from engine.facts.run_facts import DataFacts, Layer, ModelFacts, write_data, write_model
from engine.processes.process import PROJECT

_log = logging.getLogger(__name__)

_FILE = PROJECT / "resources" / "in_script" / "traindeck_watch" / "models" / "outline.py"
"""It runs in users' scripts too, which cannot import the engine."""

Rows = Sequence[Sequence[Any]]


def model_facts(model: Any) -> ModelFacts:
    """Return the layers of `model`, which is whole: before it is spread over the ranks.

    It raises nothing: of a model that cannot be described, the facts say why.
    """
    try:
        found = _module()
        layers = layers_of(found.outline(model))
        return ModelFacts(layers=layers, versions=found.library_versions())
    except Exception as error:  # the training goes on; the overview tells the user
        _log.info("the model cannot be described", exc_info=True)
        text = f"The layers of the model cannot be listed: {type(error).__name__}: {error}."
        return ModelFacts(problem=text)


def layers_of(rows: Any) -> tuple[Layer, ...]:
    """Return the rows of an outline as layers. Raises ValueError if they are none."""
    return msgspec.convert(rows, tuple[Layer, ...])


def record_model(run_folder: Path, attempt: int, facts: ModelFacts) -> None:
    """Write the model of an attempt; a disk that is full does not end the training."""
    try:
        write_model(run_folder, msgspec.structs.replace(facts, attempt=attempt))
    except (OSError, TypeError, ValueError) as error:
        _log.info("the model cannot be recorded: %s", error)


def record_data(run_folder: Path, attempt: int, facts: DataFacts) -> None:
    """Write what the data of an attempt hold; a disk that is full does not end the training."""
    try:
        write_data(run_folder, msgspec.structs.replace(facts, attempt=attempt))
    except OSError as error:
        _log.info("what the data hold cannot be recorded: %s", error)


@cache
def _module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("traindeck_outline", _FILE)
    if spec is None or spec.loader is None:
        raise ImportError(f"{_FILE} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
