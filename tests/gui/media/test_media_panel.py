"""The tab Media: cards by series, a slider over steps, and images that are read when seen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from engine.messages.events import Event, HistogramLogged, ImageLogged, Rewound
from engine.runs.store.store_reader import StoredEvent
from engine.system import paths
from gui.bridge.background import Background
from gui.bridge.files.media_files import MediaFiles
from gui.media.cards import ImageCard
from gui.media.image_dialog import ImageDialog
from gui.media.media_bar import HISTOGRAMS, IMAGES
from gui.media.media_panel import MOST_CARDS, MediaPanel
from tests.gui.bridge.files.test_media_files import png


@pytest.fixture
def run(traindeck_home: Path) -> Path:
    folder = paths.create_run_folder()
    (folder / "media").mkdir()
    return folder


@pytest.fixture
def files(traindeck_home: Path) -> Iterator[MediaFiles]:
    background = Background()
    yield MediaFiles(background)
    background.finish()


@pytest.fixture
def panel(files: MediaFiles, run: Path, qtbot: QtBot) -> MediaPanel:
    panel = MediaPanel(files)
    qtbot.addWidget(panel)
    panel.resize(900, 300)
    panel.show()
    panel.watch(run.name)
    return panel


def logged(panel: MediaPanel, *events: Event) -> None:
    panel.add_events([StoredEvent(1, 0.0, event) for event in events])


def image(run: Path, step: int, number: int = 0, series: str = "samples") -> ImageLogged:
    file = f"media/{series}-{step}-{number}.png"
    (run / file).write_bytes(png(6, 4))
    return ImageLogged(series, step, file, 6, 4, f"<b>{number}</b> of {step}")


def histogram(step: int, series: str = "weights") -> HistogramLogged:
    return HistogramLogged(series, step, [-1.0, 0.0, 0.5], [3.0, 7.0])


def images(panel: MediaPanel, name: str = "samples") -> ImageCard:
    return panel.cards[IMAGES, name]


def test_without_any_it_says_how_to_log_them(panel: MediaPanel) -> None:
    assert panel.empty.isVisible()
    for word in ("add_image", "add_histogram", "wandb.Image", "traindeck.image"):
        assert word in panel.empty.text()


def test_the_newest_step_is_shown_until_one_is_chosen(panel: MediaPanel, run: Path) -> None:
    logged(panel, image(run, 100))
    assert not panel.empty.isVisible()
    card = images(panel)
    assert not card.slider.isEnabled()
    logged(panel, image(run, 200))
    assert card.note.text().startswith("step 200 · 2 of 2")
    card.slider.setValue(0)
    logged(panel, image(run, 300))
    assert card.note.text().startswith("step 100 · 1 of 3"), "the user looks at it"
    assert card.slider.accessibleDescription() == card.note.text()
    QTest.keyClick(card.slider, Qt.Key.Key_End)
    logged(panel, image(run, 400))
    assert card.note.text().startswith("step 400")


def test_captions_are_shown_as_they_are(panel: MediaPanel, run: Path) -> None:
    logged(panel, image(run, 1))
    card = images(panel)
    assert "<b>0</b> of 1" in card.note.text()
    assert card.note.textFormat() is Qt.TextFormat.PlainText
    assert "&lt;b&gt;" in card.note.toolTip()


def test_only_images_in_sight_are_read(
    panel: MediaPanel, files: MediaFiles, run: Path, qtbot: QtBot
) -> None:
    read: list[str] = []
    files.preview.connect(lambda file, _: read.append(file))
    logged(panel, *(image(run, 1, series=f"s{number:02}") for number in range(30)))
    last, first = images(panel, "s29"), images(panel, "s00")
    qtbot.waitUntil(lambda: "media/s00-1-0.png" in read)
    panel.load_visible()
    qtbot.wait(200)
    assert "media/s29-1-0.png" not in read
    panel.area.verticalScrollBar().setValue(panel.area.verticalScrollBar().maximum())
    qtbot.waitUntil(lambda: "media/s29-1-0.png" in read)
    assert not last.grid.missing()
    assert first.grid.missing(), "what is out of sight keeps no memory"


def test_a_hidden_panel_reads_nothing(
    panel: MediaPanel, files: MediaFiles, run: Path, qtbot: QtBot
) -> None:
    panel.hide()
    with qtbot.assertNotEmitted(files.preview, wait=300):
        logged(panel, image(run, 1))
    with qtbot.waitSignal(files.preview):
        panel.show()


def test_many_series_are_found_by_name_and_another_run_begins_empty(
    panel: MediaPanel, run: Path
) -> None:
    logged(panel, *(histogram(1, f"layer{number}") for number in range(MOST_CARDS + 7)))
    assert "7 more" in panel.more.text()
    panel.bar.search.setText("LAYER126")
    shown = [name for (_, name), card in panel.cards.items() if card.isVisible()]
    assert shown == ["layer126"]
    panel.bar.search.setText("nothing like it")
    assert "No series" in panel.empty.text()
    assert panel.empty.isVisible()
    panel.bar.search.clear()
    logged(panel, image(run, 1))
    panel.watch(None)
    assert panel.cards == {}
    assert panel.empty.isVisible()


def test_kinds_can_be_chosen_where_there_are_both(panel: MediaPanel, run: Path) -> None:
    logged(panel, image(run, 1))
    assert panel.bar.kinds.isHidden()
    logged(panel, histogram(1))
    assert not panel.bar.kinds.isHidden()
    panel.bar.kinds.setCurrentIndex(panel.bar.kinds.findData(HISTOGRAMS))
    assert [key for key, card in panel.cards.items() if card.isVisible()] == [
        (HISTOGRAMS, "weights")
    ]


def test_a_histogram_says_its_numbers_and_goes_over_steps(panel: MediaPanel) -> None:
    logged(panel, *(histogram(step) for step in range(1, 60)))
    card = panel.cards[HISTOGRAMS, "weights"]
    assert "10 values" in card.note.text()
    assert "step 59" in card.ridge.accessibleName()
    before = card.ridge.grab().toImage()
    card.slider.setValue(3)
    assert "step 4 " in card.note.text()
    assert card.ridge.grab().toImage() != before


def test_a_run_that_goes_back_shows_its_older_images(panel: MediaPanel, run: Path) -> None:
    logged(panel, image(run, 1), image(run, 9), histogram(9))
    logged(panel, Rewound(5, "step-5", 1, {}))
    assert images(panel).note.text().startswith("step 1")
    assert "went back" in panel.cards[HISTOGRAMS, "weights"].note.text()


def test_images_are_chosen_and_opened_by_keys(panel: MediaPanel, run: Path, qtbot: QtBot) -> None:
    logged(panel, *(image(run, 1, number) for number in range(4)))
    grid = images(panel).grid
    assert "4 images" in images(panel).note.text()
    QTest.keyClick(grid, Qt.Key.Key_Right)
    assert "Image 2 of 4 at step 1" in grid.accessibleName()
    QTest.keyClick(grid, Qt.Key.Key_Return)
    dialog = next(each for each in panel.findChildren(ImageDialog))
    qtbot.waitUntil(lambda: not dialog.view.image.isNull())
    assert "2 of 4" in dialog.note.text()
    QTest.keyClick(dialog, Qt.Key.Key_PageDown)
    assert "3 of 4" in dialog.note.text()
    dialog.view.set_scale(1.0)
    QTest.keyClick(dialog.view, Qt.Key.Key_Plus)
    assert dialog.view.scale == pytest.approx(1.25)
    QTest.keyClick(dialog.view, Qt.Key.Key_0)
    assert dialog.view.scale > 10, "six pixels fill the view"
    QTest.keyClick(dialog, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().image().width() == 6
    dialog.close()


def test_an_image_that_is_gone_is_said(panel: MediaPanel, run: Path, qtbot: QtBot) -> None:
    logged(panel, ImageLogged("samples", 1, "media/gone.png", 6, 4))
    panel.open_image(images(panel), 0)
    dialog = next(each for each in panel.findChildren(ImageDialog))
    qtbot.waitUntil(lambda: "not there any more" in dialog.note.text())
    dialog.close()
