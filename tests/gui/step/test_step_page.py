"""The page Step: a replay while it goes on, what it has found, and the next step to ask for."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QToolTip
from pytestqt.qtbot import QtBot

from engine.planning.results import Difference, Doing
from engine.training.probes.step_inspection import (
    Inputs,
    LayerFigures,
    ParameterFigures,
    SampleFigures,
)
from gui.step.layer_table import Column, layers_of
from gui.step.sample_table import pixmap
from gui.step.step_page import StepPage
from gui.style.theme import ThemeController
from tests.support.replayed_step import LAYERS, PARAMETERS, REPLAY, SAMPLES


@pytest.fixture
def page(qtbot: QtBot, qapp: QApplication) -> StepPage:
    ThemeController(qapp)
    page = StepPage()
    qtbot.addWidget(page)
    page.resize(1000, 700)
    page.show()
    page.show_run("12", "flowers")
    return page


def cells(page: StepPage) -> list[list[str]]:
    model = page.samples.model()
    columns = range(model.columnCount())
    return [[str(model.index(row, c).data()) for c in columns] for row in range(model.rowCount())]


def test_a_replay_shows_its_progress_and_can_be_cancelled(page: StepPage, qtbot: QtBot) -> None:
    page.begin(37)
    page.show_doing(Doing("replaying 31 of 47 steps", 31, 47))
    assert (page.progress.value(), page.progress.maximum()) == (31, 47)
    assert not page.replay.isEnabled()
    with qtbot.waitSignal(page.stop_clicked):
        page.stop.click()
    page.end()
    assert page.replay.isEnabled()
    assert not page.progress.isVisible()


def test_what_was_found_is_shown_with_its_evidence(page: StepPage) -> None:
    page.begin(37)
    page.show_replay(REPLAY)
    page.end()
    assert page.answer.text() == REPLAY.inspection.answer
    assert page.picture.isVisible()
    assert page.proof.property("tone") == "good"
    (worst, other) = cells(page)
    assert worst[0] == "812 (img_0812.png)"
    assert worst[2:4] == ["NaN", "NaN"]
    assert other[2] == "2.914"
    assert page.strip.isVisible()
    assert "step 37" in page.strip.accessibleName()


def test_a_click_on_a_title_sorts_the_samples(page: StepPage) -> None:
    large = Inputs(smallest=-4000.0, largest=2e6)
    third = SampleFigures(name="sample 40", rank=0, loss=3.5, inputs=large)
    samples = (*SAMPLES, third)
    page.show_replay(replace(REPLAY, inspection=replace(REPLAY.inspection, samples=samples)))
    header = page.samples.horizontalHeader()
    viewport = header.viewport()

    def order_after_click(column: int) -> list[str]:
        place = QPoint(header.sectionViewportPosition(column) + 20, header.height() // 2)
        QTest.mouseClick(viewport, Qt.MouseButton.LeftButton, pos=place)
        return [row[0].split()[0] for row in cells(page)]

    assert cells(page)[0][4] == "1 NaN/Inf"
    assert cells(page)[2][4] == "-4,000 to 2e+06"
    assert order_after_click(2) == ["812", "40", "5"]
    assert order_after_click(2) == ["5", "40", "812"]
    assert order_after_click(2) == ["812", "5", "40"]
    assert order_after_click(0) == ["5", "40", "812"]
    assert order_after_click(3)[0] == "812"
    assert order_after_click(4)[0] == "812"


def test_a_replay_that_differs_warns_and_may_have_no_tables(page: StepPage) -> None:
    difference = Difference(33, "loss", "1.0", "1.1")
    page.show_replay(replace(REPLAY, equal=6, difference=difference, inspection=None))
    assert page.proof.property("tone") == "warning"
    assert "33" in page.proof.text()
    assert not page.samples.isVisible()
    assert not page.answer.isVisible()


def test_another_step_can_be_asked_for_after_a_refusal(page: StepPage, qtbot: QtBot) -> None:
    page.show_replay(REPLAY)
    page.begin(0)
    assert not page.answer.isVisible()
    assert "37" not in page.title.text() + page.step.text()
    page.show_refusal("Run 12 is of a script.")
    page.end()
    assert "script" in page.message.text()
    assert page.answer.isVisible()
    assert (page.title.text(), page.step.text()) == ("Step 37", "37")
    page.step.setValue(41)
    with qtbot.waitSignal(page.replay_wanted) as wanted:
        page.replay.click()
    assert wanted.args == [41]


def test_enter_in_the_field_asks_once_for_the_step_unless_one_is_replayed(page: StepPage) -> None:
    asked: list[int] = []
    page.replay_wanted.connect(asked.append)
    page.step.selectAll()
    QTest.keyClicks(page.step, "41")
    QTest.keyClick(page.step, Qt.Key.Key_Return)
    assert asked == [41]
    page.begin(41)
    QTest.keyClick(page.step, Qt.Key.Key_Enter)
    assert asked == [41]


def test_an_equal_step_offers_a_fork(page: StepPage, qtbot: QtBot) -> None:
    assert not page.fork.isVisible()
    page.show_replay(REPLAY)
    with qtbot.waitSignal(page.fork_clicked) as forked:
        page.fork.click()
    assert forked.args == [37]
    page.show_replay(replace(REPLAY, difference=Difference(33, "loss", "1.0", "1.1")))
    assert not page.fork.isVisible()


def test_a_click_into_the_strip_asks_for_that_step(page: StepPage, qtbot: QtBot) -> None:
    page.show_replay(REPLAY)
    with qtbot.waitSignal(page.replay_wanted) as wanted:
        right = QPoint(page.strip.width() - 11, page.strip.height() // 2)
        QTest.mouseMove(page.strip, right)
        assert "click" in QToolTip.text()
        QTest.mouseClick(page.strip, Qt.MouseButton.LeftButton, pos=right)
    assert wanted.args == [47]


def test_a_layer_has_the_norms_of_its_parameters_and_a_container_has_no_row() -> None:
    stem, head = layers_of(LAYERS, PARAMETERS)
    assert (stem.name, head.name) == ("stem", "head.fc")
    assert stem.weight == pytest.approx(5.0)
    assert stem.gradient == pytest.approx(0.5)
    assert stem.update == pytest.approx(0.02)
    assert stem.output == pytest.approx(4.8)
    assert head.output is None
    assert math.isnan(head.gradient or 0.0)


def test_the_first_layer_that_is_not_finite_is_in_sight(page: StepPage) -> None:
    page.show_replay(REPLAY)
    assert page.layers.currentIndex().row() == 0
    model = page.layers.model()
    stem, head = model.rows
    assert model.is_odd(stem, Column.LAYER)
    assert model.is_odd(head, Column.GRADIENT)
    assert model.shade(stem, Column.WEIGHT) == 1.0
    assert 0 < model.shade(head, Column.WEIGHT) < 1


def test_a_dead_layer_catches_the_eye_and_no_number_is_cut(page: StepPage) -> None:
    dead = LayerFigures(name="6", kind="ReLU", mean=0.0, smallest=0.0, largest=0.0, not_finite=0.0)
    frozen = ParameterFigures(
        name="stem.weight", weight_norm=123456.0, gradient_norm=0.0, update_norm=0.0
    )
    page.layers.show_layers((LAYERS[0], dead), (frozen,))
    model = page.layers.model()
    stem, relu = model.rows
    marked = {column for column in Column if model.is_odd(relu, column)}
    assert marked == {Column.OUTPUT}
    assert model.is_odd(stem, Column.GRADIENT)
    assert not model.is_odd(stem, Column.WEIGHT)
    assert model.text(relu, Column.LAYER) == "6 ReLU"
    weight = list(Column).index(Column.WEIGHT)
    cell = model.index(0, weight)
    assert "123456.0" in cell.data(Qt.ItemDataRole.ToolTipRole)
    needed = page.layers.fontMetrics().horizontalAdvance(cell.data()) + 2 * 8
    assert page.layers.columnWidth(weight) >= needed


def test_a_picture_keeps_its_pixels() -> None:
    shown = pixmap(SAMPLES[0].inputs.picture, 8)
    image = shown.toImage()
    assert [image.pixelColor(x, 0).red() for x in (0, 7)] == [0, 28]
    assert pixmap(None, 8) is None
