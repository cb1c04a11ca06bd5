"""What is asked of a remote Traindeck, and what it answers: typed, tagged messages.

The major number of the protocol is equal on both sides. A newer minor number only adds: fields with
defaults, which the older side ignores, and requests, which it refuses in a sentence. Events, runs
and cursors travel packed by themselves (`Packed`), so that one that the other side cannot read
costs nothing but itself.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, Literal, TypeVar

import msgspec

from engine.doctor import check as doctor
from engine.environments.registry import Environment
from engine.imports.csv_tables import ColumnNames
from engine.messages.commands import Command
from engine.messages.events import RecipeVersion
from engine.planning.recipe_check import CheckResult
from engine.remote.packed_points import PackedPoints
from engine.runs.checkpoint_files import Manifest
from engine.runs.run_notes import RunNotes
from engine.runs.run_overview import RunOverview
from engine.spec.validation import Problem
from engine.telemetry.snapshot import Snapshot

MAJOR, MINOR = 1, 3
"""The version of the protocol; see `docs/compatibility.md`."""

PIECE = 256 * 2**10
"""Bytes of a file in one answer."""

Packed = bytes
"""A part of a message that was encoded by itself; empty: there is none."""

Spec = dict[str, Any]
"""The settings of a `RunSpec` that are not the defaults."""

Asked = dict[str, Any]
"""What is to be measured before a run: a request of `engine.planning` with a `Spec` in the place of
each `RunSpec`."""

PackedSweep = dict[str, Any]
"""What is not the default in a `Sweep`, whose base is a `Spec`."""

Answer = TypeVar("Answer")


class Request(msgspec.Struct, Generic[Answer], frozen=True):
    """Asks for an `Answer`, once."""

    answer: ClassVar[Any] = None
    """The type of the answer."""

    acts: ClassVar[bool] = False
    """Whether it changes something there, or starts it."""

    cleans_up: ClassVar[bool] = False
    """Whether it is answered also when it was cancelled, once nothing of it is left there."""


class Ping(Request[None], frozen=True, tag="ping"):
    """Is the other side there?"""


class WatchRuns(Request[None], frozen=True, tag="watch_runs"):
    """Push `RunsNews` from now on."""

    known: dict[str, int] = {}
    """The digests of the runs that the asking side has, by id: these are not sent."""


class WatchDevices(Request[None], frozen=True, tag="watch_devices"):
    """Push `DevicesNews` from now on, about every second."""


class Follow(Request[None], frozen=True, tag="follow"):
    """Push `FollowNews` of a run from now on."""

    run: str
    series: tuple[str, ...] = ()
    """Those whose points are wanted; they need not exist yet."""

    most: int = 2000
    """Points in which a long curve is read, about."""

    cursor: Packed = b""
    """The last one that came; empty: from the beginning of the run."""


class Show(Request[None], frozen=True, tag="show"):
    """From now on, other series of a followed run are wanted."""

    watch: int
    """The number of the call that began it."""

    series: tuple[str, ...]
    most: int = 2000


class ShowDevice(Request[None], frozen=True, tag="show_device"):
    """From now on, measure the traffic (PCIe, NVLink) of one GPU, which is slow to read."""

    watch: int
    """The number of the call that began `WatchDevices`."""

    device: str
    """Its UUID; empty: of none."""


class Unwatch(Request[None], frozen=True, tag="unwatch"):
    """Push no more of what a call began."""

    watch: int


class Measure(Request[None], frozen=True, tag="measure"):
    """Measure something before a run, and push `MeasureNews` of it until it is over.

    The connection and `Unwatch` end it; its result is lost then.
    """

    asked: Asked
    code: Code | None = None
    """The recipe; None: the settings name one of that machine."""


class StopMeasuring(Request[None], frozen=True, tag="stop_measuring"):
    """End what is measured; its result as far as it came is pushed, and then the end."""

    watch: int
    """The number of the call that began it."""


class Window(Request[PackedPoints], frozen=True, tag="window"):
    """The points of a series between two steps, and one more on each side."""

    answer: ClassVar[Any] = PackedPoints
    run: str
    series: str
    first_step: float
    last_step: float
    most: int = 2000


class History(Request[PackedPoints], frozen=True, tag="history"):
    """A whole series in about `most` points."""

    answer: ClassVar[Any] = PackedPoints
    run: str
    series: str
    most: int = 2000


class CountPoints(Request[dict[str, int]], frozen=True, tag="count_points"):
    """The number of points of every series of a run."""

    answer: ClassVar[Any] = dict[str, int]
    run: str


class Points(Request[PackedPoints], frozen=True, tag="points"):
    """At most `most` points of a series after its first `after`, each by itself."""

    answer: ClassVar[Any] = PackedPoints
    run: str
    series: str
    after: int
    most: int = 20_000


class LogLines(msgspec.Struct, frozen=True):
    """A part of the log of a rank."""

    begin: int
    """The byte at which the first line begins."""

    lines: list[str]


class Lines(Request[LogLines], frozen=True, tag="lines"):
    """The lines of a log before one of its bytes."""

    answer: ClassVar[Any] = LogLines
    run: str
    rank: int
    before: int = -1
    """-1: the end of the log."""


class ExaminationPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of an examination, as soon as it is there."""

    check: doctor.Check | None = None
    """One more result."""

    doing: str = ""
    """Or what is checked now, in a few words."""


