"""Checkpoints on disk, for every framework: complete under their final name, or not there."""

from __future__ import annotations

import hashlib
import math
import re
import shutil
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine.system.atomic_file import sync_to_disk, write_atomically

FOLDER = "checkpoints"
MANIFEST = "manifest.json"
KINDS = ("request", "steps", "minutes", "epochs", "best", "last")
"""Why a checkpoint was saved: asked for; every N steps, minutes or epochs; the best one so far;
the end of the training or a Stop."""

_NAME = re.compile(r"step-(\d{8,})")
_TEMPORARY = ".tmp"


class Position(msgspec.Struct, frozen=True):
    """A step boundary: how far the training is."""

    epoch: int = 0
    """Epochs done, validation included."""

    batch: int = 0
    """Global batches done in the epoch after those."""

    step: int = 0
    """Optimizer steps done since the start of training."""

    def total_steps(self, steps_per_epoch: int, epochs: int) -> int:
        """Steps of the whole training, if it goes on from here to the end of `epochs` epochs.

        The same at every later boundary. Epochs before this one may have had other lengths.
        """
        return self.step + (epochs - self.epoch) * steps_per_epoch - self.batch

    def in_batches_of(self, size: int, saved_size: int, steps_per_epoch: int) -> Position:
        """The same place of the epoch, where its batches had `saved_size` samples and have `size`
        now, `steps_per_epoch` of them.

        A batch that would begin in the middle of one that is done is done whole: up to `size` - 1
        samples of this epoch come twice.
        """
        batch = min(self.batch * saved_size // size, steps_per_epoch)
        return Position(self.epoch, batch, self.step)


class FileRecord(msgspec.Struct, frozen=True):
    """One file of a checkpoint."""

    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a checkpoint holds; written last, so its presence says that the rest is complete."""

    position: Position
    strategy: str
    replicas: int
    batch_size: int = 0
    """The global batch in which `position` counts; 0 in a manifest from before it could change."""

    parameters: int = 0
    """Trainable parameters of the model; 0 in a manifest from before they were noted."""

    saved: float
    """Seconds since the epoch."""

    files: dict[str, FileRecord]
    kinds: tuple[str, ...] = ()
    """Of `KINDS`, in their order; empty in a manifest from before there were any."""

    metrics: dict[str, float] = {}
    """What the last validation found, such as {"validation/loss": 0.1}; finite values only."""

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(record.bytes for record in self.files.values())


class CheckpointInfo(NamedTuple):
    """A complete checkpoint."""

    folder: Path
    manifest: Manifest


class CheckpointDamaged(Exception):
    """A checkpoint that is not what was saved; the text is a sentence."""


def final_folder(run_folder: Path, step: int) -> Path:
    """Where the checkpoint after `step` lies once it is complete."""
    return run_folder / FOLDER / f"step-{step:08d}"


def temporary_folder(run_folder: Path, step: int) -> Path:
    """Where the checkpoint after `step` is being written."""
    final = final_folder(run_folder, step)
    return final.with_name(final.name + _TEMPORARY)


def begin(run_folder: Path, step: int) -> Path:
    """Make an empty temporary folder for the checkpoint after `step`; called by rank 0 only."""
    folder = temporary_folder(run_folder, step)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def publish(
    run_folder: Path,
    position: Position,
    *,
    strategy: str,
    replicas: int,
    batch_size: int,
    parameters: int,
    kinds: Collection[str] = (),
    metrics: Mapping[str, float] | None = None,
) -> CheckpointInfo:
    """Complete the checkpoint in the temporary folder: sync its files, write the manifest, rename.

    Called by rank 0 once every rank has written. Raises OSError.
    """
    folder = temporary_folder(run_folder, position.step)
    manifest = Manifest(
        position=position,
        strategy=strategy,
        replicas=replicas,
        batch_size=batch_size,
        parameters=parameters,
        saved=time.time(),
        files={
            str(path.relative_to(folder)): _record(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        },
        kinds=_in_order(kinds),
        metrics=_finite(metrics or {}),
    )
    (folder / MANIFEST).write_bytes(_encoded(manifest))
    for path in folder.rglob("*"):
        sync_to_disk(path)
    sync_to_disk(folder)
    final = final_folder(run_folder, position.step)
    folder.rename(final)
    sync_to_disk(final.parent)
    return CheckpointInfo(final, manifest)


def add_kinds(folder: Path, kinds: Collection[str], metrics: Mapping[str, float]) -> CheckpointInfo:
    """Note that the checkpoint in `folder` is also of these kinds, and what validation found since.

    Raises CheckpointDamaged when its manifest is, or OSError.
    """
    manifest = read_manifest(folder)
    changed = msgspec.structs.replace(
        manifest,
        kinds=_in_order({*manifest.kinds, *kinds}),
        metrics=manifest.metrics | _finite(metrics),
    )
    return _rewrite(folder, changed)


def set_kinds(info: CheckpointInfo, kinds: Collection[str]) -> CheckpointInfo:
    """Let a checkpoint be of these kinds only. Raises OSError."""
    return _rewrite(info.folder, msgspec.structs.replace(info.manifest, kinds=_in_order(kinds)))


def remove(folder: Path) -> None:
    """Delete a checkpoint; one that is deleted half-way is no longer there under its name."""
    leaving = folder.with_name(f"{folder.name}.deleted{_TEMPORARY}")
    shutil.rmtree(leaving, ignore_errors=True)
    folder.rename(leaving)
    shutil.rmtree(leaving, ignore_errors=True)  # the next attempt removes what is left


def remove_unfinished(run_folder: Path) -> None:
    """Delete what dead attempts were writing or deleting; nobody may be doing so now."""
    for folder in (run_folder / FOLDER).glob(f"step-*{_TEMPORARY}"):
        shutil.rmtree(folder, ignore_errors=True)


def checkpoints(run_folder: Path) -> list[CheckpointInfo]:
    """The complete checkpoints of a run, by step; without what is half-written or unreadable."""
    found = []
    for folder in folders(run_folder).values():
        try:
            found.append(CheckpointInfo(folder, read_manifest(folder)))
        except CheckpointDamaged:
            continue
    return found


def folders(run_folder: Path) -> dict[int, Path]:
    """The folders that have a final name, readable or not, by step and in its order."""
    folder = run_folder / FOLDER
    entries = folder.iterdir() if folder.is_dir() else ()
    found = {int(name[1]): entry for entry in entries if (name := _NAME.fullmatch(entry.name))}
    return dict(sorted(found.items()))


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the checkpoint in `folder`. Raises CheckpointDamaged."""
    try:
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except (OSError, ValueError) as error:
        raise CheckpointDamaged(
            f"The checkpoint {folder.name} is damaged: it has no readable {MANIFEST}."
        ) from error


def verify(folder: Path) -> Manifest:
    """The manifest, after every file was compared with its checksum. Raises CheckpointDamaged."""
    manifest = read_manifest(folder)
    for name, record in manifest.files.items():
        try:
            intact = _record(folder / name) == record
        except OSError:
            intact = False
        if not intact:
            raise CheckpointDamaged(
                f"The checkpoint {folder.name} is damaged: "
                f"{name} is missing or is not what was saved."
            )
    return manifest


def newest_intact_before(folder: Path) -> Path | None:
    """The newest checkpoint before the one in `folder` of which every file is what was saved."""
    known = list(folders(folder.parent.parent).values())
    for older in reversed(known[: known.index(folder)]):
        try:
            verify(older)
        except CheckpointDamaged:
            continue
        return older
    return None


def rename_after(run_folder: Path, step: int, attempt: int) -> None:
    """Rename what lies beyond `step`: the run goes another way now, and nothing is deleted.

    Also what is unreadable: its name will be needed again.
    """
    for saved, folder in folders(run_folder).items():
        if saved > step:
            folder.rename(folder.with_name(f"{folder.name}.before-{attempt}"))


def _rewrite(folder: Path, manifest: Manifest) -> CheckpointInfo:
    """Replace the manifest in `folder`."""
    write_atomically(folder / MANIFEST, _encoded(manifest), sync=True)
    return CheckpointInfo(folder, manifest)


def _encoded(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest))


def _in_order(kinds: Collection[str]) -> tuple[str, ...]:
    return tuple(kind for kind in KINDS if kind in kinds)


def _finite(metrics: Mapping[str, float]) -> dict[str, float]:
    """JSON has no word for the others."""
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def _record(path: Path) -> FileRecord:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    return FileRecord(path.stat().st_size, digest.hexdigest())
