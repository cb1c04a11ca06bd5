"""The report is for others: it names neither the user nor the machine, and holds no secret."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from engine.doctor.finding import Finding, problems_text
from engine.doctor.report import discreet, report_text
from tests.support.sentences import sentence

CHECKS = [
    Finding("driver", "ok", "All is well in /home/amelia/lab."),
    Finding("NCCL", "error", "It hangs.", "Do this."),
    Finding("compiler", "unknown", "Not asked."),
]


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/amelia")
    monkeypatch.setattr(platform, "node", lambda: "lab-seven")


def test_the_report_names_the_checks_and_what_matters_of_the_environment() -> None:
    environment = {
        "USER": "amelia",
        "CUDA_VISIBLE_DEVICES": "0",
        "LD_LIBRARY_PATH": "/home/amelia/cuda:/usr/lib",
        "NCCL_SOCKET_IFNAME": "lo",
        "SLURM_JOB_USER": "amelia",
        "SLURM_JOB_GPUS": "0",
        "TF_CPP_API_KEY": "hidden1",
        "TF_VAR_db": "hidden3",
        "WANDB_API_KEY": "hidden2",
        "SLURM_JOB_NODELIST": "secret-cluster",
    }
    text = report_text(CHECKS, {"Logs": "amelia@lab-seven: /home/amelia/x.py"}, environment)
    assert "ok       driver: All is well in ~/lab." in text
    assert "PROBLEM  NCCL: It hangs.\n         -> Do this." in text
    assert "CUDA_VISIBLE_DEVICES=0" in text
    assert "SLURM_JOB_GPUS=0" in text
    assert "LD_LIBRARY_PATH=~/cuda:/usr/lib" in text
    assert "USER@MACHINE: ~/x.py" in text
    for word in ("amelia", "lab-seven", "hidden1", "hidden2", "hidden3", "secret-cluster"):
        assert word not in text


def test_parts_of_other_words_stay() -> None:
    environment = {"USER": "ann"}
    assert discreet("ann's annual plan", environment) == "USER's annual plan"
    assert discreet("/home/amelia2/x", environment) == "/home/amelia2/x"


def test_a_short_or_usual_name_would_damage_the_text() -> None:
    assert discreet("root cause", {"USER": "root"}) == "root cause"
    assert discreet("a b", {"USER": "a"}) == "a b"


def test_the_summary_counts_problems() -> None:
    assert problems_text(CHECKS) == "3 checks: 1 found a problem."
    assert problems_text(CHECKS[::2]) == sentence("checks-no-problem-was-found", count=2)
    assert Path.home() == Path("/home/amelia")
