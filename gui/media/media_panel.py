"""The tab Media: a card for each series of images and histograms of the watched run."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, Qt, QTimer
from PySide6.QtGui import QImage, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QStackedWidget, QWidget

from engine.messages.events import Rewound
from engine.runs.store.store_reader import StoredEvent
from gui.bridge.files.media_files import MediaFiles
from gui.media.cards import HEIGHT, HistogramCard, ImageCard, MediaCard
from gui.media.image_dialog import ImageDialog
from gui.media.media_bar import HISTOGRAMS, IMAGES, MediaBar
from gui.media.series import Media
from gui.widgets.boxes import column_of, scrolled
from gui.widgets.layouts.flow_layout import FlowLayout
from gui.widgets.plain_text import Label

MOST_CARDS = 120
"""Cards at one time; the search finds the others."""

_WIDTH = 226
"""Least width of a card in logical pixels."""

_GAP = 6
_SETTLE_MS = 60
_HOW_TO_LOG = (
    "This run has logged no images or histograms.\nA script logs them with "
    "add_image, add_histogram of a SummaryWriter, with wandb.log({…: "
    "wandb.Image(…)}), or with traindeck.image(…), traindeck.histogram(…)."
)


class MediaPanel(QStackedWidget):
    """Shows what was logged beside numbers; images are read only while they are in sight."""

    def __init__(self, files: MediaFiles, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._files = files
        self._media = Media()
        self.cards: dict[tuple[str, str], MediaCard] = {}
        """By kind and name of the series."""

        self.bar = MediaBar()
        self.bar.changed.connect(self._show_cards)
        self.empty = Label(objectName="mut", wordWrap=True)
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.empty.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.more = Label(objectName="note")
        content = QWidget()
        content.setObjectName("content")
        column = column_of(parent=content, margins=(0, 4, 6, 0))
        self._flow = FlowLayout(gap=_GAP)
        column.addLayout(self._flow)
        column.addWidget(self.more)
        column.addStretch(1)
        self.area = scrolled(content, sideways=False)
        self._content = content
        self.addWidget(self.empty)
        self.addWidget(self.area)
        self._settle = QTimer(self, singleShot=True, interval=_SETTLE_MS)
        self._settle.timeout.connect(self.load_visible)
        self.area.verticalScrollBar().valueChanged.connect(lambda _: self._load_soon())
        self.area.viewport().installEventFilter(self)
        files.preview.connect(self._set_preview)
        self.setAccessibleName("Images and histograms")
        self.watch(None)

    def watch(self, run_id: str | None) -> None:
        """Show the run `run_id`, whose events follow."""
        self._files.watch(run_id)
        self._media = Media()
        for card in self.cards.values():
            self._flow.removeWidget(card)
            card.hide()
            card.deleteLater()
        self.cards.clear()
        self._show_cards()

    def add_events(self, events: list[StoredEvent]) -> None:
        """Add images and histograms; after a rewind, drop those after its step."""
        changed: set[str] = set()
        for stored in events:
            if isinstance(stored.event, Rewound):
                self._media.rewind(stored.event.step)
                changed |= {name for _, name in self.cards}
            else:
                changed |= self._media.add([stored.event])
        if not changed:
            return
        for key, card in self.cards.items():
            if key[1] in changed:
                card.update_series()
        self._show_cards()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Fit the cards to the width of the panel."""
        if event.type() == QEvent.Type.Resize:
            self._fit_cards()
            self._load_soon()
        return super().eventFilter(watched, event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._load_soon()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._load_soon()

    def load_visible(self) -> None:
        """Ask for the previews of the cards in sight."""
        seen = QRect(
            self._content.mapFrom(self.area.viewport(), QPoint()), self.area.viewport().size()
        )
        wanted: list[str] = []
        for card in self.cards.values():
            is_visible = self.isVisible() and card.isVisible() and seen.intersects(card.geometry())
            card.set_visible_part(is_visible)
            if isinstance(card, ImageCard):
                for file in card.wanted():
                    known = self._files.known(file)
                    if known is None:
                        wanted.append(file)
                    else:
                        card.set_preview(file, known)
        self._files.want(wanted)

    def open_image(self, card: ImageCard, place: int) -> None:
        """Show an image in its full size."""
        ImageDialog(self._files, card, place, self.window()).open()

    def _show_cards(self) -> None:
        """Make the cards that the search and the choice of kinds ask for."""
        images, histograms = self._media.images, self._media.histograms
        names = [(IMAGES, name) for name in sorted(images)]
        names += [(HISTOGRAMS, name) for name in sorted(histograms)]
        self.bar.show_kinds(bool(images), bool(histograms))
        found = [key for key in names if self.bar.accepts(*key)]
        shown = set(found[:MOST_CARDS])
        for kind, name in found[:MOST_CARDS]:
            if (kind, name) not in self.cards:
                place = sum(names.index(key) < names.index((kind, name)) for key in self.cards)
                card = self.cards[kind, name] = self._card(kind, name)
                self._flow.insert(place, card)
        for key, card in self.cards.items():
            card.setVisible(key in shown)
        hidden = len(found) - len(shown)
        self.more.setVisible(hidden > 0)
        self.more.setText(f"{hidden:,} more series: the search finds them.")
        self.empty.setText("No series has this in its name." if names else _HOW_TO_LOG)
        self.setCurrentWidget(self.area if shown else self.empty)
        self._fit_cards()
        self._load_soon()

    def _card(self, kind: str, name: str) -> MediaCard:
        if kind == HISTOGRAMS:
            return HistogramCard(self._media.histograms[name])
        card = ImageCard(self._media.images[name])
        card.previews_wanted.connect(self._load_soon)
        card.opened.connect(self.open_image)
        return card

    def _fit_cards(self) -> None:
        """Give all cards the width with which they fill the rows."""
        room = self.area.viewport().width() - 6
        columns = max(1, (room + _GAP) // (_WIDTH + _GAP))
        width = max(_WIDTH // 2, (room - (columns - 1) * _GAP) // columns)
        for card in self.cards.values():
            card.setFixedSize(width, HEIGHT)

    def _load_soon(self) -> None:
        if not self._settle.isActive():
            self._settle.start()

    def _set_preview(self, file: str, preview: QImage | str) -> None:
        for card in self.cards.values():
            if isinstance(card, ImageCard):
                card.set_preview(file, preview)
