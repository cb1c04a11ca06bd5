"""Tests `python -m engine.planning`: one request, news and a result; whoever asked may be gone."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from engine.planning.measuring_process import MeasuringEnd
from engine.planning.race import ROUGH
from engine.planning.requests import Answer, AskMemory, AskRace, Refusal, decode_answer, encode_line
from engine.planning.results import Doing, MemoryEstimate, Race, Raced
from engine.processes.process import PROJECT, module_environment
from engine.spec.run_spec import RunSpec
from tests.support.runs import TIMEOUT_SECONDS

pytestmark = pytest.mark.usefixtures("processes")

ONE = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",), batch_size=64)
TWO = replace(ONE, strategy="torch/ddp", devices=("cpu:0", "cpu:1"))
ENDLESS = 1_000_000


@pytest.fixture
def start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[bytes], subprocess.Popen[bytes]]]:
    temporary = tmp_path / "t"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    started = []

    def begin(line: bytes) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "engine.planning"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=module_environment(os.environ),
            cwd=PROJECT,
        )
        started.append(process)
        assert process.stdin is not None
        process.stdin.write(line)
        process.stdin.flush()
        return process

    yield begin
    for each in started:
        with each:  # which closes its pipes
            each.kill()
    monkeypatch.setattr(tempfile, "tempdir", None)


def _request(*entrants: RunSpec, steps: int = 20) -> bytes:
    return encode_line(AskRace(entrants=entrants, steps=steps))


def _next(process: subprocess.Popen[bytes]) -> Answer:
    assert process.stdout is not None
    return decode_answer(process.stdout.readline())


def _until_it_trains(process: subprocess.Popen[bytes]) -> None:
    while not (isinstance(found := _next(process), Doing) and found.text.startswith("Trains")):
        pass


def _left(temporary: Path) -> list[object]:
    """Return what is left of a race: folders, and supervisors of its runs."""
    found: list[object] = [*temporary.glob("traindeck-own-*")]
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "engine.supervisor" in words and str(temporary) in " ".join(words):
            found.append(process)
    return found


@pytest.mark.nightly
def test_a_race_tells_news_and_a_result(
    start: Callable[[bytes], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    process = start(_request(ONE, TWO, replace(TWO, strategy="torch/single")))
    answers = [_next(process)]
    while not isinstance(answers[-1], Race | Refusal):
        answers.append(_next(process))

    race = answers[-1]
    assert isinstance(race, Race)
    assert sum(isinstance(each, Raced) for each in answers) >= 3
    able = [each for each in race.entries if each.samples_per_second]
    assert {each.strategy for each in able} == {"torch/single", "torch/ddp"}
    is_rough = any(each.noise >= ROUGH for each in able)  # this machine may be busy
    for each in able:
        assert each.first_step_seconds > 0
        assert each.memory["cpu"] > 2**20
        assert each.steps > 0
        assert is_rough or each.efficiency is not None
    [refused] = [each for each in race.entries if each.problem]
    assert "trains on 1 device" in refused.problem
    assert process.wait(60) == 0
    assert _left(tmp_path / "t") == []


@pytest.mark.nightly
def test_memory_is_predicted(
    start: Callable[[bytes], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    process = start(encode_line(AskMemory(ONE)))
    while isinstance(answer := _next(process), Doing):
        pass
    assert isinstance(answer, MemoryEstimate)
    assert answer.problem == ""
    [device] = answer.devices
    assert 0 < device.total < device.available
    assert process.wait(60) == 0
    assert _left(tmp_path / "t") == []


def test_it_ends_with_its_workers_when_nobody_asks_any_more(
    start: Callable[[bytes], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    process = start(_request(ONE, TWO, steps=ENDLESS))
    _until_it_trains(process)
    assert process.stdin is not None
    process.stdin.close()

    answer = _next(process)
    while isinstance(answer, Doing | Raced):
        answer = _next(process)
    assert isinstance(answer, Race)
    assert answer.is_stopped
    assert process.wait(120) == 0
    assert _left(tmp_path / "t") == []


def test_it_may_be_killed(
    start: Callable[[bytes], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    process = start(_request(TWO, steps=ENDLESS))
    _until_it_trains(process)
    process.kill()
    process.wait()

    deadline = time.monotonic() + TIMEOUT_SECONDS
    while left := _left(tmp_path / "t"):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def test_what_is_no_request_is_refused(start: Callable[[bytes], subprocess.Popen[bytes]]) -> None:
    process = start(b"noise\n")
    answer = _next(process)
    assert isinstance(answer, Refusal)
    assert "no request" in answer.text
    assert process.wait(60) == 2


def test_too_few_steps_are_refused(start: Callable[[bytes], subprocess.Popen[bytes]]) -> None:
    answer = _next(start(_request(ONE, steps=0)))
    assert isinstance(answer, Refusal)
    assert "at least 5" in answer.text


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (MeasuringEnd(-9), "The process that measured was ended by SIGKILL."),
        (
            MeasuringEnd(1, "no room"),
            "The process that measured has ended without a result. no room",
        ),
        (MeasuringEnd(why="It is gone."), "It is gone."),
    ],
)
def test_why_there_is_no_result(end: MeasuringEnd, said: str) -> None:
    assert end.sentence == said