class Examine(Request[None], frozen=True, tag="examine"):
    """Check whether that machine can train. Each `Progress` has an `ExaminationPart`."""

    on_gpus: bool = False
    """Whether frameworks are imported, and GPUs used."""


class ReportChecks(Request[str], frozen=True, tag="report_checks"):
    """The report of an examination, without names of the user of that machine."""

    answer: ClassVar[Any] = str
    checks: list[doctor.Check]


class Send(Request[int], frozen=True, tag="send"):
    """Send a command to a run; its answer will be an event after the number that is returned."""

    acts: ClassVar[bool] = True
    answer: ClassVar[Any] = int
    run: str
    command: Command


class Code(msgspec.Struct, frozen=True):
    """A recipe or script with the modules beside it that it imports."""

    name: str
    """Of its file."""

    content: bytes
    modules: dict[str, bytes] = {}
    """By the path relative to the recipe's folder, with `/`."""


class Keep(Request[str], frozen=True, tag="keep"):
    """Keep a recipe there; returns the path of its file."""

    answer: ClassVar[Any] = str
    code: Code


class ReadCode(Request[Code], frozen=True, tag="read_code"):
    """The recipe of a run, as it trains, or its script, as it is now."""

    answer: ClassVar[Any] = Code
    run: str


class Check(Request[list[Problem]], frozen=True, tag="check"):
    """Every reason why a run cannot be started there now."""

    answer: ClassVar[Any] = list[Problem]
    spec: Spec
    code: Code | None = None
    """The recipe; None: the spec names one of that machine."""


class EarlierResults(msgspec.Struct, frozen=True, omit_defaults=True):
    """The newest results that are kept there, for a recipe on some devices."""

    race: Packed = b""
    preflight: Packed = b""


class MeasuredBefore(Request[EarlierResults], frozen=True, tag="measured_before"):
    """What was measured there for a recipe on some devices."""

    answer: ClassVar[Any] = EarlierResults
    spec: Spec
    code: Code | None = None


class Start(Request[str], frozen=True, tag="start"):
    """Start a run; returns its id."""

    acts: ClassVar[bool] = True
    answer: ClassVar[Any] = str
    spec: Spec
    tags: tuple[str, ...] = ()
    code: Code | None = None


class TryRecipe(Request[CheckResult], frozen=True, tag="try_recipe"):
    """Train one batch, of which nothing is kept; it ends when the call is cancelled."""

    answer: ClassVar[Any] = CheckResult
    spec: Spec
    code: Code | None = None


class StartTwins(Request[str], frozen=True, tag="start_twins"):
    """Start twin runs; returns the id of the first. A process there starts the second one."""

    acts: ClassVar[bool] = True
    answer: ClassVar[Any] = str
    spec: Spec
    tags: tuple[str, ...] = ()
    code: Code | None = None


class Resume(Request[str], frozen=True, tag="resume"):
    """Let an ended run go on; returns the id of the run that goes on.

    `Progress` tells the bytes of its checkpoint that were verified.
    """

    acts: ClassVar[bool] = True
    answer: ClassVar[Any] = str
    run: str
    checkpoint: str = ""
    """The name of one; empty: the newest."""

    spec: Spec | None = None
    as_new: bool = False
    recipe: RecipeVersion | None = None


