"""The bar at the top: which run this is, how far it is, and what can be asked of it now."""

from __future__ import annotations

import time
from html import escape
from typing import NamedTuple

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QMenu,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from engine import catalog
from engine.client import RunInfo
from engine.device_names import is_logical_cpu
from engine.run_state import RunState
from engine.spec import RunSpec
from gui import wording
from gui.fields import wrapped
from gui.progress_text import progress_text, silence_text, time_left
from gui.state_look import dot, ring, state_colour, state_words
from gui.theme import Theme, icon


class Offer(NamedTuple):
    """What can be asked of a run in one state."""

    pause: bool = False
    go_on: bool = False
    """Resume, after a pause."""

    stop: str = ""
    """What the Stop button says; empty: nothing to stop."""

    ask: bool = False
    """Checkpoint and Empty cache."""


_OFFERS = {
    RunState.QUEUED: Offer(stop="Stop"),
    RunState.STARTING: Offer(stop="Stop"),
    RunState.RUNNING: Offer(pause=True, stop="Stop", ask=True),
    RunState.PAUSED: Offer(go_on=True, stop="Stop", ask=True),
    RunState.STOPPING: Offer(stop="Stop now"),
}
_NOTHING = Offer()
_FREE_TIP = (
    "Hold after the current step, with model and optimizer in the host's memory meanwhile: "
    "others may use the GPUs."
)
_TIME_TIP = "Since its first start, pauses included; then the time left, without pauses"
_SILENCE_TIP = (
    "Its supervisor has given no sign: it hangs, it was halted, or the machine was asleep. What is "
    "shown may no longer be true. Stop works as always."
)


