"""What the command line prints cannot control the terminal, and cannot be markup."""

from __future__ import annotations

import re

import pytest

import main
from engine.cli.errors import report_errors
from engine.cli.output import Refused, err, out, printable
from engine.cli.progress import ProgressView
from engine.messages.events import Failure, RunEnded
from engine.runs.run_notes import RunNotes, write_notes
from tests.support.recorded_runs import RecordedRun

EVIL = "[red]a[/]\x1b]0;title\x07\x1b[2J\x9b31m \u202egnp.exe\u2066\r\x08[link=http://x]b"
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def test_control_characters_become_visible() -> None:
    assert (
        printable("a\x1b[2Jb\x9b\u202ec\r\n\td é 猫 👩‍🔬")
        == r"a\x1b[2Jb\x9b\u202ec\r" + "\n\td é 猫 👩‍🔬"
    )


def test_names_notes_and_reasons_cannot_control_the_terminal(
    traindeck_home: object, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RecordedRun()
    run.begin()
    write_notes(run.folder, RunNotes(name=EVIL, tags=(EVIL,), note=EVIL))
    failure = Failure(0, "cpu:0", 1, "", EVIL, EVIL, EVIL)
    run.add(RunEnded("failed", EVIL, failure))
    run.store.close()
    for command in (["runs"], ["show", run.id], ["attach", run.id], ["queue"]):
        main.main(command)
        printed = capsys.readouterr()
        assert not CONTROLS.search(printed.out + printed.err), command
        if command[0] in ("runs", "show"):
            assert r"[red]a[/]\x1b]0;title\x07" in printed.out


def test_errors_lines_and_progress_cannot_control_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> int:
        raise Refused(EVIL)

    assert report_errors(fail) == 2
    out().print(EVIL)
    err().print(EVIL, style="red")
    with ProgressView(EVIL) as view:
        view.say(EVIL)
    printed = capsys.readouterr()
    assert not CONTROLS.search(printed.out + printed.err)
    assert printed.err.count("[link=http://x]b") == 3
