"""`warm`, and what `devices` says about it."""

from __future__ import annotations

import errno
import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest

from engine.telemetry.snapshot import Snapshot
from engine.templates import client
from engine.templates.kinds import KINDS
from engine.templates.protocol import FOLDER_VARIABLE
from main import main
from tests.support.sentences import sentence
from tests.support.template_double import TemplateDouble, template


@pytest.fixture
def templates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> TemplateDouble:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))  # not that of the real ones
    return TemplateDouble(monkeypatch)


def test_it_loads_every_framework_and_prints_each(
    templates: TemplateDouble, capsys: pytest.CaptureFixture[str]
) -> None:
    templates.running["torch"] = template(workers=2)
    assert main(["warm"]) == 0
    assert templates.starts == [(kind, False) for kind in KINDS]
    said = capsys.readouterr()
    assert [line.split("  ")[0] for line in said.out.splitlines()[1:]] == [
        kind.title for kind in KINDS.values()
    ]
    torch, keras, _ = said.out.splitlines()[1:]
    assert torch.split() == ["PyTorch", "torch", "ready", "4711", "290.0", "MiB", "2", "–"]
    assert keras.split()[-1] == "0:07"
    assert "PyTorch is ready after " in said.err


def test_it_loads_what_it_was_asked_for_once(
    templates: TemplateDouble, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--framework", "tensorflow"]
    assert main(["warm", *asked, *asked, "--json"]) == 0
    assert templates.starts == [("tensorflow", False)]
    (state,) = json.loads(capsys.readouterr().out)
    assert state == {
        "kind": "tensorflow",
        "pid": 4711,
        "is_ready": True,
        "workers": 0,
        "memory": 290 * 2**20,
        "idle_seconds": 7.0,
        "problem": "",
        "answers": True,
    }


def test_it_waits_until_the_imports_are_done(
    templates: TemplateDouble, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    templates.born = lambda kind: template(kind, is_ready=False)
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            templates.running["torch"] = template()

    monkeypatch.setattr("engine.cli.commands.warm.time.sleep", wait)
    assert main(["warm", "--framework", "torch"]) == 0
    assert len(waits) == 3
    assert "ready" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("born", "phrase"),
    [
        (
            lambda kind: template(kind, problem="its imports failed: no such file"),
            sentence("tensorflow-cannot-be-loaded-in-advance"),
        ),
        (lambda _: None, sentence("tensorflow-process-has-ended")),
        (lambda kind: template(kind, is_ready=False), sentence("tensorflow-is-not-loaded")),
    ],
)
def test_a_framework_that_is_not_ready_is_told_and_the_others_are_shown(
    templates: TemplateDouble,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    born: Any,
    phrase: str,
) -> None:
    clock = itertools.count(step=7)
    monkeypatch.setattr("engine.cli.commands.warm.time.monotonic", lambda: float(next(clock)))
    monkeypatch.setattr("engine.cli.commands.warm.time.sleep", lambda _: None)
    monkeypatch.setattr("engine.cli.commands.warm.pid_of", lambda _: 0)
    templates.running["torch"] = template()
    templates.born = born
    assert main(["warm", "--framework", "tensorflow"]) == 1
    said = capsys.readouterr()
    assert phrase in said.err
    assert said.out.splitlines()[1].startswith("PyTorch")


def test_a_start_that_fails_is_told(
    templates: TemplateDouble, capsys: pytest.CaptureFixture[str]
) -> None:
    templates.refusal = "this system does not support it"
    assert main(["warm", "--framework", "torch", "--json"]) == 1
    said = capsys.readouterr()
    assert json.loads(said.out) == []
    assert sentence("pytorch-cannot-be-loaded-in-advance") in said.err


def test_ctrl_c_ends_the_wait_and_not_the_loading(
    templates: TemplateDouble, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    templates.born = lambda kind: template(kind, is_ready=False)
    monkeypatch.setattr("engine.cli.commands.warm.time.sleep", interrupt)
    assert main(["warm", "--framework", "torch"]) == 130
    assert sentence("loading-goes-on-until-warm-off") in capsys.readouterr().err
    assert "torch" in templates.running


def test_a_template_that_does_not_answer_is_named_with_its_pid(
    templates: TemplateDouble, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = "its process 4711 does not answer; `kill -KILL 4711` ends it"
    silent = template(is_ready=False, problem=problem, answers=False)
    templates.running["torch"] = silent
    assert main(["warm", "--list"]) == 0
    assert "does not answer" in capsys.readouterr().out
    assert main(["warm", "--off"]) == 0
    assert f"PyTorch: {problem}." in capsys.readouterr().out


def test_off_ends_them_until_they_are_switched_on(
    templates: TemplateDouble, capsys: pytest.CaptureFixture[str]
) -> None:
    templates.running = {"torch": template(workers=1), "tensorflow": template("tensorflow")}
    assert main(["warm", "--off"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        sentence("pytorch-pid-ends-after-worker"),
        "TensorFlow (pid 4711) ends.",
    ]
    assert (templates.is_on, templates.running) == (False, {})
    assert main(["warm"]) == 2
    assert sentence("warm-allow-switches-it-on") in capsys.readouterr().err
    assert templates.starts == []
    assert main(["warm", "--allow"]) == 0
    assert "is switched on" in capsys.readouterr().out
    assert main(["warm"]) == 0
    assert len(templates.starts) == len(KINDS)


def test_off_ends_them_and_says_so_if_the_switch_cannot_be_stored(
    templates: TemplateDouble, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def switch(*, on: bool) -> None:
        templates.end_all()
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), "off")

    monkeypatch.setattr(client, "switch", switch)
    templates.running = {"torch": template()}
    assert main(["warm", "--off"]) == 1
    said = capsys.readouterr()
    assert said.out.splitlines() == ["PyTorch (pid 4711) ends."]
    assert said.err.startswith(sentence("that-loading-in-advance-is-off"))
    assert templates.is_on
    templates.running = {"torch": template()}
    assert main(["warm", "--off", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)[0]["pid"] == 4711


@pytest.mark.parametrize("flag", ["--off", "--allow"])
def test_the_switch_prints_json_too(
    templates: TemplateDouble, capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    templates.running["torch"] = template()
    assert main(["warm", flag, "--json"]) == 0
    (state,) = json.loads(capsys.readouterr().out)
    assert state["kind"] == "torch"


@pytest.mark.parametrize(
    "arguments", [["--allow", "--off"], ["--off", "--framework", "torch"], ["--framework", "jax"]]
)
def test_what_makes_no_sense_is_refused(
    templates: TemplateDouble, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["warm", *arguments])
    assert left.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert templates.starts == []


def test_a_list_loads_nothing(
    templates: TemplateDouble, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["warm", "--list"]) == 0
    assert sentence("no-framework-is-loaded-in-advance") in capsys.readouterr().out
    templates.running["torch"] = template()
    assert main(["warm", "--list"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("PyTorch")
    assert main(["warm", "--list", "--json"]) == 0
    assert [state["pid"] for state in json.loads(capsys.readouterr().out)] == [4711]
    assert templates.starts == []


def test_devices_tell_what_is_loaded(
    templates: TemplateDouble, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "engine.interface.local_engine.snapshot_once", lambda: Snapshot(time=0.0, devices=())
    )

    def line() -> str:
        assert main(["devices"]) == 0
        return capsys.readouterr().out.splitlines()[-1]

    assert line() == sentence("no-framework-is-loaded-in-advance-loads")
    templates.running = {
        "torch": template(),
        "keras-torch": template("keras-torch", is_ready=False),
        "tensorflow": template("tensorflow", problem="its imports failed"),
    }
    assert line() == sentence("loaded-in-advance-pytorch-ready-mib")
    templates.running.clear()
    templates.is_on = False
    assert "switched off" in line()
    assert main(["devices", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
