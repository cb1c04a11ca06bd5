"""Builds the page Race, and connects what is measured before a run with it, the form and the
strip."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace
from PySide6.QtCore import QObject, QTimer, Signal

from engine.doctor.finding import Change
from engine.planning.requests import AskBatch, AskMemory, AskPreflight, AskRace, Request, specs_of
from engine.planning.results import (
    BatchSearch,
    Doing,
    Found,
    MemoryEstimate,
    News,
    Preflight,
    Race,
    Raced,
    Result,
    Sized,
)
from engine.runs.run_info import RunInfo
from engine.spec.run_spec import RunSpec
from engine.telemetry.snapshot import Snapshot
from gui.bridge.background import Background
from gui.bridge.machines.machines import place_of
from gui.bridge.planning.kept_results import Earlier, KeptResults
from gui.bridge.planning.planning import Planning
from gui.bridge.planning.race_entrants import CannotRace, race_entrants
from gui.planning.batch_dialog import BatchDialog
from gui.planning.race_page import RacePage
from gui.run_form.run_form import RunForm
from gui.style.device_labels import device_labels
from gui.window.main_window import MainWindow

STILL_MS = 2000
"""So long nothing must change in the form before its memory is predicted again: that takes some
short runs on its devices."""

QUICK_SECONDS = 20.0
"""A prediction that takes longer is not made again by itself."""

_COUNT_MS = 150

_NO_MEMORY = {"name": "", "epochs": 1, "steps": 0, "learning_rate": 0.0, "seed": 0}
"""Fields of a spec on which the memory does not depend."""


_Place = tuple[str, str, tuple[str, ...]]
"""What was tried where: machine, recipe and devices."""


class _Devices(NamedTuple):
    """The devices of one machine."""

    totals: Mapping[str, float] = {}
    """Bytes of memory by device."""

    names: Mapping[str, str] = {}

    def display(self, device: str) -> str:
        """Return what a device is called."""
        return self.names.get(device, device)


class PlanningController(QObject):
    """Asks for what the user wants to know before a run, and shows the answers."""

    message = Signal(str)
    """A sentence for the status bar."""

    def __init__(
        self,
        planning: Planning,
        background: Background,
        form: RunForm,
        window: MainWindow,
    ) -> None:
        super().__init__(window)
        self.page = page = RacePage()
        window.parts.pages["race"].fill(page)
        self._kept = kept = KeptResults(background, self)
        kept.found.connect(self._show_earlier)
        kept.not_found.connect(self._forget_look)
        kept.failed.connect(self.message)
        planning.not_kept.connect(self.message)
        self._planning, self._form, self._window = planning, form, window
        self._tried: dict[_Place, bool | None] = {}
        """Whether something was tried; None: what is kept of it is looked for."""

        self._devices: dict[str, _Devices] = {}
        """By the name of the machine; empty: this one."""

        self._entrants: tuple[RunSpec, ...] = ()
        self._active: list[RunInfo] = []
        self._follows = False
        """Whether the predicted memory follows the form: it was asked for, and was quick."""

        self._memory_begun = 0.0
        self._estimated: AskMemory | None = None
        """Of which the predicted memory is shown."""

        self.batch_dialog: BatchDialog | None = None
        self._still = QTimer(self, singleShot=True, interval=STILL_MS)
        self._still.timeout.connect(self._estimate_again)
        self._count = QTimer(self, singleShot=True, interval=_COUNT_MS)
        self._count.timeout.connect(self.count_entrants)
        planning.waits.connect(self._wait)
        planning.begun.connect(self._begin)
        planning.news.connect(self._hear)
        planning.found.connect(self._show)
        planning.refused.connect(self._refuse)
        planning.ended.connect(self._end)
        row = form.planning
        row.preflight.triggered.connect(self.preflight)
        row.estimate_memory.triggered.connect(self.estimate_memory)
        row.stop_link.clicked.connect(lambda: planning.stop(AskMemory))
        row.find_batch_size.triggered.connect(self.find_batch_size)
        row.race.triggered.connect(self.race)
        window.race_strategies.triggered.connect(self.race)
        window.preflight.triggered.connect(self.preflight)
        window.find_batch_size.triggered.connect(self.find_batch_size)
        form.spec_changed.connect(self._follow_form)
        form.machine.chosen.connect(self._follow_machine)
        window.page_changed.connect(self._show_page)
        page.race_clicked.connect(self.race)
        page.stop_clicked.connect(lambda: planning.stop(AskRace))
        page.spec_chosen.connect(self._use_spec)
        page.choice.changed.connect(self._count.start)
        page.findings.preflight_clicked.connect(self.preflight)
        page.findings.stop_clicked.connect(lambda: planning.stop(AskPreflight))
        page.findings.changes_clicked.connect(self._apply)
        self._follow_form(form.spec())
        self.count_entrants()

    def race(self) -> None:
        """Race the settings of the form, as the page says; show the page."""
        self._window.show_page("race")
        self.count_entrants()
        if self._is_ready() and self._entrants:
            self._planning.ask(
                AskRace(
                    entrants=self._entrants,
                    steps=self.page.choice.choice().steps,
                    machine=self._machine,
                )
            )

    def preflight(self) -> None:
        """Try the settings of the form, and show on the page what was found."""
        if (spec := self._ready_spec()) is not None:
            self._window.show_page("race")
            self._planning.ask(AskPreflight(spec, machine=self._machine))

    def estimate_memory(self) -> None:
        """Predict the memory for the settings of the form, and again when they change."""
        if (spec := self._ready_spec()) is not None:
            self._ask_memory(spec)

    def find_batch_size(self) -> None:
        """Open the dialog, and begin to try sizes."""
        if (spec := self._ready_spec()) is not None:
            dialog = self.open_batch_dialog(spec)
            self._planning.ask(AskBatch(spec, dialog.limit_for(spec), self._machine))

    def open_batch_dialog(self, spec: RunSpec) -> BatchDialog:
        """Show the dialog for a search with `spec`, which begins."""
        if self.batch_dialog is None:
            self.batch_dialog = dialog = BatchDialog(self._window)
            dialog.search_wanted.connect(self.find_batch_size)
            dialog.stop_wanted.connect(lambda: self._planning.stop(AskBatch))
            dialog.change_clicked.connect(lambda change: self._apply([change]))
        self.batch_dialog.show_spec(spec, self._machine)
        self.batch_dialog.begin(spec, self._machine)
        self.batch_dialog.show()
        self.batch_dialog.raise_()
        return self.batch_dialog

    def show_runs(self, runs: Iterable[RunInfo]) -> None:
        """Learn from all runs what was tried on which devices, and what trains now."""
        runs = list(runs)
        self._active = [info for info in runs if not info.state.is_over]
        trained = (_place(info.spec, place_of(info.id)[0]) for info in runs if info.status.step)
        self._tried |= dict.fromkeys(trained, True)
        self._offer_preflight()

    def show_snapshot(self, machine: str, snapshot: Snapshot) -> None:
        """Learn how much memory the devices of a machine have, and what they are called."""
        totals = {each.id: float(each.memory_total or 0) for each in snapshot.devices}
        names = {id: label.name for id, label in device_labels(snapshot).items()}
        found = _Devices(totals, names)
        if found != self._devices.get(machine):
            self._devices[machine] = found
            self._name_devices()

    def _name_devices(self) -> None:
        """Show the devices of the machines that were measured."""
        raced = self._devices.get(self.page.machine, _Devices())
        self.page.set_devices(raced.totals, raced.display)
        findings = self.page.findings
        findings.set_display(self._devices.get(findings.machine, _Devices()).display)

    @property
    def _machine(self) -> str:
        """The machine that is chosen in the form; empty: this one."""
        return self._form.machine.machine

    def _wait(self, request: Request) -> None:
        """Say that another measurement comes first."""
        text = "Waits for another measurement…"
        match request:
            case AskRace():
                self.page.show_request(request)
                self.page.show_doing(Doing(text))
            case AskPreflight(spec):
                self.page.findings.begin(spec, request.machine)
                self.page.findings.show_doing(text)
            case AskMemory():
                self._form.planning.show_busy(text)
            case AskBatch() if self.batch_dialog is not None:
                self.batch_dialog.show_doing(Doing(text))
        self._show_measured()

    def _begin(self, request: Request) -> None:
        match request:
            case AskRace():
                self.page.show_request(request)
            case AskPreflight(spec):
                self.page.findings.begin(spec, request.machine)
            case AskMemory():
                self._memory_begun = time.monotonic()
                self._show_predicting(request, "Predicting the memory")
            case AskBatch():
                pass
        self._name_devices()
        self._show_measured()

    def _show_predicting(self, request: AskMemory, what: str) -> None:
        text = f"{request.machine}: {what}…" if request.machine else f"{what}…"
        self._form.planning.show_busy(text)

    def _hear(self, request: Request, news: News) -> None:
        match request, news:
            case AskRace(), Doing():
                self.page.show_doing(news)
            case AskRace(), Raced(entry):
                self.page.add(entry)
            case AskPreflight(), Doing():
                self.page.findings.show_doing(f"Now: {news.text}…")
            case AskPreflight(), Found(finding):
                self.page.findings.add(finding)
            case AskMemory(), Doing():
                self._show_predicting(request, news.text)
            case AskBatch(), Doing() if self.batch_dialog is not None:
                self.batch_dialog.show_doing(news)
            case AskBatch(), Sized(tried) if self.batch_dialog is not None:
                self.batch_dialog.add(tried)
            case _:
                pass
        self._show_measured()

    def _show(self, request: Request, result: Result) -> None:
        match result:
            case Race():
                self.page.show_race(result, request.machine)
            case Preflight():
                self._tried[_place(result.spec, request.machine)] = True
                self.page.findings.show_preflight(result, request.machine)
                self._offer_preflight()
            case MemoryEstimate():
                assert isinstance(request, AskMemory)
                self._follows = time.monotonic() - self._memory_begun < QUICK_SECONDS
                if self._is_of_form(request):
                    self._estimated = request
                    self._form.planning.show_estimate(result)
            case BatchSearch() if self.batch_dialog is not None:
                self.batch_dialog.show_search(result)

    def _refuse(self, request: Request, text: str) -> None:
        match request:
            case AskRace():
                self.page.show_refusal(text)
            case AskPreflight():
                self.page.findings.show_problem(text)
            case AskMemory() if request.machine == self._machine:
                self._follows = False  # nothing is begun again until the user asks
                self._form.planning.show_estimate(MemoryEstimate(problem=text))
            case AskBatch() if self.batch_dialog is not None:
                self.batch_dialog.show_refusal(text)
        self.message.emit(text)

    def _end(self, request: Request) -> None:
        match request:
            case AskRace() if not self._planning.is_asked(AskRace):
                self.page.end()
            case AskPreflight() if not self._planning.is_asked(AskPreflight):
                self.page.findings.end()
            case AskMemory() if not self._planning.is_asked(AskMemory):
                self._form.planning.show_busy("")
            case AskBatch() if self.batch_dialog is not None:
                self.batch_dialog.end()
        self._show_measured()

    def _show_measured(self) -> None:
        """Say from other pages that a race is measured, and warn in the form."""
        request = self._planning.measured
        self._window.strip.show_race(self.page.running_text, self.page.machine)
        if request is None:
            self._form.show_measured(())
            return
        devices = {device for each in specs_of(request) for device in each.devices}
        self._form.show_measured(tuple(devices), request.machine)

    def _follow_machine(self) -> None:
        """Follow the form to another machine, which predicts nothing until it is asked to."""
        self._follows = False
        self._follow_form(self._form.spec())

    def _follow_form(self, spec: RunSpec | None) -> None:
        is_lost = bool(self._form.machine.problem)  # what is known stays until it is back
        if not is_lost and (self._estimated is None or not self._is_of_form(self._estimated)):
            self._estimated = None
            if not self._planning.is_asked(AskMemory):
                self._form.planning.show_estimate(None)
            if self._follows:
                self._still.start()
        if self.batch_dialog is not None:
            self.batch_dialog.show_spec(spec, self._machine)
        self._look_for_preflight(spec)
        self._offer_preflight()
        self.page.show_spec(spec, self._machine)
        self._count.start()

    def _estimate_again(self) -> None:
        """Predict again for what is in the form now, unless a run would be disturbed."""
        spec = self._form.spec()
        if spec is None or not self._follows or self._refusal():
            return
        is_busy = any(
            set(info.spec.devices) & set(spec.devices)
            for info in self._active
            if place_of(info.id)[0] == self._machine
        )
        if not is_busy and isinstance(self._planning.measured, AskMemory | None):
            self._ask_memory(spec)

    def _ask_memory(self, spec: RunSpec) -> None:
        self._planning.ask(AskMemory(spec, machine=self._machine))

    def _is_of_form(self, request: AskMemory) -> bool:
        """Whether the settings of the form need the memory that was predicted, on its machine."""
        now = self._form.spec()
        if now is None or request.machine != self._machine:
            return False
        return replace(now, **_NO_MEMORY) == replace(request.spec, **_NO_MEMORY)

    def _show_page(self, page: str) -> None:
        if page != "race":
            return
        self._count.start()
        spec = self._form.spec()
        if spec is not None and self.page.is_empty:
            self._kept.look(spec, self._machine)

    def _show_earlier(self, earlier: Earlier, spec: RunSpec, machine: str) -> None:
        """Learn what was measured before. Show it if it is for what is in the form and the page is
        open, unless there is news."""
        place, now = _place(spec, machine), self._form.spec()
        self._tried[place] = self._tried.get(place) or earlier.preflight is not None
        self._offer_preflight()
        if self._window.page != "race" or now is None or place != _place(now, self._machine):
            return
        if earlier.race is not None and self.page.is_empty:
            self.page.show_race(earlier.race, machine)
        findings = self.page.findings
        if earlier.preflight is not None and findings.is_empty:
            findings.show_preflight(earlier.preflight, machine)
        self._name_devices()

    def _look_for_preflight(self, spec: RunSpec | None) -> None:
        """Look once for what is kept about the recipe and the devices of the form."""
        if spec is None or self._form.is_script:
            return
        place = _place(spec, self._machine)
        if place not in self._tried:
            self._tried[place] = None
            self._kept.look(spec, self._machine, quietly=True)

    def _forget_look(self, spec: RunSpec, machine: str) -> None:
        """Look again for what is kept, such as when the machine is back."""
        place = _place(spec, machine)
        if self._tried.get(place) is None:
            self._tried.pop(place, None)

    def _offer_preflight(self) -> None:
        """Offer one for what is known not to be tried."""
        spec = self._form.spec()
        is_untried = spec is not None and self._tried.get(_place(spec, self._machine)) is False
        self._form.planning.set_tried(not is_untried)

    def count_entrants(self) -> None:
        """Find out what would be raced, for the page; without the page nobody asks."""
        if self._window.page != "race":
            return
        spec, choice = self._form.spec(), self.page.choice.choice()
        why_not = self._refusal() or choice.problem
        self._entrants = ()
        if spec is not None and not why_not:
            try:
                self._entrants = race_entrants(
                    spec,
                    self._form.source(),
                    self._form.devices.known_gpus,
                    self._form.environment.default_python,
                    all_strategies=choice.all_strategies,
                    batch_sizes=choice.batch_sizes,
                    precisions=choice.precisions,
                    device_counts=choice.device_counts,
                )
                why_not = "" if self._entrants else "None of these can run."
            except CannotRace as error:
                why_not = str(error)
        self.page.show_count(len(self._entrants), why_not)

    def _is_ready(self) -> bool:
        return self._ready_spec() is not None

    def _ready_spec(self) -> RunSpec | None:
        """Return the settings of the form; None, after a word about it, if they do not do."""
        if why_not := self._refusal():
            self.message.emit(why_not)
            return None
        return self._form.spec()

    def _refusal(self) -> str:
        """Return why nothing in the form can be measured; empty if it can."""
        if self._form.is_script:
            return "A script runs as it is: only recipes are measured."
        if problem := self._form.machine.problem:
            return problem
        if self._form.goes_on_elsewhere:
            return f"Only a new run is measured on {self._machine}: choose New run instead."
        if self._form.spec() is None:
            return "The form has problems: solve them first."
        return ""

    def _apply(self, changes: list[Change]) -> None:
        """Fill the form with `changes`; of two that contradict, the first one counts."""
        spec = self._form.spec()
        if spec is None:
            self.message.emit("The form has problems: solve them first.")
            return
        values = msgspec.to_builtins(spec)
        for change in reversed(changes):
            values |= change.fields
        try:
            changed = msgspec.convert(values, RunSpec)
        except msgspec.ValidationError as error:
            self.message.emit(f"The form cannot have this: {error}")
            return
        self._form.load(changed)
        labels = ", ".join(change.label for change in changes)
        self.message.emit(f"In the form: {labels}")

    def _use_spec(self, spec: RunSpec) -> None:
        machine = self.page.machine
        if not self._form.machine.offers(machine):
            self.message.emit(f"{machine} is not connected now: its settings are not in the form.")
            return
        self._form.load(spec, machine)
        self._window.show_form()
        self.message.emit("The form has the settings of this entry: Start run uses them.")


def _place(spec: RunSpec, machine: str) -> _Place:
    """Return what of `spec` says what was tried where.

    On another machine, a recipe has another path; there it is known by the name of its file.
    """
    recipe = spec.recipe.rpartition("/")[2] if machine else spec.recipe
    return machine, recipe, tuple(sorted(spec.devices))
