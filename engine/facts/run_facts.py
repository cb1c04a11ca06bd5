"""The facts of a run on disk: `facts/` in its folder, with one JSON file per attempt.

| file | written by | contents |
|---|---|---|
| `attempt-<n>.json` | the supervisor, at the start of attempt n | `AttemptFacts` |
| `attempt-<n>.diff` | the supervisor | what the code differs in from its commit |
| `attempt-<n>.model.json` | rank 0, once its model is built | `ModelFacts` |
| `parent.json` | the client | `Parent`, of a run that continues another one |
| `planning.json` | the client | `Planning`, of a run that was measured before |

A run of an older version has none of them. All are for their owner only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from engine.facts.git_state import LARGEST_DIFF, GitState
from engine.files.atomic_file import write_atomically
from engine.files.regular_file import read_regular

FOLDER = "facts"
FORMAT = 1
"""Newer files of a higher number are not read. See `docs/compatibility.md`."""

_LARGEST = 8 * 2**20
"""Bytes. The facts of an environment with 500 packages take 20 KiB, 2,000 layers 300 KiB."""


class DeviceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One device of the run."""

    id: str
    """As in the spec: `cpu:0`, or the UUID of a GPU or of a slice of it."""

    name: str = ""
    """Such as `NVIDIA H100 80GB HBM3`."""

    label: str = ""
    """Such as `GPU 0`, at that time."""

    memory: int = 0
    """Bytes; 0: not known."""


class AttemptFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt was started with."""

    format: int = FORMAT
    attempt: int
    recorded: float
    """Seconds since the epoch."""

    traindeck: str = ""
    python: str = ""
    """Version."""

    interpreter: str = ""
    """Path of the Python that trains."""

    platform: str = ""
    host: str = ""
    processor: str = ""
    cores: int = 0
    """Physical ones; 0: not known. All of the machine."""

    threads: int = 0
    """Those that the operating system schedules on."""

    usable_threads: int = 0
    """Those that the run may use: a container or a queue may give it fewer."""

    memory: int = 0
    """Bytes of the machine."""

    driver: str = ""
    """Version of the NVIDIA driver; empty: there is none."""

    devices: tuple[DeviceFacts, ...] = ()
    packages: dict[str, str] = {}
    """Versions by normalised name, of all that was installed for the interpreter."""

    builds: dict[str, str] = {}
    """What the files of the frameworks say: `CUDA of PyTorch`: `13.0`."""

    folder: str = ""
    """The folder of the code, about which git was asked."""

    git: GitState | None = None
    """None: the code is in no repository, or there is no git."""

    problems: tuple[str, ...] = ()
    """Sentences: what could not be recorded, and why."""


class AttemptCode(msgspec.Struct, frozen=True):
    """Those of the `AttemptFacts` that the list of runs has, read without the rest."""

    format: int = FORMAT
    host: str = ""
    git: GitState | None = None


class Layer(msgspec.Struct, frozen=True, array_like=True):
    """One module of a model; those in it follow it. All numbers include what is in it."""

    path: str
    """Its name in the model, such as `layer1.0.conv1`; empty: the model itself."""

    depth: int
    kind: str
    """Its class and sizes: `Conv2d 3→64`."""

    parameters: int
    """Of all ranks together; what several modules share counts in the first of them only."""

    trainable: int
    bytes: int
    shared: bool = False
    """Whether it shares parameters that are counted before."""

    detail: str = ""
    """How it was made: `3, 64, kernel_size=(3, 3)`."""

    is_folded: bool = False
    """Whether it has modules that are left out, because there are too many."""


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The model of an attempt, as rank 0 has built it, and what it runs on."""

    format: int = FORMAT
    attempt: int = 0
    layers: tuple[Layer, ...] = ()
    """In the order of the model, each before those in it. Several models of a script follow each
    other, each with depth 0."""

    versions: dict[str, str] = {}
    """What the process has loaded: `torch`, `CUDA`, `cuDNN`, `NCCL`, `tensorflow`, `keras`."""

    problem: str = ""
    """Why the layers are not known, in a sentence."""

    @property
    def parameters(self) -> int:
        """Those of all models together."""
        return sum(layer.parameters for layer in self.layers if not layer.depth)

    @property
    def trainable(self) -> int:
        """Those of them that are trained."""
        return sum(layer.trainable for layer in self.layers if not layer.depth)

    @property
    def bytes(self) -> int:
        """The size of all parameters and statistics."""
        return sum(layer.bytes for layer in self.layers if not layer.depth)


class Parent(msgspec.Struct, frozen=True, kw_only=True):
    """The run from whose checkpoint this one goes on."""

    format: int = FORMAT
    run: str
    checkpoint: str = ""


class DataFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the training data of one attempt held, as far as a few samples say it."""

    format: int = FORMAT
    attempt: int = 0
    length: int
    samples: dict[int, str] = {}
    """A hash by index. Empty: no sample was read."""

    seconds: float = 0.0
    """What it took to read them."""

    problem: str = ""
    """Why a sample could not be read."""


class Planning(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured before the run, such as a race of strategies."""

    format: int = FORMAT
    number: int
    """As in the folder `planning` of the data folder, which keeps the newest ones."""

    measured: float
    """When it was over, in seconds since the epoch."""

    summary: str
    """One sentence: what came out."""

    result: dict[str, Any]
    """All of it, for `engine.planning.kept.result_of`."""


class RunFacts(msgspec.Struct, frozen=True):
    """All that is known of the newest attempt that has facts."""

    attempt: AttemptFacts | None = None
    model: ModelFacts | None = None
    parent: Parent | None = None
    planning: Planning | None = None
    problem: str = ""
    """Why files that are there cannot be read, in sentences."""


_PARENT = "parent.json"
_DATA = ".data.json"

