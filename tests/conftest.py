"""What every test gets: a data folder of its own, shared templates, a Qt that needs no screen.

A test that starts processes uses the fixture `processes` (by a fixture, an argument or
`usefixtures`) and so gets the mark of that name: `pytest -m "not processes"` is the quick loop.

The tests of GPUs run on servers that have no Qt: only fixtures import it.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from engine.templates import protocol
from engine.templates.differences import read_at_import
from engine.templates.kinds import KINDS
from engine.templates.protocol import FOLDER_VARIABLE
from tests.support import light_templates, sentences, tiers, trained_runs
from tests.support.runs import end_runs

if TYPE_CHECKING:
    from PySide6.QtWidgets import QApplication
    from pytestqt.qtbot import QtBot

pytest.register_assert_rewrite("tests.support.contract")
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
# Several workers with several threads each wait for one another on a machine with two cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Otherwise each of the hundreds of processes that the tests start compiles what it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

gc.disable()  # what is collected is found by `garbage_waits`; the imports of all tests make none

READ_AT_IMPORT = frozenset(read_at_import(os.environ))
"""The names of what templates are started with."""

TEMPLATES_END_SECONDS = 60.0
"""Longest wait for the templates to end; then they are killed."""

MAY_START = ("git", "uname")
"""Programs that take milliseconds: a spec records the recipe's commit and the machine."""

_is_refused = False
_started: list[str] = []
_homes = itertools.count(1)


def _note_start(event: str, arguments: tuple[object, ...]) -> None:
    """Refuse to start a process for a test that does not use the fixture `processes`."""
    if not _is_refused or event not in ("subprocess.Popen", "os.fork"):
        return
    command = arguments[1] if event == "subprocess.Popen" else "a fork"
    if isinstance(command, (list, tuple)) and command[0] in MAY_START:
        return
    _started.append(f"{command}")
    raise RuntimeError("this test does not use the fixture `processes`")


sys.addaudithook(_note_start)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Know what pyproject.toml sets for pytest-qt, also where that is not installed."""
    parser.addoption(sentences.OPTION, action="store_true", help="see tests/support/sentences.py")
    if not pluginmanager.hasplugin("pytest-qt"):
        for name in ("qt_api", "qt_log_level_fail"):
            parser.addini(name, "of pytest-qt")


def pytest_configure(config: pytest.Config) -> None:
    """Choose the tier. All tests, also those of another xdist worker, share templates and runs."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell began it in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(tiers)
    config.pluginmanager.register(sentences)
    if not hasattr(config, "workerinput"):
        os.environ[FOLDER_VARIABLE] = tempfile.mkdtemp(prefix="traindeck-templates-")
        os.environ[trained_runs.FOLDER_VARIABLE] = tempfile.mkdtemp(prefix="traindeck-runs-")


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the templates and delete the runs, also if the session was interrupted."""
    if not hasattr(config, "workerinput"):
        end_templates()
        for name in (FOLDER_VARIABLE, trained_runs.FOLDER_VARIABLE):
            shutil.rmtree(os.environ[name], ignore_errors=True)


def end_templates() -> None:
    """End the templates of `$TRAINDECK_TEMPLATES`, and wait until they are gone."""
    left = []
    for kind in (*KINDS, *light_templates.LIGHT_KINDS):
        pid = protocol.pid_of(protocol.Files(kind))
        with contextlib.suppress(psutil.NoSuchProcess):
            if pid and "traindeck template" in " ".join(psutil.Process(pid).cmdline()):
                left.append(psutil.Process(pid))
                left[-1].terminate()
    _, left = psutil.wait_procs(left, TEMPLATES_END_SECONDS)
    for process in left:
        process.kill()


def pytest_collection_finish() -> None:
    """Let no search for garbage look at the tests themselves, which stay until the end."""
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Forget what the imports of earlier tests have set: a run with another environment than the
    templates would have to start new ones."""
    for name in read_at_import(os.environ).keys() - READ_AT_IMPORT:
        del os.environ[name]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that start processes, before `-m` looks at the marks.

    Their files come first: many short files at the end keep all xdist workers busy to the end.
    """
    for item in items:
        if "processes" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.processes)
    long = {item.path for item in items if item.get_closest_marker("processes")}
    items.sort(key=lambda item: item.path not in long)


@pytest.fixture(scope="session")
def processes() -> None:
    """The test starts real processes: supervisors, workers, telemetry helpers or programs."""


@pytest.fixture(autouse=True)
def processes_only_where_marked(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test without the mark `processes` that starts one fails, also if the product goes on."""
    global _is_refused
    _started.clear()
    _is_refused = request.node.get_closest_marker("processes") is None
    yield
    _is_refused = False
    assert _started == [], "a test that starts processes uses the fixture `processes`"


@pytest.fixture
def own_templates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of templates for this test alone; those that it starts end with it."""
    folder = tmp_path / "templates"
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    yield folder
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))  # whatever the test made of it
    end_templates()


@pytest.fixture(autouse=True)
def garbage_waits() -> None:
    """Cyclic garbage is collected here only, as the window does it between two events.

    It may hold widgets. A call into Qt that collects them can wait for its own lock, a painter can
    lose what it paints, and a thread must not delete them at all.
    """
    gc.disable()
    due = [new > limit for new, limit in zip(gc.get_count(), gc.get_threshold(), strict=True)]
    if any(due):
        gc.collect(max(generation for generation, is_due in enumerate(due) if is_due))


@pytest.fixture
def qtbot(qapp: QApplication, request: pytest.FixtureRequest) -> QtBot:
    """The one of pytest-qt, whose waits last at most 5 s, with more patience."""
    from tests.support.patient_bot import PatientBot

    return PatientBot(request)


@pytest.fixture(autouse=True)
def all_gpus_are_given(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up GPUs are not those that a shell or a job may have limited; real ones are."""
    if request.node.get_closest_marker("gpu") is None:
        for name in ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS"):
            monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def traindeck_home(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Path]:
    """A fresh `$TRAINDECK_HOME`, so that no test sees the user's runs or another test's.

    It is made by who writes into it: thousands of tests need neither it nor a `tmp_path`. A run
    that a failed test leaves behind would take the processors from all tests after it.
    """
    if "tmp_path" in request.fixturenames:
        home: Path = request.getfixturevalue("tmp_path") / "home"
    else:
        home = tmp_path_factory.getbasetemp() / f"home-{next(_homes)}"
    monkeypatch.setenv("TRAINDECK_HOME", str(home))
    monkeypatch.delenv("TRAINDECK_LOG", raising=False)
    monkeypatch.delenv("TRAINDECK_LOG_FOLDER", raising=False)  # a log that an earlier test began
    yield home
    if not (home / "runs").is_dir():
        return
    monkeypatch.setenv("TRAINDECK_HOME", str(home))  # whatever the test made of it
    end_runs()
