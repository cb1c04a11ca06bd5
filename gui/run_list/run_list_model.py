"""The runs as a Qt model; the texts of a row are made when it is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from engine.runs.run_info import RunInfo, UnreadableRun
from engine.runs.series_names import series_name
from engine.spec.metric_direction import primary_metric
from engine.system import units
from gui.bridge.liveness import NO_SILENCE, Silence
from gui.run_view.progress_text import silence_text
from gui.style import formatting
from gui.style.state_style import is_hung, marked_state, state_colour, state_sentence, state_text
from gui.style.theme import Theme
from gui.widgets.plain_text import plain_tip

ID = Qt.ItemDataRole.UserRole
DETAIL = Qt.ItemDataRole.UserRole + 1
COLOUR = Qt.ItemDataRole.UserRole + 2
TAGS = Qt.ItemDataRole.UserRole + 3
COMPARABLE = Qt.ItemDataRole.UserRole + 4
"""Whether the run can be chosen for the comparison."""

DEPTH = Qt.ItemDataRole.UserRole + 7
"""How far the row is indented: 0 for a run that is below no other one."""

STATE = Qt.ItemDataRole.UserRole + 6
"""The RunState whose mark the row shows; None: it is uncertain."""

TITLE_END = Qt.ItemDataRole.UserRole + 5
"""The end of the title, which is never elided."""

ListedRun = RunInfo | UnreadableRun
Index = QModelIndex | QPersistentModelIndex

_NO_INDEX = QModelIndex()


class RunListModel(QAbstractListModel):
    """Holds the runs in the displayed order."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._runs: list[ListedRun] = []
        self._rows: dict[str, int] = {}
        self.depths: Mapping[str, int] = {}
        """The indentation of the runs that stand below the one from which they go on."""

        self._silent: str | None = None
        self._silence = NO_SILENCE

    def runs(self) -> Sequence[ListedRun]:
        """The runs, from the first row to the last."""
        return self._runs

    def row_of(self, run_id: str | None) -> int:
        """Return the row of a run; -1 if it is not listed."""
        return self._rows.get(run_id, -1) if run_id is not None else -1

    def has_same_rows(self, runs: Sequence[ListedRun]) -> bool:
        """Whether `runs` are the listed runs in the same order."""
        return len(runs) == len(self._runs) and all(
            new is old or new.id == old.id for new, old in zip(runs, self._runs, strict=True)
        )

    def update(self, runs: Sequence[ListedRun]) -> None:
        """Replace the listed runs by their newest state. Needs the same runs in the same order."""
        before, self._runs = self._runs, list(runs)
        pairs = enumerate(zip(runs, before, strict=True))
        changed = [row for row, (new, old) in pairs if new is not old and new != old]
        # Rows beside each other at once: the view needs as long for one row as for a thousand.
        for _, rows in groupby(enumerate(changed), lambda pair: pair[1] - pair[0]):
            beside = [row for _, row in rows]
            self.dataChanged.emit(self.index(beside[0]), self.index(beside[-1]))

    def replace(self, runs: Sequence[ListedRun]) -> None:
        """List other runs, or another order. The view loses its selection."""
        self.beginResetModel()
        self._runs = list(runs)
        self._rows = {run.id: row for row, run in enumerate(runs)}
        self.endResetModel()

    def show(self, run: RunInfo) -> None:
        """Show a newer state of a listed run."""
        row = self._rows[run.id]
        before, self._runs[row] = self._runs[row], run
        if detail(before) != detail(run) or title(before) != title(run):
            self.dataChanged.emit(self.index(row), self.index(row))

    def show_silence(self, run_id: str | None, silence: Silence) -> None:
        """Show how long the run `run_id` has been silent; the other runs count as up to date."""
        rows = {self.row_of(self._silent), self.row_of(run_id)}
        self._silent, self._silence = run_id, silence
        for row in rows - {-1}:
            self.dataChanged.emit(self.index(row), self.index(row))

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of `theme`; the view then repaints itself."""
        self._theme = theme

    def rowCount(self, parent: Index = _NO_INDEX) -> int:
        """The number of runs."""
        return 0 if parent.isValid() else len(self._runs)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Return the data of a row for `role`; see the roles above."""
        run = self._runs[index.row()]
        silence = self._silence if run.id == self._silent else NO_SILENCE
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return title(run)
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(tooltip(run))
            case Qt.ItemDataRole.AccessibleTextRole:
                return f"{title(run)}, {detail(run, silence)}"
            case _ if role == ID:
                return run.id
            case _ if role == DETAIL:
                return detail(run, silence)
            case _ if role == DEPTH:
                return self.depths.get(run.id, 0)
            case _ if role == COLOUR:
                if not isinstance(run, RunInfo):
                    return self._theme.bad
                if silence.seconds and not is_hung(run):
                    return self._theme.muted
                return state_colour(run, self._theme)
            case _ if role == STATE:
                if not isinstance(run, RunInfo) or (silence.seconds and not is_hung(run)):
                    return None
                return marked_state(run)
            case _ if role == TITLE_END:
                return title(run).removeprefix(run.name) if isinstance(run, RunInfo) else ""
            case _ if role == TAGS:
                return run.notes.tags if isinstance(run, RunInfo) else ()
            case _ if role == COMPARABLE:
                return isinstance(run, RunInfo)
        return None


def title(run: ListedRun) -> str:
    """Return the first line of a run: its name and number."""
    return run.title if isinstance(run, RunInfo) else f"#{run.id}"


def detail(run: ListedRun, silence: Silence = NO_SILENCE) -> str:
    """Return the second line of a run: its state, how long it has been silent, its primary metric,
    and when it ended."""
    if not isinstance(run, RunInfo):
        return f"unreadable · {run.reason}"
    parts = [state_text(run)]
    if run.origin.parent:
        parts.insert(0, f"from step {run.origin.parent_step:,}")
    if silence.seconds:
        parts.append(silence_text(silence))
    metrics = run.status.metrics
    if name := primary_metric(metrics, run.status.metric_directions):
        parts.append(f"{series_name(name)} {formatting.metric(name, metrics[name])}")
    if run.state.is_over and run.status.updated:
        parts.append(units.ago(run.status.updated))  # the tooltip has the time
    return " · ".join(parts)


def tooltip(run: ListedRun) -> str:
    """Return the tooltip: what does not fit into the row."""
    if not isinstance(run, RunInfo):
        return run.reason
    lines = [run.title, run.reason or state_sentence(run.state)]
    if run.state.is_over and run.status.updated:
        lines.append(f"Ended {units.date_or_time(run.status.updated)}.")
    if parent := run.origin.parent:
        lines.append(f"Goes on from step {run.origin.parent_step:,} of run {parent}.")
    if run.notes.tags:
        tags = ", ".join(run.notes.tags)
        lines.append(f"Tags: {tags}")
    lines += [run.notes.note] if run.notes.note else []
    return "\n".join(lines)
