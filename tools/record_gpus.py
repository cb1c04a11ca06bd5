"""Saves what this machine's NVIDIA driver answers, so that it can be replayed on another machine.

`python -m tools.record_gpus FILE`
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pynvml

from engine.telemetry.helper.nvml import GpuSample, Nvml
from engine.telemetry.helper.nvml_rates import field_number
from engine.telemetry.helper_client import ROOT, abandon

_HERE = "--in-this-process"


class Answer(msgspec.Struct, frozen=True):
    """The last answer of the driver to one question."""

    who: str
    """`system`, a GPU by its index in NVML (`gpu0`), or a MIG slice of it (`gpu0.mig1`)."""

    function: str
    """Its name in NVML, and its arguments besides the device: `nvmlDeviceGetClockInfo:1`."""

    code: int
    """NVML's return code; 0: success."""

    values: tuple[int | str, ...] = ()
    """The fields of the result, in the order of its structure; -1 if a field is not known."""


class Recording(msgspec.Struct, frozen=True):
    """A machine as its driver describes it. Processes have numbers only, no names."""

    recorded: float
    """Seconds since the epoch."""

    answers: tuple[Answer, ...]


class RecordingDriver:
    """Answers like pynvml, which it asks, and keeps the last answer to every question."""

    def __init__(self, driver: Any = pynvml) -> None:
        self._driver = driver
        self._names: dict[int | None, str] = {}
        self._answers: dict[tuple[str, str], Answer] = {}

    @property
    def answers(self) -> tuple[Answer, ...]:
        """In the order of the questions."""
        return tuple(self._answers.values())

    def __getattr__(self, function: str) -> Callable[..., Any]:
        ask = getattr(self._driver, function)

        def ask_and_remember(*arguments: Any) -> Any:
            who, question = self._question(function, arguments)
            try:
                result = ask(*arguments)
            except pynvml.NVMLError as error:
                self._remember(who, question, error.value)
                raise
            except pynvml.NVMLLibraryMismatchError:
                self._remember(who, question, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
                raise
            if function == "nvmlDeviceGetFieldValues":
                for field in result:
                    number = () if field.nvmlReturn else (field_number(field),)
                    self._remember(who, f"{function}:{field.fieldId}", field.nvmlReturn, number)
                return result
            if function == "nvmlDeviceGetHandleByIndex":
                self._names[_address(result)] = who
            elif function == "nvmlDeviceGetMigDeviceHandleByIndex":
                self._names[_address(result)] = f"{who}.mig{arguments[1]}"
            self._remember(who, question, pynvml.NVML_SUCCESS, _plain(result))
            return result

        return ask_and_remember

    def _question(self, function: str, arguments: tuple[Any, ...]) -> tuple[str, str]:
        """Return the device that is asked, and the question."""
        match function, arguments:
            case "nvmlDeviceGetHandleByIndex", (index,):
                return f"gpu{index}", function
            case "nvmlDeviceGetMemoryInfo", (device, version):
                return self._name(device), f"{function}_v2" if version else function
            case "nvmlDeviceGetFieldValues", (device, _):
                return self._name(device), function
            case _, (pynvml.c_nvmlDevice_t() as device, *rest):
                return self._name(device), ":".join([function, *map(self._name, rest)])
            case _:
                return "system", ":".join([function, *map(str, arguments)])

    def _name(self, argument: Any) -> str:
        if isinstance(argument, pynvml.c_nvmlDevice_t):
            return self._names[_address(argument)]
        return str(argument)

    def _remember(
        self, who: str, question: str, code: int, values: tuple[int | str, ...] = ()
    ) -> None:
        self._answers[who, question] = Answer(who, question, code, values)


def record_gpus(file: Path, timeout: float = 60.0) -> int:
    """Record the driver in a process of its own and print what came out; return the exit code.

    A driver that crashes, or that does not answer within `timeout` seconds, ends that process only.
    """
    command = [sys.executable, "-m", "tools.record_gpus", _HERE, str(file.absolute())]
    recorder = subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        output, _ = recorder.communicate(timeout=timeout)
        text = output.decode(errors="replace").strip()
        if recorder.returncode < 0:
            text = "The NVIDIA driver took the recording process down."
    except subprocess.TimeoutExpired:
        abandon(recorder)
        text = f"The NVIDIA driver does not answer (asked for {timeout:g} s)."
    failed = recorder.returncode != 0
    print(text, file=sys.stderr if failed else sys.stdout)
    return int(failed)


def record(path: Path) -> str:
    """Ask for everything on this machine, save the answers in `path`; returns what to tell people.

    Raises OSError where the file cannot be written.
    """
    driver = RecordingDriver()
    sample = _ask_for_everything(Nvml(driver))
    recording = Recording(recorded=time.time(), answers=driver.answers)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(recording), indent=1) + b"\n")
    found = sample.note or f"Recorded {len(sample.devices)} GPUs."
    return (
        f"{found} The answers of the driver are in {path}: they hold the UUIDs of the GPUs and the "
        "numbers of processes, but no names of programs or users."
    )


def _ask_for_everything(nvml: Nvml) -> GpuSample:
    sample = nvml.sample()
    for row in sample.devices:
        sample = nvml.sample(detail=row.id)
    return sample


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value


def _plain(result: Any) -> tuple[int | str, ...]:
    """Return an answer of pynvml as plain numbers and text."""
    match result:
        case None | pynvml.c_nvmlDevice_t():
            return ()
        case bytes():
            return (result.decode(),)
        case int() | str():
            return (result,)
        case pynvml.nvmlPciInfo_t():
            return _plain(result.busId)
        case ctypes.Structure():
            names = [name for name, *_ in result._fields_ if name != "version"]
            return tuple(int(getattr(result, name)) for name in names)
        case [int(), *_]:
            return tuple(result)
        case _:
            return tuple(number for entry in result for number in _process(entry))


def _process(entry: Any) -> tuple[int, int]:
    return entry.pid, -1 if entry.usedGpuMemory is None else entry.usedGpuMemory


def _record_here(file: Path) -> None:
    try:
        print(record(file))
    except OSError as error:
        sys.exit(f"The recording cannot be written: {error}.")


if __name__ == "__main__":
    match sys.argv[1:]:
        case [word, path] if word == _HERE:
            _record_here(Path(path))
        case [path] if not path.startswith("-"):
            sys.exit(record_gpus(Path(path)))
        case _:
            sys.exit("Say where to save it: python -m tools.record_gpus FILE")
