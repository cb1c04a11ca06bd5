"""The window with another machine: a real Traindeck behind a pipe, with its own data folder."""

from __future__ import annotations

import os
import signal
import sys
import venv
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMessageBox
from pytestqt.qtbot import QtBot

from engine.environments import registry
from engine.environments.registry import Environment
from engine.interface.encoding import Method
from engine.interface.sent_code import code_of
from engine.interface.values import NoAnswer
from engine.messages.events import CheckpointSaved, EpochEnded, Notice, RunEnded
from engine.processes.process import PROJECT
from engine.remote import ssh
from engine.remote.frames import Call, ToRemote
from engine.runs.checkpoints import checkpoint_files
from engine.runs.run_state import RunState
from engine.runs.store.stored_points import StoredPoints
from engine.spec import catalog
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.sweeps.ranges import Choices
from engine.sweeps.report import SweepReport, SweepSummary
from engine.sweeps.study import TrialResult
from engine.sweeps.sweep import Sweep
from engine.system import machines, paths
from engine.system.machines import RemoteMachine
from gui.app import AppController
from gui.bridge.engine_client import ResumeRequest
from gui.bridge.files.editor import Place
from gui.exchange.copy_checkpoint_dialog import CopyCheckpointDialog
from gui.plots.data.series_style import LOSS
from gui.plots.export.exporter import PlotExport
from gui.plots.plot.menu import PlotAction
from main import main
from tests.gui.conftest import OpenApp, Patch, Record, window_of_module
from tests.gui.other_machine import OtherMachine, as_before, listed
from tests.support.device_states import cpu
from tests.support.recorded_runs import SPEC, save_checkpoint
from tests.support.sentences import sentence

pytestmark = pytest.mark.usefixtures("processes")
START_MS = 240_000
"""For the start, and for the end, of a real run on a busy machine: several processes, each of which
imports what it needs."""

Connect = Callable[..., AppController]


def test_the_shown_and_the_chosen_runs_there_are_there_again_at_the_next_start(
    open_app: OpenApp,
    record_there: Record,
    machine: OtherMachine,
    record: Record,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    qtbot: QtBot,
) -> None:
    for run in (record(), record_there()):
        run.begin()
        run.add(RunEnded("finished", ""))
    program = tmp_path / "ssh"
    monkeypatch.setenv(ssh.PROGRAM_VARIABLE, str(program))
    command = f"env TRAINDECK_HOME={machine.home} PYTHONPATH={PROJECT} {sys.executable}"
    machines.add(
        RemoteMachine(name="gpus", destination="me@gpus", command=f"{command} {PROJECT}/main.py")
    )

    def set_answering(answers: bool) -> None:
        run_last = 'for last; do :; done; exec sh -c "$last"' if answers else "exec cat"
        program.write_text(f"#!/bin/sh\n{run_last}\n")
        program.chmod(0o700)

    set_answering(True)
    app = open_app()
    app.machines.connect_to("gpus")
    qtbot.waitUntil(lambda: set(listed(app)) == {"1", "gpus:1"})
    app.chosen.choose(["1", "gpus:1"])
    app.run_list.opened.emit("gpus:1")

    set_answering(False)
    app = open_app()
    qtbot.waitUntil(lambda: app.run_list.watched == "1")
    assert app.chosen.ids() == ["1"], "nothing waits for a machine that does not answer"
    set_answering(True)
    os.kill(app.machines.connection("gpus").pid, signal.SIGKILL)
    qtbot.waitUntil(lambda: app.run_list.watched == "gpus:1")
    assert app.chosen.ids() == ["1", "gpus:1"]


@pytest.fixture(scope="module")
def opened(home: Path) -> Iterator[AppController]:
    """The window of all tests here but the first one."""
    with window_of_module(home, cpu()) as app:
        yield app


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> OtherMachine:
    return OtherMachine(tmp_path_factory.mktemp("other"))


@pytest.fixture
def record_there(machine: OtherMachine) -> Iterator[Record]:
    """Records a run on the other machine."""
    yield machine.record
    machine.clear()


