"""The page with all sweeps: the list, and of the chosen one everything that is known."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QSettings, QSize, Qt, Signal
from PySide6.QtGui import QGuiApplication, QHideEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QProgressBar, QPushButton, QStackedWidget, QWidget

from engine.sweeps.report import SweepReport, SweepSummary
from gui.bridge.background import Background
from gui.style.state_marks import state_pixmap
from gui.style.theme import Theme, theme_of
from gui.sweeps.axes import short, title_of
from gui.sweeps.best_plot import BestPlot
from gui.sweeps.importance_bars import ImportanceBars
from gui.sweeps.parallel_plot import ParallelPlot
from gui.sweeps.sweep_list import SweepList
from gui.sweeps.trial_texts import colour_of, mark_of, progress_of
from gui.sweeps.trials_table import TrialsTable
from gui.widgets.boxes import STRETCH, column_of, row_of, scrolled
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.layouts.stacked_parts import StackedParts, card
from gui.widgets.panel_settings import PanelSettings
from gui.widgets.plain_text import Label, plain_tip

_LIST_WIDTH = 218
_IMPORTANCE_WIDTH = 300
_TITLE_WIDTH = 260
_HEIGHTS = (210, 190, 220)
"""Of the parallel coordinates, of the two below, and of the table."""


class SweepsPage(QWidget):
    """The reports come with `show_reports`; what the user wants to do goes out as signals."""

    opened = Signal(str)
    """Id of a run."""

    stop_wanted = Signal(str)
    resume_wanted = Signal(str)
    """Number of a sweep."""

    form_wanted = Signal(object)
    """SweepReport whose best settings are wanted in the form."""

    new_wanted = Signal()
    """The user wants to make a new sweep from the form."""

    watching = Signal(bool)
    """Whether somebody looks at the sweeps."""

    def __init__(
        self,
        background: Background,
        theme: Theme,
        settings: QSettings | None = None,
        parent: QWidget | None = None,
    ) -> None:
        """`settings` keep the heights."""
        super().__init__(parent)
        self._settings = PanelSettings(settings, "sweeps")
        self._reports: Sequence[SweepReport] = ()
        self._missing: Sequence[str] = ()
        self._wanted = ""
        """Number of the sweep that the user has chosen, or that has just been started."""

        self._shown: SweepReport | None = None
        self._asked: set[str] = set()
        """Sweeps that were asked to stop."""

        self.list = SweepList()
        self.missing = Label()
        """Of which machines sweeps are missing, and why."""

        self.mark, self.title, self.progress = Label(), Label(), Label()
        self.bar = QProgressBar()
        self.best = ElidedLabel()
        self.new = QPushButton("New sweep…")
        self.stop = QPushButton("Stop")
        self.resume = QPushButton("Resume")
        self.use = QPushButton("Best settings to the form")
        self.problem = Label()
        self.remark = Label()
        """Why only what was known last is shown, or why no more trials are started."""

        self.parallel = ParallelPlot()
        self.passing = Label()
        self.importance = ImportanceBars()
        self.best_plot = BestPlot(background, theme)
        self.table = TrialsTable()
        self._prepare()
        self._lay_out()
        self._connect()
        self._show(None)
        self._show_buttons()

    @property
    def shown(self) -> SweepReport | None:
        """The report that is shown."""
        return self._shown

    def show_reports(
        self,
        reports: Sequence[SweepReport],
        awaited: Sequence[str] = (),
        missing: Sequence[str] = (),
    ) -> None:
        """Update the sweeps, newest first; those of the machines `awaited` are still to come.

        `missing`: sentences that say of which machines sweeps are missing, and why.
        """
        self._reports, self._missing = reports, missing
        by_number = {each.summary.sweep: each for each in reports}
        report = by_number.get(self._wanted) or (reports[0] if reports else None)
        active = {each.summary.sweep for each in reports if each.summary.state == "running"}
        self._asked &= active
        self.list.show_sweeps(
            [each.summary for each in reports], report.summary.sweep if report else ""
        )
        self._pages.setCurrentIndex(1 if reports else 0)
        text = (
            "A sweep trains one recipe many times with other settings, and finds the best ones. "
            "There is none yet."
        )
        if awaited:
            machines = ", ".join(awaited)
            text = f"Reading the sweeps of {machines}…"
        self.none.setText("\n\n".join((text, *missing)))
        self.missing.setText("\n".join(missing))
        self.missing.setVisible(bool(missing))
        self.first.setVisible(not awaited)
        if report is not self._shown:
            self._show(report)
        self._show_buttons()

    def choose(self, number: str) -> None:
        """Show this sweep, now or as soon as it is known."""
        self._wanted = number
        if self._reports:
            self.show_reports(self._reports, missing=self._missing)

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of `theme`; what is painted by hand follows the palette."""
        self.best_plot.set_theme(theme)
        if self._shown:
            self._show_mark(self._shown.summary)

    def reset_layout(self) -> None:
        """Give all parts their usual heights."""
        self._parts.reset()

    def minimumSizeHint(self) -> QSize:
        """Narrower than the texts of the heading."""
        return QSize(620, super().minimumSizeHint().height())

    def showEvent(self, event: QShowEvent) -> None:
        """Follow the sweeps."""
        super().showEvent(event)
        self.best_plot.set_running(True)
        self.watching.emit(True)

    def hideEvent(self, event: QHideEvent) -> None:
        """Follow them no more."""
        super().hideEvent(event)
        self.best_plot.set_running(False)
        self.watching.emit(False)

    def _show(self, report: SweepReport | None) -> None:
        before, self._shown = self._shown, report
        is_other = before is None or report is None or before.summary.sweep != report.summary.sweep
        if is_other:
            self.parallel.clear_brushes()
        sweep = report.sweep if report else None
        trials = report.trials if report else ()
        summary = report.summary if report else SweepSummary(sweep="", state="stopped")
        title = f"Sweep {summary.sweep} · {summary.recipe_name}"
        elided = Qt.TextElideMode.ElideMiddle
        self.title.setText(self.title.fontMetrics().elidedText(title, elided, _TITLE_WIDTH))
        self.title.setToolTip(plain_tip(title))
        self._show_mark(summary)
        self.progress.setText(progress_of(summary))
        self.bar.setMaximum(max(1, summary.trials))
        self.bar.setValue(summary.done)
        self.bar.setAccessibleDescription(progress_of(summary))
        self.best.setText(self._best_text(report))
        has_trials = report is None or sweep is not None
        self.problem.setText(summary.problem)
        self.problem.setVisible(not has_trials)
        remark = "\n".join(filter(None, (summary.problem, summary.reason)))
        self.remark.setText(remark)
        self.remark.setVisible(has_trials and bool(remark))
        self._parts.setVisible(has_trials)
        self.parallel.show_trials(sweep, trials)
        best = summary.best.number if summary.best else -1
        self.table.show_trials(sweep, trials, best)
        shares = report.importance if report else {}
        self.importance.show_shares(
            {title_of(sweep, name): each for name, each in shares.items()} if sweep else {}
        )
        self.best_plot.show_report(report)
        self._show_passing(self.table.trials.passing)

    def _best_text(self, report: SweepReport | None) -> str:
        best = report.summary.best if report else None
        if report is None or report.sweep is None or best is None or best.value is None:
            return ""
        values = [
            f"{title_of(report.sweep, name)} {short(value)}"
            for name, value in best.settings.items()
        ]
        settings = ", ".join(values)
        return f"★ {short(best.value)} in run {best.run}: {settings}"

    def _show_mark(self, summary: SweepSummary) -> None:
        theme = theme_of(QGuiApplication.palette())
        self.mark.setPixmap(state_pixmap(mark_of(summary.state), colour_of(summary.state, theme)))

    def _show_buttons(self) -> None:
        summary = self._shown.summary if self._shown else None
        state, number = (summary.state, summary.sweep) if summary else ("", "")
        self.stop.setVisible(state == "running")
        is_asked = number in self._asked
        self.stop.setEnabled(not is_asked)
        self.stop.setText("Stopping…" if is_asked else "Stop")
        self.resume.setVisible(state == "stopped")
        self.use.setEnabled(bool(summary and summary.best))

    def _show_passing(self, passing: frozenset[int] | None) -> None:
        total = len(self._shown.trials) if self._shown else 0
        drag = "Drag along an axis to filter; click a line to open its run"
        self.passing.setText(
            drag
            if passing is None
            else (
                f"{len(passing):,} of {total:,} trials pass; Esc or a click on an axis removes a "
                "filter"
            )
        )

    def _filter(self, passing: frozenset[int] | None) -> None:
        self.table.trials.filter(passing)
        self._show_passing(passing)

    def _stop(self) -> None:
        if self._shown:
            self._asked.add(self._shown.summary.sweep)
            self.stop_wanted.emit(self._shown.summary.sweep)
            self._show_buttons()

    def _resume(self) -> None:
        if self._shown:
            self.resume_wanted.emit(self._shown.summary.sweep)

    def _use(self) -> None:
        report = self._shown
        if report and report.sweep and report.summary.best:
            self.form_wanted.emit(report)

    def _prepare(self) -> None:
        self.title.setObjectName("ttl")
        self.progress.setObjectName("note")
        self.best.setObjectName("note")
        self.best.setProperty("tone", "best")
        self.missing.setObjectName("note")
        self.missing.setWordWrap(True)
        self.missing.setContentsMargins(4, 0, 4, 0)
        self.missing.hide()
        self.remark.setObjectName("note")
        self.remark.setWordWrap(True)
        self.problem.setObjectName("problem")
        self.problem.setWordWrap(True)
        self.problem.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.passing.setObjectName("note")
        self.bar.setTextVisible(False)
        self.bar.setFixedSize(120, 6)
        self.bar.setAccessibleName("Progress of the sweep")
        self.stop.setToolTip(plain_tip("The runs save and end; Resume goes on with them"))
        self.resume.setToolTip(plain_tip("Runs that were stopped go on, and the rest is started"))
        self.use.setToolTip(
            plain_tip("Fill the form with the settings of the best run, for a new run")
        )
        self.new.setToolTip(plain_tip("Ranges over what is in the form"))

    def _lay_out(self) -> None:
        left = card(self.list)
        below = column_of((left, 1), self.missing, self.new, spacing=6)
        side = QWidget()
        side.setLayout(below)
        below.setContentsMargins(0, 0, 0, 0)
        side.setFixedWidth(_LIST_WIDTH)
        head = row_of(
            self.mark,
            self.title,
            self.progress,
            self.bar,
            (self.best, 1),
            self.stop,
            self.resume,
            self.use,
            spacing=8,
        )
        self.importance.setObjectName("scrolled")
        importance = scrolled(self.importance, sideways=False)
        importance.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        what = _titled("WHAT MATTERED", importance)
        what.setFixedWidth(_IMPORTANCE_WIDTH)
        what.setToolTip(
            plain_tip(
                "Shares of the differences between good values of the metric and others (PED-ANOVA)"
            )
        )
        curve = card(self.best_plot)
        middle = QWidget()
        row_of(what, (curve, 1), parent=middle, margins=0, spacing=8)
        trials = _titled("TRIALS", self.parallel, beside=self.passing)
        parts = (trials, middle, card(self.table))
        self._parts = StackedParts(parts, _HEIGHTS, (3, 2, 3), self._settings)
        right = column_of(head, self.problem, self.remark, (self._parts, 1), spacing=8)
        whole = QWidget()
        row_of(side, (right, 1), parent=whole, margins=0, spacing=8)
        self._pages = _Pages()
        self._pages.addWidget(self._empty_page())
        self._pages.addWidget(whole)
        column_of(self._pages, parent=self, margins=(0, 0, 0, 6))

    def _empty_page(self) -> QWidget:
        page = QWidget()
        self.none = text = Label("Reading the sweeps…")
        text.setObjectName("mut")
        text.setWordWrap(True)
        text.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.first = QPushButton("New sweep…")
        self.first.setObjectName("go")
        self.first.hide()  # until the sweeps have been read
        column_of(STRETCH, text, (self.first, 0, Qt.AlignmentFlag.AlignHCenter), 2, parent=page)
        return page

    def _connect(self) -> None:
        self.list.chosen.connect(self.choose)
        self.parallel.opened.connect(self.opened)
        self.parallel.pointed.connect(self.table.point_to)
        self.parallel.brushed.connect(self._filter)
        self.table.opened.connect(self.opened)
        self.table.pointed.connect(self.parallel.point_to)
        self.stop.clicked.connect(self._stop)
        self.resume.clicked.connect(self._resume)
        self.use.clicked.connect(self._use)
        for button in (self.new, self.first):
            button.clicked.connect(self.new_wanted)

    def event(self, event: QEvent) -> bool:
        """Follow the theme."""
        if event.type() is QEvent.Type.PaletteChange and self._shown:
            self._show_mark(self._shown.summary)
        return super().event(event)


class _Pages(QStackedWidget):
    def hasHeightForWidth(self) -> bool:
        """It has texts that wrap, for which a scroll area would give plots and table the height
        that they prefer: more than the window has."""
        return False


def _titled(title: str, content: QWidget, beside: QWidget | None = None) -> QFrame:
    """Return a card with a heading."""
    heading = Label(title, objectName="h")
    head = row_of(heading, STRETCH)
    if beside is not None:
        head.addWidget(beside)
    whole = QWidget()
    column_of(head, (content, 1), parent=whole, margins=0, spacing=2)
    return card(whole, (10, 6, 8, 4))
