"""The page with all runs: the comparison's plots, the filter, and the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QPoint, QSettings, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QGuiApplication, QKeySequence, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QComboBox, QMenu, QPushButton, QToolButton, QWidget

from engine.runs.run_info import RunInfo, UnreadableRun
from engine.runs.table.arrangement import grouped
from engine.runs.table.columns import Column, Part, Value
from engine.runs.table.csv_text import csv_of
from gui.bridge.background import Background, Reading
from gui.bridge.curves.small_curves import SmallCurves
from gui.bridge.files.export_file import write_bytes
from gui.compare.comparison import Comparison
from gui.compare.comparison_plots import DEVIATION, RunGroup
from gui.run_list.chosen_runs import ChosenRuns
from gui.runs_table.arrangement import Arranged, GroupRow, Query, arrange, group_heading, is_curve
from gui.runs_table.cell_texts import group_name, header_text
from gui.runs_table.column_choice import ColumnChoice
from gui.runs_table.filter_line import FilterLine, Problem
from gui.runs_table.table_view import RunsTableView
from gui.style.theme import Theme, icon
from gui.widgets.boxes import column_of, row_of
from gui.widgets.layouts.stacked_parts import StackedParts, card
from gui.widgets.panel_settings import PanelSettings
from gui.widgets.plain_text import Label, plain_tip
from gui.widgets.save_dialog import ask_where_to_save
from gui.widgets.steady_button import let_go_of_menu

_HEIGHTS = (250, 420)
"""Of the plots and the table."""

_CURVES_PAUSE_MS = 80
"""After scrolling, before the small curves in sight are read."""

_GROUP_LETTERS = 9
_MOST_REASONS = 10
_LEAST_WIDTH = 560
_NARROWEST = 740
_VERY_NARROW = 900
_NARROW = 1000
"""Below this width (logical pixels) the words before the choices are left out."""


class RunsPage(QWidget):
    """Filters, sorts and groups in the background; the runs come with `show_runs`."""

    opened = Signal(str)
    """Id of the run that the window should show."""

    notes_wanted = Signal(list)
    """list[RunInfo]: the user wants to tag them, or to write notes on them."""

    delete_wanted = Signal(list)
    """list[RunInfo]."""

    export_wanted = Signal(list)
    """list[RunInfo]."""

    import_wanted = Signal()

    comparing_changed = Signal(bool)
    """Whether the differences of the chosen runs are shown in the place of the table."""

    message = Signal(str)
    """A sentence for the status bar."""

    def __init__(
        self,
        chosen: ChosenRuns,
        comparison: Comparison,
        background: Background,
        theme: Theme,
        settings: QSettings | None = None,
        parent: QWidget | None = None,
    ) -> None:
        """`settings` keep the columns, the order, the groups and the filter."""
        super().__init__(parent)
        self._chosen = chosen
        self.comparison = comparison
        self._background = background
        self._settings = PanelSettings(settings, "runs")
        self._infos: Sequence[RunInfo] = ()
        self._is_listed = False
        self._unreadable: list[UnreadableRun] = []
        self._device_names: Mapping[str, str] = {}
        self._query = self._restored()
        self._arranging = Reading(background, self._show)
        self._is_old = False
        self.is_comparing = False
        self._curves = SmallCurves(background, self)
        self.table = RunsTableView(self._curves.get, theme)
        self._curves.arrived.connect(self.table.viewport().update)
        self._curves.arrived.connect(self._want_curves)
        self._curves_pause = QTimer(self, singleShot=True, interval=_CURVES_PAUSE_MS)
        self._curves_pause.timeout.connect(self._want_curves)
        self.filter = FilterLine()
        self.filter.setText(self._query.filter)
        self.count = Label("Reading the runs…")
        self.group = QComboBox()
        self.bands = QPushButton("Mean ± sd")
        self.columns = QPushButton()
        self.selected = Label()
        self.compare = QPushButton("Compare")
        self.tag = QPushButton("Tag…")
        self.csv = QPushButton("CSV")
        self.more = QToolButton()
        self.problem = Problem(self)
        self._words = (Label("Group"), Label("Columns"))
        self._prepare(theme)
        self._add_actions()
        self._build_layout()
        self._connect()
        self._restore_layout()
        self._show_choice()

    def show_runs(self, infos: list[RunInfo]) -> None:
        """Update the runs, newest first."""
        if infos is not self._infos:
            self._infos, self._is_listed = infos, True
            self.arrange_soon()

    def show_unreadable(self, runs: Sequence[UnreadableRun]) -> None:
        """Say how many runs cannot be read, and why: they are in no row."""
        if list(runs) != self._unreadable:
            self._unreadable = list(runs)
            self._show_count()

    def set_device_names(self, names: Mapping[str, str]) -> None:
        """Set the names of the devices of this machine, by id."""
        if names != self._device_names:
            self._device_names = dict(names)
            self.arrange_soon()

    def set_theme(self, theme: Theme) -> None:
        """Draw icons in the colours of `theme`; the table follows the palette."""
        self.csv.setIcon(icon("floppy-disk", theme))
        self.more.setIcon(icon("dots-three-vertical", theme.muted))
        self.search_icon.setPixmap(icon("magnifying-glass", theme.muted).pixmap(QSize(16, 16)))
        self.table.set_theme(theme)

    def set_comparing(self, comparing: bool) -> None:
        """Show what differs between the chosen runs in the place of the table, or the table."""
        comparing = comparing and len(self._chosen.ids()) > 1
        if comparing == self.is_comparing:
            return
        self.is_comparing = comparing
        self.comparison.plots.setUpdatesEnabled(False)  # it gets its size in several steps
        QTimer.singleShot(0, self.comparison.plots, self._show_plots)
        self._lower.setVisible(not comparing)
        self.comparison.set_compact(not comparing)
        self._show_choice()
        self.comparing_changed.emit(comparing)
        if not comparing:
            self.table.setFocus()

    def _show_plots(self) -> None:
        self.comparison.plots.setUpdatesEnabled(True)

    def reset_layout(self) -> None:
        """Show the usual columns with the usual widths, and the usual height of the plots."""
        self.table.widths.clear()
        self._usual_columns()
        self._parts.reset()
        self._settings.remove("widths")
        self.bands.setChecked(False)
        self._settings.remove("bands")

    def arrange_soon(self) -> None:
        """Compute the rows anew in the background; while the page is hidden, when it is shown."""
        self._is_old = not (self.isVisible() and self._is_listed)
        if not self._is_old:
            self._arranging.ask(partial(arrange, self._infos, self._query, self._device_names))

    @property
    def is_arranging(self) -> bool:
        """Whether rows are being computed."""
        return self._arranging.is_busy

    def targets(self) -> list[RunInfo]:
        """Return the runs for an action: the chosen ones, otherwise that of the current row."""
        chosen = set(self._chosen.ids())
        current = self.table.current_run()
        found = [info for info in self._infos if info.id in chosen]
        return found or ([current] if current else [])

    def csv_text(self) -> str:
        """Return the shown runs with the shown columns, in their order, with exact values."""
        return csv_of(self.table.runs.arranged.shown, self._exported_columns())

    @property
    def waits_for_scrolling(self) -> bool:
        """Whether the small curves in sight will be read when the user has scrolled enough."""
        return self._curves_pause.isActive() and self.isVisible()

    def showEvent(self, event: QShowEvent) -> None:
        """Compute what has changed meanwhile, and read the small curves in sight."""
        super().showEvent(event)
        if self._is_old:
            self.arrange_soon()
        self._curves_pause.start()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave words out where there is no room for them."""
        super().resizeEvent(event)
        for word in (*self._words, self.search_icon):
            word.setVisible(self.width() >= _NARROW)
        self._name_choices()
        for widget in (self.selected, self.tag, self.csv):  # the menu has the same
            widget.setVisible(self.width() >= _VERY_NARROW)
        self.columns.setVisible(self.width() >= _NARROWEST)  # so it has these
        self._show_count()
        self.problem.place(self.filter)
        self._curves_pause.start()

    def minimumSizeHint(self) -> QSize:
        """Narrower than the whole bar, parts of which go where there is no room."""
        return QSize(_LEAST_WIDTH, super().minimumSizeHint().height())

    def _show(self, arranged: Arranged) -> None:
        if arranged.problem is None:
            self._query = self._query._replace(valid_filter=arranged.filter)
        self.table.show_sort(self._query.sort, descending=self._query.descending)
        self.table.show_rows(arranged)
        self.filter.set_known(
            {name: each for name, each in arranged.columns.items() if not is_curve(each)},
            self._infos,
        )
        self.filter.show_problem(arranged.problem)
        self.problem.show_text(str(arranged.problem or ""), self.filter)
        self._show_count()
        self._fill_groups(arranged)
        self._name_choices()
        self._show_groups()
        self._curves_pause.start()

    def _show_count(self) -> None:
        if not self._is_listed:
            return
        arranged = self.table.runs.arranged
        count, total = len(arranged.shown), arranged.total
        some = f"{count:,} of {total:,} runs"
        every = f"{total:,} runs"
        parts = [every if count == total else some]
        if self._unreadable:
            parts.append(f"{len(self._unreadable):,} unreadable")
        said = " · ".join(parts)
        is_short = self.width() < _NARROWEST
        short = f"{count:,} of {total:,}"
        self.count.setText(short if is_short and said != every else said)
        reasons = [run.reason for run in self._unreadable[:_MOST_REASONS]]
        self.count.setToolTip(plain_tip("\n".join([said] * is_short + reasons)))

    def _name_choices(self) -> None:
        """Say what the choices are where there is no room for words before them."""
        arranged = self.table.runs.arranged
        is_named = self.width() < _NARROW
        count = f"{len(arranged.visible)} of {len(arranged.columns)}"
        self.columns.setText("Columns" if is_named else count)
        self.group.setItemText(0, "No groups" if is_named else "none")
        for place in range(1, self.group.count()):
            column = arranged.columns.get(self.group.itemData(place))
            if column is not None:
                name = header_text(column)
                self.group.setItemText(place, f"By {name}" if is_named else name)

    def _want_curves(self) -> None:
        names = [each.metric for each in self.table.runs.columns if is_curve(each)]
        if names and self.isVisible():
            self._curves.want(self.table.visible_runs(), names)

    def _set_filter(self, text: str) -> None:
        if text != self._query.filter:
            self._query = self._query._replace(filter=text)
            self._settings.set_value("filter", text)
            self.arrange_soon()

    def _set_sort(self, name: str) -> None:
        """Sort by a column: ascending, then descending, then newest first again; the best values of
        a metric come first."""
        column = self.table.runs.arranged.columns.get(name)
        first = column is not None and column.lower_is_better is False
        if self._query.sort != name:
            sort, descending = name, first
        elif self._query.descending is first:
            sort, descending = name, not first
        else:
            sort, descending = "", False
        self._query = self._query._replace(sort=sort, descending=descending)
        self._settings.set_value("sort", f"{'-' if descending else ''}{sort}")
        self.arrange_soon()

    def _set_group(self) -> None:
        name = self.group.currentData() or ""
        if name != self._query.group:
            self._query = self._query._replace(group=name, folded=frozenset())
            self._settings.set_value("group", name)
            self.arrange_soon()

    def _fold(self, value: Value) -> None:
        self._query = self._query._replace(folded=self._query.folded ^ {value})
        self.arrange_soon()

    def _fold_all(self, folded: bool) -> None:
        column = self.table.runs.arranged.columns.get(self._query.group)
        if column is None:
            return
        values = {row.value for row in self.table.runs.arranged.rows if isinstance(row, GroupRow)}
        self._query = self._query._replace(folded=frozenset(values) if folded else frozenset())
        self.arrange_soon()

    def _set_columns(self, names: Sequence[str]) -> None:
        self._query = self._query._replace(columns=tuple(names))
        self._settings.set_value("columns", "\n".join(names))
        self.arrange_soon()

    def _usual_columns(self) -> None:
        self._query = self._query._replace(columns=None)
        self._settings.remove("columns")
        self.arrange_soon()

    def _choose_columns(self) -> None:
        arranged = self.table.runs.arranged
        shown = self.table.ordered_columns()
        hidden = self._query.columns or ()
        absent = [name for name in hidden if name not in arranged.columns]
        choice = ColumnChoice(
            arranged.columns,
            [*shown, *absent],
            self._set_columns,
            self._usual_columns,
            self,
        )
        choice.open_below(self.columns if self.columns.isVisible() else self.more)

    def _layout_changed(self) -> None:
        shown = self.table.ordered_columns()
        if shown != [each.name for each in self.table.runs.columns]:
            absent = [name for name in self._query.columns or () if name not in shown]
            self._query = self._query._replace(columns=(*shown, *absent))
            self._settings.set_value("columns", "\n".join(self._query.columns or ()))
        widths = "\n".join(f"{width} {name}" for name, width in self.table.widths.items())
        self._settings.set_value("widths", widths)

    def _fill_groups(self, arranged: Arranged) -> None:
        """List the columns in which the shown runs differ first; metrics make no groups."""
        names = [
            column.name
            for column in arranged.columns.values()
            if column.part not in (Part.LAST, Part.BEST) and column.name not in _UNGROUPED
        ]
        if [self.group.itemData(place) for place in range(1, self.group.count())] == names:
            return
        self.group.blockSignals(True)
        self.group.clear()
        self.group.addItem("none", "")
        for name in names:
            self.group.addItem(header_text(arranged.columns[name]), name)
        self.group.setCurrentIndex(max(0, self.group.findData(self._query.group)))
        self.group.blockSignals(False)

    def _show_groups(self) -> None:
        """Let the plots show the mean of each group of chosen runs, if the user wants that."""
        column = self.table.runs.arranged.columns.get(self._query.group)
        self.bands.setEnabled(column is not None)
        groups: list[RunGroup] = []
        if column is not None and self.bands.isChecked():
            chosen = set(self._chosen.ids())
            groups = run_groups([info for info in self._infos if info.id in chosen], column)
        self.comparison.show_groups(groups)
        colours = self.comparison.colours()
        if colours != self.table.runs.chosen:
            self.table.show_chosen(colours)

    def _toggle(self, run_ids: list[str]) -> None:
        chosen = self._chosen.ids()
        if all(each in chosen for each in run_ids):
            gone = set(run_ids)
            self._chosen.keep_only(each for each in chosen if each not in gone)
        else:
            self._chosen.add(run_ids)

    def _show_choice(self) -> None:
        colours = self._chosen.colours()
        count = len(colours)
        some = f"{count:,} selected"
        self.selected.setText(some if count else "")
        self.compare.setEnabled(count > 1)
        self.compare.setText("Table" if self.is_comparing else "Compare")
        self.comparison.setVisible(bool(count))
        self._hint.setVisible(not count)
        self._show_groups()
        if self.is_comparing and count < 2:
            self.set_comparing(False)

    def _save_csv(self) -> None:
        path = ask_where_to_save(self, "Save the table", "runs.csv", "CSV (*.csv)")
        if not path:
            return
        text, count = self.csv_text(), len(self.table.runs.arranged.shown)

        def saved(_: None) -> None:
            self.message.emit(f"{count:,} runs were written to {path}.")

        def failed(error: Exception) -> None:
            if not isinstance(error, OSError):
                raise error
            self.message.emit(f"{path} cannot be written: {error.strerror or error}.")

        self._background.run(lambda: write_table(path, text), saved, failed)

    def _copy(self) -> None:
        """Copy the runs that an action would concern, with the shown columns."""
        QGuiApplication.clipboard().setText(csv_of(self.targets(), self._exported_columns()))
        count = len(self.targets())
        self.message.emit(f"{count:,} runs were copied as CSV.")

    def _exported_columns(self) -> list[Column]:
        known = self.table.runs.arranged.columns
        found = (known[name] for name in self.table.ordered_columns())
        return [column for column in found if not is_curve(column)]

    def _delete(self) -> None:
        if targets := self.targets():
            self.delete_wanted.emit(targets)

    def _export(self) -> None:
        if targets := self.targets():
            self.export_wanted.emit(targets)

    def _write_notes(self) -> None:
        if targets := self.targets():
            self.notes_wanted.emit(targets)

    def _open_current(self) -> None:
        if run := self.table.current_run():
            self.opened.emit(run.id)

    def _show_menu(self, position: QPoint) -> None:
        self._menu.popup(position)

    def _show_header_menu(self, position: QPoint, name: str) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction("Sort").triggered.connect(lambda: self._set_sort(name))
        menu.addAction("Group by this column").triggered.connect(
            lambda: self.group.setCurrentIndex(max(0, self.group.findData(name)))
        )
        for text, by in (("Move left", -1), ("Move right", 1)):
            menu.addAction(text).triggered.connect(partial(self._move_column, name, by))
        menu.addAction("Hide").triggered.connect(lambda: self._hide_column(name))
        menu.addSeparator()
        menu.addAction("Columns…").triggered.connect(self._choose_columns)
        menu.popup(position)

    def _move_column(self, name: str, by: int, *_: bool) -> None:
        self.table.move_column(name, by)

    def _move_current_column(self, by: int) -> None:
        index = self.table.currentIndex()
        if index.isValid():
            self.table.move_column(self.table.runs.columns[index.column()].name, by)

    def _hide_column(self, name: str) -> None:
        left = [each for each in self.table.ordered_columns() if each != name]
        if left:
            self._set_columns(left)

    def _restored(self) -> Query:
        def text(name: str) -> str:
            value = self._settings.value(name)
            return value if isinstance(value, str) else ""

        columns, sort = text("columns"), text("sort")
        return Query(
            filter=text("filter"),
            sort=sort.removeprefix("-"),
            descending=sort.startswith("-"),
            group=text("group"),
            columns=tuple(columns.split("\n")) if columns else None,
        )

    def _restore_layout(self) -> None:
        for line in str(self._settings.value("widths") or "").split("\n"):
            width, _, name = line.partition(" ")
            if width.isdecimal() and name:
                self.table.widths[name] = min(int(width), 2000)

    def _prepare(self, theme: Theme) -> None:
        self.search_icon = Label()
        self.search_icon.setAccessibleName("Filter")
        self.group.setAccessibleName("Group the runs by")
        self.group.setToolTip("Runs with one value in this column stand together, with their mean")
        self.group.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        self.group.setMinimumContentsLength(_GROUP_LETTERS)
        self.bands.setCheckable(True)
        self.bands.setChecked(str(self._settings.value("bands")).lower() == "true")
        self.bands.setAccessibleName("Mean and deviation of each group in the plots")
        tip = "Choose a group: the plots show one curve for the chosen runs of each group"
        self.bands.setToolTip(plain_tip(f"{tip}\n{DEVIATION}"))
        self.columns.setAccessibleName("Columns of the table")
        self.columns.setToolTip("Choose the columns; drag a title to move one")
        self.selected.setObjectName("chosen")
        self.count.setObjectName("note")
        self.compare.setToolTip(
            "Settings and figures of the selected runs side by side, and the table again"
        )
        self.tag.setToolTip("Tags and a note for the selected runs, or the current one")
        self.csv.setToolTip("Save the shown runs with the shown columns, exact values")
        self.more.setObjectName("more")
        self.more.setAccessibleName("More actions on the selected runs")
        self.more.setIconSize(QSize(16, 16))
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.set_theme(theme)

    def _add_actions(self) -> None:
        """Add the menu of the table; its keys work while the table has the focus."""
        self._menu = QMenu(self)
        for text, call, keys in (
            ("Open", self._open_current, ""),
            ("Name, tags and note…", self._write_notes, "F2"),
            ("Export…", self._export, ""),
            ("Import runs…", self.import_wanted.emit, ""),
            ("Save the shown runs as CSV…", self._save_csv, ""),
            ("Copy as CSV", self._copy, QKeySequence.StandardKey.Copy),
            ("Move to the trash", self._delete, "Del"),
            ("Select all shown runs", self._select_all, ""),
            ("Select none", lambda: self._chosen.choose(()), ""),
            ("Columns…", self._choose_columns, ""),
            ("Fold all groups", lambda: self._fold_all(True), ""),
            ("Unfold all groups", lambda: self._fold_all(False), ""),
            ("Move column left", lambda: self._move_current_column(-1), ""),
            ("Move column right", lambda: self._move_current_column(1), ""),
        ):
            action = QAction(text, self)
            action.triggered.connect(call)
            if keys:
                action.setShortcut(QKeySequence(keys))
                action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
            self.table.addAction(action)
            self._menu.addAction(action)
        self.more.setMenu(self._menu)
        let_go_of_menu(self.more)

    def _select_all(self) -> None:
        self._chosen.add(info.id for info in self.table.runs.arranged.shown)

    def _connect(self) -> None:
        self.table.opened.connect(self.opened)
        self.table.toggled.connect(self._toggle)
        self.table.added.connect(self._chosen.add)
        self.table.folded.connect(self._fold)
        self.table.sort_wanted.connect(self._set_sort)
        self.table.layout_changed.connect(self._layout_changed)
        self.table.menu_wanted.connect(self._show_menu)
        self.table.header_menu_wanted.connect(self._show_header_menu)
        self.table.verticalScrollBar().valueChanged.connect(lambda _: self._curves_pause.start())
        self.filter.changed.connect(self._set_filter)
        self.group.currentIndexChanged.connect(self._set_group)
        self.bands.toggled.connect(self._show_groups)
        self.bands.clicked.connect(lambda on: self._settings.set_value("bands", on))
        self.columns.clicked.connect(self._choose_columns)
        self.compare.clicked.connect(lambda: self.set_comparing(not self.is_comparing))
        self.tag.clicked.connect(self._write_notes)
        self.csv.clicked.connect(self._save_csv)
        self.comparison.closed.connect(lambda: self.set_comparing(False))
        self._chosen.changed.connect(self._show_choice)

    def _build_layout(self) -> None:
        bar = row_of(self.search_icon, (self.filter, 1), self.count, spacing=6)
        for word, widget in zip(self._words, (self.group, self.columns), strict=True):
            bar.addWidget(word)
            bar.addWidget(widget)
            if widget is self.group:
                bar.addWidget(self.bands)
        bar.addWidget(self.selected)
        for button in (self.compare, self.tag, self.csv, self.more):
            bar.addWidget(button)
        self._lower = QWidget()
        column_of(bar, (card(self.table), 1), parent=self._lower, margins=0, spacing=6)
        self.comparison.set_compact(True)
        self._hint = Label("Tick runs in the table: their curves are shown here.", objectName="mut")
        self._hint.setAlignment(Qt.AlignmentFlag.AlignCenter)
        upper = QWidget()  # it keeps its place: the table must not move when a run is ticked
        column_of(self._hint, self.comparison, parent=upper, margins=0)
        self._parts = StackedParts((upper, self._lower), _HEIGHTS, (0, 1), self._settings)
        column_of(self._parts, parent=self, margins=(0, 0, 0, 6))


_UNGROUPED = frozenset(("id", "note", "created", "ended", "time", "step", "throughput", "energy"))


def run_groups(infos: Sequence[RunInfo], column: Column) -> list[RunGroup]:
    """Return the runs by their value in `column`, with names that differ."""
    found: dict[str, RunGroup] = {}
    for group in grouped(infos, column):
        name = group_name(group_heading(column), group.value)
        if name in found:  # numbers that differ in digits that a cell leaves out
            name = f"{column.title} {group.value!r}"
        found[name] = RunGroup(name, tuple(info.id for info in group.runs))
    return list(found.values())


def write_table(path: str, text: str) -> None:
    """Write a CSV file. Raises OSError."""
    write_bytes(Path(path), text.encode())
