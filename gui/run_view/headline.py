"""The left of the toolbar: the title, state and progress of the watched run."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from msgspec.structs import replace
from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import (
    QColor,
    QGuiApplication,
    QLinearGradient,
    QPainter,
    QPaintEvent,
    QTextDocumentFragment,
)
from PySide6.QtWidgets import QProgressBar, QSizePolicy, QWidget

from engine.runs.run_info import RunInfo
from engine.runs.run_state import RunState, RunStatus
from engine.system import units
from gui.bridge.environments import python_text
from gui.bridge.liveness import NO_SILENCE, Silence
from gui.bridge.machines.machines import now_of
from gui.run_view.progress_text import progress_text, short_progress, silence_text, time_left
from gui.style.state_marks import state_pixmap
from gui.style.state_style import is_hung, marked_state, state_colour, state_text
from gui.style.theme import Theme, theme_of
from gui.widgets.boxes import STRETCH, column_of, row_of
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.plain_text import Label, plain_tip, set_wrapped_tip

PROGRESS_WIDTH, _SHORT_PROGRESS_WIDTH = 210, 96
"""Minimum width of the progress bar and the text above it, in logical pixels."""


_BETWEEN = " · "
_FADE = 24
"""Logical pixels over which a state that does not fit fades out."""


class _StateLine(Label):
    """Shows as many whole parts as fit; a first one that does not fit fades out. The whole text is
    in its tooltip."""

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.sizeHint().width() <= self.width():
            return
        ground = QColor(theme_of(QGuiApplication.palette()).card)
        if shown := self.whole_width():
            QPainter(self).fillRect(self.rect().adjusted(shown, 0, 0, 0), ground)
            return
        right = self.rect().adjusted(self.width() - _FADE, 0, 0, 0)
        clear = QColor(ground)
        clear.setAlpha(0)
        fade = QLinearGradient(right.topLeft(), right.topRight())
        fade.setColorAt(0.0, clear)
        fade.setColorAt(1.0, ground)
        QPainter(self).fillRect(right, fade)

    def whole_width(self) -> int:
        """Return the width in logical pixels of the parts that fit; 0 if none does."""
        parts = QTextDocumentFragment.fromHtml(self.text()).toPlainText().split(_BETWEEN)
        widths = (
            self.fontMetrics().horizontalAdvance(_BETWEEN.join(parts[:count])) + 1
            for count in range(1, len(parts) + 1)
        )
        return max((width for width in widths if width <= self.width()), default=0)


class RunHeadline(QWidget):
    """A dot, the title and the state on the left; epoch, step and a progress bar on the right."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._info: RunInfo | None = None
        self._python = ""
        """Which Python the run uses, if it is another one than Traindeck's."""

        self._python_of: tuple[str, int] | None = None
        self._silence = NO_SILENCE
        self._is_compact = self._is_reading = False
        self._dot = Label()
        self.title = ElidedLabel(Qt.TextElideMode.ElideMiddle, objectName="ttl")
        self.state = _StateLine()
        self.state.setTextFormat(Qt.TextFormat.RichText)  # coloured; its words are escaped
        self.state.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.progress_label = Label()
        self.progress_label.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName("Progress of the run")
        self.progress.setFixedHeight(6)
        self._lay_out()
        self._clock = QTimer(self, interval=1000)
        self._clock.timeout.connect(self._show_state)
        self._clock.start()
        self.show_info(None)

    def show_info(self, info: RunInfo | None) -> None:
        """Show the newest state of the run; None: there is no run."""
        self._info = info
        status = info.status if info else RunStatus()
        of = (str(info.folder), status.attempt) if info else None
        if of != self._python_of:  # its files change with an attempt only
            self._python, self._python_of = python_text(info) if info else "", of
        total = status.total_steps
        self._show_progress(status)
        shift = max(0, total.bit_length() - 31)  # Qt counts in 32 bits
        self.progress.setRange(0, (total >> shift) or 1)
        self.progress.setValue(min(status.step, total) >> shift)
        self.progress.setVisible(self._has_bar)
        self._show_state()

    def set_reading(self, reading: bool) -> None:
        """While a run is being looked for or read, do not say that there is none."""
        self._is_reading = reading
        self._show_state()

    def show_silence(self, silence: Silence) -> None:
        """Grey the old figures, and show how long the run has been silent."""
        self._silence = silence
        for widget in (self.progress_label, self.progress):
            widget.setEnabled(not silence.seconds)
        self._show_state()

    def set_theme(self, theme: Theme) -> None:
        """Draw the dot in the colours of `theme`."""
        self._theme = theme
        self._show_state()

    def set_compact(self, compact: bool) -> None:
        """Show the progress in few words on little room."""
        if compact != self._is_compact:
            self._is_compact = compact
            self._show_progress(self._info.status if self._info else RunStatus())

    @property
    def full_progress_width(self) -> int:
        """The width of the progress in all its words, in logical pixels."""
        return self._progress_width(progress_text, PROGRESS_WIDTH)

    @property
    def _has_bar(self) -> bool:
        """Whether there is progress to draw: a script may never say how many steps there are, and
        what a run waits for needs the room of an empty bar."""
        if self._info is None:
            return False
        status, state = self._info.status, self._info.state
        is_empty = not (status.step or state.is_over or state is RunState.QUEUED)
        return bool(status.total_steps) or is_empty

    def _show_progress(self, status: RunStatus) -> None:
        words, least = progress_text, PROGRESS_WIDTH
        if self._is_compact:
            words, least = short_progress, _SHORT_PROGRESS_WIDTH
        width = self._progress_width(words, least) if self._info else 0
        self.progress_label.setMinimumWidth(width)
        self.progress.setMinimumWidth(width)
        self.progress_label.setText(words(status))
        self.progress_label.setToolTip(plain_tip(progress_text(status)))

    def _progress_width(self, words: Callable[[RunStatus], str], least: int) -> int:
        """The width of the longest text, so that the strip does not move while the run goes on."""
        status = self._info.status if self._info else RunStatus()
        widest = words(status)
        if self._info is None or not self._info.state.is_over:
            widest = words(replace(status, step=status.total_steps, epoch=status.epochs))
        return max(
            least if self._has_bar else 0,
            self.progress_label.fontMetrics().horizontalAdvance(widest),
        )

    def _show_state(self) -> None:
        """Update title, state and time; the timer calls this every second."""
        info, silence = self._info, self._silence
        if info is None:
            self._dot.clear()
            self._dot.setAccessibleName("")
            none, what_to_do = ("No run yet", "Choose what to train, then Start run.")
            self.title.setText("" if self._is_reading else none)
            set_wrapped_tip(self.title, "")
            text = "Reading the run…" if self._is_reading else what_to_do
            self.state.setText(escape(text))
            set_wrapped_tip(self.state, text)
            return
        silent = silence.seconds > 0
        is_uncertain = silent and not is_hung(info)  # that one hangs is certain
        colour = self._theme.muted if is_uncertain else state_colour(info, self._theme)
        self._dot.setPixmap(state_pixmap(None if is_uncertain else marked_state(info), colour))
        self.title.setText(info.title)
        facts = [info.title, str(info.folder)]
        if self._python:
            facts.append(f"Python: {self._python}")
        set_wrapped_tip(self.title, "\n".join(facts))
        words = state_text(info)
        parts = [silence_text(silence)] if silent else self._times(info)
        coloured = f'<span style="color:{colour}">{escape(words)}</span>'
        self.state.setText(_BETWEEN.join([coloured, *map(escape, parts)]))
        set_wrapped_tip(self.state, self._explanation(_BETWEEN.join([words, *parts])))
        self._dot.setAccessibleName(parts[0] if silent else words)

    def _times(self, info: RunInfo) -> list[str]:
        """Return the elapsed time and the time left."""
        status, parts = info.status, []
        if status.started and info.state is not RunState.QUEUED:
            end = status.updated if info.state.is_over else now_of(info)
            parts.append(units.steady_duration(status.seconds(end)))
        if left := time_left(info):
            parts.append(left)
        return parts

    def _explanation(self, line: str) -> str:
        """Return the tooltip: the whole `line`, which may be elided, and its meaning."""
        match self._silence:
            case Silence(seconds=0.0):
                meaning = (
                    "The time since the start, with pauses; then the time left, without pauses."
                )
            case Silence(workers_only=True):
                meaning = (
                    "The supervisor works, but the workers have finished no step since then: a "
                    "long step or checkpoint, or a worker that hangs. The figures are old."
                )
            case Silence(machine=machine) if machine:
                meaning = (
                    f"The connection to {machine} is slow or broken. The run may go on "
                    "there; the figures are old."
                )
            case Silence(halted=pid) if pid:
                meaning = (
                    f"The supervisor, process {pid}, was halted, and answers no command. "
                    f"`kill -CONT {pid}` lets it go on. The figures may be old."
                )
            case _:
                meaning = (
                    "The supervisor is silent: it hangs, or the machine was asleep. The figures "
                    "may be old."
                )
        return f"{line}\n{meaning}"

    def _lay_out(self) -> None:
        run = column_of(self.title, self.state, spacing=0)
        progress = column_of(STRETCH, self.progress_label, self.progress, STRETCH, spacing=4)
        row_of(self._dot, (run, 1), progress, parent=self, margins=0, spacing=8)
