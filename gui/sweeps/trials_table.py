"""The table of a sweep's trials: sorted by any column, and filtered by the parallel coordinates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtGui import QAction, QColor, QGuiApplication, QIcon, QKeyEvent
from PySide6.QtWidgets import QWidget

from engine.spec.field_info import Setting
from engine.sweeps.ranges import Interval, Range
from engine.sweeps.study import TrialResult
from engine.sweeps.sweep import Sweep
from gui.bridge.machines.machines import place_of
from gui.style.state_marks import state_icon
from gui.style.theme import theme_of
from gui.sweeps.axes import result_title, short, title_of
from gui.sweeps.trial_texts import colour_of, mark_of, state_word
from gui.widgets.plain_text import plain_tip
from gui.widgets.table import BEST, LEFT, RIGHT, Table, TableModel

_ROW_HEIGHT = 25
_WIDTHS = {"number": 60, "run": 88, "state": 104, "value": 124, "reason": 80}
_WIDTH = 112


class TrialsModel(TableModel[TrialResult, str]):
    """Columns: number, run, state, result, one for each setting, and the reason of a failure."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.trials: Sequence[TrialResult] = ()
        self.best = self._starred = -1
        self.sorted_by = "number"
        self.titles: dict[str, str] = {}
        self.passing: frozenset[int] | None = None
        """The trials that are shown; None: all."""

        self._numeric: frozenset[str] = frozenset()
        """The columns of settings whose values are all numbers."""

        self._icons: dict[tuple[str, str], QIcon] = {}

    def show_trials(self, sweep: Sweep | None, trials: Sequence[TrialResult], best: int) -> bool:
        """Show these trials; return whether the columns are others than before."""
        titles = {"number": "Trial", "run": "Run", "state": "State"}
        if sweep is not None:
            titles["value"] = result_title(sweep)
            titles |= {f"setting {name}": title_of(sweep, name) for name in sweep.ranges}
        titles["reason"] = "Reason"
        numeric = _numeric(sweep.ranges) if sweep else frozenset()
        is_new = (titles, numeric) != (self.titles, self._numeric)
        self.trials, self.best = trials, best
        if is_new:
            self.beginResetModel()
            self.titles, self.columns, self._numeric = titles, list(titles), numeric
            if self.sorted_by not in titles:
                self.sorted_by, self.descending = "number", False
            self.rows, self._starred = self._arranged(), best
            self.endResetModel()
        else:
            self._rearrange()
        return is_new

    def filter(self, passing: frozenset[int] | None) -> None:
        """Show only the trials with these numbers; None: all."""
        self.passing = passing
        self._rearrange()

    def sort_by(self, column: int) -> None:
        """Sort by a column; by the same one again, the other way round."""
        name = self.columns[column]
        self.show_sort(name, descending=name == self.sorted_by and not self.descending)
        self._rearrange()

    def row_of(self, number: int) -> int:
        """Return the row of a trial; -1: it is not shown."""
        rows = (row for row, each in enumerate(self.rows) if each.number == number)
        return next(rows, -1)

    def title(self, name: str) -> str:
        """Return the title of a column."""
        return self.titles[name]

    def tip(self, trial: TrialResult, name: str) -> str:
        """Return why a trial has failed, or the text of the cell."""
        return plain_tip(trial.reason or self.text(trial, name))

    def alignment(self, name: str) -> Qt.AlignmentFlag:
        """Return where the texts of a column stand."""
        return RIGHT if name == "value" or name in self._numeric else LEFT

    def look(self, trial: TrialResult, name: str, role: int) -> object:
        """Return the mark of a state, and the colour of a text."""
        match role:
            case Qt.ItemDataRole.DecorationRole if name == "state":
                return self._icon(trial.state)
            case Qt.ItemDataRole.ForegroundRole:
                return self._colour(trial, name)
        return None

    def text(self, trial: TrialResult, name: str) -> str:
        """Return the text of a cell."""
        match name:
            case "number":
                return str(trial.number)
            case "run":
                machine, _ = place_of(trial.run)
                return trial.run if machine else f"#{trial.run}" if trial.run else "–"
            case "state":
                return state_word(trial.state)
            case "value":
                text = "–" if trial.value is None else f"{trial.value:.5g}"
                return f"{BEST}{text}" if trial.number == self.best else text
            case "reason":
                return trial.reason
        value = trial.settings.get(name.removeprefix("setting "))
        return "–" if value is None else short(value)

    def _icon(self, state: str) -> QIcon:
        theme = theme_of(QGuiApplication.palette())
        key = theme.name, state
        if key not in self._icons:
            self._icons[key] = state_icon(mark_of(state), colour_of(state, theme))
        return self._icons[key]

    def _colour(self, trial: TrialResult, name: str) -> QColor | None:
        theme = theme_of(QGuiApplication.palette())
        if name == "state":
            return QColor(colour_of(trial.state, theme))
        if name == "value" and trial.number == self.best:
            return QColor(theme.warn)
        return QColor(theme.muted) if name in ("number", "reason") else None

    def _rearrange(self) -> None:
        """Show the trials in their order; the current row goes along with its trial."""
        rows = self._arranged()
        if [each.number for each in rows] == [each.number for each in self.rows]:
            if rows and (rows != self.rows or self.best != self._starred):
                # The star has left a row that is as it was, so all rows are painted again.
                self.rows, self._starred = rows, self.best
                self.report_changes()
            return
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        numbers = [self.rows[each.row()].number for each in before]
        self.rows, self._starred = rows, self.best
        places = {each.number: row for row, each in enumerate(rows)}
        after = [
            self.index(places[number], old.column()) if number in places else QModelIndex()
            for number, old in zip(numbers, before, strict=True)
        ]
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()

    def _arranged(self) -> list[TrialResult]:
        passing = self.passing
        found = [each for each in self.trials if passing is None or each.number in passing]
        name = self.sorted_by
        there = [each for each in found if _value(each, name) is not None]
        there.sort(key=lambda each: _key(_value(each, name)), reverse=self.descending)
        return there + [each for each in found if _value(each, name) is None]