@pytest.fixture
def connected(opened: AppController, machine: OtherMachine, qtbot: QtBot) -> Iterator[Connect]:
    """Connects the window with the other machine."""

    def begin(*, anew: bool = False) -> AppController:
        machine.connect(opened, qtbot, anew=anew)
        return opened

    with as_before(opened, qtbot, machine):
        yield begin


def test_a_run_there_is_listed_and_shown_and_a_broken_connection_is_said_and_comes_back(
    connected: Connect, record_there: Record, record: Record, qtbot: QtBot
) -> None:
    record().begin()
    run = record_there()
    run.add_points("train/loss", range(20))
    run.add(Notice("from there"))
    run.write_log(0, "a line from there\n")
    app = connected()
    qtbot.waitUntil(lambda: set(listed(app)) == {"1", "gpus:1"})
    shown: list[int] = []
    lines: list[str] = []

    def add(_: str, points: StoredPoints, at: int | None = None) -> None:
        shown[at:] = points.step.astype(int).tolist()

    reader = app.rooms.run.reader
    reader.points.connect(lambda series, points: add(series, points, len(shown)))
    reader.curve.connect(add)
    reader.log_lines.connect(lambda _, new: lines.extend(new))
    app.open("gpus:1")
    qtbot.waitUntil(lambda: "gpus:1" in app.controls.headline.title.text())
    qtbot.waitUntil(lambda: lines == ["a line from there"])
    qtbot.waitUntil(lambda: shown == list(range(20)))
    run.add_points("train/loss", range(20, 30))
    qtbot.waitUntil(lambda: shown == list(range(30)))
    with qtbot.waitSignal(reader.status_changed, check_params_cb=is_lost):
        os.kill(app.machines.connection("gpus").pid, signal.SIGKILL)
    assert listed(app)["gpus:1"] is RunState.ELSEWHERE
    qtbot.waitUntil(lambda: listed(app)["gpus:1"] is RunState.RUNNING)


