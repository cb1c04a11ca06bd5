"""What the methods of an engine take and return, unless the engine has it already elsewhere."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from engine.cluster.member import Member
from engine.doctor.finding import Finding
from engine.environments.registry import Environment
from engine.messages.events import Failure, RecipeChosen
from engine.repair.report import Damage
from engine.telemetry.given_gpus import GivenGpus
from engine.telemetry.snapshot import Snapshot

Packed = bytes
"""A value that was encoded by itself; empty: there is none."""

_RUN_NUMBER = r"^[1-9][0-9]{0,17}\Z"
RunNumber = Annotated[str, msgspec.Meta(pattern=_RUN_NUMBER)]
"""The number of a run or a sweep; what another machine says is checked, for it becomes a name."""


MostPoints = Annotated[int, msgspec.Meta(ge=1, le=50_000)]
"""The largest number of points that one question of another machine may ask for."""

MOST_RUNS = 40_000
"""Runs of another machine that are known here, the newest ones; a frame takes little more."""

MOST_SERIES = 10_000
"""Series of a run, as a supervisor takes them."""

LATEST = 1e11
"""Seconds since the epoch: a later time than any that a machine tells, if it is not wrong."""


def is_time(seconds: float) -> bool:
    """Whether this is a time that can be shown: finite, and within a few thousand years."""
    return 0 <= seconds < LATEST


def id_of(machine: str, number: str) -> str:
    """Return what a run or a sweep is called here, such as `gpus:12`."""
    return f"{machine}:{number}" if machine else number


def is_run_number(text: str) -> bool:
    """Whether `text` is the number of a run."""
    return re.search(_RUN_NUMBER, text) is not None


CheckpointName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")]
"""The name of a checkpoint's folder, checked for the same reason."""

PIECE = 256 * 2**10
"""Bytes of a file in one answer."""


class LogLines(msgspec.Struct, frozen=True):
    """A part of the log of a rank."""

    begin: int
    """The byte at which the first line begins."""

    lines: list[str]


class Code(msgspec.Struct, frozen=True):
    """A recipe or script with the modules beside it that it imports."""

    name: str
    """Of its file."""

    content: bytes
    modules: dict[str, bytes] = {}
    """By the path relative to the recipe's folder, with `/`."""


class ExaminationPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of an examination, as soon as it is there."""

    finding: Finding | None = None
    """One more result."""

    doing: str = ""
    """Or what is checked now, in a few words."""

    title: str = ""
    """Or the title of a section of the report, and its text."""

    text: str = ""


class CreationPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far the creation of an environment is."""

    doing: str
    """Such as `Downloading torch-2.13.0`."""

    bytes: int
    """What lies in its folder by now."""

    output: str = ""
    """What the installer has printed since the part before; the newest of it, if it is much."""


class OfferedFile(msgspec.Struct, frozen=True):
    """A file that can be fetched, or that will be sent."""

    path: str
    """Relative to its folder, with `/`."""

    bytes: int
    sha256: str


class TemporaryFolder(msgspec.Struct, frozen=True):
    """A folder for files that come or go; it is deleted when the connection ends."""

    number: int
    path: str


class Exported(msgspec.Struct, frozen=True):
    """An export that lies in a temporary folder."""

    number: int
    files: list[OfferedFile]
    """One, or those of a folder: which of both, the format says. What another machine says is never
    the name of what is written here."""

    points: int = 0
    remarks: tuple[str, ...] = ()


class ImportSource(msgspec.Struct, frozen=True):
    """A file or folder that was sent, to make runs of."""

    path: str
    """Relative to the temporary folder, with `/`."""

    origin: str
    """Where it came from, for persons."""


class ImportedRuns(msgspec.Struct, frozen=True):
    """What an import has made."""

    run_ids: list[RunNumber]
    titles: list[str]
    points: int
    remarks: list[str] = []


class QueuedRun(msgspec.Struct, frozen=True):
    """A run that uses devices, or waits for them."""

    run: str
    """Its number, or the text by which a measurement is called."""

    title: str
    place: str
    """`inside`: it uses its devices; `aside`: it is paused, and has freed them; `waiting`."""

    devices: tuple[str, ...]
    named: str
    """The devices as a person calls them."""

    waits: str
    """What it waits for, in a sentence."""


class RemovedEnvironment(msgspec.Struct, frozen=True):
    """An environment that is not known any more."""

    environment: Environment
    is_deleted: bool
    """Whether its files were deleted: Traindeck had made it."""

    runs: tuple[str, ...]
    """Those that have used it."""


class CheckedFiles(msgspec.Struct, frozen=True):
    """What a check of files has found."""

    runs: list[str]
    """Those that were checked."""

    findings: list[Damage]


class ResumedRun(msgspec.Struct, frozen=True):
    """How a run goes on."""

    run: RunNumber
    checkpoint: str
    """The name of the checkpoint, or BEGINNING or OWN of
    `engine.runs.checkpoints.checkpoint_files`."""

    attempt: int
    after: int
    """The number of the last event before the attempt."""


class StoppingRun(msgspec.Struct, frozen=True):
    """How a run ends."""

    after: int
    """Later events tell of its end; -1: it has ended."""

    remark: str = ""
    """Sentences: what else was needed to stop it."""


class RunDetails(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is read of a run besides its state."""

    failure: Failure | None = None
    """Why it has failed."""

    newest: dict[str, float] = {}
    """The last value of each series."""

    checkpoint: str = ""
    """The folder of its newest checkpoint, or which one is lost."""

    python: str = ""
    """The Python that trains it, if it is not that of Traindeck."""

    resuming: str = ""
    """What resuming it means, if it is a script."""

    chosen: RecipeChosen | None = None
    """With which recipe it went on, the last time that this had changed."""


class MachineDevices(msgspec.Struct, frozen=True):
    """The devices of a machine."""

    snapshot: Snapshot
    given: GivenGpus
    """The GPUs that runs may use there."""


class ClusterMembers(msgspec.Struct, frozen=True):
    """The machines that train runs together, such as `cluster start` and `cluster join` make."""

    members: list[Member]
    problem: str = ""
    """Why they are not known, in a sentence."""


class TooMuch(Exception):
    """Another machine sends more than is taken of it; the text is a clause that names the limit."""


class NoAnswer(OSError):
    """Another machine did not do what was asked; the text is a sentence that names it."""


class NotConnected(NoAnswer):
    """There is no connection to another machine, or it broke before the answer."""
