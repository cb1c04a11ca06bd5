"""The toolbar: the watched run, its progress, and buttons for its commands."""

from __future__ import annotations

from typing import NamedTuple

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QAction, QResizeEvent
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QSizePolicy,
    QStackedWidget,
    QToolButton,
    QWidget,
)

from engine.runs.run_info import RunInfo
from engine.runs.run_state import RunState
from engine.spec import catalog
from engine.spec.device_names import all_on_cpu
from engine.spec.run_spec import RunSpec
from gui.bridge.files.script_files import ScriptFacts
from gui.run_view.headline import RunHeadline
from gui.style.theme import Theme, icon
from gui.widgets.boxes import row_of
from gui.widgets.plain_text import plain_tip, set_wrapped_tip, wrapped
from gui.widgets.steady_button import MoreButton, SteadyButton

_TITLE_WIDTH, _REST_WIDTH = 190, 110
"""Logical pixels for the title, and for the gaps, the theme and the dot of the state."""

_COMPACT_WIDTH = 420
"""Width in logical pixels that is enough with icons."""


class AvailableCommands(NamedTuple):
    """The commands that a run accepts in one state."""

    pause: bool = False
    resume: bool = False
    """After a pause."""

    stop: bool = False
    stop_now: bool = False
    """The run is stopping: a second click ends it at once."""

    while_training: bool = False
    """Save a checkpoint, and empty the cache."""


_AVAILABLE = {
    RunState.QUEUED: AvailableCommands(stop=True),
    RunState.STARTING: AvailableCommands(stop=True),
    RunState.RUNNING: AvailableCommands(pause=True, stop=True, while_training=True),
    RunState.PAUSED: AvailableCommands(resume=True, stop=True, while_training=True),
    RunState.STOPPING: AvailableCommands(stop=True, stop_now=True),
}
_NOTHING = AvailableCommands()