def test_a_curve_that_is_out_of_sight_is_not_fetched(
    connected: Connect, record_there: Record, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    run = record_there()
    names = ["train/loss", *(f"custom/{letter}" for letter in "abcdefgh")]
    for name in names:
        run.add_points(name, range(5))
    app = connected()
    qtbot.waitUntil(lambda: set(listed(app)) == {"gpus:1"})
    got: list[tuple[str, int]] = []
    for arrived in (app.rooms.run.reader.points, app.rooms.run.reader.curve):
        arrived.connect(lambda series, points: got.append((series, int(points.step[-1]))))
    app.open("gpus:1")
    qtbot.waitUntil(lambda: {series for series, _ in got} == set(names))
    qtbot.waitUntil(lambda: bool(app.rooms.run.plots.out_of_sight()))
    hidden = next(iter(app.rooms.run.plots.out_of_sight()))
    qtbot.waitUntil(lambda: hidden not in app.rooms.run.reader._wanted)
    for name in (hidden, "train/loss"):
        run.add_points(name, [5])
    qtbot.waitUntil(lambda: ("train/loss", 5) in got)
    assert (hidden, 5) not in got
    with monkeypatch.context() as patch:
        patch.setattr(app.rooms.run.reader, "out_of_sight", tuple)
        qtbot.waitUntil(lambda: (hidden, 5) in got)


def test_all_points_of_one_plot_come_as_csv(
    connected: Connect, record_there: Record, record: Record, tmp_path: Path, qtbot: QtBot
) -> None:
    here, there = record(), record_there()
    here.begin()
    here.add_points("train/loss", [7])
    there.add_points("train/loss", range(50_000))
    app = connected()
    qtbot.waitUntil(lambda: set(listed(app)) == {"1", "gpus:1"})
    app.open("gpus:1")
    plot = app.rooms.run.plots.plot_of(LOSS)
    export = PlotExport(app.background, lambda _, __, name, ___: str(tmp_path / Path(name).name))
    export.watch("gpus:1")
    is_saved = lambda text: "points saved" in text  # noqa: E731
    with qtbot.waitSignal(export.message, check_params_cb=is_saved):
        export.export(PlotAction.SAVE_CSV, plot, ["train/loss"])
    rows = (tmp_path / "gpus-1-loss.csv").read_text().splitlines()
    assert [row.split(",")[1] for row in rows[1:]] == [str(step) for step in range(50_000)]
    with qtbot.waitSignal(export.message, check_params_cb=is_saved):
        export.export_runs(
            PlotAction.SAVE_CSV, plot, "train/loss", {"1": "here", "gpus:1": "there"}
        )
    (head, first, second, *_) = (tmp_path / "1-gpus-1-loss.csv").read_text().splitlines()
    assert head.startswith("here step,")
    assert (first.split(",")[0], first.split(",")[3]) == ("7", "0")
    assert (second.split(",")[0], second.split(",")[3]) == ("", "1")
    app.machines.disconnect_from("gpus")
    with qtbot.waitSignal(export.message) as said:
        export.export(PlotAction.COPY_CSV, plot, ["train/loss"])
    assert "gpus is not connected" in said.args[0]


def test_a_machine_that_is_removed_leaves_the_form(connected: Connect, qtbot: QtBot) -> None:
    app = connected()
    form = app.form
    said: list[str] = []
    form.message.connect(said.append)
    form.machine.choose("gpus")
    qtbot.waitUntil(lambda: form.spec() is not None, timeout=START_MS)
    spec = form.spec()
    form.load(
        msgspec.structs.replace(
            spec, devices=("cpu:0", "cpu:1"), strategy="torch/fsdp", settings={"width": 77}
        )
    )
    form.field("epochs").set_value(9)
    form.name_row.name.setText("mine")
    qtbot.waitUntil(lambda: form.spec() is not None, timeout=START_MS)
    entered = form.spec()
    assert (entered.name, entered.epochs, entered.settings["width"]) == ("mine", 9, 77)
    assert main(["machines", "remove", "gpus"]) == 0
    form.entered.emit()  # the user comes back from the terminal
    assert form.machine.machine == ""
    assert said == [sentence("gpus-is-disconnected-so-form-is-here")]
    qtbot.waitUntil(lambda: form.spec() == entered)


def test_a_run_goes_on_nowhere_else(connected: Connect, record_there: Record, qtbot: QtBot) -> None:
    run = record_there()
    run.add(RunEnded("stopped", ""))
    app = connected()
    form = app.form
    said: list[str] = []
    form.message.connect(said.append)
    qtbot.waitUntil(lambda: listed(app).get("gpus:1") is RunState.STOPPED)
    (info,) = app.run_list_panel.runs()
    form.continue_run(info, None, catalog.recipe("digits"))
    form.field("epochs").set_value(9)
    qtbot.waitUntil(form.start_button.isEnabled, timeout=START_MS)
    assert main(["machines", "remove", "gpus"]) == 0
    form.entered.emit()
    assert form.machine.machine == "gpus"
    assert not form.start_button.isEnabled()
    assert form.note.problem == sentence("gpus-is-not-connected-now")
    assert form.field("epochs").value() == 9
    assert said == []
    form.heading.new_run_button.click()
    assert form.machine.machine == ""
    assert said == [sentence("gpus-is-disconnected-so-form-is-here")]
    assert form.field("epochs").value() == 9
    qtbot.waitUntil(form.start_button.isEnabled)


RECIPE = """import torch
from nets import SIZE

def model(width: int = SIZE): ...

def datasets(): ...
"""


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A recipe and a script of the other machine, with the module that both import."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "mine.py").write_text(RECIPE.replace("SIZE):", "8):"))
    (folder / "nets.py").write_text("SIZE = 8\n")
    options = "import argparse, nets\np = argparse.ArgumentParser()\n"
    options += "p.add_argument('--lr', type=float, default=0.1)\np.parse_args()\n"
    (folder / "train it.py").write_text(options)
    return folder


def there_spec(theirs: Path) -> RunSpec:
    return msgspec.structs.replace(
        SPEC,
        recipe=str(theirs / "mine.py"),
        settings={"width": 16},
        devices=("cpu:0", "cpu:1"),
        strategy="torch/ddp",
        interpreter=sys.executable,
    )


