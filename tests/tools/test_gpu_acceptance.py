"""The kit for real GPUs runs to its end on CPUs, where its figures mean nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.gpu_acceptance import __main__ as kit
from tools.gpu_acceptance.kit import ROOT
from tools.gpu_acceptance.timetable import STEPS

FAST = ("reference", "kill", "resume", "faults", "overhead", "throughput", "start_step")
"""Steps that a CPU does in some seconds each."""


def run_dry(out: Path, *steps: str) -> list[dict[str, Any]]:
    """Run `steps` of the kit on a CPU, however slow; the lines of their figures."""
    command = [sys.executable, "-m", "tools.gpu_acceptance", "--device", "cpu", "--slow", "20"]
    command += ["--seconds", "10000", "--out", str(out), "--only", ",".join(steps)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("processes")
def test_a_dry_run_of_the_fast_steps_comes_to_its_end(tmp_path: Path) -> None:
    lines = run_dry(tmp_path, *FAST)
    errors = [line for line in lines if "error" in line or line["step"] == "error"]
    assert errors == []
    assert {line["step"]: line["rc"] for line in lines if "rc" in line} == dict.fromkeys(FAST, 0)
    named = {line["step"]: line for line in lines if "rc" not in line}
    assert named["kit"]["done"]
    assert named["overhead"]["ratio"]["host_ms"] > 0
    assert named["throughput"]["recorded"]["gpu_ms"] > 0
    (resumed,) = [line["resumed"] for line in lines if "resumed" in line]
    assert resumed["equal_bits"]
    assert [line["loaders"]["equal_bits"] for line in lines if "loaders" in line] == [True]


def test_an_unknown_step_is_named_with_those_that_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        kit.main(["--device", "cpu", "--out", str(tmp_path), "--only", "matrix,mamory"])
    assert "mamory" in str(ended.value.code)
    assert all(name in str(ended.value.code) for name in STEPS)
