"""Makes an environment: a virtual one, with what a person asks for and what a worker needs."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from engine.environments import checks, needs, registry, with_parent
from engine.environments.activation import PROGRAM, activated, environment_folder
from engine.environments.installed import installed_for
from engine.environments.needs import Requirement, interpreter_problem
from engine.environments.registry import BEING_MADE, CannotChange, Environment
from engine.files.atomic_file import open_to_append
from engine.files.disk_errors import short_reason
from engine.files.ownership import make_private_folder
from engine.processes import children
from engine.processes.process import Process, end_group
from engine.system import paths
from engine.system.cancelled import Cancelled

LOOK_SECONDS = 0.1
"""How often a cancellation is looked for."""

_SIZE_SECONDS = 2.0
"""How often the size of what is there is counted."""

_MOST_LINES = 200
_END_SECONDS = 5.0
"""Time for pip to end after SIGTERM."""

_NOT_PIPS = ("PYTHONPATH", "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_REQUIRE_VIRTUALENV")
"""Variables that would let pip install elsewhere."""


class CreationFailed(Exception):
    """The environment was not made, and nothing of it is left but the log; a sentence."""


class Stage(NamedTuple):
    """How far a creation is."""

    doing: str
    """Such as `Downloading torch-2.13.0`: a stage of ours, or the last line of pip."""

    bytes: int
    """What lies in the folder by now."""


Report = Callable[[Stage], None]


def log_file(name: str) -> Path:
    """Return the file with the output of the creation of the environment `name`."""
    return registry.folder() / f"{_slug(name)}.log"


def create(
    name: str,
    requirements: Sequence[str],
    *,
    base: str = "",
    default_for: str = "",
    report: Report = lambda stage: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Environment:
    """Make the environment `name` with `requirements`, check it, and add it to the list.

    `base`: the Python that it is made with; empty: the one of Traindeck. `default_for`: a framework
    whose recipes it trains from then on, if it has it. `report` is called from this thread a few
    times a second. Raises CannotChange, CreationFailed, Cancelled, OSError.
    """
    if problem := registry.name_problem(name):
        raise CannotChange(problem)
    if registry.find(name):
        raise CannotChange(f"There is an environment {name!r} already: choose another name.")
    if problem := requirements_problem(requirements) or interpreter_problem(base):
        raise CannotChange(problem)
    paths.prepare_home()
    make_private_folder(registry.folder())
    remove_leftovers()  # the window calls this function too
    if (registry.folder() / _slug(name) / BEING_MADE).exists():
        raise CannotChange(f"An environment {name!r} is being made now: choose another name.")
    folder = _free_folder(name)
    log = log_file(name)
    log.unlink(missing_ok=True)
    with _folder_in_work(folder) as lock:
        work = _Work(folder, log, lock, report, is_cancelled)
        try:
            work.make(base or sys.executable)
            work.install(requirements, _with_needs(requirements))
            python = folder / PROGRAM
            if mix := installed_for(str(python)).mix_problem():
                raise CreationFailed(f"{mix} Nothing was kept.")
            work.say("Checking the environment")
            facts = checks.check(python, is_cancelled=is_cancelled)
            work.raise_if_cancelled()
            shutil.rmtree(folder / "tmp", ignore_errors=True)
            made = Environment(name, str(python), is_ours=True, facts=facts)
            registry.add(made)
        except Cancelled:
            log.unlink(missing_ok=True)
            raise
        except OSError as error:
            reason = f"{short_reason(error)}: {error.filename or folder}"
            raise CreationFailed(f"The environment {name!r} was not made: {reason}.") from error
    if default_for in made.facts.versions:
        registry.use(name, [default_for])
    return made


def delete(environment: Environment) -> bool:
    """Delete the folder of an environment if Traindeck has made it in the data folder; return
    whether it did. Raises OSError."""
    folder = environment_folder(Path(environment.python))
    if not environment.is_ours or folder.parent != registry.folder():
        return False
    if os.path.lexists(folder):
        shutil.rmtree(folder)
    log_file(environment.name).unlink(missing_ok=True)
    return True


def requirements_problem(requirements: Sequence[str]) -> str:
    """Return why `requirements` cannot share an environment, in a sentence; empty: they can."""
    if not requirements:
        return f"Say what to install, such as 'torch' or {needs.ON_GPUS['tensorflow']!r}."
    for text in requirements:
        if not Requirement(text).is_valid:
            return f"{text!r} is no requirement of pip, such as 'torch>=2.11,<2.15'."
    gives_torch = any(
        Requirement(text).package.lower() == "torch" and "+cpu" not in text for text in requirements
    )
    if gives_torch and any("and-cuda" in text for text in requirements):
        return (
            "PyTorch and TensorFlow with CUDA bring the same libraries in two versions, and the "
            "files of one would lie over those of the other: make an environment for each."
        )
    return ""


def leftovers() -> list[Path]:
    """Return the folders of creations whose processes were killed."""
    try:
        known = {environment_folder(Path(each.python)).name for each in registry.environments()}
        folders = [each for each in registry.folder().iterdir() if (each / BEING_MADE).is_file()]
    except OSError:
        return []
    return [each for each in folders if each.name not in known and _is_abandoned(each / BEING_MADE)]


def remove_leftovers() -> None:
    """Delete what creations have left whose processes were killed."""
    for folder in leftovers():
        _delete(folder)


def suggested_name(framework: str, found: Iterable[Environment]) -> str:
    """Return a name for an environment of `framework` on GPUs that none of `found` has."""
    name = f"{framework}-gpu"
    taken = {each.name for each in found}
    return next(
        each for each in (name, *(f"{name}-{n}" for n in range(2, 1000))) if each not in taken
    )


class _Work:
    """The steps of one creation."""

    def __init__(
        self,
        folder: Path,
        log: Path,
        lock: int,
        report: Report,
        is_cancelled: Callable[[], bool],
    ) -> None:
        self._folder = folder
        self._log = log
        self._lock = lock
        self._report = report
        self._is_cancelled = is_cancelled
        self._lines: list[str] = []
        self._doing = ""
        self._uv = shutil.which("uv") or ""

    def say(self, doing: str) -> None:
        """Report a stage."""
        self._doing = doing
        self._report(Stage(doing, _size(self._folder)))

    def raise_if_cancelled(self) -> None:
        """Raises Cancelled."""
        if self._is_cancelled():
            raise Cancelled

    def make(self, python: str) -> None:
        """Make the environment itself."""
        self.say("Making a virtual environment")
        words = [python, "-m", "venv", str(self._folder)]
        if self._uv:
            words = [self._uv, "venv", "--allow-existing", "--python", python, str(self._folder)]
        self._run(words, "A virtual environment could not be made")

    def install(self, asked: Sequence[str], requirements: Sequence[str]) -> None:
        """Install `requirements` into it, which hold what the person has `asked` for."""
        self.say(f"Asking for {' and '.join(asked)}")
        python = str(self._folder / PROGRAM)
        words = [python, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
        words += ["--progress-bar", "off"]
        if self._uv:
            words = [self._uv, "pip", "install", "--python", python]
        self._run([*words, *requirements], f"{' and '.join(asked)} could not be installed")

    def _run(self, words: Sequence[str], problem: str) -> None:
        self.raise_if_cancelled()
        temporary = self._folder / "tmp"
        temporary.mkdir(mode=0o700, exist_ok=True)
        environment = {name: text for name, text in os.environ.items() if name not in _NOT_PIPS}
        if (python := self._folder / PROGRAM).exists():
            environment = activated(environment, str(python))
        self._lines = []
        if os.name == "posix":
            words = [sys.executable, "-I", with_parent.__file__, *words]
        process = children.start(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # What pip unpacks goes with the folder, also if pip is killed.
            env=environment | {"TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"},
            cwd=self._folder,
            **({"process_group": 0, "pass_fds": (self._lock,)} if os.name == "posix" else {}),
        )
        reader = threading.Thread(target=self._read, args=(process,), daemon=True, name="pip")
        reader.start()
        try:
            self._wait(process)
        except BaseException:
            _end(process)
            raise
        finally:
            if process.stdin:
                process.stdin.close()
            reader.join(_END_SECONDS)
        if process.returncode:
            raise CreationFailed(f"{problem}: {self._reason()} The whole output: {self._log}.")

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        counted = time.monotonic()
        size = _size(self._folder)
        while True:
            self.raise_if_cancelled()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_SECONDS)
                return
            if time.monotonic() > counted + _SIZE_SECONDS:
                size, counted = _size(self._folder), time.monotonic()
            self._report(Stage(self._doing, size))

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        """Pass on the output, in a thread: to the log, as long as the disk takes it."""
        assert process.stdout is not None
        log = None
        with contextlib.suppress(OSError):
            log = open_to_append(self._log)
        for raw in process.stdout:
            if log is not None:
                with contextlib.suppress(OSError):
                    log.write(raw)
            line = raw.decode("utf-8", "replace").strip()
            if line:
                self._lines = [*self._lines, line][-_MOST_LINES:]
                self._doing = _shown(line) or self._doing
        process.stdout.close()
        if log is not None:
            log.close()

    def _reason(self) -> str:
        """Return why the program failed: its errors, or its last line."""
        errors = [line for line in self._lines if _ERROR.match(line)]
        found = " ".join((errors or self._lines[-1:])[:3])
        text = re.sub(r"(?i)^(error:\s*)+", "", found) or "it gave no reason"
        if text == "Exception:":  # of pip itself, whose traceback follows
            text = self._lines[-1]
        if "No space left" in text or "ENOSPC" in text:
            text = f"the disk of {registry.folder()} is full"
        return f"{text.rstrip('.')}."


_ERROR = re.compile(r"(?i)error|×|╰|the virtual environment was not created")
_SHOWN = re.compile(
    r"(Collecting|Downloading|Downloaded|Using cached|Building|Installing|Prepared|Resolved)\b.*"
)


def _shown(line: str) -> str:
    """Return a line of pip or uv that says what it does; empty for others."""
    found = _SHOWN.match(line)
    if not found:
        return ""
    text = re.sub(r"\s*\(from [^)]*\)$", "", found[0])
    text = re.sub(r"(Downloading|Using cached) \S*/", r"\1 ", text)
    return text if len(text) <= 100 else f"{text[:99]}…"


def _with_needs(requirements: Sequence[str]) -> list[str]:
    """Add what a worker and the built-in recipes need to what was asked for."""
    given = {Requirement(text).package.lower() for text in requirements}
    more = [*needs.WORKER_NEEDS, needs.OF_BUILTIN_RECIPES]
    if "torch" in given:
        more += needs.FRAMEWORKS["torch"][1:]
    return [*requirements, *(text for text in more if Requirement(text).package not in given)]


@contextmanager
def _folder_in_work(folder: Path) -> Iterator[int]:
    """Make `folder` for the body, and delete it if the body raises; yield a lock's descriptor.

    The lock is also held by the programs that the body starts, so that nothing is deleted in which
    one of them works.
    """
    folder.mkdir(mode=0o700)
    try:
        lock = os.open(folder / BEING_MADE, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            if os.name == "posix":
                import fcntl  # not on Windows

                fcntl.flock(lock, fcntl.LOCK_EX)
            yield lock
            (folder / BEING_MADE).unlink(missing_ok=True)
        finally:
            os.close(lock)
    except BaseException:
        _delete(folder)
        raise


def _delete(folder: Path) -> None:
    """Delete what a creation has made, its mark last: if this is killed, the next one goes on."""
    with contextlib.suppress(OSError):
        for each in folder.iterdir():
            if each.name != BEING_MADE:
                shutil.rmtree(each, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(lock: Path) -> bool:
    if os.name != "posix":
        return False
    import fcntl  # not on Windows

    try:
        descriptor = os.open(lock, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _free_folder(name: str) -> Path:
    """Return a folder for the environment `name`, which does not exist.

    It has no spaces: the first line of a program cannot hold them.
    """
    slug = _slug(name)
    numbered = (registry.folder() / f"{slug}-{number}" for number in range(2, 1000))
    return next(each for each in (registry.folder() / slug, *numbered) if not os.path.lexists(each))


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "environment"


def _size(folder: Path) -> int:
    """Return the bytes of all files in `folder`, some of which may go meanwhile."""
    total = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):
                total += os.lstat(f"{parent}/{name}").st_size
    return total


def _end(process: subprocess.Popen[bytes]) -> None:
    leader: Process = process
    end_group(leader, kill=False)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)
    end_group(leader, kill=True)
    process.wait()
