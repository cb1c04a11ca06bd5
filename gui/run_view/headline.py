"""The left of the toolbar: the title, state and progress of the watched run."""

from __future__ import annotations

import time
from html import escape

from msgspec.structs import replace
from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QSizePolicy, QVBoxLayout, QWidget

from engine.runs.run_info import RunInfo
from engine.runs.run_state import RunState, RunStatus
from engine.system import units
from gui.bridge.liveness import NO_SILENCE, Silence
from gui.run_view.progress_text import progress_text, silence_text, time_left
from gui.style.state_style import dot, ring, state_colour, state_text
from gui.style.theme import Theme
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.plain_text import Label, wrapped

_DOT = 12
_MIN_PROGRESS_WIDTH = 210
"""Minimum width of the progress bar and the text above it, in logical pixels."""


class RunHeadline(QWidget):
    """A dot, the title and the state on the left; epoch, step and a progress bar on the right."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._info: RunInfo | None = None
        self._silence = NO_SILENCE
        self._dot = Label()
        self.title = ElidedLabel()
        self.title.setObjectName("ttl")
        self.state = Label()
        self.state.setTextFormat(Qt.TextFormat.RichText)  # coloured; its words are escaped
        self.state.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.progress_label = Label()
        self.progress_label.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName(self.tr("Progress of the run"))
        self.progress.setMinimumWidth(_MIN_PROGRESS_WIDTH)
        self.progress.setFixedHeight(6)
        self._lay_out()
        self._clock = QTimer(self)
        self._clock.setInterval(1000)
        self._clock.timeout.connect(self._show_state)
        self._clock.start()
        self.show_info(None)

    def show_info(self, info: RunInfo | None) -> None:
        """Show the newest state of the run; None: there is no run."""
        self._info = info
        status = info.status if info else RunStatus()
        total = status.total_steps
        # The label gets the width of its longest text, so that the toolbar does not move.
        widest = progress_text(replace(status, step=total, epoch=status.epochs))
        width = self.progress_label.fontMetrics().horizontalAdvance(widest)
        self.progress_label.setMinimumWidth(max(_MIN_PROGRESS_WIDTH, width))
        self.progress_label.setText(progress_text(status))
        shift = max(0, total.bit_length() - 31)  # Qt counts in 32 bits
        self.progress.setRange(0, (total >> shift) or 1)
        self.progress.setValue(min(status.step, total) >> shift)
        self.progress.setVisible(info is not None and (bool(total) or not info.state.is_over))
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

    def _show_state(self) -> None:
        """Update title, state and time; the timer calls this every second."""
        info, silence = self._info, self._silence
        if info is None:
            self._dot.clear()
            self._dot.setAccessibleName("")
            self.title.setText(self.tr("No run yet"))
            self.title.setToolTip("")
            self.state.setText(self.tr("Choose what to train on the left, then Start run."))
            self.state.setToolTip("")
            return
        silent = silence.seconds > 0
        colour = self._theme.muted if silent else state_colour(info.state, self._theme)
        self._dot.setPixmap(ring(colour, _DOT) if silent else dot(colour, _DOT))
        self.title.setText(info.title)
        self.title.setToolTip(wrapped(f"{info.title}\n{info.folder}"))
        words = state_text(info)
        parts = [silence_text(silence)] if silent else self._times(info)
        coloured = f'<span style="color:{colour}">{escape(words)}</span>'
        self.state.setText(" · ".join([coloured, *map(escape, parts)]))
        self.state.setToolTip(wrapped(self._explanation(" · ".join([words, *parts]))))
        self._dot.setAccessibleName(parts[0] if silent else words)

    def _times(self, info: RunInfo) -> list[str]:
        """Return the elapsed time and the time left."""
        status, parts = info.status, []
        if status.started and info.state is not RunState.QUEUED:
            end = status.updated if info.state.is_over else time.time()
            parts.append(units.steady_duration(status.seconds(end)))
        if left := time_left(info):
            parts.append(left)
        return parts

    def _explanation(self, line: str) -> str:
        """Return the tooltip: the whole `line`, which may be elided, and its meaning."""
        match self._silence:
            case Silence(seconds=0.0):
                meaning = self.tr(
                    "The time since the start, with pauses; then the time left, without pauses."
                )
            case Silence(workers_only=True):
                meaning = self.tr(
                    "The supervisor works, but the workers have finished no step since then: a "
                    "long step or checkpoint, or a worker that hangs. The figures are old."
                )
            case Silence(halted=pid) if pid:
                meaning = self.tr(
                    "The supervisor, process {pid}, was halted, and answers no command. "
                    "`kill -CONT {pid}` lets it go on. The figures may be old."
                ).format(pid=pid)
            case _:
                meaning = self.tr(
                    "The supervisor is silent: it hangs, or the machine was asleep. The figures "
                    "may be old."
                )
        return f"{line}\n{meaning}"

    def _lay_out(self) -> None:
        run = QVBoxLayout()
        run.setSpacing(0)
        run.addWidget(self.title)
        run.addWidget(self.state)
        progress = QVBoxLayout()
        progress.setSpacing(4)
        progress.addStretch(1)
        progress.addWidget(self.progress_label)
        progress.addWidget(self.progress)
        progress.addStretch(1)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(self._dot)
        layout.addLayout(run, 1)
        layout.addLayout(progress)
