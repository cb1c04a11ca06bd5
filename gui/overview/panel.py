"""The tab Overview: sections side by side as they fit, and the timeline below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QGuiApplication, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from engine.facts.history import History, Phase
from engine.facts.run_facts import ModelFacts
from engine.runs.run_info import RunInfo
from engine.runs.store.store_reader import StoredEvent
from engine.system import units
from gui.bridge.machines.machines import is_elsewhere, now_of
from gui.bridge.overview_reader import OverviewReader, RunOverview
from gui.overview.bar import OverviewBar
from gui.overview.branches_section import BranchesSection
from gui.overview.facts_text import environment_lines, file_lines, git_lines, setting_lines
from gui.overview.markdown import as_markdown
from gui.overview.model_tree import ModelTree, count_text
from gui.overview.notes_section import NotesSection
from gui.overview.section import Section
from gui.overview.segments import SegmentTable
from gui.overview.text_dialog import PackagesDialog, TextDialog
from gui.overview.timeline_bar import TimelineBar
from gui.widgets.boxes import column_of, row_of, scrolled
from gui.widgets.plain_text import Label, plain_tip

_KEY = 92
"""Width of the names of the facts, in logical pixels."""

_TITLE = 0.48
"""Share of the column with the names of the settings."""

_THREE, _TWO = 840, 520
"""Logical pixels from which there is room for so many columns."""

_SHARES = (10, 10, 11)
"""How the columns share the width."""

_TALL = 400
"""From this height on, the timeline stays below what scrolls."""

_READ_AGAIN_MS = 1500
_LATE_FACTS = 30.0
"""Seconds after the start of an attempt in which its facts may still come."""


class OverviewPanel(QWidget):
    """Reads the run when it is in sight, and again while its facts may still come."""

    notes_written = Signal(object)
    """dict[str, ChangedNotes]"""

    run_wanted = Signal(str)
    """The id of a parent or a branch that the user wants to see."""

    message = Signal(str)
    """A sentence for the status line."""

    def __init__(self, reader: OverviewReader, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._reader = reader
        self._info: RunInfo | None = None
        self._overview: RunOverview | None = None
        self._names: dict[str, str] = {}
        self._history = History()
        self._infos: Sequence[RunInfo] = ()
        self._only_changed = False
        self._columns = 0
        self._read_for: tuple[object, ...] = ()
        self.setAccessibleName("Overview of the run")
        self.bar = OverviewBar()
        self.bar.only_changed.connect(self._set_only_changed)
        self.bar.copy_wanted.connect(self.copy_as_markdown)
        self._build()
        self._timer = QTimer(self, interval=_READ_AGAIN_MS)
        self._timer.timeout.connect(self._tick)
        reader.found.connect(self._show_overview)
        reader.text.connect(self._show_text)
        reader.failed.connect(self.message)
        self.watch(None)

    def _build(self) -> None:
        self.settings = Section("Settings")
        self.settings_table = SegmentTable("Settings", ["Setting", "Value"], _TITLE)
        self.settings.column.addWidget(self.settings_table)
        self.environment = Section("Environment")
        self.environment_table = SegmentTable("Environment", ["", ""], _KEY)
        self.copy_command = self.environment.add_button(
            "Copy command", "Copy the command line that repeats this run"
        )
        self.show_packages = self.environment.add_button(
            "Packages…", "All installed packages with their versions"
        )
        self.environment.column.addWidget(self.environment_table)
        self.git = Section("Git")
        self.git_table = SegmentTable("Git", ["", ""], _KEY)
        self.show_diff = self.git.add_button(
            "Show diff…", "What the code differed in from its commit"
        )
        self.git.column.addWidget(self.git_table)
        self.files = Section("Files")
        self.files_table = SegmentTable("Files", ["", ""], 0.5)
        self.show_recipe = self.files.add_button(
            "Recipe…", "The copy of the recipe that this run trains"
        )
        self.open_folder = self.files.add_button(
            "Open folder", "Show the folder of the run in the file manager"
        )
        self.files.column.addWidget(self.files_table)
        self.model = Section("Model")
        self.model_tree = ModelTree()
        self.model_note = Label(objectName="note", wordWrap=True)
        self.model.column.addWidget(self.model_tree)
        self.model.column.addWidget(self.model_note)
        self.branches = BranchesSection()
        self.branches.run_wanted.connect(self.run_wanted)
        self.notes = NotesSection()
        self.notes.written.connect(self.notes_written)
        self.timeline = Section("Timeline")
        self.timeline_bar = TimelineBar()
        self.timeline.column.addWidget(self.timeline_bar)
        self.copy_command.clicked.connect(self._copy_command)
        self.show_packages.clicked.connect(self._show_packages)
        self.show_diff.clicked.connect(self._ask_for_diff)
        self.show_recipe.clicked.connect(self._ask_for_recipe)
        self.open_folder.clicked.connect(self._open_folder)
        content = QWidget()
        content.setObjectName("content")
        outer = column_of(parent=content, margins=(4, 4, 8, 0), spacing=6)
        line = row_of(spacing=20)
        self._places: list[QVBoxLayout] = []
        for _ in _SHARES:
            column = column_of(spacing=4)
            self._places.append(column)
            line.addLayout(column)
        self._line = line
        outer.addLayout(line)
        outer.addStretch(1)
        self._content, self._inside = content, outer
        self.area = scrolled(content, sideways=False)
        self._outside = column_of((self.area, 1), self.timeline, parent=self, margins=0, spacing=2)
        self._arrange(3)

    def watch(self, run_id: str | None) -> None:
        """Show the run `run_id`, whose state and events follow; None: no run."""
        self.notes.clear()
        self._info, self._overview = None, None
        self._run = run_id or ""
        self.branches.show_runs(self._run, self._infos)
        self._history = History()
        self._read_for = ()
        self._content.setEnabled(run_id is not None)
        self.bar.setEnabled(run_id is not None)
        self._show_nothing()

    def show_info(self, info: RunInfo) -> None:
        """Follow the state of the run."""
        self.open_folder.setEnabled(not is_elsewhere(info))
        tip = "Show the folder of the run in the file manager"
        there = f"The folder is on another machine: {info.folder}"
        self.open_folder.setToolTip(plain_tip(there if is_elsewhere(info) else tip))
        self._info = info
        self.notes.show_info(info)
        self._read_if_due()
        if self.isVisible():
            self._show_history()

    def show_runs(self, infos: Sequence[RunInfo]) -> None:
        """Follow the list of all runs, newest first."""
        self._infos = infos
        self.branches.show_runs(self._run, infos)

    def add_events(self, events: list[StoredEvent]) -> None:
        """Follow the events of the run."""
        if self._history.add(events) and self.isVisible():
            self._show_history()

    def set_device_names(self, names: Mapping[str, str]) -> None:
        """Set the display name of each device, by its id."""
        if dict(names) != self._names:
            self._names = dict(names)
            self._read_for = ()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._timer.start()
        self._read_if_due()
        self._show_history()

    def hideEvent(self, event: object) -> None:
        """Read no more."""
        self._timer.stop()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Place the sections side by side as they fit."""
        super().resizeEvent(event)
        is_outside = self._outside.indexOf(self.timeline) >= 0
        if is_outside != (self.height() >= _TALL):
            (self._inside if is_outside else self._outside).addWidget(self.timeline)
        width = self.width() - self.area.verticalScrollBar().sizeHint().width()
        self._arrange(3 if width >= _THREE else 2 if width >= _TWO else 1)

    def copy_as_markdown(self) -> None:
        """Copy all that is shown as Markdown."""
        if self._info is None or self._overview is None:
            return
        text = as_markdown(self._info, self._overview, self._history)
        QGuiApplication.clipboard().setText(text)
        self.message.emit("The overview was copied as Markdown.")

    def _arrange(self, columns: int) -> None:
        if columns == self._columns:
            return
        self._columns = columns
        facts = [self.environment, self.git, self.files]
        wanted: list[list[Section]] = {
            3: [[self.settings], facts, [self.branches, self.model, self.notes]],
            2: [[self.settings, self.notes], [self.branches, *facts, self.model], []],
            1: [[self.settings, self.branches, *facts, self.model, self.notes], [], []],
        }[columns]
        for number, (place, sections) in enumerate(zip(self._places, wanted, strict=True)):
            while (item := place.takeAt(0)) is not None:
                del item
            for section in sections:
                place.addWidget(section)
            if sections:
                place.addStretch(1)
            self._line.setStretch(number, _SHARES[number] if sections else 0)

    def _set_only_changed(self, only: bool) -> None:
        self._only_changed = only
        self._show_settings()

    def _tick(self) -> None:
        if self._overview is not None and self._may_change():
            self._read_for = ()
        self._read_if_due()
        self._show_history()

    def _may_change(self) -> bool:
        """Whether the facts of the present attempt may still come, or files grow."""
        info = self._info
        if info is None or self._overview is None:
            return False
        is_over_there = is_elsewhere(info) and info.state.is_over
        is_young = now_of(info) - info.status.attempt_started < _LATE_FACTS and not is_over_there
        return is_young or (not info.state.is_over and self.files.isVisible())

    def _read_if_due(self) -> None:
        info = self._info
        if info is None or not self.isVisible():
            return
        wanted = (info.id, info.status.attempt, info.state.is_over, info.spec)
        if wanted != self._read_for:
            self._read_for = wanted
            self._reader.read(info, self._names)

    def _show_overview(self, run_id: str, overview: RunOverview) -> None:
        if self._info is None or self._info.id != run_id:
            return
        self._overview = overview
        self._show_settings()
        self._show_facts()

    def _show_nothing(self) -> None:
        for table in (
            self.settings_table,
            self.environment_table,
            self.git_table,
            self.files_table,
        ):
            table.show_lines([])
        for section in (self.settings, self.environment, self.git, self.files, self.model):
            section.set_note("")
        self.model_tree.show_model(ModelFacts())
        self.model_note.setText("")
        for button in (self.show_packages, self.show_diff, self.copy_command, self.show_recipe):
            button.setEnabled(False)
        self.timeline.set_note("")
        self.timeline_bar.show_history(self._history, None)

    def _show_settings(self) -> None:
        overview = self._overview
        if overview is None:
            return
        lines = setting_lines(overview.settings, only_changed=self._only_changed)
        self.settings_table.show_lines(lines)
        count = sum(row.differs for row in overview.settings)
        other = overview.other
        note = f"{count} differ" if count else "none differs"
        if other is not None:
            note = f"{note} · compared with {other.label}"
            reasons = {
                "parent": f"{other.label}, from whose checkpoint this run goes on",
                "earlier settings": f"{other.label} of this run, before its settings were changed",
                "previous run of this recipe": f"{other.label}, the run before with this recipe",
            }
            self.settings.set_note(note, f"Compared with {reasons[other.reason]}.")
        else:
            self.settings.set_note(note, "Compared with the defaults.")

    def _show_facts(self) -> None:
        info, overview = self._info, self._overview
        if info is None or overview is None:
            return
        facts = overview.facts.attempt
        self.environment_table.show_lines(environment_lines(overview, info))
        self._show_environment_note(overview)
        state = facts.git if facts is not None else None
        self.git_table.show_lines(git_lines(state) if state is not None else [])
        if facts is None:
            self.git.set_note("not recorded")
        elif state is None:
            built_in = "the code is a part of Traindeck"
            self.git.set_note("no repository" if facts.folder else built_in)
        elif overview.git_differs and overview.other is not None:
            self.git.set_note(f"another commit than {overview.other.label}")
        else:
            self.git.set_note("")
        self.show_diff.setEnabled(state is not None and state.diff_bytes > 0)
        self.show_packages.setEnabled(facts is not None and bool(facts.packages))
        self.copy_command.setEnabled(bool(overview.command))
        self.show_recipe.setEnabled(not info.spec.is_script)
        self.files_table.show_lines(file_lines(overview))
        total = sum(each.bytes for each in overview.files)
        self.files.set_note(units.byte_size(total) if overview.files else "")
        self._show_model(overview, info)

    def _show_environment_note(self, overview: RunOverview) -> None:
        if overview.facts.attempt is None:
            reason = overview.facts.problem
            text = "not recorded by the version that started this run"
            self.environment.set_note("not recorded", reason or text)
        elif overview.packages and overview.other is not None:
            names = ", ".join(name for name, _, _ in overview.packages)
            self.environment.set_note(f"differs from {overview.other.label}: {names}")
        else:
            self.environment.set_note("")

    def _show_model(self, overview: RunOverview, info: RunInfo) -> None:
        model = overview.facts.model
        has_layers = model is not None and bool(model.layers)
        self.model_tree.setVisible(has_layers)
        self.model_tree.show_model(model if model is not None else ModelFacts())
        if model is not None and has_layers:
            count = count_text(model.parameters)
            text = f"{count} parameters · {units.byte_size(model.bytes)}"
            frozen = model.parameters - model.trainable
            if frozen:
                text += f" · {count_text(frozen)} frozen"
            self.model.set_note(text)
            self.model_note.setText("")
            return
        known = info.status.parameters
        text = f"{count_text(known)} trainable" if known else ""
        self.model.set_note(text)
        self.model_note.setText(model.problem if model is not None else self._no_layers(info))

    def _no_layers(self, info: RunInfo) -> str:
        is_new = now_of(info) - info.status.attempt_started < _LATE_FACTS
        if not info.state.is_over and is_new:
            return "The layers are known when the training begins."
        if info.spec.is_script:
            return "No model of this script was seen."
        return "The layers were not recorded."

    def _show_history(self) -> None:
        info = self._info
        now = now_of(info) if info is not None and not info.state.is_over else None
        self.timeline_bar.show_history(self._history, now, self._names)
        whole, training = self._history.seconds(now=now), self._history.seconds(
            Phase.TRAINING, now
        )  # fmt: skip
        whole_text, training_text = map(units.steady_duration, (whole, training))
        self.timeline.set_note(f"{whole_text} in all · {training_text} training")

    def _show_text(self, run_id: str, what: str, text: str) -> None:
        info, overview = self._info, self._overview
        if info is None or info.id != run_id or overview is None:
            return
        facts = overview.facts.attempt
        if what == "recipe":
            title = f"Recipe of run {run_id}"
            TextDialog(title, text, "", self.window()).open()
        elif facts is not None and facts.git is not None:
            state, notes = facts.git, []
            if state.diff_is_cut:
                size = units.byte_size(state.diff_bytes)
                notes.append(f"Only the first {size} were kept.")
            if state.diff_leaves_out:
                names = ", ".join(state.diff_leaves_out)
                notes.append(f"Left out, because they may hold secrets: {names}.")
            if state.untracked:
                names = ", ".join(state.untracked[:20])
                notes.append(f"Not in git, and not kept: {names}.")
            title = f"Changes of run {run_id} since {state.commit[:10]}"
            TextDialog(title, text, " ".join(notes), self.window(), is_diff=True).open()

    def _copy_command(self) -> None:
        if self._overview is not None:
            QGuiApplication.clipboard().setText(self._overview.command)
            self.message.emit("The command that repeats the run was copied.")

    def _show_packages(self) -> None:
        overview = self._overview
        if overview is None or overview.facts.attempt is None:
            return
        other = overview.other
        label = other.label if other is not None and other.facts is not None else ""
        packages = overview.facts.attempt.packages
        PackagesDialog(packages, overview.packages, label, self.window()).open()

    def _ask_for_diff(self) -> None:
        overview = self._overview
        if self._info is not None and overview is not None and overview.facts.attempt is not None:
            self._reader.read_diff(self._info, overview.facts.attempt.attempt)

    def _ask_for_recipe(self) -> None:
        if self._info is not None:
            self._reader.read_recipe(self._info)

    def _open_folder(self) -> None:
        if self._info is not None:
            self._reader.open_folder(self._info.folder)