class OfferedFile(msgspec.Struct, frozen=True):
    """A file that can be downloaded."""

    path: str
    """Relative to the folder that is downloaded, with `/`."""

    bytes: int
    sha256: str


class Checkpoint(msgspec.Struct, frozen=True):
    """A complete checkpoint."""

    name: str
    manifest: Manifest
    manifest_file: OfferedFile
    """That of the manifest itself, which it does not list."""


class Checkpoints(Request[list[Checkpoint]], frozen=True, tag="checkpoints"):
    """The complete checkpoints of a run, oldest first."""

    answer: ClassVar[Any] = list[Checkpoint]
    run: str


class ReadCheckpoint(Request[bytes], frozen=True, tag="read_checkpoint"):
    """PIECE bytes of a file of a checkpoint; fewer at its end."""

    answer: ClassVar[Any] = bytes
    run: str
    checkpoint: str
    file: str
    offset: int


class Exported(msgspec.Struct, frozen=True):
    """An export that waits there to be downloaded; it is deleted when the connection ends."""

    number: int
    name: str
    """A proposed name for the file or the folder."""

    is_file: bool
    """Whether it is one file, and no folder."""

    files: list[OfferedFile]
    points: int = 0
    remarks: tuple[str, ...] = ()


class TemporaryFolder(msgspec.Struct, frozen=True):
    """A folder there for files that come or go; it is deleted when the connection ends."""

    number: int
    path: str


class MakeFolder(Request[TemporaryFolder], frozen=True, tag="make_folder"):
    """Make a temporary folder."""

    answer: ClassVar[Any] = TemporaryFolder
    files: list[OfferedFile] = []
    """Those that will be sent into it."""


class Write(Request[None], frozen=True, tag="write"):
    """PIECE bytes of a file that is sent into a temporary folder; fewer at its end."""

    number: int
    file: str
    offset: int
    content: bytes


class Offered(Request[list[OfferedFile]], frozen=True, tag="offered"):
    """The files that lie in a temporary folder now; `ReadExport` reads them."""

    answer: ClassVar[Any] = list[OfferedFile]
    number: int


class ImportSource(msgspec.Struct, frozen=True):
    """A file or folder that was sent, to make runs of."""

    path: str
    """Relative to the temporary folder, with `/`."""

    origin: str
    """Where it came from, for persons."""


class ImportedRuns(msgspec.Struct, frozen=True):
    """What an import has made."""

    run_ids: list[str]
    titles: list[str]
    points: int
    remarks: list[str] = []


class Import(Request[ImportedRuns], frozen=True, tag="import"):
    """Make runs of files that were sent: of all or of none. `Progress` counts parts of a file."""

    acts: ClassVar[bool] = True
    answer: ClassVar[Any] = ImportedRuns
    number: int
    sources: list[ImportSource]
    columns: ColumnNames = ColumnNames()


class Export(Request[Exported], frozen=True, tag="export"):
    """Write runs in the format of another program, there. `Progress` counts points."""

    answer: ClassVar[Any] = Exported
    runs: tuple[str, ...]
    """Their ids; `all`, alone: every run."""

    format: str


class ReadExport(Request[bytes], frozen=True, tag="read_export"):
    """PIECE bytes of a file of an export or a temporary folder; fewer at its end."""

    answer: ClassVar[Any] = bytes
    number: int
    file: str
    offset: int


class Discard(Request[None], frozen=True, tag="discard"):
    """Delete an export or a temporary folder there."""

    number: int


class Environments(Request[list[Environment]], frozen=True, tag="environments"):
    """The Pythons that runs of that machine can use, beside the one of Traindeck."""

    answer: ClassVar[Any] = list[Environment]


class CreationPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far the creation of an environment is."""

    doing: str
    """Such as `Downloading torch-2.13.0`."""

    bytes: int
    """What lies in its folder by now."""

    output: str = ""
    """What the installer has printed since the part before; the newest of it, if it is much."""


class MakeEnvironment(Request[Environment], frozen=True, tag="make_environment"):
    """Make an environment. Each `Progress` has a `CreationPart`.

    The end of the connection ends the creation too; its folder is deleted then.
    """

    acts: ClassVar[bool] = True
    cleans_up: ClassVar[bool] = True
    answer: ClassVar[Any] = Environment
    name: str
    requirements: list[str]
    default_for: str = ""
    """A framework whose recipes it trains from then on, if it has it."""


class Media(Request[bytes], frozen=True, tag="media"):
    """A picture that a script has logged."""

    answer: ClassVar[Any] = bytes
    run: str
    file: str


class Overview(Request[RunOverview], frozen=True, tag="overview"):
    """What is known of how a run came about."""

    answer: ClassVar[Any] = RunOverview
    run: str
    device_names: dict[str, str] = {}
    """The names of devices of that machine by id, as a person knows them."""


class ReadText(Request[str], frozen=True, tag="read_text"):
    """The recipe of a run, or the changes of its code that were not committed."""

    answer: ClassVar[Any] = str
    run: str
    what: Literal["recipe", "diff"]
    attempt: int = 0
    """The one whose changes are meant."""


class StoredSettings(msgspec.Struct, frozen=True):
    """A `SettingsHistory`. None: what cannot be read there."""

    now: Spec | None
    older: dict[int, Spec | None] = {}


class ReadSettings(Request[StoredSettings], frozen=True, tag="read_settings"):
    """The settings of a run, and those with which its earlier attempts began."""

    answer: ClassVar[Any] = StoredSettings
    run: str


class WriteNotes(Request[None], frozen=True, tag="write_notes"):
    """Write the notes on a run."""

    acts: ClassVar[bool] = True
    run: str
    notes: RunNotes
    before: RunNotes | None = None
    """What the user has read: what is the same in `notes` stays as it is there. None: replace all.
    """


class MoveInQueue(Request[None], frozen=True, tag="move_in_queue"):
    """Move a waiting run."""

    acts: ClassVar[bool] = True
    run: str
    where: Literal["up", "down", "first"]


class Delete(Request[None], frozen=True, tag="delete"):
    """Move a run to the trash of that machine."""

    acts: ClassVar[bool] = True
    run: str


class Restore(Request[None], frozen=True, tag="restore"):
    """Bring a run back from the trash."""

    acts: ClassVar[bool] = True
    run: str


class EmptyTrash(Request[int], frozen=True, tag="empty_trash"):
    """Delete runs of the trash for good, with checkpoints and logs; returns their number."""

    acts: ClassVar[bool] = True
    answer: ClassVar[Any] = int
    runs: tuple[str, ...]
    """Those that a person has seen there; others stay."""


class StartSweep(Request[str], frozen=True, tag="start_sweep"):
    """Start a sweep; returns its number. It goes on without the connection."""

    acts: ClassVar[bool] = True
    answer: ClassVar[Any] = str
    sweep: PackedSweep
    code: Code | None = None
    """The recipe; None: the base names one of that machine."""


class ResumeSweep(Request[None], frozen=True, tag="resume_sweep"):
    """Let a sweep go on."""

    acts: ClassVar[bool] = True
    sweep: str


class StopSweep(Request[None], frozen=True, tag="stop_sweep"):
    """Ask a sweep to stop: its runs save and end."""

    acts: ClassVar[bool] = True
    sweep: str


class WatchSweeps(Request[None], frozen=True, tag="watch_sweeps"):
    """Push `SweepsNews` from now on."""


Question = (
    Ping
    | Window
    | History
    | CountPoints
    | Points
    | Lines
    | Send
    | Keep
    | ReadCode
    | Check
    | MeasuredBefore
    | Start
    | StartTwins
    | TryRecipe
    | Examine
    | ReportChecks
    | Resume
    | Checkpoints
    | ReadCheckpoint
    | Export
    | ReadExport
    | Discard
    | MakeFolder
    | Write
    | Offered
    | Import
    | Environments
    | MakeEnvironment
    | Media
    | Overview
    | ReadText
    | ReadSettings
    | WriteNotes
    | MoveInQueue
    | Delete
    | Restore
    | EmptyTrash
    | StartSweep
    | ResumeSweep
    | StopSweep
)
"""What is answered once."""

Subscription = WatchRuns | WatchDevices | WatchSweeps | Follow | Measure
"""What begins a watch: from then on, news are pushed."""

AnyRequest = Question | Subscription | Show | ShowDevice | StopMeasuring | Unwatch
"""All requests; a `match` on it ends in `assert_never`."""


class RunsNews(msgspec.Struct, frozen=True):
    """What is new in the list of runs."""

    ids: list[str]
    """All readable runs, newest first."""

    changed: dict[str, Packed]
    """The `RunRow` of each run that is new or has changed."""

    unreadable: dict[str, str] = {}
    """Why runs cannot be read, by id."""

    trashed: list[str] = []
    """The runs in the trash, newest first."""


class SweepsNews(msgspec.Struct, frozen=True):
    """What is new of the sweeps."""

    numbers: list[str]
    """All sweeps, newest first."""

    changed: dict[str, Packed]
    """The `SweepPart` of each sweep that is new or has changed."""


class DevicesNews(msgspec.Struct, frozen=True):
    """The devices now."""

    snapshot: Snapshot


class Curve(msgspec.Struct, frozen=True, omit_defaults=True):
    """New points of a series."""

    series: str
    points: PackedPoints
    replaces: bool = False


class StoryPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """Events, or lines of a rank."""

    events: list[tuple[int, float, Packed]] = []
    """Number, time (seconds since the epoch) and event."""

    rank: int = 0
    lines: list[str] = []
    has_gaps: bool = False


class FollowNews(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is new of a followed run."""

    cursor: Packed
    """How far it was read; see `Follow.cursor`."""

    curves: list[Curve] = []
    story: list[StoryPart] = []
    run: Packed = b""
    """A `RunRow`, if it has changed."""

    series: list[str] | None = None
    trouble: str = ""


