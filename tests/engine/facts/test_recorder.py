"""Recording never fails a run, never holds its end, and tells what it could not find out."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from engine.facts import recorder, surroundings
from engine.facts.git_state import Found, GitState
from engine.facts.recorder import Code, FactsRecorder
from engine.facts.run_facts import read_diff, read_facts
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from tests.support.sentences import sentence

CARD = DeviceSnapshot(
    id="GPU-1", kind="gpu", label="0", name="H100 80GB", index=0, memory_total=80 * 2**30
)
SNAPSHOT = Snapshot(time=0.0, devices=(CARD,))


@pytest.fixture(autouse=True)
def machine_may_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "LAST_SECONDS", 60.0)


def record(folder: Path, code: Code, snapshot: Snapshot | None = None) -> FactsRecorder:
    made = FactsRecorder(folder, code)
    made.begin(1)
    if snapshot is not None:
        made.show_snapshot(snapshot)
    return made


def test_python_packages_machine_and_devices_are_recorded(tmp_path: Path) -> None:
    record(tmp_path, Code(None, "", ("cpu:0",))).end()
    facts = read_facts(tmp_path).attempt
    assert facts is not None
    assert facts.python.startswith("3.")
    assert "msgspec" in facts.packages
    assert facts.threads >= 1
    assert facts.memory > 2**20
    assert facts.host
    assert facts.git is None
    assert [device.id for device in facts.devices] == ["cpu:0"]


def test_the_names_of_gpus_follow_with_the_first_snapshot(tmp_path: Path) -> None:
    made = record(tmp_path, Code(None, "", ("GPU-1", "GPU-gone")))
    deadline = time.monotonic() + 60.0
    while read_facts(tmp_path).attempt is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    made.show_snapshot(SNAPSHOT)
    made.end()
    facts = read_facts(tmp_path).attempt
    assert facts is not None
    first, second = facts.devices
    assert (first.name, first.label, first.memory) == ("H100 80GB", "GPU 0", 80 * 2**30)
    assert (second.id, second.name) == ("GPU-gone", "")


def test_the_code_of_the_user_is_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Path, list[str]]] = []

    def state(folder: Path, secrets: list[str], *, stop: threading.Event) -> Found:
        asked.append((folder, list(secrets)))
        return Found(GitState(commit="abc"), "the diff")

    monkeypatch.setattr(recorder.git_state, "git_state", state)
    monkeypatch.setenv("OF_THE_RUN", "quite private")
    record(tmp_path, Code(tmp_path / "code", "", ("cpu:0",), ("OF_THE_RUN", "GONE"))).end()
    facts = read_facts(tmp_path).attempt
    assert facts is not None
    assert facts.git == GitState(commit="abc")
    assert read_diff(tmp_path, 1) == "the diff"
    assert asked[0][0] == tmp_path / "code"
    assert "quite private" in asked[0][1]


def test_what_cannot_be_read_is_told_and_the_rest_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> dict[str, object]:
        raise RuntimeError("no such thing")

    monkeypatch.setattr(surroundings, "machine_facts", fail)
    record(tmp_path, Code(None, "", ("cpu:0",))).end()
    facts = read_facts(tmp_path).attempt
    assert facts is not None
    assert facts.problems == (sentence("machine-could-not-be-read"),)
    assert "msgspec" in facts.packages


def test_a_run_folder_that_is_gone_fails_nothing(tmp_path: Path) -> None:
    record(tmp_path / "gone", Code(None, "", ("cpu:0",))).end()
    assert not (tmp_path / "gone").exists()


def test_what_is_known_is_there_while_git_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[bool] = []

    def state(folder: Path, secrets: list[str], *, stop: threading.Event) -> None:
        found.append(read_facts(tmp_path).attempt is not None)

    monkeypatch.setattr(recorder.git_state, "git_state", state)
    record(tmp_path, Code(tmp_path, "", ("cpu:0",))).end()
    assert found == [True]


def test_the_end_of_a_run_ends_the_question_to_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def state(folder: Path, secrets: list[str], *, stop: threading.Event) -> Found:
        assert stop.wait(60)
        return Found(GitState(problem="The run ended."), "")

    monkeypatch.setattr(recorder.git_state, "git_state", state)
    monkeypatch.setattr(recorder, "LAST_SECONDS", 0.0)
    monkeypatch.setattr(recorder, "GIT_SECONDS", 60.0)
    record(tmp_path, Code(tmp_path, "", ("cpu:0",))).end()
    facts = read_facts(tmp_path).attempt
    assert facts is not None
    assert facts.git == GitState(problem="The run ended.")
