"""Makes of a failed step what runs without Traindeck: `repro.py`, its figures, and the code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from engine.cases.case_file import CaseWriter
from engine.cases.evidence import Evidence, Kind, left_out_of, tensors_file
from engine.files.regular_file import read_regular
from engine.processes.process import PROJECT
from engine.runs.run_state import RunStatus
from engine.spec.recipe_copy import RECIPE, copied_modules
from engine.spec.recipe_file import LARGEST_RECIPE
from engine.spec.run_spec import RunSpec

PLACE = "repro"
"""The folder in the case."""

_SCRIPTS = PROJECT / "resources" / "in_case"
_COMMON = "case_common.py"
_LARGEST_TENSORS = 16_000_000
_KERAS_ON_TORCH = "torch/keras_ddp"


def add_to(
    writer: CaseWriter,
    folder: Path,
    spec: RunSpec,
    status: RunStatus,
    evidence: Evidence | None,
    *,
    is_hung: bool,
) -> None:
    """Add all of `repro/` but its tensors, or say why there is none."""
    if reason := _why_none(folder, spec, status, evidence, is_hung=is_hung):
        writer.left_out.append(reason)
        return
    is_keras = spec.strategy.startswith("tf/") or spec.strategy == _KERAS_ON_TORCH
    name = "repro_keras.py" if is_keras else "repro_torch.py"
    writer.add(f"{PLACE}/repro.py", (_SCRIPTS / name).read_bytes())
    writer.add(f"{PLACE}/{_COMMON}", (_SCRIPTS / _COMMON).read_bytes())
    recipe = f"{Path(spec.recipe).stem}.py"
    for place, code in code_of(folder):
        writer.add_code(f"{PLACE}/code/{place or recipe}", code)
    writer.add_value(f"{PLACE}/step.json", _step(spec, status, evidence) | {"recipe": recipe})


def add_tensors(writer: CaseWriter, folder: Path, evidence: Evidence | None) -> None:
    """Add the batch, and then the weights, as far as they have room."""
    if evidence is None:
        return
    for part in ("batch", "weights"):
        try:
            body = read_regular(tensors_file(folder, evidence.rank, part), _LARGEST_TENSORS)
        except OSError as error:
            writer.left_out.append(f"The {part} of the step cannot be read: {error}.")
            continue
        writer.add(f"{PLACE}/{part}.safetensors", body)


def code_of(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the copy of the recipe, whose place is empty, and the modules beside it."""
    for place, file in ({"": folder / RECIPE} | copied_modules(folder)).items():
        try:
            yield place, read_regular(file, LARGEST_RECIPE).decode()
        except (OSError, UnicodeDecodeError):  # a script that has no copy; a module in Latin-1
            continue


def _why_none(
    folder: Path, spec: RunSpec, status: RunStatus, evidence: Evidence | None, *, is_hung: bool
) -> str:
    if spec.is_script:
        return "There is no repro.py: only the script knows what a step is."
    if not any(place == "" for place, _ in code_of(folder)):
        return "There is no repro.py: the copy of the recipe cannot be read."
    if evidence is None and not is_hung and status.step_seconds:
        return (
            "There is no repro.py: the run did not end by an exception in a step, or its worker "
            "could not keep the batch."
        )
    return ""


def _step(spec: RunSpec, status: RunStatus, evidence: Evidence | None) -> dict[str, Any]:
    """Return what repro.py reads."""
    if evidence is None:
        per_epoch = max(1, status.steps_per_epoch)
        evidence = Evidence(
            kind=Kind.HANG if status.step_seconds else Kind.START,
            attempt=status.attempt,
            rank=0,
            step=status.step + 1,
            epoch=status.step // per_epoch,
            batch=status.step % per_epoch,
        )
    lost = left_out_of(evidence.tree)
    return {
        **msgspec.to_builtins(evidence),
        "settings": spec.settings,
        "seed": spec.seed,
        "precision": spec.precision,
        "learning_rate": spec.learning_rate,
        "batch_size": spec.batch_size,
        "parts": max(1, status.replicas) * spec.accumulation,
        "backend": "torch" if spec.strategy == _KERAS_ON_TORCH else "tensorflow",
        "lost": sorted(set(lost)),
    }