class RunControls(QFrame):
    """Shows the watched run, and enables the commands that its state allows."""

    pause_clicked = Signal()
    pause_and_free_clicked = Signal()
    resume_paused_clicked = Signal()
    stop_clicked = Signal()
    resume_clicked = Signal(str)
    """Id of a run that is over and should be resumed: see `ResumeDialogs.resume`."""

    run_again_clicked = Signal(object)
    """RunInfo of a run that should be started again as a new one."""

    checkpoint_clicked = Signal()
    empty_cache_clicked = Signal()
    theme_clicked = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("bar")
        self._theme = theme
        self._info: RunInfo | None = None
        self._facts: ScriptFacts | None = None
        self.headline = RunHeadline(theme)
        resume, pause, again = "Resume", "Pause", "Run again"
        self.pause = SteadyButton(
            (pause, resume, again), "Pause after the current step; the processes keep running"
        )
        self.pause_and_free = QAction("Pause and free the GPUs", self)
        self._free_tip = (
            "Pause after the current step, and move model and optimizer to the host's memory, so "
            "that other processes can use the GPUs."
        )
        self.pause_more = MoreButton("More ways to pause")
        self.pause_more.menu().addAction(self.pause_and_free)
        self._resume_tips = (
            "Continue from the newest checkpoint",
            "Start again from the beginning: there is no checkpoint",
        )
        self.resume = SteadyButton((resume, pause, again), self._resume_tips[0])
        self.resume_more = MoreButton("More ways to resume")
        self._again_tip = "Start a new run with the same settings"
        self.run_again = SteadyButton((again, resume, pause), self._again_tip)
        self.run_again_more = MoreButton("More ways to run it again")
        self._pause_resume_stack = QStackedWidget()
        self.stop = SteadyButton(("Stop", "Stop now"), "")
        self.checkpoint = SteadyButton(("Checkpoint",), "")
        self.empty_cache = SteadyButton(
            ("Empty cache",), "Empty cache: let every worker free its unused memory"
        )
        self._theme_button = QToolButton()
        self._theme_button.setToolTip("Dark or light (Ctrl+Shift+L)")
        self._theme_button.setAccessibleName("Theme")
        self._theme_button.setIconSize(QSize(18, 18))
        self._lay_out()
        self.pause.clicked.connect(self._pause_or_resume)
        self.pause_and_free.triggered.connect(self.pause_and_free_clicked)
        self.stop.clicked.connect(self.stop_clicked)
        self.checkpoint.clicked.connect(self.checkpoint_clicked)
        self.empty_cache.clicked.connect(self.empty_cache_clicked)
        self.resume.clicked.connect(self._resume)
        self.run_again.clicked.connect(self._run_again)
        self._theme_button.clicked.connect(self.theme_clicked)
        self.set_theme(theme)
        self.show_script(None)

    @property
    def info(self) -> RunInfo | None:
        """The run that is shown."""
        return self._info

    def show_script(self, facts: ScriptFacts | None) -> None:
        """Say in the tooltips what the buttons do with a run of a script; None: it is none."""
        self._facts = facts
        stop, save = "Save a checkpoint and end the run", "Save a checkpoint now"
        if facts is not None:
            stop, save = facts.stopping, facts.saving
        set_wrapped_tip(self.stop, f"{stop} (Ctrl+.)")
        set_wrapped_tip(self.checkpoint, f"{save} (Ctrl+S)")
        self.show_info(self._info)

    def show_info(self, info: RunInfo | None) -> None:
        """Show the newest state of the run; None: there is no run."""
        self._info = info
        self.headline.show_info(info)
        self._choose_style()
        focused = QApplication.focusWidget()
        available = _AVAILABLE.get(info.state, _NOTHING) if info else _NOTHING
        self.pause.setText("Resume" if available.resume else "Pause")
        self.pause.setIcon(icon("play-fill" if available.resume else "pause", self._theme))
        self.pause.setEnabled(available.pause or available.resume)
        reason = _free_refusal(info.spec) if info else ""
        self.pause_and_free.setEnabled(available.pause and not reason)
        self.pause_and_free.setToolTip(wrapped(reason or self._free_tip))
        self.pause_more.setEnabled(available.pause)
        stop = "Stop now" if available.stop_now else "Stop"
        if stop != self.stop.text():
            self.stop.setText(stop)
            self.stop.let_settle(keys=self.stop is focused, clicks=self.stop.underMouse())
        self.stop.setEnabled(available.stop)
        self.checkpoint.setEnabled(available.while_training)
        self.empty_cache.setEnabled(available.while_training)
        if _page(info) != self._pause_resume_stack.currentIndex():
            self._pause_resume_stack.setCurrentIndex(_page(info))
            shown = (self.pause, self.resume, self.run_again)[_page(info)]
            shown.let_settle(clicks=self._pause_resume_stack.underMouse())
        begins_again = bool(info and not info.status.checkpoint)
        tip = self._facts.resuming if self._facts else self._resume_tips[begins_again]
        self.resume.setToolTip(plain_tip(tip))
        self.resume.setEnabled(bool(info and info.can_resume))
        is_imported = info is not None and info.spec.is_imported
        self.run_again.setEnabled(not is_imported)
        imported = "This run was imported: it was not trained here"
        self.run_again.setToolTip(plain_tip(imported if is_imported else self._again_tip))
        self._keep_focus(focused)

    def set_theme(self, theme: Theme) -> None:
        """Draw the icons and the dot in the colours of `theme`."""
        self._theme = theme
        for button, name in (
            (self.stop, "stop"),
            (self.checkpoint, "floppy-disk"),
            (self.empty_cache, "broom"),
            (self.resume, "play-fill"),
            (self.run_again, "arrow-clockwise"),
        ):
            button.setIcon(icon(name, theme))
        for more in (self.pause_more, self.resume_more, self.run_again_more):
            more.setIcon(icon("caret-down", theme))
        self._theme_button.setIcon(icon("sun" if theme.name == "dark" else "moon", theme))
        self.headline.set_theme(theme)
        self.show_info(self._info)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Show icons in the place of texts where the strip is narrow."""
        super().resizeEvent(event)
        self._choose_style()

    def minimumSizeHint(self) -> QSize:
        """The size with icons, and a title of some letters."""
        hint = super().minimumSizeHint()
        return QSize(min(hint.width(), _COMPACT_WIDTH), hint.height())

    def _choose_style(self) -> None:
        buttons = (self.stop, self.checkpoint, self.empty_cache)
        pair = self.pause.full_width() + self.pause_more.sizeHint().width()
        texts = pair + sum(button.full_width() for button in buttons)
        needed = texts + self.headline.full_progress_width + _TITLE_WIDTH + _REST_WIDTH
        compact = needed > self.width()
        self.headline.set_compact(compact)
        for button in (self.pause, self.resume, self.run_again, *buttons):
            button.set_compact(compact)

    def _keep_focus(self, focused: QWidget | None) -> None:
        """If the button with the keyboard focus was disabled, move the focus to another button of
        the toolbar: Qt would move it to an arbitrary widget."""
        if focused is None or not self.isAncestorOf(focused):
            return
        if focused.isEnabled() and focused.isVisible():
            return
        for button in (self.resume, self.run_again, self.pause, self.stop):
            if button.isEnabled() and button.isVisible():
                button.setFocus()
                button.let_settle(keys=True)
                return

    def _pause_or_resume(self) -> None:
        if self._info is not None and self._info.state is RunState.PAUSED:
            self.resume_paused_clicked.emit()
        else:
            self.pause_clicked.emit()

    def _resume(self) -> None:
        if self._info is not None:
            self.resume_clicked.emit(self._info.id)

    def _run_again(self) -> None:
        if self._info is not None:
            self.run_again_clicked.emit(self._info)

    def _lay_out(self) -> None:
        for button, more in (
            (self.pause, self.pause_more),
            (self.resume, self.resume_more),
            (self.run_again, self.run_again_more),
        ):
            page = QWidget()
            row_of(button, more, parent=page, margins=0, spacing=2)
            self._pause_resume_stack.addWidget(page)
        fixed = QSizePolicy.Policy.Fixed
        self._pause_resume_stack.setSizePolicy(fixed, fixed)
        layout = row_of((self.headline, 1), parent=self, margins=(6, 0, 4, 0), spacing=8)
        layout.addSpacing(8)
        layout.addWidget(self._pause_resume_stack)
        for button in (self.stop, self.checkpoint, self.empty_cache):
            layout.addWidget(button)
        layout.addWidget(self._theme_button)


def _page(info: RunInfo | None) -> int:
    """Return which of the buttons Pause, Resume and Run again is shown."""
    if info is not None and info.state is RunState.FINISHED:
        return 2
    return int(info is not None and info.can_continue)


def _free_refusal(spec: RunSpec) -> str:
    """Return why a pause of this run cannot free its devices; empty if it can."""
    if all_on_cpu(spec.devices):
        return "This run trains on the CPU: there is no GPU to free."
    try:
        can_free = catalog.strategy(spec.strategy).can_free_devices
    except catalog.UnknownName as error:
        return str(error)
    return "" if can_free else f"{spec.strategy} keeps its model on the GPUs during a pause."
