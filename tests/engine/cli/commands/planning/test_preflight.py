"""What the command `preflight` prints."""

from __future__ import annotations

from json import loads as json_of

import msgspec
import pytest

from engine.cli.commands.planning import preflight as command
from engine.cli.commands.planning.preflight import summary
from engine.cli.commands.train import RunOptions
from engine.cli.findings_output import finding_text
from engine.doctor.finding import Change, Finding
from engine.interface.local_engine import LocalEngine
from engine.planning import kept
from engine.planning.requests import Answer, AskPreflight, Request
from engine.planning.results import Doing, Found, Preflight
from engine.spec.run_spec import RunSpec
from tests.support.measuring_double import answer_requests
from tests.support.sentences import sentence

ENGINE = LocalEngine()

SPEC = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",))

SLOW = Finding(
    name="sample loading",
    level="warning",
    text="Steps wait.",
    advice="Use 2 loader workers.",
    change=Change("Use 2 loader workers", {"loader_workers": 2}),
)


def test_a_finding_says_the_flag_of_its_change() -> None:
    assert finding_text(SLOW) == (
        "warning  sample loading: Steps wait.\n"
        "         -> Use 2 loader workers. [--loader-workers 2]"
    )


def test_devices_and_switches_have_flags_too() -> None:
    change = Change("", {"devices": ["cpu:0", "cpu:1"], "compile": False})
    finding = Finding(name="devices", level="hint", text="Busy.", change=change)
    assert finding_text(finding).endswith("-> [--devices cpu:0,cpu:1 --no-compile]")


def test_what_is_fine_is_one_line() -> None:
    found = Finding(name="clock", level="ok", text="It goes.")
    assert finding_text(found) == "ok       clock: It goes."


@pytest.mark.parametrize(("number", "end"), [(0, "12.3 s."), (7, sentence("keeps-this-with-run"))])
def test_the_summary_counts(number: int, end: str) -> None:
    found = Preflight(spec=SPEC, findings=(SLOW, SLOW), seconds=12.34)
    assert summary(found, number) == sentence("problems-warnings-hints-it-took", end=end)


def run(monkeypatch: pytest.MonkeyPatch, finding: Finding, *, json: bool = False) -> int:
    """The exit code of the command, if a preflight finds this."""

    def answers(request: Request) -> list[Answer]:
        assert isinstance(request, AskPreflight)
        found = Preflight(spec=request.spec, findings=(finding,))
        return [Doing("the disk of the runs", 1, 60), Found(finding), found]

    answer_requests(monkeypatch, answers)
    options = RunOptions("single", "cpu:0", "", (), {})
    return command.preflight(ENGINE, "digits", options, seconds=60.0, json=json)


def test_only_an_error_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, SLOW) == 0
    printed = capsys.readouterr().out
    assert "warning  sample loading: Steps wait." in printed
    assert sentence("train-planned-keeps-this") in printed
    assert run(monkeypatch, msgspec.structs.replace(SLOW, level="error")) == 1
    assert isinstance(kept.read(2), Preflight)


def test_json_is_one_line_with_the_number(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, SLOW, json=True) == 0
    found = json_of(capsys.readouterr().out)
    assert found["planned"] == 1
    assert found["findings"][0]["change"]["fields"] == {"loader_workers": 2}


def test_a_disk_that_takes_nothing_ends_no_preflight(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_: object) -> int:
        raise OSError("no space left")

    monkeypatch.setattr(kept, "keep", full)
    assert run(monkeypatch, SLOW) == 0
    assert sentence("this-could-not-be-kept-no-space-left") in capsys.readouterr().err
