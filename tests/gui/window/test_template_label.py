"""What the status bar says about templates."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from engine.templates.kinds import KINDS
from engine.templates.server import IDLE_SECONDS
from gui.bridge.template_keeper import TemplateStatus
from gui.window.template_label import IDLE_MINUTES, TemplateLabel
from tests.support.sentences import sentence
from tests.support.template_double import template

TORCH = KINDS["torch"]
READY, LOADING = template(), template(is_ready=False)
OTHER = template("tensorflow", pid=12, workers=2)


@pytest.fixture
def label(qtbot: QtBot) -> TemplateLabel:
    label = TemplateLabel()
    qtbot.addWidget(label)
    return label


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (TemplateStatus(TORCH, True), ""),
        (TemplateStatus(TORCH, True, (OTHER, LOADING)), "loading PyTorch …"),
        (TemplateStatus(TORCH, True, (OTHER, READY)), "PyTorch ready"),
        (TemplateStatus(TORCH, True, (OTHER,)), "TensorFlow ready"),
        (TemplateStatus(None, True, (OTHER,)), "TensorFlow ready"),
        (TemplateStatus(TORCH, False, (READY,)), ""),
        (TemplateStatus(TORCH, True, (OTHER,), "no process"), "PyTorch not loaded"),
        (TemplateStatus(TORCH, True, (READY,), "no process"), "PyTorch ready"),
        (TemplateStatus(TORCH, True, (template(problem="broken"),)), "PyTorch not loaded"),
    ],
)
def test_the_text_is_about_the_next_run(
    label: TemplateLabel, status: TemplateStatus, text: str
) -> None:
    label.show_status(status)
    assert label.text() == text
    assert label.isHidden() is not bool(text)
    assert label.accessibleName() == f"For the next run: {text}"


def test_the_tooltip_tells_of_all(label: TemplateLabel) -> None:
    label.show_status(TemplateStatus(TORCH, True, (READY, OTHER), "no process"))
    assert label.accessibleDescription().splitlines() == [
        sentence("run-starts-at-once-if-framework"),
        "PyTorch ready · 290.0 MiB · pid 4711 · workers: 0",
        "TensorFlow ready · 290.0 MiB · pid 12 · workers: 2",
        "PyTorch: no process.",
        sentence("each-ends-after-minutes-without-run"),
    ]
    assert "pid 4711" in label.toolTip()
    label.show_status(TemplateStatus(TORCH, True, (template(problem="its imports failed"),)))
    assert "its imports failed." in label.accessibleDescription().splitlines()


def test_the_minutes_are_those_of_the_templates() -> None:
    assert IDLE_MINUTES * 60 == IDLE_SECONDS
