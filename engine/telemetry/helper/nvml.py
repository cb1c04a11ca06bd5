"""The connection to the NVIDIA driver: finds GPUs, loses them and finds them again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pynvml

from engine.telemetry.helper.nvml_errors import LOST_ERRORS, SURE_LOST_ERRORS, driver_problem
from engine.telemetry.helper.nvml_fields import (
    EVERY_5_SECONDS,
    EVERY_SECOND,
    ONCE,
    Answers,
    ask_all,
)
from engine.telemetry.helper.nvml_links import links
from engine.telemetry.helper.nvml_rates import RATES, Rates
from engine.telemetry.helper.runtime_suspend import is_suspended
from engine.telemetry.snapshot import DeviceSnapshot, KnownGpu, Link

PROBE_INTERVAL = 30.0
"""Seconds between two new connections to the driver, while a GPU or the driver is missing."""

RETURN_INTERVAL = 5.0
"""Seconds between two checks of a lost GPU within the existing connection."""

SLOW_INTERVAL = 5.0
"""Seconds between two samples of values that change slowly."""

_NOT_LISTED = "The NVIDIA driver does not list it any more."
_TOLERANCE = 0.5
"""Seconds by which a slow sample may be early, so that it is not a whole sample late."""


@dataclass
class _Gpu:
    """A GPU that answered at least once."""

    index: int
    """The driver's number, from the last connection in which the GPU answered and the driver
    counted all GPUs that are known."""

    uuid: str
    name: str
    pci_bus: str
    handle: Any
    lost: str | None = None
    lost_since: float | None = None
    """Seconds since the epoch; kept until the GPU answers again."""

    memory_total: int | None = None
    answers: Answers = field(default_factory=Answers)
    slow_due: float | None = None
    """The time of the next slow sample; None: before the first one."""


class GpuSample(NamedTuple):
    """The result of Nvml.sample."""

    devices: tuple[DeviceSnapshot, ...]
    note: str
    """Why GPUs are missing, in a sentence; empty: all answer."""

    links: tuple[Link, ...]


class Nvml:
    """The GPUs of this machine. Not thread-safe; a call blocks for ever if the driver hangs.

    A GPU that answered once stays in the list; a lost GPU has the reason.
    """

    def __init__(
        self,
        driver: Any = pynvml,
        clock: Callable[[], float] = time.monotonic,
        known: Iterable[KnownGpu] = (),
    ) -> None:
        """`driver` has the functions of pynvml; `clock` returns monotonic seconds.

        `known` are the GPUs that a helper before this one has found: those that are lost now keep
        their rows and numbers.
        """
        self._driver = driver
        self._clock = clock
        self._gpus = {
            gpu.uuid: _Gpu(gpu.index, gpu.uuid, gpu.name, gpu.pci_bus, None, _NOT_LISTED)
            for gpu in known
        }
        self._links: dict[tuple[str, str], Link] = {}
        self._links_due = False
        self._rates = Rates(driver)
        self._note = ""
        self._initialised = False
        self._next_probe = self._next_return = float("-inf")

    def sample(self, detail: str = "") -> GpuSample:
        """Return every GPU in PCI order, with traffic only for the GPU with the UUID `detail`."""
        now = self._clock()
        self._look_for_missing(now)
        gpus = sorted(self._gpus.values(), key=lambda gpu: gpu.pci_bus)
        rows = tuple(self._row(gpu, now, gpu.uuid == detail) for gpu in gpus)
        if self._links_due:
            self._find_links(gpus)
        return GpuSample(rows, self._note, tuple(self._links.values()))

    def _look_for_missing(self, now: float) -> None:
        lost = [gpu for gpu in self._gpus.values() if gpu.lost]
        if self._initialised and not self._note and not lost:
            return
        if now >= self._next_probe and not self._would_wake_one():
            self._next_probe = now + PROBE_INTERVAL
            self._probe()
        elif self._initialised and now >= self._next_return:
            self._next_return = now + RETURN_INTERVAL
            for gpu in lost:
                self._reopen(gpu)

    def _would_wake_one(self) -> bool:
        """Whether a card is powered down: a new connection would wake every card."""
        return any(not gpu.lost and is_suspended(gpu.pci_bus) for gpu in self._gpus.values())

    def _probe(self) -> None:
        """Make a new connection to the driver and list the GPUs."""
        try:
            self._shut_down()
            self._driver.nvmlInit()
            self._initialised = True
            count = self._driver.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            self._note = driver_problem(error)
            for gpu in self._gpus.values():
                _lose(gpu, self._note)
            return
        self._find_gpus(count)
        self._links_due = True

    def _shut_down(self) -> None:
        for gpu in self._gpus.values():
            _lose(gpu, gpu.lost or _NOT_LISTED)
        if self._initialised:
            self._initialised = False
            try:
                self._driver.nvmlShutdown()
            except LOST_ERRORS:
                return  # the connection is already gone

    def _find_gpus(self, count: int) -> None:
        failures = []
        # A driver that no longer counts a lost card numbers the cards after it anew.
        keeps_numbers = count < len(self._gpus)
        for index in range(count):
            try:
                gpu = self._open(index)
            except pynvml.NVMLError as error:
                failures.append(str(error))
            else:
                if before := self._gpus.get(gpu.uuid):
                    gpu.lost_since, gpu.memory_total = before.lost_since, before.memory_total
                    if keeps_numbers:
                        gpu.index = before.index
                self._gpus[gpu.uuid] = gpu
        # The driver does not tell which GPU fails: it may be a lost GPU of the list.
        unknown = len(failures) - sum(gpu.lost is not None for gpu in self._gpus.values())
        if unknown > 0:
            self._note = f"{unknown} of {count} GPUs cannot be reached: {failures[-1]}."
        else:
            self._note = "" if self._gpus else "The NVIDIA driver finds no GPU."

    def _open(self, index: int) -> _Gpu:
        """Open the GPU that the driver numbers `index`. Raises NVMLError if it does not answer."""
        handle = self._driver.nvmlDeviceGetHandleByIndex(index)
        return _Gpu(
            index=index,
            uuid=self._driver.nvmlDeviceGetUUID(handle),
            name=self._driver.nvmlDeviceGetName(handle),
            pci_bus=_text(self._driver.nvmlDeviceGetPciInfo_v3(handle).busId),
            handle=handle,
        )

    def _reopen(self, gpu: _Gpu) -> None:
        """Check whether a lost GPU answers again, without a call to another GPU."""
        try:
            handle = self._driver.nvmlDeviceGetHandleByPciBusId(gpu.pci_bus)
            if self._driver.nvmlDeviceGetUUID(handle) != gpu.uuid:
                return  # another card is in this slot: the next connection lists it
        except pynvml.NVMLError:
            return
        gpu.handle, gpu.lost = handle, None
        self._links_due = True

    def _row(self, gpu: _Gpu, now: float, in_detail: bool) -> DeviceSnapshot:
        asleep = gpu.handle is not None and is_suspended(gpu.pci_bus)
        if asleep:
            _forget_figures(gpu)
        elif gpu.handle is not None:
            self._ask(gpu, now, in_detail)
        return DeviceSnapshot(
            id=gpu.uuid,
            kind="gpu",
            label=str(gpu.index),
            name=gpu.name,
            index=gpu.index,
            pci_bus=gpu.pci_bus,
            asleep=asleep,
            lost=gpu.lost,
            lost_since=gpu.lost_since if gpu.lost else None,
            silent=dict(gpu.answers.silent),
            **{"memory_total": gpu.memory_total} | gpu.answers.values,
        )

    def _ask(self, gpu: _Gpu, now: float, in_detail: bool) -> None:
        try:
            failures = ask_all(EVERY_SECOND, self._driver, gpu.handle, gpu.answers)
            known = gpu.answers.values
            if failures and not any(name in known for q in EVERY_SECOND for name in q.fields):
                # For example "Unknown Error", in a container that lost its access to the device.
                self._lose_now(gpu, failures[0], now)
                return
            gpu.lost_since, gpu.memory_total = None, known.get("memory_total")
            self._ask_slowly(gpu, now)
            if in_detail:
                self._rates.sample(gpu.uuid, gpu.handle, now, gpu.answers)
            else:
                gpu.answers.forget(*RATES)
        except LOST_ERRORS as error:
            self._lose_now(gpu, str(error), now)

    def _ask_slowly(self, gpu: _Gpu, now: float) -> None:
        if gpu.slow_due is None:
            ask_all(ONCE, self._driver, gpu.handle, gpu.answers)
        elif now < gpu.slow_due - _TOLERANCE:
            return
        gpu.slow_due = now + SLOW_INTERVAL
        ask_all(EVERY_5_SECONDS, self._driver, gpu.handle, gpu.answers)

    def _lose_now(self, gpu: _Gpu, error: str, now: float) -> None:
        if gpu.lost_since is None:
            # First try this connection again: a new one would interrupt the other GPUs.
            self._next_return = now + RETURN_INTERVAL
            self._next_probe = max(self._next_probe, now + PROBE_INTERVAL)
        _lose(gpu, f"The GPU does not answer: {error}.")

    def _find_links(self, gpus: list[_Gpu]) -> None:
        self._links_due = False
        handles = {
            gpu.uuid: gpu.handle
            for gpu in gpus
            if gpu.handle is not None and not is_suspended(gpu.pci_bus)
        }
        try:
            found = links(self._driver, handles)
        except SURE_LOST_ERRORS:
            return  # the next sample finds out which GPU is lost
        self._links |= {(link.first, link.second): link for link in found}


def _lose(gpu: _Gpu, why: str) -> None:
    gpu.handle = None
    gpu.lost = why
    gpu.lost_since = gpu.lost_since or time.time()
    _forget_figures(gpu)


def _forget_figures(gpu: _Gpu) -> None:
    gpu.answers, gpu.slow_due = Answers(), None


def _text(value: str | bytes) -> str:
    """Some versions of pynvml return strings in structures as bytes."""
    return value.decode() if isinstance(value, bytes) else value
