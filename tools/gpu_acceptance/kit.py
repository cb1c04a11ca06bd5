"""Where a step of the kit works and on which device, and the lines that it writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RECIPES, SCRIPTS = HERE / "recipes", HERE / "scripts"

CPU = "cpu:0"
"""The device of a dry run."""

RESULT = "ACCEPTANCE_RESULT"
"""The variable with the file in which a recipe or a script writes what it measured in itself."""

MARKS = "ACCEPTANCE_MARKS"
"""The variable with the two steps between which a recipe takes the time: `12,32`."""

LONGEST_LINE = 600
"""Characters of a line that are also printed."""

NOTHING: Mapping[str, str] = MappingProxyType({})

_lock = threading.Lock()


@dataclass(frozen=True)
class Kit:
    """One run of the kit. It is handed to each step."""

    out: Path
    """The folder of what is kept."""

    work: Path
    """A folder for everything else; all steps share it."""

    device: str
    """As a spec names it: the UUID of a card, or CPU."""

    slow: float = 1.0
    """Multiplies all time limits."""

    seconds: float = 600.0
    """The limit of this step."""

    @property
    def on_gpu(self) -> bool:
        """Whether this is no dry run."""
        return self.device != CPU

    @property
    def torch_device(self) -> str:
        """The device in a program of its own that sees no other card."""
        return "cuda:0" if self.on_gpu else "cpu"

    @property
    def visible(self) -> dict[str, str]:
        """What such a program needs in its environment."""
        return {"CUDA_VISIBLE_DEVICES": self.device} if self.on_gpu else {}

    def emit(self, step: str, **figures: Any) -> None:
        """Write one line; what was found so far stays if the step is ended."""
        line = json.dumps({"step": step, **figures}, default=str)
        with _lock, (self.out / "results.jsonl").open("a") as file:
            file.write(line + "\n")
        print(line[:LONGEST_LINE], flush=True)

    def side_by_side(self, most: int, calls: Iterable[Callable[[], None]]) -> None:
        """Call all of them, `most` at a time on a card; an error of one is a line of its own."""

        def call_and_tell(call: Callable[[], None]) -> None:
            try:
                call()
            except Exception as error:
                self.emit("error", text=error_text(error))

        with ThreadPoolExecutor(most if self.on_gpu else 1) as pool:
            list(pool.map(call_and_tell, calls))

    def run_python(
        self, *words: str, seconds: float = 100.0, variables: Mapping[str, str] = NOTHING
    ) -> str:
        """Return what a Python program prints that sees only the card in question.

        Raises RuntimeError if it fails.
        """
        done = subprocess.run(
            [sys.executable, *words],
            capture_output=True,
            text=True,
            timeout=self.slow * seconds,
            env=os.environ | self.visible | dict(variables),
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            raise RuntimeError(f"{words[:3]}: {done.returncode}: {done.stderr[-1500:]}")
        return done.stdout

    def run_main(
        self, *words: str, seconds: float = 120.0, variables: Mapping[str, str] = NOTHING
    ) -> dict[str, Any]:
        """Return code, seconds and output of a command of the product."""
        return self.run_program("main.py", *words, seconds=seconds, variables=variables)

    def run_program(
        self, *words: str, seconds: float, variables: Mapping[str, str] = NOTHING
    ) -> dict[str, Any]:
        """Return code, seconds and output of a Python program of this checkout."""
        begin = time.monotonic()
        try:
            done = subprocess.run(
                [sys.executable, *words],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=self.slow * seconds,
                env=os.environ | dict(variables),
                stdin=subprocess.DEVNULL,
            )
            code, output, errors = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as late:
            code, output, errors = 124, _text(late.stdout), _text(late.stderr)
        return {
            "command": " ".join(words)[:300],
            "rc": code,
            "took": round(time.monotonic() - begin, 2),
            "out": output[-6000:],
            "err": errors[-1500:],
        }


def last_json(found: Mapping[str, Any]) -> Any:
    """Return the JSON in the last line of a command's output; None: there is none."""
    try:
        return json.loads(str(found["out"]).strip().splitlines()[-1])
    except (ValueError, IndexError):
        return None


def read_result(file: Path) -> dict[str, Any]:
    """Return what a recipe or a script has written; nothing if it did not get so far."""
    return dict(json.loads(file.read_text())) if file.exists() else {}


def error_text(error: Exception) -> str:
    """Return an error in a line."""
    return f"{type(error).__name__}: {error}"[:2500]


def _text(output: bytes | str | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""
