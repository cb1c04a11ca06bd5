"""What is measured before a run, from the form to the page and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from engine.doctor.finding import Change
from engine.planning import kept, measuring_process
from engine.planning.requests import AskBatch, AskMemory, AskPreflight, AskRace
from engine.planning.results import BatchSearch, Preflight, Sized, Tried
from gui.app import AppController
from gui.run_form.run_form import RunForm
from tests.gui.conftest import SPEC, OpenApp, window_of_module
from tests.support.device_states import cpu
from tests.support.planning_program import FINDING, program
from tests.support.sentences import sentence

pytestmark = pytest.mark.usefixtures("processes")


def test_no_preflight_is_offered_after_one_that_is_kept(open_app: OpenApp, qtbot: QtBot) -> None:
    """From the start of the window on, before its page was open; for other devices there is one."""
    form = RunForm()
    qtbot.addWidget(form)
    spec = form.spec()
    kept.keep(Preflight(spec=spec, findings=(FINDING,)))
    app = open_app()
    form, offer = app.form, app.form.planning.offer
    assert form.spec() == spec
    assert not offer.isVisible()
    form.load(replace(spec, devices=("cpu:0", "cpu:1"), strategy="torch/ddp"))
    qtbot.waitUntil(offer.isVisible)
    form.load(spec)
    qtbot.waitUntil(lambda: None not in app.rooms.race._tried.values())
    assert not offer.isVisible()
    assert app.rooms.race.page.findings.is_empty, "it is shown when the page is opened"
    app.window.show_page("race")
    qtbot.waitUntil(lambda: not app.rooms.race.page.findings.is_empty)


@pytest.fixture(scope="module")
def opened(home: Path) -> Iterator[AppController]:
    """A window whose program measures nothing."""
    with window_of_module(home, cpu()) as app, pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring_process, "ARGUMENTS", program(home))
        yield app


@pytest.fixture
def app(opened: AppController, home: Path, qtbot: QtBot) -> Iterator[AppController]:
    """The window as at the first start."""
    opened.form.load(SPEC)
    opened.window.show_page("run")
    opened.planning.refused.emit(AskMemory(SPEC), "")  # no prediction follows the form any more
    yield opened
    for kind in (AskRace, AskPreflight, AskMemory, AskBatch):
        opened.planning.stop(kind)
    qtbot.waitUntil(lambda: opened.planning.measured is None)


def test_a_race_of_what_is_in_the_form(app: AppController, qtbot: QtBot) -> None:
    page, form = app.rooms.race.page, app.form
    app.window.show_page("race")
    qtbot.waitUntil(page.begin.isEnabled)
    with qtbot.waitSignal(app.planning.begun) as begun:
        page.begin.click()
    request = begun.args[0]
    assert isinstance(request, AskRace)
    assert {each.recipe for each in request.entrants} == {form.source().reference}
    assert "torch/single" in {each.strategy for each in request.entrants}
    qtbot.waitUntil(lambda: app.planning.measured is None, timeout=60_000)
    assert len(page.table.entries) == 1
    page.table.selectRow(0)
    page.use.click()
    assert form.spec() == page.table.entries[0].spec
    assert not page.use.isEnabled()


def test_other_pages_and_the_form_tell_of_a_race(app: AppController, qtbot: QtBot) -> None:
    spec = app.form.spec()
    with qtbot.waitSignal(app.planning.news, timeout=60_000):
        app.planning.ask(AskRace(entrants=(spec,), steps=1000))
    assert app.window.page == "run"
    qtbot.waitUntil(lambda: app.window.strip.pages["race"].text() == "Race 0/1")
    assert sentence("would-disturb-measurement") in app.form.devices.warning
    assert app.form.start_button.isEnabled()
    with qtbot.waitSignal(app.planning.ended, timeout=60_000):
        app.rooms.race.page.stop.click()
    assert app.window.strip.pages["race"].text() == "Race"
    assert app.form.devices.warning == ""


def test_what_waits_says_so_and_can_be_stopped(app: AppController, qtbot: QtBot) -> None:
    spec, row, findings = app.form.spec(), app.form.planning, app.rooms.race.page.findings
    with qtbot.waitSignal(app.planning.news, timeout=60_000):
        app.planning.ask(AskRace(entrants=(spec,), steps=1000))
    row.preflight.trigger()
    row.estimate_memory.trigger()
    assert findings.note.text() == row.text.text() == sentence("waits-for-another-measurement")
    row.stop_link.click()
    assert row.stop_link.isHidden()
    assert not app.planning.is_asked(AskMemory)
    findings.again.click()
    assert not app.planning.is_asked(AskPreflight)
    assert app.planning.is_asked(AskRace)


def test_a_preflight_is_offered_until_there_was_one(app: AppController, qtbot: QtBot) -> None:
    row = app.form.planning
    app.form.load(replace(SPEC, devices=("cpu:0", "cpu:1"), strategy="torch/ddp"))  # none yet
    qtbot.waitUntil(row.offer.isVisible)
    with qtbot.waitSignal(app.planning.ended, timeout=60_000):
        row.offer.click()
    assert app.window.page == "race"
    assert [each.finding.level for each in app.rooms.race.page.findings.rows] == ["ok"]


def test_a_prediction_follows_the_form(app: AppController, qtbot: QtBot) -> None:
    row = app.form.planning
    asked: list[object] = []
    app.planning.begun.connect(asked.append)
    app.form.field("batch_size").set_value(96)
    with qtbot.waitSignal(app.planning.ended, timeout=60_000):
        row.estimate_memory.trigger()
    assert row.text.text() == "✓ Fits: about 1 of 2 GiB."
    app.form.field("batch_size").set_value(32)
    assert not row.bar.isVisible()
    qtbot.waitUntil(lambda: row.text.text() == "✓ Fits: about 1 of 2 GiB.", timeout=60_000)
    assert [each.spec.batch_size for each in asked if isinstance(each, AskMemory)] == [96, 32]


def test_what_a_preflight_proposes_fills_the_form(app: AppController) -> None:
    changes = [
        Change("Use 2 CPUs", {"devices": ["cpu:0", "cpu:1"], "strategy": "torch/ddp"}),
        Change("Use the batch size 48", {"batch_size": 48}),
    ]
    app.rooms.race.page.findings.changes_clicked.emit(changes)
    spec = app.form.spec()
    assert (spec.devices, spec.strategy, spec.batch_size) == (
        ("cpu:0", "cpu:1"), "torch/ddp", 48,
    )  # fmt: skip
    app.rooms.race.page.findings.changes_clicked.emit([Change("Odd", {"batch_size": "many"})])
    assert app.form.spec() == spec


def test_sizes_are_shown_as_they_are_tried(app: AppController) -> None:
    spec = app.form.spec()
    assert spec is not None
    dialog = app.rooms.race.open_batch_dialog(spec)
    request, tried = AskBatch(spec), Tried(batch_size=512, fits=True, samples_per_second=9000.0)
    app.planning.news.emit(request, Sized(tried))
    full = Tried(batch_size=1024, fits=False, problem="Out of memory.")
    app.planning.news.emit(request, Sized(full))
    killed = "Rank 0 was killed from outside; when memory runs out, the system does that."
    app.planning.news.emit(
        request, Sized(Tried(batch_size=2048, fits=False, problem=killed, is_failure=True))
    )
    shown = [
        [item.text(column) for column in range(4)]
        for row in range(3)
        if (item := dialog.table.topLevelItem(row)) is not None
    ]
    assert shown == [
        ["512", "✓ fits", "9,000", "–"],
        ["1,024", "✕ does not fit", "–", "–"],
        ["2,048", f"✕ fails: {killed}", "–", "–"],
    ]
    change = Change("Use 512", {"batch_size": 512})
    search = BatchSearch(tried=(tried, full), largest=512, fastest=512, text="Done.", change=change)
    app.planning.found.emit(request, search)
    app.planning.ended.emit(request)
    (button,) = (each for each in dialog.findChildren(QPushButton) if "512" in each.text())
    button.click()
    now = app.form.spec()
    assert now.batch_size == 512
    assert button.text() == "✓ In the form"
    app.form.load(replace(now, recipe="digits_keras"))
    assert (button.text(), button.isEnabled()) == ("Use 512", False)


def test_a_script_is_not_measured(app: AppController, qtbot: QtBot) -> None:
    app.form.heading.kind.script.setChecked(True)
    assert not app.form.planning.isVisible()
    assert not app.form.preflight_button.isVisible()
    with qtbot.waitSignal(app.rooms.race.message) as said:
        app.window.preflight.trigger()
    assert said.args == [sentence("script-runs-as-it-is-only")]
    assert not app.planning.is_asked(AskPreflight)


def test_a_search_on_cpus_keeps_the_memory_limit_of_the_dialog(
    app: AppController, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = app.form.spec()
    assert spec is not None
    asked: list[object] = []
    monkeypatch.setattr(app.planning, "ask", asked.append)
    dialog = app.rooms.race.open_batch_dialog(spec)
    assert dialog.limit.text() == "what is free"
    dialog.end()
    dialog.limit.setValue(3000)
    dialog.run.click()
    assert asked == [AskBatch(spec, 3000)]
    assert dialog.limit_for(replace(spec, devices=("GPU-1",))) == 0
