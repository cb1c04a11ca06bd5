"""The one way to what is known of a run and to what is done with it: on this machine or another.

Both classes have the same methods, which block, so they are called in a thread. What they raise for
a run of this machine, they raise for one of another machine too; besides, that raises NoAnswer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Protocol

from engine import client
from engine.files.regular_file import read_regular
from engine.messages.commands import Command
from engine.messages.events import RecipeVersion
from engine.remote.downloads import DownloadFailed, copy_checkpoint
from engine.runs import device_queue, run_overview, trash
from engine.runs.checkpoint_files import CheckpointInfo, Watch
from engine.runs.device_queue import Move
from engine.runs.run_info import RunInfo
from engine.runs.run_notes import ChangedNotes, change_notes
from engine.runs.run_overview import RunOverview
from engine.runs.settings_history import SettingsHistory, settings_history
from engine.runs.store.store_reader import RunReader
from engine.runs.store.stored_points import StoredPoints
from engine.spec.recipe_copy import recipe_of_run
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.system import paths

LONGEST_READ = 1.0
"""Seconds of computing time for a curve of the table of runs."""


class RunAccess(Protocol):
    """One run, wherever it is."""

    def info(self) -> RunInfo:
        """Return its state. Raises NoSuchRun."""

    def window(self, series: str, first: float, last: float, most: int) -> StoredPoints:
        """Return the points between two steps, or about `most` blocks. Raises sqlite3.Error."""

    def history(self, series: str, most: int) -> StoredPoints:
        """Return a whole series in about `most` points. Raises sqlite3.Error."""

    def counts(self) -> Mapping[str, int]:
        """Return the number of points of each series. Raises sqlite3.Error."""

    def batches(self, series: str) -> Iterator[StoredPoints]:
        """Yield every point of a series, some at a time. Raises sqlite3.Error."""

    def send(self, command: Command) -> None:
        """Send a command. Raises CommandFailed, NoSuchRun."""

    def resume(
        self,
        checkpoint: Path | None,
        spec: RunSpec | None,
        recipe: RecipeVersion | None,
        watch: Watch,
        *,
        as_new: bool,
    ) -> str:
        """Let the run go on, and return the id of the run that does. Raises CannotStart."""

    def checkpoints(self) -> list[CheckpointInfo]:
        """Return the complete checkpoints, oldest first."""

    def copy_checkpoint(self, name: str, target: Path, progress: Watch) -> None:
        """Copy a checkpoint to the new folder `target` of this machine: all of it, or nothing.

        `progress` gets the bytes that were copied, and their total; what it raises ends the copy.
        Raises DownloadFailed.
        """

    def overview(self, info: RunInfo, device_names: Mapping[str, str]) -> RunOverview:
        """Return how the run with the state `info` came about. Raises OSError."""

    def diff(self, attempt: int) -> str:
        """Return the changes of its code that were not committed."""

    def recipe(self) -> str:
        """Return its copy of the recipe."""

    def recipe_info(self, spec: RunSpec) -> RecipeInfo:
        """Return what its recipe or script is: the copy that trains, which is a file here.

        `spec`: its settings.
        """

    def settings_history(self) -> SettingsHistory:
        """Return its settings, and those that it has had before."""

    def media(self, file: str, largest: int) -> bytes:
        """Return an image that its script has logged, of `largest` bytes at most.

        Raises OSError.
        """

    def write_notes(self, change: ChangedNotes) -> None:
        """Change its notes. Raises OSError."""

    def move(self, where: Move) -> None:
        """Move it in the queue. Raises CannotMoveRun."""

    def delete(self) -> None:
        """Move it to the trash of its machine. Raises CannotDelete."""

    def restore(self) -> None:
        """Bring it back from the trash. Raises CannotDelete."""


class OwnRun(RunAccess):
    """A run of this machine."""

    def __init__(self, run_id: str) -> None:
        self._id = run_id

    @property
    def folder(self) -> Path:
        """Its folder."""
        return paths.run_folder(self._id)

    def info(self) -> RunInfo:
        return client.get_run(self._id)

    def window(self, series: str, first: float, last: float, most: int) -> StoredPoints:
        with RunReader(self.folder) as reader:
            return reader.window(series, first, last, most)

    def history(self, series: str, most: int) -> StoredPoints:
        with RunReader(self.folder, LONGEST_READ) as reader:
            return reader.history(series, most)

    def counts(self) -> Mapping[str, int]:
        with RunReader(self.folder) as reader:
            return reader.counts()

    def batches(self, series: str) -> Iterator[StoredPoints]:
        with RunReader(self.folder) as reader:
            yield from reader.batches(series)

    def send(self, command: Command) -> None:
        client.send(self._id, command)

    def resume(
        self,
        checkpoint: Path | None,
        spec: RunSpec | None,
        recipe: RecipeVersion | None,
        watch: Watch,
        *,
        as_new: bool,
    ) -> str:
        if as_new:
            return client.resume_as_new(self._id, checkpoint, spec, watch, recipe)
        client.resume(self._id, checkpoint, spec, watch, recipe)
        return self._id

    def checkpoints(self) -> list[CheckpointInfo]:
        return client.run_checkpoints(self._id)

    def copy_checkpoint(self, name: str, target: Path, progress: Watch) -> None:
        for each in self.checkpoints():
            if each.folder.name == name:
                return copy_checkpoint(each, target, progress)
        raise DownloadFailed(f"Run {self._id} has no checkpoint {name} any more.")

    def overview(self, info: RunInfo, device_names: Mapping[str, str]) -> RunOverview:
        return run_overview.run_overview(info, dict(device_names))

    def diff(self, attempt: int) -> str:
        return run_overview.read_diff(self.folder, attempt)

    def recipe(self) -> str:
        return run_overview.read_recipe(self.folder)

    def recipe_info(self, spec: RunSpec) -> RecipeInfo:
        return recipe_of_run(self.folder, spec)

    def settings_history(self) -> SettingsHistory:
        return settings_history(self.folder)

    def media(self, file: str, largest: int) -> bytes:
        name = PurePosixPath(file)
        path, room = self.folder / name, self.folder / name.parts[0]
        if not path.parent.resolve().is_relative_to(room.resolve()):
            raise OSError("it lies in another folder")
        return read_regular(path, largest)

    def write_notes(self, change: ChangedNotes) -> None:
        change_notes(self.folder, change)

    def move(self, where: Move) -> None:
        device_queue.move(self._id, where)

    def delete(self) -> None:
        trash.delete(self._id)

    def restore(self) -> None:
        trash.restore(self._id)
