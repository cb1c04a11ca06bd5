"""The strip of alarms above the devices: what is wrong with which one, until it is over."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from engine.client import RunInfo
from engine.events import Alarm, AttemptStarted, RunEnded
from engine.store_reader import StoredEvent
from engine.telemetry.alarms import AlarmKind, Alarms, DeviceAlarm
from engine.telemetry.snapshot import Snapshot
from gui.theme import Theme, icon

MOST_LINES = 3
"""More alarms than these are a number, with the sentences in its tooltip."""

_ICON = QSize(14, 14)


class AlarmBar(QFrame):
    """Shows the alarms of every device, and of the watched run those that only it can raise."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("card")
        self.setAccessibleName("Alarms")
        self._theme = theme
        self._alarms = Alarms()
        self._of_run: dict[str, DeviceAlarm] = {}
        self._run_is_over = False
        self._dismissed: set[tuple[str, float]] = set()
        self._shown: list[DeviceAlarm] = []
        self.lines: list[AlarmLine] = []
        self.more = QLabel()
        self.more.setObjectName("note")
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(10, 6, 6, 6)
        self._column.setSpacing(4)
        self._column.addWidget(self.more)
        self.hide()

    def take_snapshot(self, snapshot: Snapshot) -> None:
        """Raise and end alarms by the newest figures of all devices."""
        self._alarms.take(snapshot)
        self._show()

    def take_events(self, events: list[StoredEvent]) -> None:
        """Take from the watched run what snapshots do not tell: that its device stands idle."""
        for stored in events:
            match stored.event:
                case Alarm(device, AlarmKind.IDLE, text, raised):
                    alarm = DeviceAlarm(device, AlarmKind.IDLE, text, stored.time)
                    self._of_run.pop(alarm.id, None)
                    if raised:
                        self._of_run[alarm.id] = alarm
                case AttemptStarted() | RunEnded():
                    self._of_run.clear()
                case _:
                    pass
        self._show()

    def show_info(self, info: RunInfo) -> None:
        """A run that is over, or was interrupted, wants nothing from its devices."""
        self._run_is_over = info.state.is_over
        self._show()

    def clear_run(self) -> None:
        """Another run is shown."""
        self._of_run.clear()
        self._run_is_over = False
        self._show()

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of `theme`."""
        self._theme = theme
        for line in self.lines:
            line.set_theme(theme)

    def _dismiss(self, alarm: DeviceAlarm) -> None:
        self._dismissed.add((alarm.id, alarm.since))
        self._show()

    def _show(self) -> None:
        """Make the lines, the worst first and then the oldest, if they are not as they should."""
        active = [*self._alarms.active, *([] if self._run_is_over else self._of_run.values())]
        self._dismissed &= {(alarm.id, alarm.since) for alarm in active}
        wanted = sorted(
            (alarm for alarm in active if (alarm.id, alarm.since) not in self._dismissed),
            key=lambda alarm: (alarm.kind.severity != "error", alarm.since),
        )
        if wanted == self._shown:
            return
        self._shown = wanted
        for line in self.lines:
            self._column.removeWidget(line)
            line.hide()
            line.deleteLater()
        self.lines = [
            AlarmLine(alarm, self._theme, partial(self._dismiss, alarm))
            for alarm in wanted[:MOST_LINES]
        ]
        for number, line in enumerate(self.lines):
            self._column.insertWidget(number, line)
        rest = wanted[MOST_LINES:]
        self.more.setText(f"and {len(rest)} more")
        self.more.setToolTip("\n".join(alarm.text for alarm in rest))
        self.more.setVisible(bool(rest))
        self.setVisible(bool(wanted))


class AlarmLine(QWidget):
    """One alarm: a sign, its sentence, and a button that puts it out of sight if it may go."""

    def __init__(self, alarm: DeviceAlarm, theme: Theme, dismiss: Callable[[], None]) -> None:
        super().__init__()
        self.alarm = alarm
        self.setAccessibleName(f"{alarm.kind.severity.capitalize()}: {alarm.text}")
        self._sign = QLabel()
        self.sentence = QLabel(alarm.text)
        self.sentence.setObjectName("note")
        self.sentence.setProperty("tone", "bad" if alarm.kind.severity == "error" else "warning")
        self.sentence.setTextFormat(Qt.TextFormat.PlainText)
        self.sentence.setWordWrap(True)
        self.sentence.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.sentence.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.dismiss = QToolButton()
        self.dismiss.setText("×")
        self.dismiss.setToolTip("Dismiss: it comes back when it happens again")
        self.dismiss.setAccessibleName("Dismiss this alarm")
        self.dismiss.setVisible(not alarm.kind.is_sticky)
        self.dismiss.clicked.connect(dismiss)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        top = Qt.AlignmentFlag.AlignTop
        row.addWidget(self._sign, 0, top)
        row.addWidget(self.sentence, 1)
        row.addWidget(self.dismiss, 0, top)
        self.set_theme(theme)

    def set_theme(self, theme: Theme) -> None:
        """Colour the sign; the sentence takes its colour from the style sheet."""
        colour = theme.bad if self.alarm.kind.severity == "error" else theme.warn
        ratio = self.devicePixelRatioF()
        self._sign.setPixmap(icon("warning", colour).pixmap(_ICON, ratio))
