"""Checkpoints on disk, for every framework. A folder with a final name is always complete."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine.files import save_progress as files_save_progress
from engine.files.atomic_file import begin_sync, remove_leftovers, sync_to_disk, write_atomically
from engine.files.format_version import UNNUMBERED, FormatVersion
from engine.files.ownership import is_own_folder
from engine.files.regular_file import LARGEST_JSON, read_regular
from engine.files.save_progress import UNFINISHED

FORMAT = FormatVersion(1, 1)
"""The key `format` of a manifest. `docs/compatibility.md` lists the versions."""

FOLDER = "checkpoints"
MANIFEST = "manifest.json"
BEGINNING = "beginning"
"""In place of the name of a checkpoint: train again from step 0."""

OWN = "own"
"""In place of the name of a checkpoint: the command of a script goes on by its own arguments."""

KINDS = ("request", "steps", "minutes", "epochs", "best", "last")
"""Why a checkpoint was saved: by command; every N steps, minutes or epochs; the best so far; at the
end of the training or at a Stop."""

_NAME = re.compile(r"step-(\d{8,})")


READ_AT_ONCE = 4 * 2**20
"""Bytes of a checkpoint that are read at once; between two reads a verification can be ended."""

Watch = Callable[[int, int], None]
"""Called during a verification with the bytes that were read and their total. An exception that it
raises ends the verification."""


class Position(msgspec.Struct, frozen=True):
    """A step boundary: the progress of the training."""

    epoch: int = 0
    """Completed epochs, including their validation."""

    batch: int = 0
    """Completed global batches of the current epoch."""

    step: int = 0
    """Completed optimizer steps since the start of training."""

    def total_steps(self, steps_per_epoch: int, epochs: int) -> int:
        """Return the steps of the whole training, if it continues from here to the end of `epochs`.

        Every later boundary gives the same result, even if earlier epochs had other lengths.
        """
        return self.step + (epochs - self.epoch) * steps_per_epoch - self.batch

    def in_batches_of(self, size: int, saved_size: int, steps_per_epoch: int) -> Position:
        """Return this position after the global batch changed from `saved_size` to `size` samples.

        An epoch now has `steps_per_epoch` batches (0: not known). The result is rounded down,
        so the run trains twice on up to `size` - 1 samples of this epoch.
        """
        batch = self.batch * saved_size // size
        if steps_per_epoch:
            batch = min(batch, steps_per_epoch)
        return Position(self.epoch, batch, self.step)


class FileRecord(msgspec.Struct, frozen=True):
    """One file of a checkpoint."""

    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a checkpoint. It is written last, after all other files are complete."""

    format: str = str(UNNUMBERED)
    """The version of the checkpoint's format; the default is that of old manifests."""

    position: Position
    strategy: str
    replicas: int
    batch_size: int = 0
    """The global batch that `position.batch` counts; 0 in old manifests."""

    parameters: int = 0
    """Trainable parameters of the model; 0 in old manifests."""

    saved: float
    """Seconds since the epoch."""

    files: dict[str, FileRecord]
    kinds: tuple[str, ...] = ()
    """Some of `KINDS`, in their order; empty in old manifests."""

    metrics: dict[str, float] = {}
    """Finite results of the last validation, such as {"validation/loss": 0.1}."""

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(record.bytes for record in self.files.values())


class _Formatted(msgspec.Struct, frozen=True):
    """The part of a manifest that every version can read."""

    format: str = str(UNNUMBERED)


class CheckpointInfo(NamedTuple):
    """A complete checkpoint."""

    folder: Path
    manifest: Manifest


class CheckpointDamaged(Exception):
    """The files of a checkpoint differ from the saved ones; the text is a sentence."""


class CheckpointTooNew(CheckpointDamaged):
    """Only a newer version of Traindeck can read the checkpoint."""


def final_folder(run_folder: Path, step: int) -> Path:
    """Return the folder of the complete checkpoint after `step`."""
    return run_folder / FOLDER / f"step-{step:08d}"


def temporary_folder(run_folder: Path, step: int) -> Path:
    """Return the folder of the unfinished checkpoint after `step`."""
    final = final_folder(run_folder, step)
    return final.with_name(final.name + UNFINISHED)


def unrecorded(rank: int | str) -> str:
    """Return the name of the file with the events of `rank` that the store does not have.

    It is no part of the checkpoint beside it: it may be replaced when that is complete.
    """
    return f"unrecorded-rank{rank}.msgpack"


