from __future__ import annotations

import sys

import pytest
from traindeck_watch import role
from traindeck_watch.role import Role

LINK = {"TRAINDECK_LINK": "/nowhere"}


def role_of(monkeypatch, *words, watched=False):
    monkeypatch.setattr(sys, "orig_argv", ["python", *words])
    monkeypatch.setenv("TRAINDECK_LINK", "/nowhere")
    monkeypatch.delenv(role.WATCHED_VARIABLE, raising=False)
    if watched:
        monkeypatch.setenv(role.WATCHED_VARIABLE, "1")
    return role.of_this_process()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["train.py"], Role.MAIN),
        (["-u", "-W", "ignore", "-X", "dev", "train.py", "-m", "pip"], Role.MAIN),
        (["-m", "package.train", "--x"], Role.MAIN),
        (["-um", "package.train"], Role.MAIN),
        (["-c", "import train"], Role.MAIN),
        (["build.py"], Role.MAIN),
        (["torchrun.py"], Role.MAIN),
        (["/env/bin/torchrun", "train.py"], Role.LAUNCHER),
        (["-m", "torch.distributed.run", "train.py"], Role.LAUNCHER),
        (["/env/bin/accelerate", "launch", "train.py"], Role.LAUNCHER),
        (["-m", "ipykernel_launcher", "-f", "kernel.json"], Role.MAIN),
        (["-m", "pip", "install", "x"], Role.NONE),
        (["/env/bin/pip", "install", "x"], Role.NONE),
        (["-mpip", "list"], Role.NONE),
        (["/env/lib/torch/_inductor/compile_worker/__main__.py"], Role.NONE),
        (["-c", "from multiprocessing.resource_tracker import main;main(3)"], Role.NONE),
        (["-c", "from multiprocessing.spawn import spawn_main; spawn_main()"], Role.INNER),
    ],
)
def test_the_command_line_says_what_a_process_is(words, expected, monkeypatch):
    assert role_of(monkeypatch, *words) is expected


def test_what_a_watched_script_starts_is_silent_at_first(monkeypatch):
    assert role_of(monkeypatch, "other.py", watched=True) is Role.INNER


def test_nothing_is_watched_without_a_link(monkeypatch):
    monkeypatch.delenv("TRAINDECK_LINK", raising=False)
    assert role.of_this_process() is Role.NONE


def test_one_process_at_a_time_trains(monkeypatch, tmp_path):
    monkeypatch.setenv("TRAINDECK_LINK", str(tmp_path / "link"))
    assert role.steps_of_others() == 0
    claim = role.claim_training()
    assert claim is not None
    role.note_steps(claim, 7)
    assert role.steps_of_others() == 7
    assert role.claim_training() is None
    role.os.close(claim)
    again = role.claim_training()
    assert again is not None
    role.os.close(again)
