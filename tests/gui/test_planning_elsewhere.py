"""What is measured on another machine, from the form to the page and back: a real Traindeck behind
a pipe, whose process measures nothing."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace
from pytestqt.qtbot import QtBot

from engine.doctor.finding import Change, Finding
from engine.planning import kept, measuring_process
from engine.planning.kept import Earlier
from engine.planning.requests import AskBatch, AskMemory, AskPreflight, AskRace
from engine.planning.results import Preflight, Race
from engine.system import paths
from gui.app import AppController
from gui.bridge.planning.kept_results import KeptResults
from tests.gui.conftest import SPEC, window_of_module
from tests.gui.other_machine import OtherMachine, as_before
from tests.support.device_states import cpu
from tests.support.planning_program import FINDING, program, serving
from tests.support.runs import processes_below
from tests.support.sentences import sentence

RECIPE = "import torch\n\ndef model(): ...\n\ndef datasets(): ...\n"
LONGEST_MS = 120_000
pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture(scope="module")
def opened(home: Path) -> Iterator[AppController]:
    """The window of all tests here."""
    with window_of_module(home, cpu()) as app:
        yield app


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> OtherMachine:
    """The other machine; the program with which it measures is in its folder."""
    folder = tmp_path_factory.mktemp("other")
    return OtherMachine(folder, serving(folder))


@pytest.fixture
def app(
    opened: AppController, machine: OtherMachine, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> Iterator[AppController]:
    """The window, connected to the other machine, which is chosen in the form."""
    monkeypatch.setattr(measuring_process, "ARGUMENTS", program(machine.home))
    with as_before(opened, qtbot, machine):
        machine.connect(opened, qtbot)
        choose(opened, "gpus", qtbot)
        yield opened
        opened.planning.refused.emit(AskMemory(SPEC, machine="gpus"), "")  # nothing follows
        opened.rooms.race._tried.clear()
        for home in (machine.home, paths.home()):
            shutil.rmtree(home / kept.FOLDER, ignore_errors=True)


def choose(app: AppController, machine: str, qtbot: QtBot) -> None:
    """Choose a machine in the form, and wait until it has said which Pythons it has."""
    app.form.machine.choose(machine)
    qtbot.waitUntil(lambda: app.form.spec() is not None, timeout=LONGEST_MS)


@pytest.mark.nightly
def test_a_race_there_is_named_kept_there_and_used_there(
    app: AppController, machine: OtherMachine, tmp_path: Path, qtbot: QtBot
) -> None:
    page, form = app.rooms.race.page, app.form
    recipe = tmp_path / "mine.py"
    recipe.write_text(RECIPE)
    form.open_path(str(recipe))
    app.window.show_page("race")
    qtbot.waitUntil(lambda: page.begin.text().endswith(" entries on gpus"))
    with qtbot.waitSignal(app.planning.ended, timeout=LONGEST_MS) as ended:
        page.begin.click()
    assert ended.args[0].machine == "gpus"
    (entry,) = page.table.entries
    assert entry.spec.recipe == str(recipe), "and not its path there"
    assert page.facts.text().startswith("on gpus · mine.py")
    assert kept.numbers() == []
    assert [each.name for each in (machine.home / kept.FOLDER).glob("*.json")] == ["1.json"]

    choose(app, "", qtbot)
    assert page.use.isEnabled()
    assert page.use.text().endswith(" on gpus")
    assert "gpus" in page.use.toolTip()
    page.use.click()
    assert form.machine.machine == "gpus"
    qtbot.waitUntil(lambda: form.spec() == entry.spec)
    assert not page.use.isEnabled()

    results = KeptResults(app.background)
    with qtbot.waitSignal(results.found, timeout=LONGEST_MS) as found:
        results.look(entry.spec, "gpus")
    earlier = Earlier(Race(entries=(entry,), steps=60), None)
    assert found.args == [earlier, entry.spec, "gpus"]
    app.machines.disconnect_from("gpus")
    qtbot.waitUntil(lambda: form.machine.machine == "")
    with qtbot.waitSignal(results.failed) as failed:
        results.look(entry.spec, "gpus")
    assert failed.args == ["gpus is not connected."]
    with qtbot.assertNotEmitted(results.failed), qtbot.waitSignal(results.not_found):
        results.look(entry.spec, "gpus", quietly=True)
    with qtbot.waitSignal(app.rooms.race.message) as said:
        page.use.click()
    assert said.args == [sentence("gpus-is-not-connected-now-settings")]
    assert form.machine.machine == ""


def test_findings_and_sizes_of_there_are_not_for_a_form_for_here(
    app: AppController, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    form, findings = app.form, app.rooms.race.page.findings
    qtbot.waitUntil(form.planning.offer.isVisible, timeout=LONGEST_MS)
    with qtbot.waitSignal(app.planning.ended, timeout=LONGEST_MS):
        form.planning.offer.click()
    assert not form.planning.offer.isVisible(), "it was tried there"
    assert findings.about.text().startswith("on gpus · digits")
    assert not findings.other.isVisible()
    spec = form.spec()
    assert spec is not None
    change = Change("Use the batch size 48", {"batch_size": 48})
    finding = Finding(name="batch", level="hint", text="It is small.", change=change)
    request = AskPreflight(spec, machine="gpus")
    app.planning.found.emit(request, Preflight(spec=spec, findings=(finding,)))
    dialog = app.rooms.race.open_batch_dialog(spec)
    assert dialog.windowTitle() == "Find batch size on gpus"
    assert findings.fix.isEnabled()

    choose(app, "", qtbot)
    qtbot.waitUntil(form.planning.offer.isVisible)
    assert findings.other.isVisible()
    assert not findings.fix.isEnabled()
    choose(app, "gpus", qtbot)
    findings.fix.click()
    changed = replace(spec, batch_size=48)
    assert (form.machine.machine, form.spec()) == ("gpus", changed)
    asked: list[object] = []
    monkeypatch.setattr(app.planning, "ask", asked.append)
    dialog.end()
    dialog.run.click()
    assert asked == [AskBatch(changed, 0, "gpus")]


def test_a_place_in_a_recipe_that_was_sent_is_one_here(
    app: AppController, machine: OtherMachine, tmp_path: Path, qtbot: QtBot
) -> None:
    """Also in what is kept there."""
    form, findings = app.form, app.rooms.race.page.findings
    recipe = tmp_path / "mine.py"
    recipe.write_text(RECIPE)
    program(machine.home, Finding(name="steps", level="error", text="It did not train (RECIPE:3)."))
    form.open_path(str(recipe))
    qtbot.waitUntil(lambda: form.spec() is not None, timeout=LONGEST_MS)
    with qtbot.waitSignal(app.planning.ended, timeout=LONGEST_MS):
        form.planning.preflight.trigger()
    text = f"It did not train ({recipe}:3)."
    assert [each.finding.text for each in findings.rows] == [text]
    (file,) = (machine.home / kept.FOLDER).glob("*.json")
    assert f"({machine.home}/received/" in file.read_text()
    spec = form.spec()
    assert spec is not None
    results = KeptResults(app.background)
    with qtbot.waitSignal(results.found, timeout=LONGEST_MS) as found:
        results.look(spec, "gpus")
    preflight = found.args[0].preflight
    assert (preflight.spec, preflight.findings[0].text) == (spec, text)


def test_no_preflight_is_offered_after_one_that_is_kept_there(
    app: AppController, machine: OtherMachine, qtbot: QtBot
) -> None:
    form, offer = app.form, app.form.planning.offer
    qtbot.waitUntil(offer.isVisible, timeout=LONGEST_MS)
    spec = form.spec()
    assert spec is not None
    tried = replace(spec, devices=("cpu:0", "cpu:1"), strategy="torch/ddp")
    with machine.as_home():
        kept.keep(Preflight(spec=tried, findings=(FINDING,)))
    form.load(tried)
    qtbot.waitUntil(lambda: form.spec() == tried, timeout=LONGEST_MS)
    look = app.rooms.race
    qtbot.waitUntil(lambda: None not in look._tried.values(), timeout=LONGEST_MS)
    assert not offer.isVisible()
    choose(app, "", qtbot)
    qtbot.waitUntil(offer.isVisible)


def test_predicted_memory_is_that_of_one_machine(app: AppController, qtbot: QtBot) -> None:
    form, row = app.form, app.form.planning
    with qtbot.waitSignal(app.planning.ended, timeout=LONGEST_MS) as ended:
        row.estimate_memory.trigger()
    assert ended.args[0].machine == "gpus"
    assert row.text.text() == "✓ Fits: about 1 of 2 GiB."
    os.kill(app.machines.connection("gpus").pid, signal.SIGKILL)
    qtbot.waitUntil(lambda: form.spec() is None, timeout=LONGEST_MS)
    qtbot.waitUntil(lambda: form.spec() is not None, timeout=LONGEST_MS)
    assert row.text.text() == "✓ Fits: about 1 of 2 GiB.", "it is known also after a break"
    assert not app.rooms.race._still.isActive(), "nothing is begun again"
    choose(app, "", qtbot)
    assert row.text.text() != "✓ Fits: about 1 of 2 GiB."
    spec = form.spec()
    assert spec is not None
    assert not app.rooms.race._still.isActive()
    app.planning.refused.emit(AskMemory(spec, machine="gpus"), "gpus: No.")
    assert "No." not in row.text.text()


def test_a_race_there_is_seen_and_ends_with_its_link(app: AppController, qtbot: QtBot) -> None:
    form, page = app.form, app.rooms.race.page
    spec = form.spec()
    assert spec is not None
    endless = AskRace(entrants=(spec,), steps=1000, machine="gpus")
    with qtbot.waitSignal(app.planning.news, timeout=LONGEST_MS):
        app.planning.ask(endless)
    qtbot.waitUntil(lambda: bool(page.table.entries))
    button = app.window.strip.pages["race"]
    assert button.text() == "Race gpus 0/1"
    assert sentence("race-is-measured-on-gpus") in button.toolTip()
    assert sentence("would-disturb-measurement") in form.devices.warning
    choose(app, "", qtbot)
    assert form.devices.warning == ""
    below = processes_below(app.machines.connection("gpus").pid)
    assert below
    refusals: list[str] = []
    app.planning.refused.connect(lambda _, text: refusals.append(text))
    with qtbot.waitSignal(app.planning.ended, timeout=LONGEST_MS):
        os.kill(app.machines.connection("gpus").pid, signal.SIGKILL)
    assert refusals[0].startswith(sentence("gpus-connection-has-ended"))
    assert page.doing.text() == f"⚠ {refusals[0]}"
    assert len(page.table.entries) == 1, "what was heard stays"
    assert button.text() == "Race"
    assert psutil.wait_procs(below, timeout=60)[1] == []
    qtbot.waitUntil(lambda: app.machines.is_connected("gpus"), timeout=LONGEST_MS)
    assert app.planning.measured is None

    with qtbot.waitSignal(app.planning.news, timeout=LONGEST_MS):
        app.planning.ask(endless)
    with qtbot.waitSignal(app.planning.ended, timeout=LONGEST_MS):
        page.stop.click()
    assert len(refusals) == 1
