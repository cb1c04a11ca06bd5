"""Tests `engine.planning.twin` and its command: the same losses under both frameworks."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import client
from engine.cli.output import Exit
from engine.messages.commands import Command, Stop
from engine.messages.events import RunEnded
from engine.planning import twin
from engine.planning.twin import (
    INITIAL_WEIGHTS,
    NoTwins,
    first_twin,
    new_tag,
    second_twin,
    told,
)
from engine.processes.process import END_SIGNALS
from engine.runs.run_notes import RunNotes, read_notes, write_notes
from engine.runs.run_state import TRAINING_LOSS
from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from engine.system import paths
from main import main
from tests.support.recorded_runs import RecordedRun
from tests.support.sentences import sentence

SPEC = RunSpec(recipe="digits_keras", strategy="tf/single", devices=("cpu:0", "cpu:1"), name="mine")


def test_both_differ_in_framework_and_weights_only() -> None:
    first = first_twin(SPEC, catalog.recipe("digits_keras"))
    second = second_twin(SPEC, "7")

    assert (first.strategy, second.strategy) == ("torch/keras_ddp", "tf/mirrored")
    assert (first.name, second.name) == ("mine (PyTorch)", "mine (TensorFlow)")
    assert second.initial_weights == str(paths.run_folder("7") / first.initial_weights)
    assert second_twin(first, "7") == second  # the window knows the first run only
    assert client.check(first) == client.check(second) == []


def test_a_recipe_of_one_framework_has_no_twins() -> None:
    with pytest.raises(NoTwins, match="digits is a torch recipe"):
        first_twin(SPEC, catalog.recipe("digits"))


def test_each_pair_has_its_own_tag() -> None:
    assert new_tag() == "twin-1"
    write_notes(paths.create_run_folder(), RunNotes(tags=("twin-9", "twin-x", "paper")))
    assert new_tag() == "twin-10"


@pytest.mark.parametrize(
    ("weights", "strategy", "text"),
    [
        ("a.npz", "tf/parameter_server", sentence("cannot-begin-with-given-weights")),
        ("../a.npz", "tf/single", "not '../a.npz'"),
        ("run.sqlite", "tf/single", "not 'run.sqlite'"),
    ],
)
def test_what_cannot_be_honoured_is_refused(weights: str, strategy: str, text: str) -> None:
    spec = RunSpec(
        recipe="digits_keras", strategy=strategy, devices=("cpu:0",), initial_weights=weights
    )
    assert [text in found.text for found in client.check(spec)] == [True]


def test_a_recipe_of_one_framework_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["twin", "--recipe", "digits", "--devices", "cpu:0", "--json"]) == 2
    said = json.loads(capsys.readouterr().out)
    assert said["state"] == "refused"


@pytest.mark.parametrize("state", ["", "finished"])
def test_ctrl_c_ends_the_twin_runs_and_is_told(
    state: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also one that comes just when the first run has finished: no other one is started."""
    sent: list[Command] = []
    started: list[RecordedRun] = []

    def start(*_: object) -> str:
        run = RecordedRun()
        run.begin()
        if state:
            run.add(RunEnded(state, ""))
        started.append(run)
        signal.raise_signal(signal.SIGINT)
        return run.id

    def send(_: str, command: Command) -> None:
        sent.append(command)
        started[-1].add(RunEnded("stopped", ""))

    monkeypatch.setattr(client, "start", start)
    monkeypatch.setattr(client, "send", send)
    assert main(["twin", "--recipe", "digits_keras", "--devices", "cpu:0"]) == Exit.INTERRUPTED
    assert sentence("twin-runs-were-interrupted") in capsys.readouterr().err
    assert sent == ([] if state else [Stop()])
    (run,) = started
    run.store.close()


@pytest.mark.nightly
@pytest.mark.usefixtures("processes")
def test_both_frameworks_have_the_same_losses(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--devices", "cpu:0", "--steps", "20", "--set", "dropout=0", "--json"]
    assert main(["twin", *options]) == 0

    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [run["strategy"] for run in said["runs"]] == ["torch/keras_ddp", "tf/single"]
    assert said["steps"] == list(range(1, 21))
    torch_losses, tf_losses = said["losses"]
    assert torch_losses[0] - torch_losses[-1] > 0.5  # they learn
    assert torch_losses == pytest.approx(tf_losses, abs=1e-4)
    assert said["largest_difference"] < 1e-4
    tags = [client.get_run(run["id"]).notes.tags for run in said["runs"]]
    assert tags == [(said["tag"],)] * 2


@pytest.fixture
def signals() -> Iterator[None]:
    """Gives this process its handlers back, which `twin.main` replaces."""
    before = {number: signal.getsignal(number) for number in END_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def _ended(state: str, loss: float = 2.0) -> Path:
    """Return the folder of a run of ten steps that has ended as `state`; empty: it trains."""
    run = RecordedRun()
    run.begin()
    run.add_points(TRAINING_LOSS, range(1, 11), loss)
    if state:
        run.add(RunEnded(state, ""))
    run.store.close()
    return run.folder


@pytest.mark.usefixtures("signals")
def test_a_first_run_without_weights_has_no_twin_and_says_so() -> None:
    folder = _ended("stopped")
    write_notes(folder, RunNotes(tags=("twin-1",), note="mine\nTwin: starts soon."))

    assert twin.main(folder.name) == 1
    notes = read_notes(folder)
    assert told(notes) == sentence("twin-not-started-run-ended", folder=folder.name)
    assert notes.note.splitlines()[0] == "mine"
    assert notes.tags == ("twin-1",)


@pytest.mark.usefixtures("signals")
def test_the_end_of_its_process_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    folder, second = _ended("finished"), _ended("")
    (folder / INITIAL_WEIGHTS).touch()

    def start(*_: object) -> str:
        signal.raise_signal(signal.SIGTERM)
        return second.name

    monkeypatch.setattr(client, "start", start)
    assert twin.main(folder.name) == 1
    for run in (folder, second):
        assert sentence("twin-not-compared-nobody-waits-any") in read_notes(run).note


@pytest.mark.usefixtures("signals")
def test_the_largest_difference_is_noted_on_both(monkeypatch: pytest.MonkeyPatch) -> None:
    folder, second = _ended("finished", 2.0), _ended("stopped", 1.5)
    (folder / INITIAL_WEIGHTS).touch()
    monkeypatch.setattr(client, "start", lambda *_: second.name)

    assert twin.main(folder.name) == 0
    texts = {told(read_notes(run)) for run in (folder, second)}
    assert len(texts) == 1
    text = texts.pop()
    assert sentence("over-steps-both-losses-differ") in text
    assert sentence("run-has-ended-early-stopped", second=second.name) in text
