"""Sets up the states of the window for the pictures: runs, machine, and what is open."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QWidget

from engine.facts.run_facts import Parent, write_parent
from engine.system import paths
from gui.app import AppController
from gui.devices.device_charts import TEN_MINUTES
from tools.screenshots import (
    fake_machine,
    machine_states,
    open_states,
    parting_states,
    race_states,
    run_states,
    step_states,
)
from tools.screenshots.logged_media import add_media
from tools.screenshots.made_up_facts import add_facts, hide_place
from tools.screenshots.own_script import SOURCE
from tools.screenshots.pictures import State
from tools.screenshots.recording import load
from tools.screenshots.replayed_run import replay
from tools.screenshots.scene import Scene, curves_of_window, in_the_middle, replay_older

_HOUR = 3600.0
_COMPARED = ("single", "narrow", "dropout", "one-cycle")


def running() -> Scene:
    """Four workers in the middle of a run."""
    replay_older("wide", "killed")
    return in_the_middle("live", fake_machine.workstation, 0.99)


def finished() -> Scene:
    """A run that has finished all its epochs."""
    replay_older("killed")
    return Scene(fake_machine.workstation, replay(load("wide"), ago=140.0).id)


def failed() -> Scene:
    """A run with a worker that was killed."""
    replay_older("wide")
    return Scene(fake_machine.workstation, replay(load("killed"), ago=75.0).id)


def compare() -> Scene:
    """Several runs in one plot, one of them pinned."""
    played = [*replay_older(), replay(load("wide"), ago=300.0)]
    ids = [each.id for each in played]

    def open_comparison(app: AppController) -> QWidget:
        app.chosen.choose(ids)
        app.chosen.pin(ids[0])
        app.run_list_panel.compare.setChecked(True)
        app.rooms.runs.comparison.plots.toolbar.log_y.setChecked(True)
        return app.window

    return Scene(fake_machine.workstation, ids[-1], subject=open_comparison)


def runs() -> Scene:
    """The table of all runs, two of them chosen."""
    played = [*replay_older(), replay(load("wide"), ago=300.0)]
    ids = [each.id for each in played]

    def open_table(app: AppController) -> QWidget:
        app.chosen.choose(ids[:2])
        app.window.show_page("runs")
        return app.window

    return Scene(fake_machine.workstation, ids[-1], subject=open_table)


def first_start() -> Scene:
    """The window before the first run."""
    return Scene(fake_machine.workstation)


def gpus() -> Scene:
    """Eight GPUs in different states; a chosen one is used by other people."""

    def choose_a_busy_one(app: AppController) -> QWidget:
        app.form.devices.chips[fake_machine.OTHERS].click()
        return curves_of_window(app)

    replay_older()
    scene = in_the_middle("wide", fake_machine.eight_gpus, 0.6)
    return scene._replace(subject=choose_a_busy_one)


def gpu() -> Scene:
    """The details of a GPU that is too hot."""

    def open_detail(app: AppController) -> QWidget:
        app.devices.open_detail(fake_machine.HOT)
        return app.devices.detail

    return gpus()._replace(subject=open_detail, seconds_before=TEN_MINUTES)


def media() -> Scene:
    """Images and histograms that a run has logged."""

    def open_media(app: AppController) -> QWidget:
        app.window.show_media()
        return curves_of_window(app)

    replay_older("killed")
    run = replay(load("wide"), ago=140.0)
    add_media(run)
    return Scene(fake_machine.workstation, run.id, subject=open_media)


def overview() -> Scene:
    """How a run that was killed and restarted came about."""

    def open_overview(app: AppController) -> QWidget:
        app.window.show_overview()
        app.window.run_page.choose("full")
        return app.window

    older = replay_older("wide")
    run = replay(load("killed"), ago=140.0)
    add_facts(run)
    for each in (*older, run):
        hide_place(each)
    return Scene(fake_machine.workstation, run.id, subject=open_overview)


def branches() -> Scene:
    """Runs that go on from steps of others, in the list and in the overview of one of them."""
    first, second, third, _ = older = replay_older()
    for run, parent, step in ((second, first, 300), (third, second, 460)):
        write_parent(run.folder, Parent(run=parent.id, checkpoint=f"step-{step:08d}"))
    for each in older:
        hide_place(each)

    def open_overview(app: AppController) -> QWidget:
        app.window.show_overview()
        return app.window

    return Scene(fake_machine.workstation, second.id, subject=open_overview)


def script() -> Scene:
    """The form for a script, with its options, before a run of it."""
    folder = paths.home() / "imagenet"
    folder.mkdir(parents=True)
    file = folder / "train.py"
    file.write_text(SOURCE, encoding="utf-8")

    def open_script(app: AppController) -> QWidget:
        form = app.form
        form.open_path(str(file))
        form.strategy.choose("script/torchrun")
        form.field("options.amp").set_value(True)
        form.field("options.lr").set_value(0.4)
        for chip in list(form.devices.chips.values())[1:]:
            chip.click()
        return curves_of_window(app)

    return finished()._replace(subject=open_script)


STATES: dict[State, Callable[[], Scene]] = {
    "running": running,
    "finished": finished,
    "failed": failed,
    "compare": compare,
    "runs": runs,
    "first-start": first_start,
    "gpus": gpus,
    "gpu": gpu,
    "media": media,
    "script": script,
    "overview": overview,
    "branches": branches,
    "queued": run_states.queued,
    "starting": run_states.starting,
    "paused": run_states.paused,
    "stopping": run_states.stopping,
    "hung": run_states.hung,
    "lost-gpu": run_states.lost_gpu,
    "form": open_states.form,
    "form-faults": open_states.form_faults,
    "compare-many": open_states.compare_many,
    "groups": open_states.groups,
    "sweep": open_states.sweep,
    "sweep-dialog": open_states.sweep_dialog,
    "doctor": open_states.doctor,
    "log": open_states.log,
    "events": open_states.log_events,
    "export": open_states.export,
    "machines": machine_states.machines,
    "cluster": machine_states.cluster,
    "add-machine": machine_states.machine_added,
    "rail": open_states.rail,
    "column": open_states.column,
    "race": race_states.race,
    "race-running": race_states.race_running,
    "race-empty": race_states.race_empty,
    "step": step_states.step,
    "step-running": step_states.step_running,
    "parting": parting_states.parting,
    "parting-running": parting_states.parting_running,
    "not-tried": race_states.not_tried,
    "batch-size": race_states.batch_size,
}
"""By name; each function fills an empty data folder."""