class TrialsTable(Table):
    """Return, or a double click, opens the run of a trial."""

    opened = Signal(str)
    """Id of a run."""

    pointed = Signal(int)
    """Number of the trial of the current row; -1: none."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Trials", _ROW_HEIGHT, parent)
        self.trials = TrialsModel(self)
        self.setModel(self.trials)
        self.setObjectName("trials")
        self.setAccessibleDescription("Return opens the run of a trial")
        header = self.horizontalHeader()
        header.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        header.setSectionsClickable(True)
        header.setStretchLastSection(True)
        header.sectionClicked.connect(self.trials.sort_by)
        self.doubleClicked.connect(lambda index: self._open(index.row()))
        self.selectionModel().currentRowChanged.connect(self._point)
        self.copy = self.add_copy("Copy the table")
        self.sort = QAction("Sort by this column", self)
        self.sort.triggered.connect(self._sort_by_current)
        self.addAction(self.sort)

    def show_trials(self, sweep: Sweep | None, trials: Sequence[TrialResult], best: int) -> None:
        """Show these trials; `best` is the number of the best one, -1: there is none."""
        if self.trials.show_trials(sweep, trials, best):
            for place, name in enumerate(self.trials.columns):
                self.setColumnWidth(place, _WIDTHS.get(name, _WIDTH))

    def point_to(self, number: int) -> None:
        """Make the row of a trial the current one, without moving the keyboard focus."""
        row = self.trials.row_of(number)
        if row >= 0 and row != self.currentIndex().row():
            self.selectRow(row)
            self.scrollTo(self.trials.index(row, 0))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Open with Return."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.currentIndex().isValid():
            self._open(self.currentIndex().row())
        else:
            super().keyPressEvent(event)

    def _sort_by_current(self) -> None:
        self.trials.sort_by(max(0, self.currentIndex().column()))

    def _open(self, row: int) -> None:
        if run := self.trials.rows[row].run:
            self.opened.emit(run)

    def _point(self, now: QModelIndex, _before: QModelIndex) -> None:
        self.pointed.emit(self.trials.rows[now.row()].number if now.isValid() else -1)


def _numeric(ranges: Mapping[str, Range]) -> frozenset[str]:
    return frozenset(
        f"setting {name}"
        for name, values in ranges.items()
        if isinstance(values, Interval) or {type(each) for each in values.values} <= {int, float}
    )


def _value(trial: TrialResult, name: str) -> Setting | None:
    match name:
        case "number":
            return trial.number
        case "run":
            _, number = place_of(trial.run)
            return int(number) if number.isdecimal() else None
        case "state":
            return trial.state
        case "reason":
            return trial.reason or None
        case "value":
            return None if trial.value is None or math.isnan(trial.value) else trial.value
    return trial.settings.get(name.removeprefix("setting "))


def _key(value: Setting | None) -> tuple[int, float, str]:
    """Numbers come before texts."""
    return (1, 0.0, value.casefold()) if isinstance(value, str) else (0, float(value or 0), "")