def select(app: AppController, run_id: str, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: run_id in listed(app))
    app.run_list.watch(run_id)


def test_the_settings_and_the_recipe_of_a_run_there_come_into_the_form(
    connected: Connect, record_there: Record, theirs: Path, monkeypatch: Patch, qtbot: QtBot
) -> None:
    run = record_there(there_spec(theirs))
    run.add(RunEnded("finished", ""))
    for file in theirs.iterdir():
        file.unlink()
    app = connected()
    select(app, "gpus:1", qtbot)
    app.run_list.copy_settings.trigger()
    form = app.form
    qtbot.waitUntil(lambda: form.recipe.currentText() == "mine")
    assert form.machine.machine == "gpus"
    assert form.recipe_note.text().startswith(sentence("recipe-as-run-of-gpus-has-trained-it"))
    assert form.field("settings.width").value_or_default() == 16
    qtbot.waitUntil(lambda: form.spec() is not None)
    spec = form.spec()
    assert (spec.devices, spec.strategy, spec.interpreter) == (
        ("cpu:0", "cpu:1"),
        "torch/ddp",
        sys.executable,
    )
    here = Path(spec.recipe)
    assert here.is_relative_to(paths.home() / "received")
    assert (here.parent / "nets.py").read_text() == "SIZE = 8\n"
    here.write_text(RECIPE.replace("SIZE):", "4):"))
    form.entered.emit()
    qtbot.waitUntil(lambda: form.field("settings.width").info.default == 4)
    monkeypatch.setattr(app.engine_client, "start", lambda *_: None)
    with qtbot.waitSignal(form.start_requested) as wanted:
        form.start()
    code = code_of(catalog.recipe_of(wanted.args[0]))
    assert b"width: int = 4" in code.content


def test_a_script_of_a_run_there_comes_into_the_form_with_its_options(
    connected: Connect, record_there: Record, theirs: Path, qtbot: QtBot
) -> None:
    command = ("-u", "train it.py", "--lr", "0.5")
    spec = RunSpec(
        recipe=str(theirs / "train it.py"),
        strategy="script/single",
        devices=("cpu:0",),
        command=command,
        working_folder=str(theirs),
        interpreter=sys.executable,
    )
    for each in (spec, msgspec.structs.replace(spec, command=("-m", "theirs.train"))):
        record_there(each).add(RunEnded("stopped", ""))
    app = connected()
    select(app, "gpus:1", qtbot)
    app.run_list.copy_settings.trigger()
    form = app.form
    qtbot.waitUntil(lambda: form.is_script)
    assert form.field("options.lr").value_or_default() == 0.5
    qtbot.waitUntil(lambda: form.spec() is not None)  # it has said which Pythons it has
    shown = form.spec()
    assert (shown.command, shown.working_folder) == (command, "")
    assert shown.interpreter == sys.executable
    assert (Path(shown.recipe).parent / "nets.py").exists()
    app.run_list.watch("gpus:2")
    with qtbot.waitSignal(app.rooms.runs.message) as said:
        app.run_list.copy_settings.trigger()
    assert "run it again there" in str(said.args)
    app.run_list.watch("gpus:1")
    app.run_list.continue_changed.trigger()
    qtbot.waitUntil(lambda: form.heading.title.text() == "RESUME RUN gpus:1")
    assert form.spec() == spec, "it goes on in its folder there, with its Python"
    form.heading.new_run_button.click()
    assert form.spec() == shown