class RunControls(QFrame):
    """Shows the watched run and offers what its state allows."""

    pause_clicked = Signal()
    pause_and_free_clicked = Signal()
    resume_paused_clicked = Signal()
    stop_clicked = Signal()
    resume_clicked = Signal(str)
    """Id of a run that is over and should go on from its newest checkpoint."""

    checkpoint_clicked = Signal()
    empty_cache_clicked = Signal()
    theme_clicked = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("bar")
        self._theme = theme
        self._info: RunInfo | None = None
        self._silence = 0.0
        self._dot = QLabel()
        self._title_label = QLabel()
        self._title_label.setObjectName("ttl")
        self._state_label = QLabel()
        self._progress_label = QLabel()
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName("Progress of the run")
        self.pause = _button("Pause", "Hold after the current step; the processes stay")
        self.pause_and_free = QAction("Pause and free the GPUs", self)
        self.pause_more = MoreButton("More ways to pause")
        self.pause_more.menu().addAction(self.pause_and_free)
        self.stop = _button("Stop", "Save a checkpoint and end the run (Ctrl+.)")
        self.checkpoint = _button("Checkpoint", "Save a checkpoint now (Ctrl+S)")
        self.empty_cache = _button("Empty cache", "Let every worker give unused memory back")
        self.resume = _button("Resume", "Go on from the newest checkpoint")
        self.resume_more = MoreButton("More ways to resume")
        self._theme_button = QToolButton()
        self._theme_button.setToolTip("Dark or light (Ctrl+Shift+L)")
        self._theme_button.setAccessibleName("Theme")
        self._theme_button.setIconSize(QSize(18, 18))
        self._lay_out()
        self.pause.clicked.connect(self._pause_or_go_on)
        self.pause_and_free.triggered.connect(self.pause_and_free_clicked)
        self.stop.clicked.connect(self.stop_clicked)
        self.checkpoint.clicked.connect(self.checkpoint_clicked)
        self.empty_cache.clicked.connect(self.empty_cache_clicked)
        self.resume.clicked.connect(self._resume)
        self._theme_button.clicked.connect(self.theme_clicked)
        self._clock = QTimer(self)
        self._clock.setInterval(1000)
        self._clock.timeout.connect(self._show_state)
        self._clock.start()
        self.set_theme(theme)

    def show_info(self, info: RunInfo | None) -> None:
        """Show the run as it is now, or that there is none."""
        self._info = info
        offer = _OFFERS.get(info.state, _NOTHING) if info else _NOTHING
        self.pause.setText("Resume" if offer.go_on else "Pause")
        self.pause.setIcon(icon("play-fill" if offer.go_on else "pause", self._theme))
        self.pause.setEnabled(offer.pause or offer.go_on)
        reason = _why_not_free(info.spec) if info else ""
        self.pause_and_free.setEnabled(offer.pause and not reason)
        self.pause_and_free.setToolTip(wrapped(reason or _FREE_TIP))
        self.pause_more.setEnabled(offer.pause)
        self.stop.setText(offer.stop or "Stop")
        self.stop.setEnabled(bool(offer.stop))
        self.checkpoint.setEnabled(offer.ask)
        self.empty_cache.setEnabled(offer.ask)
        resumable = bool(info and info.state.can_resume and info.status.checkpoint)
        over = bool(info and info.state.is_over)
        self.resume.setVisible(resumable)
        self.resume_more.setVisible(resumable)
        self.pause.setVisible(not resumable)
        self.pause_more.setVisible(not resumable)
        self._progress_label.setText(progress_text(info.status) if info else "")
        total = info.status.total_steps if info else 0
        coarser = max(0, total.bit_length() - 31)  # Qt counts in 32 bits
        self.progress.setRange(0, (total >> coarser) or 1)
        self.progress.setValue(min(info.status.step, total) >> coarser if info else 0)
        self.progress.setVisible(info is not None and (bool(total) or not over))
        self._show_state()

    def show_silence(self, seconds: float) -> None:
        """Grey what may be true no longer: no word for `seconds`; 0: the supervisor is heard."""
        self._silence = seconds
        for widget in (self._progress_label, self.progress):
            widget.setEnabled(not seconds)
        self._show_state()

    @property
    def title(self) -> str:
        """The run's title on display."""
        return self._title_label.text()

    @property
    def state_text(self) -> str:
        """The line with state, time and time left."""
        return self._state_label.text()

    @property
    def progress_text(self) -> str:
        """Epoch and step."""
        return self._progress_label.text()

    def set_theme(self, theme: Theme) -> None:
        """Draw the icons and the dot for `theme`."""
        self._theme = theme
        for button, name in (
            (self.stop, "stop"),
            (self.checkpoint, "floppy-disk"),
            (self.empty_cache, "broom"),
            (self.resume, "arrow-clockwise"),
        ):
            button.setIcon(icon(name, theme))
        for more in (self.pause_more, self.resume_more):
            more.setIcon(icon("caret-down", theme))
        self._theme_button.setIcon(icon("sun" if theme.name == "dark" else "moon", theme))
        self.show_info(self._info)

    def _show_state(self) -> None:
        """The line that changes with the clock also when the run says nothing."""
        info = self._info
        if info is None:
            self._dot.clear()
            self._dot.setAccessibleName("")
            self._title_label.setText("No run yet")
            self._state_label.setText("Choose what to train on the left, then Start run.")
            return
        silent = self._silence > 0
        colour = self._theme.muted if silent else state_colour(info.state, self._theme)
        self._dot.setPixmap(ring(colour, 12) if silent else dot(colour, 12))
        self._title_label.setText(info.title)
        self._title_label.setToolTip(str(info.folder))
        parts = [f'<span style="color:{colour}">{escape(state_words(info))}</span>']
        if silent:
            parts.append(f"{silence_text(self._silence)} ⚠")
            self._state_label.setText(" · ".join(parts))
            self._state_label.setToolTip(wrapped(_SILENCE_TIP))
            self._dot.setAccessibleName(silence_text(self._silence))
            return
        self._dot.setAccessibleName(str(info.state))
        self._state_label.setToolTip(_TIME_TIP)
        status = info.status
        if status.started and info.state is not RunState.QUEUED:
            end = status.updated if info.state.is_over else time.time()
            parts.append(wording.duration(end - status.started))
        if left := time_left(info):
            parts.append(left)
        self._state_label.setText(" · ".join(parts))

    def _pause_or_go_on(self) -> None:
        if self._info is not None and self._info.state is RunState.PAUSED:
            self.resume_paused_clicked.emit()
        else:
            self.pause_clicked.emit()

    def _resume(self) -> None:
        if self._info is not None:
            self.resume_clicked.emit(self._info.id)

    def _lay_out(self) -> None:
        run = QVBoxLayout()
        run.setSpacing(0)
        run.addWidget(self._title_label)
        run.addWidget(self._state_label)
        progress = QVBoxLayout()
        progress.setSpacing(4)
        progress.addStretch(1)
        self._progress_label.setAlignment(Qt.AlignmentFlag.AlignRight)
        progress.addWidget(self._progress_label)
        self.progress.setMinimumWidth(210)
        self.progress.setFixedHeight(6)
        progress.addWidget(self.progress)
        progress.addStretch(1)
        for label in (self._title_label, self._state_label):
            label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(14, 6, 10, 6)
        layout.setSpacing(8)
        layout.addWidget(self._dot)
        layout.addLayout(run, 1)
        layout.addLayout(progress)
        layout.addSpacing(8)
        for button, more in ((self.resume, self.resume_more), (self.pause, self.pause_more)):
            pair = QHBoxLayout()
            pair.setSpacing(2)
            pair.addWidget(button)
            pair.addWidget(more)
            layout.addLayout(pair)
        for button in (self.stop, self.checkpoint, self.empty_cache):
            layout.addWidget(button)
        layout.addWidget(self._theme_button)


class MoreButton(QToolButton):
    """A narrow button beside another one, with a menu of further ways to do the same."""

    def __init__(self, tip: str) -> None:
        super().__init__()
        self.setObjectName("more")
        self.setToolTip(tip)
        self.setAccessibleName(tip)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.setIconSize(QSize(12, 12))
        menu = QMenu(self)
        menu.setToolTipsVisible(True)
        self.setMenu(menu)


def _button(text: str, tip: str) -> QPushButton:
    button = QPushButton(text)
    button.setToolTip(tip)
    return button


def _why_not_free(spec: RunSpec) -> str:
    """Why a pause of this run cannot free its devices, in a sentence; empty when it can."""
    if all(is_logical_cpu(device) for device in spec.devices):
        return "This run trains on the CPU: there is no GPU to free."
    try:
        can_free = catalog.strategy(spec.strategy).can_free_devices
    except catalog.UnknownName as error:
        return str(error)
    return "" if can_free else f"{spec.strategy} keeps its model on the GPUs during a pause."