_Attempt = TypeVar("_Attempt", AttemptFacts, AttemptCode)
Kind = TypeVar("Kind", AttemptFacts, ModelFacts, Parent, Planning)


def read_facts(run_folder: Path) -> RunFacts:
    """Return the facts of the run in `run_folder`, of its newest attempt that has some.

    It reads two small files, and raises nothing: a run without facts has empty ones.
    """
    problems: list[str] = []

    def read(name: str, kind: type[Kind]) -> Kind | None:
        path = run_folder / FOLDER / name
        try:
            found = msgspec.json.decode(read_regular(path, _LARGEST), type=kind)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            problems.append(f"{path} cannot be read: {error}.")
            return None
        if found.format > FORMAT:
            problems.append(f"{path} was written by a newer version of Traindeck.")
            return None
        return found

    newest = max(attempts(run_folder), default=0)
    attempt = read(f"attempt-{newest}.json", AttemptFacts) if newest else None
    of_models = max(_numbers(run_folder, ".model.json"), default=0)
    model = read(f"attempt-{of_models}.model.json", ModelFacts) if of_models else None
    parent, planning = read(_PARENT, Parent), read("planning.json", Planning)
    return RunFacts(attempt, model, parent, planning, " ".join(problems))


def read_attempt(run_folder: Path, attempt: int) -> AttemptFacts | None:
    """Return what one attempt was started with; None: that is not known."""
    return _read_attempt(run_folder, attempt, AttemptFacts)


def read_code(run_folder: Path, attempt: int) -> AttemptCode | None:
    """Return which code an attempt trained, and where; None: that is not known."""
    return _read_attempt(run_folder, attempt, AttemptCode)


def _read_attempt(run_folder: Path, attempt: int, kind: type[_Attempt]) -> _Attempt | None:
    try:
        content = read_regular(_path(run_folder, attempt, ".json"), _LARGEST)
        found = msgspec.json.decode(content, type=kind)
    except (OSError, ValueError, RecursionError):
        return None
    return found if found.format <= FORMAT else None


def read_parent(run_folder: Path) -> Parent | None:
    """Return from which run this one goes on; None: from none, or that is not known."""
    try:
        found = msgspec.json.decode(
            read_regular(run_folder / FOLDER / _PARENT, _LARGEST), type=Parent
        )
    except (OSError, ValueError, RecursionError):
        return None
    return found if found.format <= FORMAT and found.run.isdecimal() else None


def read_diff(run_folder: Path, attempt: int) -> str:
    """Return what the code of an attempt differed in from its commit; empty: in nothing, or it is
    not known. Raises OSError."""
    try:
        content = read_regular(_path(run_folder, attempt, ".diff"), 4 * LARGEST_DIFF)
    except FileNotFoundError:
        return ""
    return content.decode("utf-8", "replace")


def attempts(run_folder: Path) -> list[int]:
    """Return the numbers of the attempts that have facts, ascending."""
    return _numbers(run_folder, ".json")


def write_attempt(run_folder: Path, facts: AttemptFacts, diff: str = "") -> None:
    """Write the facts of an attempt. Raises OSError."""
    make_folder(run_folder)
    if diff:
        path = _path(run_folder, facts.attempt, ".diff")
        write_atomically(path, diff.encode("utf-8", "replace"), mode=0o600)
    path = _path(run_folder, facts.attempt, ".json")
    write_atomically(path, msgspec.json.encode(facts), mode=0o600)


def write_model(run_folder: Path, facts: ModelFacts) -> None:
    """Write the model of an attempt. Raises OSError."""
    make_folder(run_folder)
    path = _path(run_folder, facts.attempt, ".model.json")
    write_atomically(path, msgspec.json.encode(facts), mode=0o600)


def write_data(run_folder: Path, facts: DataFacts) -> None:
    """Write what the data of an attempt held. Raises OSError."""
    make_folder(run_folder)
    path = _path(run_folder, facts.attempt, _DATA)
    write_atomically(path, msgspec.json.encode(facts), mode=0o600)


def read_data(run_folder: Path, attempt: int) -> DataFacts | None:
    """Return what the data of an attempt held; None: that is not known."""
    try:
        content = read_regular(_path(run_folder, attempt, _DATA), _LARGEST)
        found = msgspec.json.decode(content, type=DataFacts)
    except (OSError, ValueError, RecursionError):
        return None
    return found if found.format <= FORMAT else None


def write_parent(run_folder: Path, parent: Parent) -> None:
    """Write from which run this one goes on. Raises OSError."""
    make_folder(run_folder)
    path = run_folder / FOLDER / _PARENT
    write_atomically(path, msgspec.json.encode(parent), mode=0o600, sync=True)


def write_planning(run_folder: Path, planning: Planning) -> None:
    """Write what was measured before the run. Raises OSError."""
    make_folder(run_folder)
    path = run_folder / FOLDER / "planning.json"
    write_atomically(path, msgspec.json.encode(planning), mode=0o600)


def make_folder(run_folder: Path) -> None:
    """Make the folder of the facts, unless the run itself is gone. Raises OSError."""
    (run_folder / FOLDER).mkdir(mode=0o700, exist_ok=True)


def _path(run_folder: Path, attempt: int, ending: str) -> Path:
    return run_folder / FOLDER / f"attempt-{attempt}{ending}"


def _numbers(run_folder: Path, ending: str) -> list[int]:
    try:
        names = [path.name for path in (run_folder / FOLDER).iterdir()]
    except OSError:
        return []
    stems = [
        name.removeprefix("attempt-").removesuffix(ending)
        for name in names
        if name.startswith("attempt-") and name.endswith(ending)
    ]
    return sorted(int(stem) for stem in stems if stem.isdecimal())
