"""The processes on a GPU: the driver's list of pids, with name, user and start of each."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import psutil
import pynvml

from engine.telemetry.helper.nvml_errors import NO_VALUE, NoValue
from engine.telemetry.snapshot import GpuProcess

_List = Callable[[Any], Sequence[Any]]

_WRONG_LAYOUT = (535,), (535, 104, 5)
"""Drivers from the first version to before the second fill in the list in a wrong layout."""


def processes(driver: Any, handle: Any) -> tuple[GpuProcess, ...]:
    """Return the processes that compute or draw on a GPU, by pid. Raises NoValue or NVMLError."""
    if _WRONG_LAYOUT[0] <= _driver_version(driver) < _WRONG_LAYOUT[1]:
        raise NoValue("this driver mixes up the process numbers: update it to 535.104.05 or later")
    newest = driver.nvmlDeviceGetComputeRunningProcesses_v3
    memory = _by_pid(newest, driver.nvmlDeviceGetComputeRunningProcesses_v2, handle)
    for pid, drawing in _graphics(driver, handle).items():
        # A process that computes and draws is in both lists with the same size.
        memory[pid] = max((m for m in (memory.get(pid), drawing) if m is not None), default=None)
    return tuple(describe_process(pid, used) for pid, used in sorted(memory.items()))


def _driver_version(driver: Any) -> tuple[int, ...]:
    try:
        text = driver.nvmlSystemGetDriverVersion()
    except NO_VALUE:
        return ()
    return tuple(int(part) for part in text.split(".") if part.isdecimal())


def _graphics(driver: Any, handle: Any) -> dict[int, int | None]:
    newest = driver.nvmlDeviceGetGraphicsRunningProcesses_v3
    older = driver.nvmlDeviceGetGraphicsRunningProcesses_v2
    try:
        return _by_pid(newest, older, handle)
    except NO_VALUE:
        return {}  # a GPU without graphics


def _by_pid(newest: _List, older: _List, handle: Any) -> dict[int, int | None]:
    """Return bytes by pid; a process on several slices of a GPU is listed several times."""
    try:
        found = newest(handle)
    except pynvml.NVMLError_FunctionNotFound:
        found = older(handle)  # a driver before R510
    memory: dict[int, int | None] = {}
    for entry in found:
        known = [m for m in (memory.get(entry.pid), entry.usedGpuMemory) if m is not None]
        memory[entry.pid] = sum(known) if known else None
    return memory


def describe_process(pid: int, memory: int | None) -> GpuProcess:
    """Return a process with its name, user and start, as far as this user may know them."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            started = process.create_time()
            name, user = process.name(), process.username()
    except psutil.Error:
        # It has ended, belongs to another user on Windows, or runs outside this container.
        return GpuProcess(pid=pid, memory=memory)
    return GpuProcess(pid, _text(name), _text(user), memory, started)


def _text(name: str) -> str:
    """Return what a snapshot can hold of a name, whose bytes need not be UTF-8."""
    return os.fsencode(name).decode(errors="replace")
