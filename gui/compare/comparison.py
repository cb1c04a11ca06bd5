"""The comparison: the plots of the chosen runs, and a table of their differences."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from PySide6.QtCore import QSettings, Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QWidget

from engine.runs.best_metrics import BestFigure
from engine.runs.run_info import RunInfo
from gui.bridge.background import Background
from gui.bridge.curves.curve_reader import CurveBatch, CurveNews
from gui.bridge.curves.zoom_reader import ZoomReader
from gui.compare.comparison_plots import ComparisonPlots, RunGroup
from gui.compare.differences import figure_rows, setting_rows
from gui.compare.parting_card import PartingCard
from gui.compare.run_chips import RunChips
from gui.compare.table import ComparisonTable
from gui.plots.data.run_timeline import RunTimeline
from gui.plots.panel.repaint_timer import RepaintTimer
from gui.run_list.chosen_runs import ChosenRuns
from gui.style.theme import Theme
from gui.widgets.boxes import column_of, row_of
from gui.widgets.layouts.stacked_parts import StackedParts, card
from gui.widgets.panel_settings import PanelSettings
from gui.widgets.plain_text import Label

LIVE_MS = 500
"""Interval at which the stores are read."""

_SECONDS_AT_ONCE = 0.008
"""For which curves that were read are added to the plots before the next event."""

MOST_DRAWN = 200
"""Runs with a curve and a column of their own; in means of groups all chosen runs count."""

_SLOW_READING = 40
"""Runs from which the progress of reading is told."""

_HEIGHTS = (300, 200)
"""Of the plots and the table."""


class Comparison(QWidget):
    """Reads the stores of the chosen runs while it is visible."""

    closed = Signal()
    """The user wants to see the single run again."""

    trouble = Signal(str)
    """A sentence: why a run cannot be read."""

    pair_changed = Signal()
    """`pair` may return others now."""

    def __init__(
        self,
        chosen: ChosenRuns,
        background: Background,
        theme: Theme,
        settings: QSettings | None = None,
        parent: QWidget | None = None,
    ) -> None:
        """`settings` keep the layout."""
        super().__init__(parent)
        self._chosen = chosen
        self._theme = theme
        self._infos_by_id: dict[str, RunInfo] = {}
        self._batch = CurveBatch(background, self)
        self._batch.news.connect(self._add_news)
        self._news: deque[CurveNews] = deque()
        self._read_infos: dict[str, RunInfo | None] = {}
        self._read_once: set[str] = set()
        self._is_compact = self._has_groups = False
        self._best: dict[str, Mapping[str, BestFigure]] = {}
        self._trouble: set[str] = set()
        self._timelines: dict[str, RunTimeline] = {}
        self._zoom_readers: dict[str, ZoomReader] = {}
        self._device_names: dict[str, str] = {}
        self._background = background
        self._reported: set[str] = set()
        self.chips = RunChips(theme)
        self.parting = PartingCard()
        self.plots = ComparisonPlots(theme, settings)
        self.table = ComparisonTable(theme)
        self.note = Label(objectName="note")
        """Which runs are drawn if not all are, and how many have been read."""

        self._timer = QTimer(self)
        self._timer.setInterval(LIVE_MS)
        self._timer.timeout.connect(self.poll)
        self._show_more = QTimer(self)  # unlike a posted event, it lets the window paint before
        self._show_more.setSingleShot(True)
        self._show_more.setInterval(0)
        self._show_more.timeout.connect(self._show_some)
        self._build_layout(PanelSettings(settings, "compare"))
        self._frames = RepaintTimer(self.plots.tick, self)
        self.plots.toolbar.x_chosen.connect(self._show_x_kind)
        self.plots.zoom_points_wanted.connect(self._read_zoom_points)
        self.chips.pin_clicked.connect(chosen.pin)
        self.chips.remove_clicked.connect(chosen.toggle)
        self.chips.close_clicked.connect(self.closed)
        chosen.changed.connect(self._update_runs)

    def set_device_names(self, names: Mapping[str, str]) -> None:
        """Set the names of the devices of this machine, by id."""
        self._device_names = dict(names)

    def set_compact(self, compact: bool) -> None:
        """Show only the plots, without toolbar and table, or everything."""
        for widget in (self._head, self._differences, self.plots.toolbar):
            widget.setVisible(not compact)
        self.plots.visibility.grid.set_low(compact)
        self._is_compact = compact
        self._show_chosen()

    def pair(self) -> tuple[RunInfo, ...]:
        """Return the two runs that are compared, the baseline or else the older one first; empty:
        there are more, or they are not compared now."""
        infos = () if self._is_compact else self._infos()
        if len(infos) != 2:
            return ()
        return tuple(sorted(infos, key=lambda i: (i.id != self._chosen.baseline, _number(i.id))))

    def show_runs(self, infos: list[RunInfo]) -> None:
        """Update the known runs."""
        self._infos_by_id = {info.id: info for info in infos}
        if self.isVisible():
            self._show_chosen()

    def show_groups(self, groups: Sequence[RunGroup]) -> None:
        """Show the mean of each of these groups of chosen runs; without any, the runs."""
        before, had_groups = self.colours(), self._has_groups
        self._has_groups = bool(groups)
        self.plots.show_groups(groups)
        if self._has_groups != had_groups:
            self._update_runs()  # in means more runs may count than are drawn
        elif self.isVisible() and self.colours() != before:
            self._show_chosen()

    def colours(self) -> dict[str, int]:
        """Return the colour index of each chosen run: its own, or that of its group."""
        groups = self.plots.group_colours()
        return {run_id: groups.get(run_id, own) for run_id, own in self._chosen.colours().items()}

    @property
    def is_reading(self) -> bool:
        """Whether curves of the chosen runs are still to come."""
        return bool(self._batch.unread or self._news)

    def poll(self) -> None:
        """Read new points and events; a timer calls this. Ended runs are read once."""
        if self._batch.unread:
            return
        wanted = []
        for run_id in self._timelines:
            info = self._infos_by_id.get(run_id)
            is_old = info is not None and info.state.is_over and run_id in self._read_infos
            if (is_old and self._read_infos[run_id] == info) or run_id in self._trouble:
                continue
            wanted.append(run_id)
            self._read_infos[run_id] = info
        self._batch.read(wanted)

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of `theme`."""
        self._theme = theme
        self.plots.set_theme(theme)
        self.table.set_theme(theme)
        self.chips.set_theme(theme)
        self.parting.set_theme()
        self._show_chosen()

    def reset_layout(self) -> None:
        """Reset the layout of plots, toolbar and table."""
        self.plots.reset_layout()
        self._parts.reset()

    def showEvent(self, event: QShowEvent) -> None:
        """Start to follow the chosen runs, or continue."""
        super().showEvent(event)
        self._timer.start()
        self._frames.start()
        self._remove_runs(set(self._trouble))  # they may be readable now
        self._update_runs()

    def hideEvent(self, event: QHideEvent) -> None:
        """Read no more; the displayed curves stay until the comparison is shown again."""
        super().hideEvent(event)
        self._timer.stop()
        self._frames.stop()

    def _update_runs(self) -> None:
        wanted = self._chosen.ids() if self._has_groups else self._drawn()
        self._remove_runs(self._timelines.keys() - set(wanted))
        if not self.isVisible():
            return
        if not self._timelines:
            self.plots.begin()
        for run_id in wanted:
            if run_id not in self._timelines:
                self._timelines[run_id] = RunTimeline()
        self._batch.follow(wanted)
        self._show_chosen()
        self.poll()

    def _drawn(self) -> list[str]:
        """Return the chosen runs with curves of their own: the newest, and the baseline."""
        ids = self._chosen.ids()
        if len(ids) <= MOST_DRAWN:
            return ids
        drawn = set(sorted(ids, key=_number, reverse=True)[:MOST_DRAWN]) | {self._chosen.baseline}
        return [each for each in ids if each in drawn]

    def _add_news(self, news: list[CurveNews]) -> None:
        self._news += news
        self._show_more.start()

    def _show_some(self) -> None:
        """Draw what was read, for a few milliseconds; then the window answers, and goes on."""
        end = time.monotonic() + _SECONDS_AT_ONCE
        while self._news and time.monotonic() < end:
            self._show_news(self._news.popleft())
        self._show_note()
        if self._news:
            self._show_more.start()
            return
        if self._batch.unread:
            return
        self._show_table()

    def _show_news(self, news: CurveNews) -> None:
        run_id = news.run_id
        if run_id not in self._timelines:
            return
        self._read_once.add(run_id)
        if news.is_late:
            self._read_infos.pop(run_id, None)
        if news.trouble:
            self._trouble.add(run_id)
            self._report(run_id, news.trouble)
        if news.events:
            self._timelines[run_id].add_events(list(news.events))
            self._update_x_scales([run_id])
        if news.best is not None:
            self._best[run_id] = news.best
        for update in news.curves:
            self.plots.add_points(run_id, update, news.metric_directions)

    def _remove_runs(self, run_ids: Collection[str]) -> None:
        if not run_ids:
            return
        for run_id in run_ids:
            del self._timelines[run_id]
            self._best.pop(run_id, None)
            self._read_infos.pop(run_id, None)
            if reader := self._zoom_readers.pop(run_id, None):
                reader.watch(None)
                reader.deleteLater()
        for known in (self._trouble, self._reported, self._read_once):
            known.difference_update(run_ids)
        self.plots.remove_runs(run_ids)

    def _show_x_kind(self) -> None:
        self._update_x_scales(self._timelines)

    def _update_x_scales(self, run_ids: Iterable[str]) -> None:
        kind = self.plots.toolbar.x_kind
        self.plots.set_x_scales({each: self._timelines[each].scale(kind) for each in run_ids})

    def _read_zoom_points(self, run_id: str, series: str, first: float, last: float) -> None:
        if run_id not in self._timelines:
            return
        if run_id not in self._zoom_readers:
            reader = self._zoom_readers[run_id] = ZoomReader(self._background, self)
            reader.watch(run_id)
            reader.zoom_points.connect(partial(self.plots.set_zoom_points, run_id))
            reader.trouble.connect(partial(self._report, run_id))
        self._zoom_readers[run_id].request(series, first, last)

    def _report(self, run_id: str, sentence: str) -> None:
        if run_id not in self._reported:
            self._reported.add(run_id)
            self.trouble.emit(sentence)

    def _infos(self) -> list[RunInfo]:
        return [self._infos_by_id[each] for each in self._drawn() if each in self._infos_by_id]

    def _show_chosen(self) -> None:
        infos, baseline = self._infos(), self._chosen.baseline
        if not self._is_compact:
            self.chips.show_runs(infos, self.colours(), baseline)
        self.plots.show_runs(infos, self._chosen.colours(), baseline)
        self._show_table()
        self._show_note()
        self.pair_changed.emit()

    def _show_table(self) -> None:
        if self._is_compact:
            return
        infos, colours = self._infos(), self.colours()
        self.table.show_rows(
            infos,
            [self._theme.curve(colours[info.id]) for info in infos],
            self._chosen.baseline,
            figure_rows(infos, self._best),
            setting_rows(infos, self._device_names),
        )

    def _show_note(self) -> None:
        chosen = len(self._chosen.ids())
        counts = f"{MOST_DRAWN:,} of {chosen:,}"
        text = ""
        if chosen > MOST_DRAWN and not self._has_groups:
            text = f"The newest {counts} chosen runs are drawn."
        elif chosen > MOST_DRAWN and not self._is_compact:
            text = f"The table has the newest {counts} chosen runs; the means are of all."
        sentences = [text]
        done, total = len(self._read_once), len(self._timelines)
        if done < total and total >= _SLOW_READING:
            sentences.append(f"Reading {done:,} of {total:,} runs…")
        self.note.setText(" ".join(filter(None, sentences)))
        self.note.setVisible(bool(self.note.text()))

    def _build_layout(self, settings: PanelSettings) -> None:
        self._head, self._differences = QWidget(), card(self.table, (10, 6, 6, 6))
        self._parts = StackedParts((self.plots, self._differences), _HEIGHTS, (3, 2), settings)
        title = Label("COMPARISON", objectName="h")
        # The title is aligned with the first row of chips.
        title.setFixedHeight(self.chips.close_button.sizeHint().height())
        top = Qt.AlignmentFlag.AlignTop
        row_of((title, 0, top), (self.chips, 1), parent=self._head, margins=0)
        self.note.hide()
        self.parting.hide()
        parts = (self._head, self.parting, self.note, (self._parts, 1))
        column_of(*parts, parent=self, margins=(0, 0, 0, 6), spacing=8)


def _number(run_id: str) -> int:
    """Return the number of a run; the name in an edited settings file may be none."""
    return int(run_id) if run_id.isdecimal() else 0
