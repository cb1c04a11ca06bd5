"""Tries a run before it is started: a sequence of checks within a time limit."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping

import msgspec

from engine import client
from engine.doctor.examination import Examination, Pythons
from engine.doctor.finding import Finding
from engine.planning import facts
from engine.planning.checks import (
    checkpoints,
    communication,
    devices,
    loading,
    machine,
    precision,
    training,
    whole_run,
)
from engine.planning.checks.checkpoints import DiskFacts
from engine.planning.checks.whole_run import Expectation
from engine.planning.device_claim import DevicesInUse, claimed_devices
from engine.planning.own_data_folder import own_data_folder
from engine.planning.results import Doing, Found, News, Preflight
from engine.planning.short_run import ShortRun, short_run
from engine.processes.process import usable_processors
from engine.runs import device_queue, run_info
from engine.runs.run_workers import RunWorkers
from engine.spec import catalog
from engine.spec.device_names import all_on_cpu, machines_of
from engine.spec.run_spec import RunSpec
from engine.spec.validation import Problem
from engine.system import paths
from engine.system.cancelled import Cancelled
from engine.telemetry.given_gpus import given_gpus
from engine.telemetry.helper_client import snapshot_once
from engine.telemetry.memory_attribution import memory_uses
from engine.training.loop import ONE_BATCH

SHORTEST = 5.0
"""Seconds: with less, nothing is measured."""

LEAST_TRY = 2.0
"""Seconds: with less left, no further batch is tried."""

MOST_TRIES = 6
"""Runs after one for which the memory was too small, each with half the batch at once."""

_END_SECONDS = 4.0
"""Kept of the time for the end of the last run."""

_DISK_SECONDS = 2.0
_DOCTOR_SECONDS = 1.0
"""The least time for the checks of the doctor."""

_TRAINING, _MEASURING = 5.0, 15.0
"""Seconds for steps, and for what the ranks measure after them."""

_TRAINING_SHARE, _MEASURING_SHARE = 0.08, 0.25
"""The most that both take of the time."""

_OF_A_RUN = (
    training.STEPS,
    communication.ALL_REDUCE,
    communication.TO_GPU,
    loading.NAME,
    checkpoints.CHECKPOINTS,
    whole_run.NAME,
)
"""What cannot be said without a run."""


def preflight(
    spec: RunSpec,
    seconds: float = 60.0,
    tell: Callable[[News], None] = lambda news: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Preflight:
    """Measure for at most `seconds` what a run with `spec` would meet, and return the findings.

    Each finding is told as soon as it is known. When `is_cancelled` returns True, or the time is
    over, what is known is returned, and names what was not looked at. No process is left. Raises
    CannotStart for settings with which no run starts.
    """
    _refuse(spec, seconds)
    examination = _Preflight(spec, seconds, tell, is_cancelled)
    with contextlib.suppress(Cancelled):
        examination.make()
    return examination.result()


def with_names(finding: Finding, names: Mapping[str, str]) -> Finding:
    """Return `finding` with the names of the GPUs in its sentences, in the place of their UUIDs."""
    text, advice = finding.text, finding.advice
    for uuid, name in names.items():
        text, advice = text.replace(uuid, name), advice.replace(uuid, name)
    return msgspec.structs.replace(finding, text=text, advice=advice)


def _refuse(spec: RunSpec, seconds: float) -> None:
    """Raise CannotStart with each reason why there is nothing to measure."""
    if spec.is_script:
        text = "A preflight is for recipes: what a script does before, in and after its steps is "
        raise client.CannotStart([Problem("recipe", f"{text}not known before it runs.")])
    if any(machines_of(spec.devices)):
        text = "A preflight measures on this machine only: choose devices of this machine."
        raise client.CannotStart([Problem("devices", text)])
    if not seconds >= SHORTEST:
        text = f"A preflight needs at least {SHORTEST:g} s, and got {seconds:g} s."
        raise client.CannotStart([Problem("", text)])
    if found := client.check(spec):
        raise client.CannotStart(found)


class _Preflight:
    """One preflight: what it found so far, and how much time is left."""

    def __init__(
        self,
        spec: RunSpec,
        seconds: float,
        tell: Callable[[News], None],
        is_cancelled: Callable[[], bool],
    ) -> None:
        self._spec = spec
        self._seconds = seconds
        self._tell = tell
        self._is_cancelled = is_cancelled
        self._begun = time.monotonic()
        self._ends_at = self._begun + seconds - min(_END_SECONDS, seconds / 4)
        self._training = min(_TRAINING, _TRAINING_SHARE * seconds)
        self._measuring = min(_MEASURING, _MEASURING_SHARE * seconds)
        self._clock = facts.ClockWatch()
        self._strategy = catalog.strategy(spec.strategy, catalog.recipe_of(spec))
        self._findings: list[Finding] = []
        self._figures: dict[str, float] = {}
        self._expected = Expectation()
        self._was_cancelled = True
        self._names: dict[str, str] = {}
        """What the GPUs are called where a person reads it, by UUID."""

    def make(self) -> None:
        """Make all checks, the quick ones first. Raises Cancelled."""
        self._say("who else uses the devices")
        self._add(self._devices())
        self._add([machine.limits_finding(self._spec, facts.limits())])
        self._say("the disk of the runs")
        writing = min(_DISK_SECONDS, self._seconds / 20)
        disk = facts.disk(paths.runs_folder(), writing, self._is_cancelled)
        self._add([checkpoints.disk_finding(disk)])
        self._check_cancelled()
        run = None
        try:
            # First the place in the queue, which is in the user's data folder.
            with (
                claimed_devices(self._spec.devices),
                own_data_folder("preflight", **{ONE_BATCH: "1"}),
            ):
                run = self._run()
                if run is not None:
                    self._judge(run, disk)
        except DevicesInUse as error:
            self._add([Finding(name=training.STEPS, level="warning", text=str(error))])
        except OSError as error:  # such as a full disk for temporary files
            text = f"Nothing could be tried: {error}."
            self._add([Finding(name=training.STEPS, level="error", text=text)])
        self._add([machine.clock_finding(self._clock.facts())])
        if self._left > _DOCTOR_SECONDS:
            self._say("the limits of this machine")
            with contextlib.suppress(Cancelled):  # by the person, or the time was over
                self._of_doctor(run)
        self._check_cancelled()
        self._was_cancelled = False

    def result(self) -> Preflight:
        """Return what was found, and what was not looked at."""
        known = {finding.name for finding in self._findings}
        missing = [name for name in _OF_A_RUN if name not in known]
        if missing:
            why, advice = self._reason()
            text = f"Not looked at, because {why}: {', '.join(missing)}."
            self._add([Finding(name="not made", level="hint", text=text, advice=advice)])
        return Preflight(
            spec=self._spec,
            findings=tuple(self._findings),
            figures=self._figures,
            expected_seconds=self._expected.seconds,
            expected_wh=self._expected.wh,
            seconds=time.monotonic() - self._begun,
        )

    def _reason(self) -> tuple[str, str]:
        """Return why something was not looked at, and what to do about it."""
        if self._was_cancelled:
            return "it was stopped before", ""
        of_run = (training.STEPS, training.MEMORY)
        if any(each.name in of_run and each.level != "ok" for each in self._findings):
            return "the short run gave no figures for it", ""
        return "there was no time for it", training.MORE_TIME

    def _devices(self) -> list[Finding]:
        snapshot = snapshot_once(timeout=min(10.0, self._seconds / 4))
        self._names = snapshot.display_names()
        on_cpu = all_on_cpu(self._spec.devices)
        workers = [] if on_cpu else RunWorkers().read(run_info.runs())
        try:
            tickets = device_queue.read()
        except OSError:
            tickets = []
        return devices.devices_findings(
            self._spec,
            snapshot,
            memory_uses(snapshot.devices, workers),
            tickets,
            () if on_cpu else given_gpus(snapshot).uuids,
            usable_processors(),
        )

    def _of_doctor(self, run: ShortRun | None) -> None:
        """Tell what the doctor finds wrong, and what it says of the shared memory."""
        spec = self._spec
        python = spec.interpreter
        examination = Examination(
            Pythons(python, python),
            is_cancelled=lambda: self._is_cancelled() or self._left <= 0,
        )
        if not all_on_cpu(spec.devices):
            self._add(machine.of_problems(examination.quick()))
        for check in examination.machine():
            if check.name == machine.SHARED_MEMORY:
                free = facts.shared_memory_free()
                self._add([machine.shared_memory_finding(run or ShortRun(spec=spec), check, free)])
            elif spec.compile:
                self._add(machine.of_problems([check]))

    def _run(self) -> ShortRun | None:
        """Return a short run that did its steps; with a smaller batch if the memory is too small.

        None: there is none, which was told.
        """
        run = self._tried(self._spec, "a few real steps")
        if not run.is_out_of_memory:
            self._add([training.steps_finding(run)])
            return run if run.ok else None
        too_large: list[RunSpec] = []
        found = smaller = None
        for smaller in self._smaller():
            if self._left <= LEAST_TRY:
                break
            what = f"the batch size {smaller.batch_size} in {smaller.accumulation} parts"
            again = self._tried(smaller, what)
            if not again.is_out_of_memory:
                found = again if again.ok else None
                break
            too_large.append(smaller)
        else:
            smaller = None
        replicas = self._strategy.replicas(self._spec.slots)
        self._add(
            [
                training.memory_finding(
                    self._spec,
                    run.problem,
                    too_large,
                    smaller,
                    replicas,
                    has_trained=found is not None,
                )
            ]
        )
        if found is not None:
            self._add([training.steps_finding(found)])
        return found

    def _smaller(self) -> Iterable[RunSpec]:
        """Yield settings that need half of the memory for activations, then a quarter, ..."""
        spec, factor = self._spec, 1
        for _ in range(MOST_TRIES):
            factor *= 2
            smaller = msgspec.structs.replace(spec, accumulation=spec.accumulation * factor)
            if self._strategy.refusal("accumulation", smaller):
                smaller = msgspec.structs.replace(spec, batch_size=spec.batch_size // factor)
            if smaller.batch_size < smaller.accumulation * self._strategy.replicas(spec.slots):
                return
            yield smaller

    def _tried(self, spec: RunSpec, what: str, *, measures: bool = True) -> ShortRun:
        """Let a run train, and perhaps measure. Raises Cancelled."""
        self._say(what)
        return short_run(
            spec,
            seconds=max(0.0, self._left),
            training_seconds=self._training,
            measuring_seconds=self._measuring if measures else 0.0,
            is_cancelled=self._is_cancelled,
        )

    def _judge(self, run: ShortRun, disk: DiskFacts) -> None:
        """Tell what follows from a run that did its steps."""
        self._figures = {
            name.removesuffix("/seconds"): value for name, value in run.measured.items()
        } | {"step_seconds": training.step_seconds(run)}
        for finding in (training.ranks_finding(run), training.weights_finding(run)):
            if finding is not None:
                self._add([finding])
        self._add([communication.all_reduce_finding(run)])
        self._add(communication.copies_findings(run))
        self._judge_loading(run)
        self._expected = whole_run.expectation(run, disk)
        self._add(checkpoints.checkpoints_findings(run, disk, self._expected.saves))
        self._add([whole_run.whole_run_finding(run, self._expected)])
        self._judge_precision(run)

    def _judge_precision(self, run: ShortRun) -> None:
        found = [precision.layout_finding(run)]
        other = precision.faster_precision(run.spec)
        if other and self._left > self._seconds_of_trial(run):
            spec = msgspec.structs.replace(run.spec, precision=other)
            if not self._strategy.refusal("precision", spec):
                tried = self._tried(spec, f"a few steps with {other}", measures=False)
                found.append(precision.precision_finding(run, tried))
        self._add(each for each in found if each is not None)

    def _seconds_of_trial(self, run: ShortRun) -> float:
        return 2 * run.first_step_seconds + 2 * self._training

    def _judge_loading(self, run: ShortRun) -> None:
        spec = run.spec
        refusal = self._strategy.refusal("loader_workers", spec)
        found = loading.loading_finding(run, refusal)
        if found.change is not None and self._left > self._seconds_of_trial(run):
            better = msgspec.structs.replace(spec, **found.change.fields)
            what = f"a few steps with {better.loader_workers} loader workers"
            confirmed = self._tried(better, what, measures=False)
            found = loading.loading_finding(run, refusal, confirmed)
        self._add([found])

    @property
    def _left(self) -> float:
        """Seconds until the last run has to be told to end."""
        return self._ends_at - time.monotonic()

    def _say(self, what: str) -> None:
        done = int(time.monotonic() - self._begun)
        self._tell(Doing(what, done, int(self._seconds)))

    def _add(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            named = with_names(finding, self._names)
            self._findings.append(named)
            self._tell(Found(named))

    def _check_cancelled(self) -> None:
        if self._is_cancelled():
            raise Cancelled
