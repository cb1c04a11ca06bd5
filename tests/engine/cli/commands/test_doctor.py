"""What `doctor` prints, and its exit code; the checks are made elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import main
from engine.doctor.examination import Examination, Pythons
from engine.doctor.facts import DriverFacts
from engine.doctor.finding import Finding
from engine.planning.results import StrategyTrial, StrategyTrials, TriedStrategy
from engine.telemetry.snapshot import Snapshot
from tests.support.measuring_double import answer_requests
from tests.support.sentences import sentence

GOOD, BAD = Finding("driver", "ok", "It works."), Finding("NCCL", "error", "It hangs.", "Do this.")
UNKNOWN = Finding("XLA", "unknown", "Not asked.")


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    """The checks that the command gets; a test may add to them."""
    checks = [GOOD, UNKNOWN]

    def thorough(examination: Examination) -> Iterator[Finding]:
        yield from checks

    monkeypatch.setattr(Examination, "thorough", thorough)
    monkeypatch.setattr(Examination, "driver", DriverFacts(driver="580.1"))
    return checks


def test_each_check_has_a_line_and_the_exit_code_tells_of_problems(
    found: list[Finding], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["doctor"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ok       driver: It works.",
        "-        XLA: Not asked.",
        sentence("checks-no-problem-was-found", count=2),
    ]
    found.append(BAD)
    assert main.main(["doctor"]) == 1
    assert "PROBLEM  NCCL: It hangs.\n         -> Do this.\n" in capsys.readouterr().out


def test_json_is_one_list(found: list[Finding], capsys: pytest.CaptureFixture[str]) -> None:
    found.append(BAD)
    assert main.main(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == [
        {"name": "driver", "level": "ok", "text": "It works.", "advice": "", "change": None},
        {"name": "XLA", "level": "unknown", "text": "Not asked.", "advice": "", "change": None},
        {
            "name": "NCCL",
            "level": "error",
            "text": "It hangs.",
            "advice": "Do this.",
            "change": None,
        },
    ]


def test_a_damaged_list_of_environments_is_one_of_the_checks(
    found: list[Finding], traindeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (traindeck_home / "environments.json").parent.mkdir(parents=True, exist_ok=True)
    (traindeck_home / "environments.json").write_text("{")
    assert main.main(["doctor", "--json"]) == 1
    first, *others = json.loads(capsys.readouterr().out)
    assert (first["name"], first["level"]) == ("environments", "error")
    assert sentence("list-of-environments-cannot-be-read") in first["text"]
    assert "fsck --repair" in first["advice"]
    assert [each["name"] for each in others] == ["driver", "XLA"]


def test_full_trains_each_strategy_and_writes_one_file(
    found: list[Finding],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    failed = Finding("strategy torch/ddp, fp32", "error", "It failed.")
    trial = StrategyTrial(failed, "NCCL WARN")
    answer_requests(monkeypatch, lambda _: [TriedStrategy(trial), StrategyTrials((trial,))])
    module = "engine.interface.local_examination"
    monkeypatch.setattr(f"{module}.snapshot_once", lambda: Snapshot(time=0.0, devices=()))
    monkeypatch.chdir(tmp_path)
    assert main.main(["doctor", "--full"]) == 1
    assert "PROBLEM  strategy torch/ddp, fp32: It failed." in capsys.readouterr().out
    [file] = tmp_path.glob("traindeck-report-*.txt")
    text = file.read_text("utf-8")
    for part in ("ok       driver: It works.", "NCCL WARN", '"driver": "580.1"'):
        assert part in text


def test_an_environment_is_named(
    found: list[Finding], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Pythons] = []
    monkeypatch.setattr(Examination, "__init__", lambda self, pythons, **_: asked.append(pythons))
    assert main.main(["doctor", "--env", "traindeck"]) == 0
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.touch(mode=0o755)
    assert main.main(["doctor", "--env", str(tmp_path)]) == 0
    assert main.main(["doctor", "--env", "nowhere"]) == 2
    assert asked == [Pythons(), Pythons(str(python), str(python))]