class MeasureNews(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is new of something that is measured there."""

    answers: list[Packed] = []
    """Those of `engine.planning`, in their order."""

    not_kept: str = ""
    """Why a result could not be kept there, in a sentence."""

    is_over: bool = False
    """Whether the process that measures has ended; see `ProcessEnd`."""

    exit_code: int = 0
    last_words: str = ""


News = RunsNews | SweepsNews | DevicesNews | FollowNews | MeasureNews


class Refusal(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a request was not carried out."""

    text: str
    """Sentences."""

    kind: str = ""
    """`cannot_start`, `recipe_changed`, `checkpoint_unusable`, `no_such_run`, `command_failed`,
    `cancelled`, `unknown`: the request is not known; empty: none of these."""

    problems: list[Problem] = []
    changes: str = ""
    """In what the recipe has changed."""

    damaged: str = ""
    """The name of a damaged checkpoint."""

    previous: str = ""
    """The name of the intact one before it."""


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The first message of each side."""

    major: int
    minor: int
    version: str
    """Of Traindeck."""

    host: str = ""
    """The name that the machine gives itself."""

    program: str = ""
    """What the asking person starts Traindeck with, and `machine`: what that person calls the other
    machine. Its sentences name commands so."""

    machine: str = ""


class Call(msgspec.Struct, frozen=True, tag="call"):
    """A request; it is answered by an `Answered` of the same number."""

    number: int
    request: Packed


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """The answer to a call is not wanted any more."""

    number: int


class Acknowledge(msgspec.Struct, frozen=True, tag="acknowledge"):
    """A push has arrived: the next one of the same watch may follow."""

    watch: int


class Answered(msgspec.Struct, frozen=True, tag="answered", omit_defaults=True):
    """The answer to a call."""

    number: int
    answer: Packed = b""
    refusal: Refusal | None = None


class Progress(msgspec.Struct, frozen=True, tag="progress", omit_defaults=True):
    """How far a call is carried out; the request says in what unit."""

    number: int
    done: int
    total: int
    part: Packed = b""
    """A part of what the call finds, if its request says so."""


class Push(msgspec.Struct, frozen=True, tag="push"):
    """News of what a call began to watch. The next one comes only after its `Acknowledge`."""

    watch: int
    news: Packed


ToRemote = Hello | Call | Cancel | Acknowledge
FromRemote = Hello | Answered | Progress | Push


class Tagged(msgspec.Struct, frozen=True):
    """What every message has."""

    type: str = ""
