"""A run of a script says what resuming means here, and in its details how it was started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from engine.messages.events import CheckpointSaved, Notice
from engine.runs.checkpoints.script_files import ScriptFile, note_file
from engine.runs.run_info import RunInfo
from engine.runs.run_state import RunState, RunStatus
from engine.runs.store.store_reader import StoredEvent
from engine.spec.run_spec import RunSpec
from gui.run_view.progress_text import progress_text
from gui.run_view.run_controls import RunControls
from gui.run_view.script_bar import ScriptBar, ScriptDialog
from gui.style.theme import DARK
from tests.support.sentences import sentence


@pytest.fixture
def run(tmp_path: Path) -> RunInfo:
    script = tmp_path / "train.py"
    script.write_text("print()\n")
    spec = RunSpec(
        recipe=str(script),
        strategy="script/single",
        devices=("cpu:0",),
        command=("train.py", "--lr", "0.1"),
        variables={"WANDB_MODE": "offline", "WANDB_API_KEY": "very secret"},
    )
    folder = tmp_path / "run"
    folder.mkdir()
    return RunInfo("7", folder, spec, RunStatus(state=RunState.RUNNING), RunState.RUNNING, "")


def with_spec(info: RunInfo, **changes: Any) -> RunInfo:
    return info._replace(spec=replace(info.spec, **changes))


@pytest.fixture
def bar(qtbot: QtBot) -> ScriptBar:
    bar = ScriptBar()
    qtbot.addWidget(bar)
    return bar


def shown(dialog: ScriptDialog) -> str:
    return "\n".join(label.text() for label in dialog.findChildren(QLabel))


def test_it_says_what_resuming_means(bar: ScriptBar, run: RunInfo) -> None:
    bar.show_info(run)
    assert not bar.isHidden()
    assert "from the beginning" in bar.text.text()
    bar.show_info(with_spec(run, resume_arguments="--resume {latest}"))
    assert sentence("script-has-saved-no-checkpoint-yet") in bar.text.text()


def test_a_resume_after_its_end_is_told_from_that_of_a_pause(bar: ScriptBar, run: RunInfo) -> None:
    bar.show_info(run)
    assert "When this run is over" in bar.text.text()
    bar.show_info(run._replace(state=RunState.STOPPED))
    assert "When this run is over" not in bar.text.text()


def test_it_follows_the_files_that_the_script_saves(bar: ScriptBar, run: RunInfo) -> None:
    info = with_spec(run, resume_arguments="--resume {latest}")
    bar.show_info(info)
    saved = info.folder / "mine.pt"
    saved.touch()
    note_file(info.folder, ScriptFile(str(saved), step=30, time=0.0))
    bar.add_events([StoredEvent(1, 0.0, CheckpointSaved("x", 30, 1, 0.0, 0))])
    bar.show_info(info)
    assert f"--resume {saved}" in bar.text.text()
    assert "step 30" in bar.text.text()


def test_a_recipe_has_no_such_line(bar: ScriptBar, run: RunInfo) -> None:
    bar.show_info(run)
    bar.show_info(run._replace(spec=RunSpec(recipe="digits", strategy="torch/ddp", devices=())))
    assert bar.isHidden()


def test_the_details_have_the_command_and_no_secret(bar: ScriptBar, run: RunInfo) -> None:
    bar.show_info(run)
    bar.add_events([StoredEvent(1, 0.0, Notice("wandb <b>is</b> watched."))])
    bar.show_details()
    dialog = next(each for each in bar.findChildren(ScriptDialog))
    text = shown(dialog)
    for part in (
        "python train.py --lr 0.1", str(Path(run.spec.recipe).parent), "WANDB_MODE=offline",
        "WANDB_API_KEY: its value is not stored", "wandb <b>is</b> watched.", "Ctrl-C",
    ):  # fmt: skip
        assert part in text
    assert "very secret" not in text
    dialog.close()


def test_the_buttons_say_what_they_do(bar: ScriptBar, run: RunInfo, qtbot: QtBot) -> None:
    controls = RunControls(DARK)
    qtbot.addWidget(controls)
    bar.facts_changed.connect(controls.show_script)
    bar.show_info(run)
    assert "weights" in controls.checkpoint.toolTip()
    assert "SIGTERM" in controls.stop.toolTip()
    script = Path(run.spec.recipe)
    script.write_text("from traindeck import keep\n")
    bar.show_info(run._replace(state=RunState.STOPPED))
    assert "exactly" in controls.checkpoint.toolTip()
    bar.clear()
    assert controls.checkpoint.accessibleDescription() == sentence("save-checkpoint-now-ctrls")


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ({}, ""),
        ({"step": 1234}, "Step 1,234"),
        ({"step": 1234, "epoch": 2}, "Epoch 2 · step 1,234"),
        ({"step": 1234, "epoch": 2, "epochs": 5}, "Epoch 2 / 5 · step 1,234"),
        ({"step": 12, "planned_steps": 1000}, "Step 12 / 1,000"),
    ],
)
def test_progress_says_what_is_known(known: dict[str, int], text: str) -> None:
    assert progress_text(RunStatus(**known)) == text  # type: ignore[arg-type]