def begin(run_folder: Path, step: int) -> Path:
    """Create an empty temporary folder for the checkpoint after `step`. Only rank 0 calls it.

    Raises OSError.
    """
    folder = temporary_folder(run_folder, step)
    with contextlib.suppress(FileNotFoundError):  # another error is one of the disk
        shutil.rmtree(folder)
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
    count: Callable[[int], None] = lambda size: None,
) -> CheckpointInfo:
    """Complete the checkpoint in the temporary folder: write the manifest, sync all files, rename.

    Only rank 0 calls it, after every rank has written. It calls `count` with the size of each piece
    that was read for its checksum or synced. Raises OSError.
    """
    folder = temporary_folder(run_folder, position.step)
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in paths:
        begin_sync(path)  # the disk writes while the checksums are computed
    manifest = Manifest(
        format=str(FORMAT),
        position=position,
        strategy=strategy,
        replicas=replicas,
        batch_size=batch_size,
        parameters=parameters,
        saved=time.time(),
        files={
            str(path.relative_to(folder)): _record(path, count)
            for path in paths
            if not path.match(unrecorded("*"))
        },
        kinds=_in_order(kinds),
        metrics=_finite(metrics or {}),
    )
    (folder / MANIFEST).write_bytes(_encoded(manifest))
    for path in folder.rglob("*"):
        sync_to_disk(path, count)
    sync_to_disk(folder)
    final = final_folder(run_folder, position.step)
    folder.rename(final)
    sync_to_disk(final.parent)
    return CheckpointInfo(final, manifest)


def add_kinds(folder: Path, kinds: Collection[str], metrics: Mapping[str, float]) -> CheckpointInfo:
    """Add `kinds` and newer validation results to the manifest in `folder`.

    Raises CheckpointDamaged when the manifest cannot be read, or OSError.
    """
    manifest = read_manifest(folder)
    changed = msgspec.structs.replace(
        manifest,
        kinds=_in_order({*manifest.kinds, *kinds}),
        metrics=manifest.metrics | _finite(metrics),
    )
    return _rewrite(folder, changed)


def set_kinds(info: CheckpointInfo, kinds: Collection[str]) -> CheckpointInfo:
    """Replace the kinds of a checkpoint. Raises OSError."""
    return _rewrite(info.folder, msgspec.structs.replace(info.manifest, kinds=_in_order(kinds)))


def remove(folder: Path) -> None:
    """Delete a checkpoint. It loses its final name first, so a half-deleted one is never used."""
    renamed = folder.with_name(f"{folder.name}.deleted{UNFINISHED}")
    shutil.rmtree(renamed, ignore_errors=True)
    folder.rename(renamed)
    sync_to_disk(folder.parent)
    shutil.rmtree(renamed, ignore_errors=True)  # the next attempt removes the rest


def remove_unfinished(run_folder: Path) -> None:
    """Delete what ended attempts left: unfinished checkpoints, and unfinished changes of manifests.

    No worker of the run may be alive.
    """
    for folder in unfinished(run_folder):
        shutil.rmtree(folder, ignore_errors=True)
    for folder in folders(run_folder).values():
        remove_leftovers(folder, older_than=0.0)


def unfinished(run_folder: Path) -> list[Path]:
    """Return the folders of unfinished checkpoints."""
    return sorted((run_folder / FOLDER).glob(f"step-*{UNFINISHED}"))


def save_progress(run_folder: Path) -> tuple[int, int]:
    """Return what changes while a checkpoint of the run is written: its bytes, and its marks."""
    return files_save_progress.save_progress(run_folder / FOLDER)


def checkpoints(run_folder: Path) -> list[CheckpointInfo]:
    """Return the complete checkpoints of a run with a readable manifest, by step."""
    found = []
    for folder in folders(run_folder).values():
        try:
            found.append(CheckpointInfo(folder, read_manifest(folder)))
        except CheckpointDamaged:
            continue
    return found


def folders(run_folder: Path) -> dict[int, Path]:
    """Return the folders of complete checkpoints, also damaged ones, by step (ascending)."""
    folder = run_folder / FOLDER
    entries = folder.iterdir() if is_own_folder(folder) else ()
    found = {
        int(name[1]): entry
        for entry in entries
        if (name := _NAME.fullmatch(entry.name)) and is_own_folder(entry)
    }
    return dict(sorted(found.items()))


