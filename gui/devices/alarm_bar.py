"""The bar of active alarms above the list of devices: one line, which opens to show every alarm."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QPixmap
from PySide6.QtWidgets import QFrame, QSizePolicy, QToolButton, QWidget

from engine.messages.events import Alarm, AttemptStarted, RunEnded
from engine.runs.run_info import RunInfo
from engine.runs.store.store_reader import StoredEvent
from engine.telemetry.alarms import AlarmKind, Alarms, DeviceAlarm
from engine.telemetry.snapshot import Snapshot
from gui.style.theme import Theme, icon
from gui.widgets.boxes import column_of, row_of
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.layouts.fitting_scroll import FittingScroll
from gui.widgets.plain_text import Label, set_wrapped_tip

_MIN_HEIGHT = 60
"""Minimum height of the opened list (logical pixels) where there is little room."""

_ICON = QSize(14, 14)


class AlarmBar(QFrame):
    """Shows the alarms of all devices, and those that only the watched run can raise."""

    summary = Signal(str, str)
    """What is wrong, in one text of some lines, and the tone of the worst; empty: no alarm."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("card")
        self.setAccessibleName("Alarms")
        self._theme = theme
        self._alarms = Alarms()
        self._run_alarms: dict[str, DeviceAlarm] = {}
        self._run_is_over = False
        self._dismissed: set[tuple[str, float]] = set()
        self._shown: list[DeviceAlarm] = []
        self.lines: list[AlarmLine] = []
        self._icon_label = Label()
        self.heading = ElidedLabel(objectName="note")
        self.open_button = QToolButton()
        self.open_button.setObjectName("quiet")
        self.open_button.setCheckable(True)
        self.open_button.setAccessibleName("Show the alarms in full")
        self.open_button.setToolTip("Show the alarms in full")
        top = row_of(self._icon_label, (self.heading, 1), self.open_button, spacing=6)
        content = QWidget()
        self._column = column_of(parent=content, margins=0, spacing=4)
        self._scroll = FittingScroll(content, _MIN_HEIGHT)
        column_of(top, self._scroll, parent=self, margins=(10, 4, 6, 4), spacing=4)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self.open_button.toggled.connect(self._set_open)
        self._set_open(False)
        self.hide()

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Raise and clear alarms by the newest snapshot."""
        self._alarms.update(snapshot)
        self._show()

    def add_events(self, events: list[StoredEvent]) -> None:
        """Raise and clear the idle alarms of the watched run: a snapshot does not show them."""
        for stored in events:
            match stored.event:
                case Alarm(device, AlarmKind.IDLE, text, raised):
                    alarm = DeviceAlarm(device, AlarmKind.IDLE, text, stored.time)
                    self._run_alarms.pop(alarm.id, None)
                    if raised:
                        self._run_alarms[alarm.id] = alarm
                case AttemptStarted() | RunEnded():
                    self._run_alarms.clear()
                case _:
                    pass
        self._show()

    def show_info(self, info: RunInfo) -> None:
        """Hide the alarms of the watched run once it is over."""
        self._run_is_over = info.state.is_over
        self._show()

    def clear_run(self) -> None:
        """Forget the alarms of the watched run: another run is shown."""
        self._run_alarms.clear()
        self._run_is_over = False
        self._show()

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of `theme`."""
        self._theme = theme
        for line in self.lines:
            line.set_theme(theme)
        self._show_heading()

    def event(self, event: QEvent) -> bool:
        """Draw the icons for the screen that the window has been moved to."""
        if event.type() is QEvent.Type.DevicePixelRatioChange:
            self.set_theme(self._theme)
        return super().event(event)

    def _dismiss(self, alarm: DeviceAlarm) -> None:
        self._dismissed.add((alarm.id, alarm.since))
        self._show()

    def _show(self) -> None:
        """Rebuild the lines if the alarms have changed: errors first, then the oldest."""
        active = [*self._alarms.active, *([] if self._run_is_over else self._run_alarms.values())]
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
            AlarmLine(alarm, self._theme, partial(self._dismiss, alarm)) for alarm in wanted
        ]
        for line in self.lines:
            self._column.addWidget(line)
        self._show_heading()
        self.setVisible(bool(wanted))
        texts = "\n".join(alarm.text for alarm in wanted)
        self.summary.emit(texts, _tone(wanted[0]) if wanted else "")

    def _show_heading(self) -> None:
        """Show the worst alarm as far as it fits, and the number of alarms."""
        if not self._shown:
            return
        worst, count = self._shown[0], len(self._shown)
        text = f"{count} alarms" if count > 1 else worst.text
        is_open = self.open_button.isChecked()
        if count > 1 and not is_open:
            text = f"{text} · {worst.text}"
        self.heading.setText(text)
        set_wrapped_tip(self.heading, "\n".join(alarm.text for alarm in self._shown))
        self.heading.setProperty("tone", _tone(worst))
        self.heading.style().polish(self.heading)
        self._icon_label.setPixmap(_alarm_icon(worst, self._theme, self.devicePixelRatioF()))

    def _set_open(self, is_open: bool) -> None:
        arrow = Qt.ArrowType.UpArrow if is_open else Qt.ArrowType.DownArrow
        self.open_button.setArrowType(arrow)
        self._scroll.setVisible(is_open)
        self._show_heading()


class AlarmLine(QWidget):
    """One alarm: an icon, a sentence, and a button that dismisses it if it may be dismissed."""

    def __init__(self, alarm: DeviceAlarm, theme: Theme, dismiss: Callable[[], None]) -> None:
        super().__init__()
        self.alarm = alarm
        accessible_name = f"Warning: {alarm.text}"
        if alarm.kind.severity == "error":
            accessible_name = f"Error: {alarm.text}"
        self.setAccessibleName(accessible_name)
        self._icon_label = Label()
        self.sentence = Label(alarm.text, objectName="note", wordWrap=True)
        self.sentence.setProperty("tone", _tone(alarm))
        self.sentence.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.sentence.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.dismiss = QToolButton()
        self.dismiss.setText("×")
        self.dismiss.setToolTip("Dismiss: it comes back when it happens again")
        self.dismiss.setAccessibleName("Dismiss this alarm")
        self.dismiss.setVisible(not alarm.kind.is_sticky)
        self.dismiss.clicked.connect(dismiss)
        row = row_of(parent=self, margins=0, spacing=6)
        top = Qt.AlignmentFlag.AlignTop
        row.addWidget(self._icon_label, 0, top)
        row.addWidget(self.sentence, 1)
        row.addWidget(self.dismiss, 0, top)
        self.set_theme(theme)

    def set_theme(self, theme: Theme) -> None:
        """Colour the icon; the style sheet colours the sentence."""
        self._icon_label.setPixmap(_alarm_icon(self.alarm, theme, self.devicePixelRatioF()))


def _tone(alarm: DeviceAlarm) -> str:
    return "bad" if alarm.kind.severity == "error" else "warning"


def _alarm_icon(alarm: DeviceAlarm, theme: Theme, ratio: float) -> QPixmap:
    colour = theme.bad if alarm.kind.severity == "error" else theme.warn
    return icon("warning", colour).pixmap(_ICON, ratio)