def test_a_run_there_goes_on_with_changed_settings_of_its_own_recipe(
    connected: Connect, record_there: Record, theirs: Path, qtbot: QtBot
) -> None:
    spec = there_spec(theirs)
    run = record_there(spec)
    run.add(RunEnded("stopped", ""))
    app = connected()
    select(app, "gpus:1", qtbot)
    app.run_list.continue_changed.trigger()
    form = app.form
    qtbot.waitUntil(lambda: form.heading.title.text() == "RESUME RUN gpus:1")
    assert not form.machine.isEnabled()
    form.field("settings.width").set_value(32)
    qtbot.waitUntil(lambda: form.spec() is not None)
    asked: list[ResumeRequest] = []
    form.continue_requested.disconnect(app.engine_client.resume)
    form.continue_requested.connect(asked.append)
    form.start()
    form.continue_requested.disconnect(asked.append)
    form.continue_requested.connect(app.engine_client.resume)
    (request,) = asked
    assert request.spec == msgspec.structs.replace(spec, settings={"width": 32})
    form.heading.new_run_button.click()
    qtbot.waitUntil(lambda: form.spec() is not None)
    new = form.spec()
    assert Path(new.recipe).is_relative_to(paths.home() / "received")
    assert (new.settings, new.interpreter) == ({"width": 32}, sys.executable)
    assert form.recipe.findData(spec.recipe) < 0