def step_of(name: str) -> int:
    """Return the step of a checkpoint by its name; 0: it is the name of none."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else 0


def misplaced(run_folder: Path) -> list[Path]:
    """Return what is in the place of a folder of checkpoints, and is none of this user."""
    folder = run_folder / FOLDER
    if not is_own_folder(folder):
        return [folder] if folder.exists() or folder.is_symlink() else []
    return sorted(
        entry
        for entry in folder.iterdir()
        if _NAME.fullmatch(entry.name) and not is_own_folder(entry)
    )


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of the checkpoint in `folder`. Raises CheckpointDamaged."""
    try:
        content = read_regular(folder / MANIFEST, LARGEST_JSON)
        found = FormatVersion.from_text(msgspec.json.decode(content, type=_Formatted).format)
        if not (reason := found.why_unreadable(MANIFEST, FORMAT)):
            return msgspec.json.decode(content, type=Manifest)
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointDamaged(
            f"The checkpoint {folder.name} is damaged: it has no readable {MANIFEST}."
        ) from error
    raise CheckpointTooNew(f"The checkpoint {folder.name} cannot be read: {reason}.")


def verify(folder: Path, watch: Watch | None = None) -> Manifest:
    """Compare every file with its checksum and return the manifest.

    Raises CheckpointDamaged, and what `watch` raises.
    """
    manifest = read_manifest(folder)
    done, total = 0, manifest.bytes

    def count(size: int) -> None:
        nonlocal done
        done += size
        if watch is not None:
            watch(min(done, total), total)

    for name, record in manifest.files.items():
        if not _is_intact(folder, name, record, count):
            raise CheckpointDamaged(
                f"The checkpoint {folder.name} is damaged: "
                f"{name} is missing or is not what was saved."
            )
    return manifest


def _is_intact(folder: Path, name: str, record: FileRecord, count: Callable[[int], None]) -> bool:
    path = folder / name
    if ".." in path.parts or not path.is_relative_to(folder):
        return False  # it is no file of the checkpoint: it could be a device without end
    try:
        status = path.lstat()
        # The size first: the content of a large file takes a while.
        is_ours = stat.S_ISREG(status.st_mode) and status.st_size == record.bytes
        return is_ours and _record(path, count) == record
    except (OSError, ValueError):  # ValueError: the name has a null character
        return False


def newest_intact_before(folder: Path, watch: Watch | None = None) -> Path | None:
    """Return the newest checkpoint before `folder` whose checksums are all correct; see
    `newest_intact`."""
    run_folder = folder.parent.parent
    step = next(saved for saved, each in folders(run_folder).items() if each == folder)
    found = newest_intact(run_folder, step, watch)
    return found[1] if found else None


def newest_intact(
    run_folder: Path, before: int, watch: Watch | None = None
) -> tuple[int, Path] | None:
    """Return the newest checkpoint before a step whose checksums are all correct, and its step.

    `watch` is that of `verify`.
    """
    for step, folder in reversed(folders(run_folder).items()):
        if step >= before:
            continue
        try:
            verify(folder, watch)
        except CheckpointDamaged:
            continue
        return step, folder
    return None


def rename_after(run_folder: Path, step: int, attempt: int) -> None:
    """Rename the checkpoints after `step`, from which attempt number `attempt` trains again.

    It renames damaged checkpoints too, because the attempt uses their names again.
    """
    later = [folder for saved, folder in folders(run_folder).items() if saved > step]
    for folder in later:
        folder.rename(folder.with_name(f"{folder.name}.before-{attempt}"))
    if later:  # before the points after `step` are deleted: a later checkpoint would lack them
        sync_to_disk(run_folder / FOLDER)


def _rewrite(folder: Path, manifest: Manifest) -> CheckpointInfo:
    write_atomically(folder / MANIFEST, _encoded(manifest), sync=True)
    return CheckpointInfo(folder, manifest)


def _encoded(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest))


def _in_order(kinds: Collection[str]) -> tuple[str, ...]:
    return tuple(kind for kind in KINDS if kind in kinds)


def _finite(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the finite values: JSON has no others."""
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def _record(path: Path, count: Callable[[int], None] = lambda size: None) -> FileRecord:
    """Return the record of a file; call `count` with the size of each piece that was read."""
    digest = hashlib.sha256()
    piece = memoryview(bytearray(READ_AT_ONCE))
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(piece):
            digest.update(piece[:size])
            count(size)
        return FileRecord(os.fstat(file.fileno()).st_size, digest.hexdigest())
