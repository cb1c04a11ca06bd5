"""The tab Overview: what it reads and shows of a run, with facts and without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from PySide6.QtCore import QObject, Qt, QUrl
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from engine.facts.git_state import GitState
from engine.facts.run_facts import (
    AttemptFacts,
    DeviceFacts,
    Layer,
    ModelFacts,
    Planning,
    write_attempt,
    write_model,
    write_planning,
)
from engine.facts.settings import SettingRow
from engine.messages.events import EpochEnded, Failure, RunEnded
from engine.runs.run_info import RunInfo, get_run
from engine.runs.run_notes import ChangedNotes, RunNotes
from engine.runs.store.store_reader import StoredEvent
from gui.bridge import overview_reader
from gui.bridge.background import Background
from gui.bridge.overview_reader import OverviewReader
from gui.overview.facts_text import setting_lines
from gui.overview.panel import OverviewPanel
from gui.overview.segments import SegmentTable
from gui.overview.text_dialog import PackagesDialog, TextDialog
from tests.support.recorded_runs import RUNNING, SPEC, RecordedRun
from tests.support.sentences import sentence

Record = Callable[..., RecordedRun]

LAYERS = (
    Layer("", 0, "Net", 2_000, 1_500, 8_000),
    Layer("body", 1, "2 × Block", 1_500, 1_500, 6_000),
    Layer("body.0", 2, "Block", 1_500, 1_500, 6_000),
    Layer("head", 1, "Linear 2→250", 500, 0, 2_000),
)
GIT = GitState(
    commit="4f19c2e" + "0" * 33,
    branch="main",
    message="Mixup only after warm-up",
    remote="https://github.com/ada/vision",
    changed=("a.py", "b.py"),
    changed_files=2,
    added=31,
    removed=8,
    diff_bytes=5,
    diff_is_cut=True,
    diff_leaves_out=(".env",),
)
FACTS = AttemptFacts(
    attempt=1,
    recorded=1.0,
    python="3.13.5",
    host="node-7",
    cores=96,
    memory=256 * 2**30,
    driver="580.95",
    devices=(DeviceFacts(id="GPU-1", name="H100", label="GPU 0", memory=80 * 2**30),),
    packages={"numpy": "2.0", "torch": "2.11"},
    folder="/code",
    git=GIT,
)

FAILURE = Failure(0, "GPU-1", -9, "SIGKILL", "Rank 0 on GPU-1 was killed.", "", "")


@pytest.fixture
def panel(traindeck_home: Path, qtbot: QtBot) -> Iterator[OverviewPanel]:
    background = Background()
    panel = OverviewPanel(OverviewReader(background))
    qtbot.addWidget(panel)
    panel.resize(940, 620)
    panel.show()
    yield panel
    background.finish()


def shown(panel: OverviewPanel, run: RecordedRun, qtbot: QtBot) -> RunInfo:
    info = get_run(run.id)
    panel.watch(run.id)
    panel.show_info(info)
    qtbot.waitUntil(lambda: bool(panel.settings_table.lines))
    return info


def texts(table: SegmentTable) -> str:
    return "\n".join(": ".join(table.text_of(row)) for row in range(len(table.lines)))


def test_a_changed_recipe_is_told_beside_its_name() -> None:
    rows = [
        SettingRow("recipe", "Recipe", "", "own", note="the file has changed since (own.py: new)"),
        SettingRow("seed", "Seed", "", "0", "0"),
    ]
    [line] = setting_lines(rows, only_changed=True)
    assert [piece.text for piece in line.cells[1]] == ["own", rows[0].note]


def test_a_run_with_facts(panel: OverviewPanel, record: Record, qtbot: QtBot) -> None:
    record(replace(SPEC, seed=4))
    run = record(SPEC)
    write_attempt(run.folder, FACTS, "+new\n")
    write_model(
        run.folder,
        ModelFacts(attempt=1, layers=LAYERS, versions={"torch": "2.11+cu130", "NCCL": "2.28"}),
    )
    shown(panel, run, qtbot)
    assert "Seed: 0 was 4" in texts(panel.settings_table)
    assert panel.settings.note.text().endswith(sentence("parts-differ-compared-with-run-1"))
    environment = texts(panel.environment_table)
    for text in ("Python: 3.13.5", "PyTorch 2.11+cu130", "NCCL 2.28", "0 · H100 80 GiB", "node-7"):
        assert text in environment
    git = texts(panel.git_table)
    assert "Branch: main · 4f19c2e000" in git
    assert "Changes: 2 files not committed +31 −8" in git
    assert "Remote: github.com/ada/vision" in git
    assert panel.model.note.text() == "2.0 k parameters · 7.8 KiB · 500 frozen"
    tree = panel.model_tree.model()
    assert [tree.index(row, 0).data() for row in range(tree.rowCount())] == ["body", "head"]
    assert tree.index(0, 0, tree.index(0, 0)).data() == "0"
    assert tree.index(1, 1).data() == "Linear 2→250, frozen"
    assert "spec.toml" in texts(panel.files_table)
    assert panel.show_diff.isEnabled()


def test_a_run_of_an_older_version_says_that_nothing_was_recorded_and_what_was_measured(
    panel: OverviewPanel, record: Record, qtbot: QtBot
) -> None:
    shown(panel, record(SPEC), qtbot)
    assert panel.environment.note.text() == "not recorded"
    assert panel.git.note.text() == "not recorded"
    assert "Python: 3." in texts(panel.environment_table)  # from spec.toml
    assert panel.model_note.text() == sentence("layers-were-not-recorded")
    assert panel.model_tree.isHidden()
    assert not panel.show_diff.isEnabled()
    assert not panel.show_packages.isEnabled()
    assert panel.settings_table.lines
    run = record()
    write_attempt(run.folder, FACTS)
    summary = "Raced 6 entries: torch/ddp was fastest."
    write_planning(run.folder, Planning(number=3, measured=1.0, summary=summary, result={}))
    shown(panel, run, qtbot)
    assert summary in texts(panel.environment_table)


def test_only_what_differs_and_where_it_lies(
    panel: OverviewPanel, record: Record, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown(panel, record(replace(SPEC, seed=17)), qtbot)
    whole = len(panel.settings_table.lines)
    marked = sum(line.is_marked for line in panel.settings_table.lines)
    assert "Seed: 17 default 0" in texts(panel.settings_table)
    panel.bar.only.click()
    assert 0 < len(panel.settings_table.lines) == marked < whole
    assert all(line.is_marked for line in panel.settings_table.lines)
    panel.bar.only.click()
    assert len(panel.settings_table.lines) == whole
    opened: list[str] = []

    def open_url(url: QUrl) -> bool:
        opened.append(url.toLocalFile())
        return False

    monkeypatch.setattr(overview_reader.QDesktopServices, "openUrl", open_url)
    said: list[str] = []
    panel.message.connect(said.append)
    run = record(SPEC)
    shown(panel, run, qtbot)
    panel.open_folder.click()
    assert opened == [str(run.folder)]
    assert said == [f"No file manager opens {run.folder}."]


def test_the_diff_and_the_packages_are_one_click_away(
    panel: OverviewPanel, record: Record, qtbot: QtBot
) -> None:
    run = record(SPEC)
    write_attempt(run.folder, FACTS, "+new\n-old\n")
    shown(panel, run, qtbot)
    qtbot.waitUntil(panel.show_diff.isEnabled)
    panel.show_diff.click()
    qtbot.waitUntil(lambda: bool(panel.window().findChildren(TextDialog)))
    [diff] = panel.window().findChildren(TextDialog)
    assert diff.view.toPlainText() == "+new\n-old\n"
    notes = " ".join(label.text() for label in diff.findChildren(QObject) if hasattr(label, "text"))
    assert ".env" in notes
    assert "Only the first" in notes
    diff.reject()
    panel.show_packages.click()
    [packages] = panel.window().findChildren(PackagesDialog)
    packages.search.setText("TOR")
    rows = packages.table.model()
    assert [rows.index(row, 0).data() for row in range(rows.rowCount())] == ["torch"]
    packages.reject()


def test_the_command_and_the_whole_as_markdown_are_copied(
    panel: OverviewPanel, record: Record, qtbot: QtBot
) -> None:
    run = record(SPEC)
    write_attempt(run.folder, replace(FACTS, git=replace(GIT, message="a|b <x>")), "+x\n")
    write_model(run.folder, ModelFacts(attempt=1, layers=LAYERS))
    shown(panel, run, qtbot)
    panel.copy_command.click()
    assert "train" in QGuiApplication.clipboard().text()
    panel.bar.copy.click()
    text = QGuiApplication.clipboard().text()
    assert text.startswith("# digits · single · #1")
    assert "| Message | a\\|b \\<x\\> |" in text
    assert "## Model: 2.0 k parameters, 7.8 KiB" in text
    assert "| Epochs | **3** |" in text


def test_notes_are_edited_in_place(panel: OverviewPanel, record: Record, qtbot: QtBot) -> None:
    run = record(SPEC)
    info = shown(panel, run, qtbot)
    written: list[dict[str, ChangedNotes]] = []
    panel.notes_written.connect(written.append)
    notes = panel.notes
    notes.tags.setText("paper, fsdp")
    notes.text.setPlainText("typed")
    panel.show_info(info._replace(notes=RunNotes(note="of another window")))
    assert notes.text.toPlainText() == "typed"
    QTest.keyClick(notes.text, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    expected = RunNotes(tags=("fsdp", "paper"), note="typed")
    assert written == [{run.id: ChangedNotes(RunNotes(), expected)}]
    panel.show_info(info)  # read before it was written
    assert notes.text.toPlainText() == "typed"
    panel.show_info(info._replace(notes=expected))
    notes.text.setPlainText("thrown away")
    QTest.keyClick(notes.text, Qt.Key.Key_Escape)
    assert notes.text.toPlainText() == "typed"
    notes.name.setText("mine")
    panel.watch(None)  # another run is shown: nothing is lost
    assert written[-1] == {run.id: ChangedNotes(expected, replace(expected, name="mine"))}


def test_the_timeline_follows_events(panel: OverviewPanel, record: Record, qtbot: QtBot) -> None:
    shown(panel, record(SPEC), qtbot)
    events = [*RUNNING[:2], EpochEnded(1, 10, {"validation/loss": 0.5})]
    events.append(RunEnded("failed", "Rank 0 on GPU-1 was killed.", FAILURE))
    panel.set_device_names({"GPU-1": "GPU 0"})
    panel.add_events([StoredEvent(i, 1e9 + 10 * i, e) for i, e in enumerate(events)])
    assert panel.timeline.note.text() == sentence("in-all-training")
    bar = panel.timeline_bar
    assert "training · epoch 1" in bar.text_at(bar.width() / 2 - 20)
    assert "best loss 0.5, epoch 1" in bar.text_at(bar.width() * 2 / 3)
    bar.setFocus()
    assert sentence("rank-was-killed") in bar.text_at(bar.width())
    QTest.keyClick(bar, Qt.Key.Key_Right)
    assert "best loss 0.5" in bar.accessibleDescription()


def test_a_gap_of_days_takes_little_of_the_timeline(
    panel: OverviewPanel, record: Record, qtbot: QtBot
) -> None:
    shown(panel, record(SPEC), qtbot)
    begin = 1e9
    events = [(0, RUNNING[0]), (1, RUNNING[1]), (100, RunEnded("stopped", "Stopped."))]
    events += [(400_000, RUNNING[0]), (400_001, RUNNING[1]), (400_100, RunEnded("finished", "D."))]
    panel.add_events([StoredEvent(i, begin + t, e) for i, (t, e) in enumerate(events)])
    bar = panel.timeline_bar
    assert "training" in bar.text_at(bar.width() * 0.25)
    assert "training" in bar.text_at(bar.width() * 0.75)
    bar.grab()


def test_another_run_is_shown_when_its_reading_comes_late(
    panel: OverviewPanel, record: Record, qtbot: QtBot
) -> None:
    first, second = record(replace(SPEC, seed=4)), record(replace(SPEC, seed=5))
    for run in (first, second):
        panel.watch(run.id)
        panel.show_info(get_run(run.id))
    qtbot.waitUntil(lambda: "Seed: 5" in texts(panel.settings_table))
