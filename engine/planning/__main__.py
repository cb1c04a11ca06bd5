"""`python -m engine.planning` does what one request on standard input asks for, and answers.

It reads one `Request` as a line of JSON, and prints an `Answer` a line: news, and in the end a
result or a refusal. It ends, and its workers with it, when standard input closes or it gets
SIGTERM; what was measured until then is its result.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable
from typing import BinaryIO, assert_never

from engine.client import CannotStart
from engine.doctor.examination import Pythons
from engine.planning import preflight, race, recipe_check, strategy_trials
from engine.planning.device_claim import DevicesInUse
from engine.planning.memory import batch_search, memory_estimate
from engine.planning.replays import divergence, replay
from engine.planning.requests import (
    Answer,
    AskBatch,
    AskCheck,
    AskDivergence,
    AskMemory,
    AskPreflight,
    AskRace,
    AskReplay,
    AskTrials,
    Refusal,
    Request,
    decode_request,
    encode_line,
)
from engine.planning.results import News, Result
from engine.processes.process import END_SIGNALS
from engine.runs.run_info import NoSuchRun
from engine.spec.catalog import UnknownName
from engine.system.cancelled import Cancelled


def main() -> int:
    """Answer one request; return the exit code."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)  # before anything can be printed
    os.dup2(2, 1)
    is_ending = threading.Event()
    for number in END_SIGNALS:
        signal.signal(number, lambda *_: is_ending.set())
    telling = threading.Lock()  # side by side, several threads have news

    def tell(answer: Answer) -> None:
        with telling:
            _write(answers, encode_line(answer), is_ending)

    try:
        request = decode_request(sys.stdin.buffer.readline())
    except ValueError as error:
        tell(Refusal(f"This is no request: {error}."))
        return 2
    threading.Thread(target=_watch_input, args=(is_ending,), daemon=True).start()
    try:
        tell(_result(request, tell, is_ending.is_set))
    except (
        race.CannotRace, replay.CannotReplay, DevicesInUse, CannotStart, NoSuchRun, UnknownName,
    ) as error:  # fmt: skip
        tell(Refusal(str(error)))
    except Cancelled:  # a prediction needs all its runs
        tell(Refusal("It was stopped."))
    except sqlite3.Error as error:
        tell(Refusal(f"The run cannot be read: {error}."))
    except OSError as error:
        tell(Refusal(f"Nothing can be measured: {error}."))
    return 0


def _result(
    request: Request, tell: Callable[[News], None], is_cancelled: Callable[[], bool]
) -> Result | Refusal:
    match request:
        case AskRace():
            return race.race(
                request.entrants,
                steps=request.steps,
                together=request.together,
                devices=request.devices,
                tell=tell,
                is_cancelled=is_cancelled,
            )
        case AskPreflight(spec, seconds):
            return preflight.preflight(spec, seconds, tell, is_cancelled)
        case AskMemory(spec, limit_mib):
            return memory_estimate.estimate(spec, limit_mib, tell, is_cancelled)
        case AskBatch(spec, limit_mib):
            return batch_search.search(spec, limit_mib, tell, is_cancelled)
        case AskCheck(spec, seconds):
            return recipe_check.check_recipe(spec, seconds, is_cancelled)
        case AskReplay(run, step, keeps):
            return replay.replay(run, step, tell, is_cancelled, keeps_checkpoint=keeps)
        case AskDivergence(first, second):
            return divergence.diverge(first, second, tell, is_cancelled)
        case AskTrials(gpus, torch, tensorflow):
            pythons = Pythons(torch, tensorflow)
            return strategy_trials.try_strategies(gpus, pythons, tell, is_cancelled)
        case _:
            assert_never(request)


def _watch_input(is_ending: threading.Event) -> None:
    """Wait until standard input closes: whoever asked is gone, or wants no more."""
    while os.read(0, 4096):
        pass
    is_ending.set()


def _write(answers: BinaryIO, line: bytes, is_ending: threading.Event) -> None:
    try:
        while line:
            line = line[answers.write(line) :]
    except OSError:  # nobody reads any more
        is_ending.set()


if __name__ == "__main__":
    sys.exit(main())
