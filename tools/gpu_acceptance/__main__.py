"""`python -m tools.gpu_acceptance`: each step in a process of its own with a time limit.

A step that is late is ended with its runs, and the next row begins. README.md has the options.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from engine.system.paths import HOME_VARIABLE
from engine.templates.protocol import FOLDER_VARIABLE
from tools.gpu_acceptance import product
from tools.gpu_acceptance.kit import CPU, ROOT, Kit, error_text
from tools.gpu_acceptance.nvidia_smi import first_uuid
from tools.gpu_acceptance.timetable import ROWS, STEPS, Step

END_SECONDS = 5.0
"""What a late step gets to end its runs."""

WORTHWHILE = 0.4
"""A step begins only if this share of its limit is left."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the chosen steps; return 0, whatever they found."""
    options = _parser().parse_args(words)
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if options.step:
        return _run_one(
            STEPS[options.step],
            Kit(out, options.work, options.device, options.slow, options.seconds),
        )
    rows = _chosen(options.only, options.without)
    device = options.device
    if device == "auto":
        device = first_uuid()
        if not device:
            sys.exit("nvidia-smi lists no GPU here: --device cpu makes a dry run.")
    with tempfile.TemporaryDirectory(
        prefix="traindeck-acceptance-", ignore_cleanup_errors=True
    ) as work:
        device = CPU if device == "cpu" else device
        _run_rows(Kit(out, Path(work), device, options.slow, options.seconds), rows)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.gpu_acceptance", description="See README.md beside this program."
    )
    parser.add_argument("--out", type=Path, default=Path("acceptance"), help="folder of results")
    parser.add_argument("--seconds", type=float, default=1200.0, help="for all steps together")
    parser.add_argument("--device", default="auto", help="the UUID of a GPU, or cpu: a dry run")
    parser.add_argument("--only", default="", help="names of steps, with commas")
    parser.add_argument("--without", default="", help="names of steps, with commas")
    parser.add_argument("--slow", type=float, default=1.0, help="multiplies all time limits")
    parser.add_argument("--step", choices=STEPS, default="", help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    return parser


def _chosen(only: str, without: str) -> list[list[Step]]:
    """Return the rows with the steps that are wanted; ends the program at an unknown name."""
    wanted = set(filter(None, only.split(","))) or set(STEPS)
    left_out = set(filter(None, without.split(",")))
    if unknown := (wanted | left_out) - set(STEPS):
        names = ", ".join(sorted(unknown))
        sys.exit(f"There is no step {names}. The steps are {', '.join(STEPS)}.")
    return [[step for step in row if step.name in wanted - left_out] for row in ROWS]


def _run_rows(kit: Kit, rows: Sequence[Sequence[Step]]) -> None:
    deadline = time.monotonic() + kit.seconds
    environment = os.environ | {
        FOLDER_VARIABLE: str(kit.work / "templates"),  # one template for all steps
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        "PYTHONUNBUFFERED": "1",
    }
    _write_line(kit, "kit", device=kit.device, seconds=kit.seconds, work=str(kit.work))
    running: list[subprocess.Popen[bytes]] = []

    def run(step: Step) -> None:
        _run_process(kit, step, deadline, environment, running)

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for row in rows:
            threads = [threading.Thread(target=run, args=(step,)) for step in row]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        _write_line(kit, "kit", done=True, seconds_left=round(deadline - time.monotonic(), 1))
    except KeyboardInterrupt:
        print("Interrupted: the runs of the present steps are ended.", flush=True)
        for process in running:
            if process.poll() is None:
                _end(process)
    finally:
        off = [sys.executable, "main.py", "warm", "--off"]
        home = {HOME_VARIABLE: str(kit.work / "home")}  # the setting is not the user's
        subprocess.run(off, cwd=ROOT, env=environment | home, capture_output=True)


def _run_process(
    kit: Kit,
    step: Step,
    deadline: float,
    environment: dict[str, str],
    running: list[subprocess.Popen[bytes]],
) -> None:
    """Run a step in a process of its own, which `running` gets, and end it when it is late."""
    limit, left = step.seconds * kit.slow, deadline - time.monotonic()
    if left < WORTHWHILE * limit:
        _write_line(kit, step.name, skipped="no time is left")
        return
    limit = min(limit, left)
    command = [sys.executable, "-m", "tools.gpu_acceptance", "--step", step.name]
    command += ["--out", str(kit.out), "--work", str(kit.work), "--device", kit.device]
    command += ["--slow", str(kit.slow), "--seconds", str(limit)]
    begin = time.monotonic()
    with (kit.out / "log.txt").open("ab") as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment | {HOME_VARIABLE: str(kit.work / step.name)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        running.append(process)
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            _end(process)
            code = 124
    _write_line(kit, step.name, rc=code, took=round(time.monotonic() - begin, 1))


def _end(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGTERM)  # it ends its runs
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _run_one(step: Step, kit: Kit) -> int:
    """Run a step in this process; return 1 if it has failed."""

    def end(number: int, frame: FrameType | None) -> None:
        product.end_all()
        os._exit(128 + number)

    signal.signal(signal.SIGTERM, end)
    try:
        step.run(kit)
    except Exception as error:
        kit.emit(step.name, error=error_text(error), trace=traceback.format_exc()[-1500:])
        return 1
    finally:
        product.end_all()
    return 0


def _write_line(kit: Kit, step: str, **figures: Any) -> None:
    """Write when a step has ended, and how."""
    line = {"at": round(time.time(), 1), "step": step, **figures}
    with (kit.out / "results.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
