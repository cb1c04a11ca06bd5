"""The findings of a preflight: order, marks, and buttons that fill the form."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.doctor.finding import Change, Finding
from engine.planning.results import Preflight
from gui.planning.figures import bandwidths, loading_times
from gui.planning.findings import FindingsCard
from gui.style.theme import ThemeController
from tests.gui.conftest import SPEC
from tests.support.planning_program import FINDING
from tests.support.sentences import sentence

WORKERS = Change("Use 2 loader workers", {"loader_workers": 2})
BF16 = Change("Use bf16", {"precision": "bf16"})
FINDINGS = (
    FINDING,
    Finding(name="precision", level="hint", text="bf16 is faster.", change=BF16),
    Finding(name="loading", level="warning", text="Steps wait.", advice="Do.", change=WORKERS),
    Finding(name="memory", level="error", text="It does not fit."),
)


@pytest.fixture
def card(qtbot: QtBot, qapp: QApplication) -> FindingsCard:
    ThemeController(qapp)
    card = FindingsCard()
    qtbot.addWidget(card)
    card.show_spec(SPEC)
    card.show()
    return card


def test_the_worst_come_first_and_are_counted(card: FindingsCard) -> None:
    assert "preflight" in card.note.text()
    card.begin(SPEC)
    for finding in FINDINGS:
        card.add(finding)
    assert [row.finding.level for row in card.rows] == ["error", "warning", "hint", "ok"]
    card.show_preflight(Preflight(spec=SPEC, findings=FINDINGS, expected_seconds=90.0))
    card.end()
    assert card.facts.text() == sentence("error-warning-hint-whole-run-about")
    assert card.again.text() == "Preflight again"


def test_a_button_fills_the_form_and_is_done(card: FindingsCard, qtbot: QtBot) -> None:
    card.show_preflight(Preflight(spec=SPEC, findings=FINDINGS))
    button = card.rows[1].button
    with qtbot.waitSignal(card.changes_clicked) as clicked:
        button.click()
    assert clicked.args == [[WORKERS]]
    assert card.fix.text() == "Fix 2 of 2"
    card.show_spec(replace(SPEC, loader_workers=2))
    assert button.text() == "✓ In the form"
    assert not button.isEnabled()
    with qtbot.waitSignal(card.changes_clicked) as clicked:
        card.fix.click()
    assert clicked.args == [[BF16]]
    card.show_spec(replace(SPEC, loader_workers=2, precision="bf16"))
    assert card.fix.text() == "✓ In the form"
    assert not card.fix.isEnabled()


def test_of_two_changes_that_contradict_the_worse_finding_counts(card: FindingsCard) -> None:
    four = Change("Use 4 loader workers", {"loader_workers": 4})
    hint = Finding(name="other", level="hint", text="Four.", change=four)
    card.show_preflight(Preflight(spec=SPEC, findings=(hint, *FINDINGS)))
    assert card.changes() == [WORKERS, BF16]


def test_figures_have_pictures_with_their_numbers(card: FindingsCard) -> None:
    figures = {
        "all_reduce/1024": 1e-6,
        "all_reduce/1048576": 524288e-9,
        "rank/0/loading/2": 0.02,
        "rank/1/loading/2": 0.03,
        "rank/0/loading/0": 0.01,
        "loading/own_workers": 1.0,
        "step_seconds": 0.05,
    }
    assert [(point.place, point.value) for point in bandwidths(figures)] == [
        ("1 KiB", "1.02"),
        ("1 MiB", "2"),
    ]
    assert [point.value for point in loading_times(figures)] == ["10 ms", "30 ms"]
    assert not card.figures.isVisible()
    card.show_preflight(Preflight(spec=SPEC, findings=(FINDING,), figures=figures))
    assert card.figures.isVisible()
    assert card.figures.bandwidth.numbers.text() == "1 KiB: 1.02 · 1 MiB: 2"
    assert card.figures.loading.numbers.text() == "1: 10 ms · 2: 30 ms · a step: 50 ms"
    assert card.facts.text() == "nothing to change"


def test_the_findings_say_what_they_are_about(card: FindingsCard) -> None:
    card.set_display(lambda device: device.replace("cpu:", "CPU "))
    assert not card.about.isVisible()
    card.begin(SPEC)
    assert card.about.text() == sentence(
        "digits-single-device-pytorch-cpu-batch", batch_size=SPEC.batch_size
    )
    other = replace(SPEC, recipe="/home/me/wide.py", batch_size=256)
    card.show_preflight(Preflight(spec=other, findings=FINDINGS))
    assert card.about.text().startswith("wide.py · Single device · PyTorch")


@pytest.mark.parametrize(
    "change", [{"recipe": "digits_keras"}, {"devices": ("cpu:1",)}, {"strategy": "torch/fsdp"}]
)
def test_findings_of_another_form_are_grey(card: FindingsCard, change: dict[str, object]) -> None:
    card.show_preflight(Preflight(spec=SPEC, findings=FINDINGS))
    buttons = [row.button for row in card.rows if row.button]
    assert [each.isEnabled() for each in (*buttons, card.fix)] == [True] * 3
    assert not card.other.isVisible()
    card.show_spec(replace(SPEC, **change))  # type: ignore[arg-type]
    assert card.other.isVisible()
    assert not any(each.isEnabled() for each in (*buttons, card.fix))
    card.show_spec(None)  # the form has problems, and is about the same
    assert card.other.isVisible()
    card.show_spec(SPEC)
    card.show_spec(None)
    assert not card.other.isVisible()


def test_what_a_finding_has_advised_is_no_other_form(card: FindingsCard) -> None:
    advised = {"strategy": "torch/ddp", "devices": ["cpu:0", "cpu:1"]}
    more = Finding(name="x", level="hint", text="T", change=Change("Use 2 CPUs", advised))
    card.show_preflight(Preflight(spec=SPEC, findings=(*FINDINGS, more)))
    card.show_spec(replace(SPEC, strategy="torch/ddp", devices=("cpu:0", "cpu:1"), batch_size=8))
    assert not card.other.isVisible()
    assert card.changes() == [WORKERS, BF16], "the devices are in the form"


def test_a_problem_is_told(card: FindingsCard) -> None:
    card.begin(SPEC)
    card.show_problem("GPU 0 is in use.")
    card.end()
    assert card.note.text() == "⚠ GPU 0 is in use."