def test_a_run_there_is_run_again_there_also_if_its_recipe_does_not_come(
    connected: Connect, record_there: Record, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    record_there(SPEC).add(RunEnded("finished", ""))
    app = connected()
    select(app, "gpus:1", qtbot)
    started: list[RunSpec] = []

    def start(method: Method, arguments: Mapping[str, Any]) -> Any:
        if method.name != "start":
            return call(method, arguments)
        started.append(arguments["spec"])
        return "1"

    def refuse(*_: object) -> None:
        raise NoAnswer("gpus: The Traindeck there (0.1) cannot do this (read_code): update it.")

    session = app.machines.connection("gpus")._session
    call = session.call
    monkeypatch.setattr(session, "call", start)
    (info,) = app.run_list_panel.runs()
    with qtbot.waitSignal(app.engine_client.started):
        app.rooms.runs.run_again(info)
    assert app.form.machine.machine == "gpus"
    monkeypatch.setattr("engine.interface.recipes.recipe_of", refuse)
    said: list[str] = []
    app.rooms.runs.message.connect(said.append)
    with qtbot.waitSignal(app.engine_client.started):
        app.rooms.runs.run_again(info)
    assert started == [SPEC, SPEC]
    assert "cannot do this" in said[0]


def is_lost(info: object) -> bool:
    return getattr(info, "state", None) is RunState.ELSEWHERE


def test_a_run_that_the_user_opens_is_not_replaced_by_the_one_of_the_last_time(
    connected: Connect, record_there: Record, record: Record, qtbot: QtBot
) -> None:
    for run in (record(), record_there()):
        run.add(RunEnded("finished", ""))
    app = connected()
    app.rooms.runs.awaited = "gpus:1"
    app.run_list.opened.emit("1")
    qtbot.waitUntil(lambda: set(listed(app)) == {"1", "gpus:1"})
    app.engine_client.refresh_runs()
    with qtbot.waitSignal(app.engine_client.runs_listed):
        pass
    assert app.run_list.watched == "1"


def test_a_shown_run_that_is_deleted_there_makes_room_for_another(
    connected: Connect, record_there: Record, machine: OtherMachine, qtbot: QtBot
) -> None:
    for run in (record_there(), record_there()):
        run.add(RunEnded("finished", ""))
    app = connected()
    qtbot.waitUntil(lambda: set(listed(app)) == {"gpus:1", "gpus:2"})
    app.open("gpus:2")
    (machine.home / "runs" / "2").rename(machine.home / "gone")
    qtbot.waitUntil(lambda: app.run_list.watched == "gpus:1")


def test_the_trash_there_is_listed_restored_from_and_emptied(
    connected: Connect, record_there: Record, machine: OtherMachine, qtbot: QtBot
) -> None:
    for run in (record_there(), record_there()):
        run.add(RunEnded("finished", ""))
    app = connected()
    panel = app.run_list_panel
    qtbot.waitUntil(lambda: set(listed(app)) == {"gpus:1", "gpus:2"})

    def trashed() -> list[str]:
        panel.more.menu().aboutToShow.emit()
        return [action.text() for action in panel.restore_menu.actions()]

    app.rooms.runs.actions.delete_runs(panel.runs())
    qtbot.waitUntil(lambda: trashed() == ["Run gpus:2", "Run gpus:1", "All 2"])
    assert not panel.empty_trash.isEnabled(), "the trash of this machine is empty"
    panel.restore_menu.actions()[1].trigger()
    qtbot.waitUntil(lambda: set(listed(app)) == {"gpus:1"})
    qtbot.waitUntil(lambda: trashed() == ["Run gpus:2"])
    (empty,) = panel.empty_elsewhere.actions()
    assert empty.text() == "gpus (1)…"
    empty.trigger()
    (box,) = app.window.findChildren(QMessageBox)
    assert box.text().startswith(sentence("gpus-delete-run-for-good"))
    next(button for button in box.buttons() if button.text() == "Empty trash").click()
    qtbot.waitUntil(lambda: trashed() == [])
    assert not panel.empty_elsewhere.menuAction().isVisible()
    assert list((machine.home / "trash").iterdir()) == []


def test_runs_of_two_machines_are_compared(
    connected: Connect, record_there: Record, record: Record, qtbot: QtBot
) -> None:
    for run in (record(), record_there()):
        run.begin()
        run.add_points("train/loss", range(10))
        run.add(RunEnded("finished", ""))
    app = connected()
    qtbot.waitUntil(lambda: set(listed(app)) == {"1", "gpus:1"})
    app.chosen.choose(["1", "gpus:1"])
    app.run_list_panel.compare.setChecked(True)

    def compared() -> set[str]:
        plots = [
            plot for plot in app.rooms.runs.comparison.plots.plots() if plot.title == "Train loss"
        ]
        return {run_id for plot in plots for run_id in plot.curves}

    qtbot.waitUntil(lambda: compared() == {"1", "gpus:1"})


def test_a_script_of_the_form_is_sent_with_its_modules_and_runs_there_with_a_python_of_there(
    connected: Connect, machine: OtherMachine, tmp_path: Path, monkeypatch: Patch, qtbot: QtBot
) -> None:
    mine = tmp_path / "früh & spät"
    mine.mkdir()
    code = "import helper, sys\nprint('sum', helper.ADD, sys.argv)\nprint('with', sys.prefix)\n"
    (mine / "train it.py").write_text(code)
    (mine / "helper.py").write_text("ADD = 40\n")
    environment = tmp_path / "environment there"
    venv.create(environment, with_pip=False, symlinks=True)
    python = str(environment / "bin" / "python")
    with machine.as_home():
        registry.add(Environment("mine", python))
        registry.add(Environment("gone", "/nowhere/bin/python"))
    app = connected(anew=True)
    form = app.form
    form.open_path(str(mine / "train it.py"))
    form.script_page.arguments.set_value("--lr 2")
    form.machine.setCurrentIndex(form.machine.findData("gpus"))
    field = form.script_page.interpreter
    qtbot.waitUntil(lambda: field.choice.is_listed(python), timeout=START_MS)
    field.choice.activated.emit(field.choice.findText("gone"))
    qtbot.waitUntil(lambda: "/nowhere" in field.problem, timeout=START_MS)  # it was checked there
    assert form.spec() is None
    field.choice.activated.emit(field.choice.findText("mine"))
    qtbot.waitUntil(lambda: form.spec() is not None, timeout=START_MS)
    with qtbot.waitSignal(app.engine_client.started, timeout=START_MS):
        form.start()
    qtbot.waitUntil(lambda: listed(app) == {"gpus:1": RunState.FINISHED}, timeout=START_MS)
    log = (machine.home / "runs" / "1" / "logs" / "rank0.log").read_text()
    assert "sum 40 ['train it.py', '--lr', '2']" in log
    assert f"with {environment}" in log
    qtbot.waitUntil(lambda: app.run_list.watched == "gpus:1")


@pytest.fixture
def copying(
    connected: Connect, record_there: Record, tmp_path: Path, qtbot: QtBot
) -> Callable[[], CopyCheckpointDialog]:
    """Opens the window, and the dialog for a checkpoint of 32 MiB of a run there."""

    def open() -> CopyCheckpointDialog:
        run = record_there()
        saved = save_checkpoint(run.folder, 120, 32 * 2**20)
        path = f"checkpoints/{saved.folder.name}"
        run.add(CheckpointSaved(path, 120, 1, 2**25, 1.0), RunEnded("finished", ""))
        app = connected()
        qtbot.waitUntil(lambda: listed(app) == {"gpus:1": RunState.FINISHED})
        actions = app.rooms.runs.actions
        app.run_list.watch("gpus:1")
        with qtbot.waitSignal(actions.checkpoint_wanted):
            actions.copy_checkpoint.trigger()
        (dialog,) = app.window.findChildren(CopyCheckpointDialog)
        qtbot.waitUntil(dialog.begin.isEnabled)
        (tmp_path / "here").mkdir()
        dialog.target.folder.setText(str(tmp_path / "here"))
        return dialog

    return open


def test_a_connection_that_breaks_leaves_nothing_of_a_checkpoint_which_then_comes_here(
    copying: Callable[[], CopyCheckpointDialog], tmp_path: Path, qtbot: QtBot
) -> None:
    dialog = copying()
    exchange = dialog._exchange
    machines = exchange._background.machines
    before, tell = machines.connection("gpus").pid, exchange._tell_progress

    def kill(done: int, total: int) -> None:
        with suppress(ProcessLookupError):  # of its many pieces, eight are asked for in advance
            os.kill(before, signal.SIGKILL)
        tell(done, total)

    exchange._tell_progress = kill  # type: ignore[method-assign]
    dialog.begin.click()
    qtbot.waitUntil(lambda: not dialog.is_working)
    assert "Nothing was kept" in dialog.outcome.text()
    assert dialog.outcome.text().count("gpus") == 1
    assert not list((tmp_path / "here").iterdir())
    exchange._tell_progress = tell  # type: ignore[method-assign]
    qtbot.waitUntil(lambda: machines.connection("gpus").pid not in (0, before))
    qtbot.waitUntil(lambda: machines.is_connected("gpus"))
    dialog.begin.click()
    qtbot.waitUntil(lambda: not dialog.is_working)
    target = tmp_path / "here" / "run-gpus-1-step-00000120"
    assert str(target) in dialog.outcome.text()
    assert checkpoint_files.verify(target).position.step == 120


def test_a_sweep_there_takes_metrics_and_recipe_from_that_machine(
    connected: Connect, record_there: Record, theirs: Path, qtbot: QtBot
) -> None:
    spec = there_spec(theirs)
    record_there(spec).add(EpochEnded(1, 10, {"validation/novelty": 0.5}))
    app = connected()
    qtbot.waitUntil(lambda: "gpus:1" in listed(app))
    app.form.machine.choose("gpus")
    recipe = RecipeInfo(name="mine", path="/elsewhere/mine.py", builtin=False)
    dialog = app.rooms.sweeps.ask(spec, recipe)
    line = dialog.options["metric"].widget
    completer = line.completer()
    completer.setCompletionPrefix("novel")
    assert completer.currentCompletion() == "validation/novelty"
    dialog.reject()
    app.form.machine.choose("")
    sweep = Sweep(base=spec, ranges={"seed": Choices((1, 2))}, trials=2)
    for run in ("gpus:9", "gpus:1"):
        best = TrialResult(0, run, "finished", {"seed": 2}, 0.5)
        summary = SweepSummary(sweep="gpus:1", state="finished", best=best)
        app.rooms.sweeps.page.form_wanted.emit(SweepReport(summary, sweep, (best,)))
        if run == "gpus:9":
            said = app.window.statusBar().currentMessage()
            assert said.startswith(sentence("recipe-comes-from-unlisted-run"))
    qtbot.waitUntil(lambda: app.form.machine.machine == "gpus")
    assert app.form.field("seed").value() == 2
    filled = app.form.spec()
    assert Path(filled.recipe).is_relative_to(paths.home() / "received")


def said(app: AppController) -> str:
    return app.window.statusBar().currentMessage()


def test_nobody_knows_whether_a_run_was_started_when_the_connection_breaks(
    connected: Connect, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    app = connected()
    connection = app.machines.connection("gpus")
    session = connection._session
    put = session._put

    def break_after(message: ToRemote | None) -> None:
        put(message)
        if isinstance(message, Call) and message.method == "start":
            os.kill(connection.pid, signal.SIGKILL)

    monkeypatch.setattr(session, "_put", break_after)
    os.kill(connection.pid, signal.SIGSTOP)  # it takes the request, and does nothing
    app.form.machine.setCurrentIndex(app.form.machine.findData("gpus"))
    spec = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",))
    app.engine_client.start(spec, (), "gpus")
    qtbot.waitUntil(lambda: "whether it was done there is not known" in said(app))
    assert said(app).startswith("gpus: ")


def test_the_python_that_the_machine_uses_travels_with_the_settings(
    connected: Connect, machine: OtherMachine, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    with machine.as_home():
        registry.add(Environment("mine", sys.executable, default_for=("torch",)))
        registry.add(Environment("empty", "/nowhere/bin/python"))
    app = connected(anew=True)
    form, combo = app.form, app.form.environment.combo
    form.machine.setCurrentIndex(form.machine.findData("gpus"))
    qtbot.waitUntil(lambda: form.spec() is not None)
    asked: list[RunSpec] = []
    session = app.machines.connection("gpus")._session
    call = session.call

    def take_start(method: Method, arguments: Mapping[str, Any]) -> Any:
        if method.name != "start":
            return call(method, arguments)
        asked.append(arguments["spec"])
        return "7"

    with monkeypatch.context() as double, qtbot.waitSignal(app.engine_client.started):
        double.setattr(session, "call", take_start)
        form.start()
    (spec,) = asked
    assert spec.interpreter == sys.executable
    combo.activated.emit(combo.findText("empty"))
    qtbot.waitUntil(lambda: "/nowhere" in form.environment.note.problem)  # it was checked there
    assert form.spec() is None


@pytest.mark.nightly
def test_a_recipe_is_tried_there_and_what_is_wrong_is_a_place_here(
    connected: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "mine.py").write_text(
        "import nets, torch\n\ndef model():\n    nets.net()\n\ndef datasets(): ...\n"
    )
    (mine / "nets.py").write_text("def net():\n    raise ValueError('too deep')\n")
    opened: list[Place] = []
    app = connected()
    monkeypatch.setattr(app.recipe_controller, "_open_editor", opened.append)
    app.form.open_path(str(mine / "mine.py"))
    app.form.machine.setCurrentIndex(app.form.machine.findData("gpus"))
    qtbot.waitUntil(lambda: app.form.spec() is not None)
    with qtbot.waitSignal(app.recipe_controller.recipe_check.checked, timeout=START_MS):
        app.window.check_recipe.trigger()
        assert "on gpus" in said(app)
    box = app.window.findChildren(QMessageBox)[-1]
    assert box.windowTitle() == "Check of mine on gpus"
    assert "too deep" in box.text()
    next(each for each in box.buttons() if "editor" in each.text()).click()
    assert opened == [Place(mine / "nets.py", 2)]
    box.close()


def test_the_doctor_examines_and_ends_there(connected: Connect, qtbot: QtBot) -> None:
    app = connected()
    dialog, block = app.doctor_dialog, app.rooms.machines.page.blocks["gpus"]
    with qtbot.waitSignal(app.doctor.ended, timeout=START_MS) as ended:
        block.doctor.click()
        assert dialog.machine.machine == "gpus"
        assert dialog.windowTitle() == "Doctor: gpus"
    assert ended.args == [True]
    assert {"driver", "compiler"} & {check.name for check in dialog.checks}
    with qtbot.waitSignal(app.doctor.reported):
        dialog.copy_button.click()
    assert QGuiApplication.clipboard().text().startswith("# The machine gpus\n\n## Traindeck ")
    connection = app.machines.connection("gpus")
    with qtbot.waitSignal(app.doctor.failed) as failed:
        dialog.again_button.click()
        os.kill(connection.pid, signal.SIGKILL)
    assert "gpus" in failed.args[0]
    assert not app.doctor.is_running
    assert dialog.state.text().startswith("Stopped after")
