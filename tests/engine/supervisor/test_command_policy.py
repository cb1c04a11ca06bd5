"""Which commands are refused in which state, and with which sentence."""

from __future__ import annotations

import pytest

from engine.messages.commands import Command, EmptyCache, Pause, Resume, SaveCheckpoint, Stop
from engine.runs.run_state import RunState, RunStatus
from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from engine.supervisor.command_policy import refusal
from tests.support.sentences import sentence

GPU = ("GPU-0",)
FREE = Pause(free_devices=True)


def refused(
    command: Command,
    state: RunState = RunState.RUNNING,
    *,
    strategy: str = "torch/single",
    devices: tuple[str, ...] = ("cpu:0",),
    freed: bool = False,
    accepts_commands: bool = True,
    training_ended: bool = False,
    attempt: int = 1,
    sees_steps: bool = True,
) -> str:
    return refusal(
        command,
        RunStatus(state=state, attempt=attempt, freed_devices=freed),
        RunSpec(recipe="digits", strategy=strategy, devices=devices),
        catalog.strategy(strategy),
        accepts_commands=accepts_commands,
        training_ended=training_ended,
        sees_steps=sees_steps,
    )


@pytest.mark.parametrize("command", [SaveCheckpoint(), EmptyCache(), Pause()], ids=repr)
def test_a_run_that_trains_accepts_commands(command: Command) -> None:
    assert refused(command) == ""
    assert "still starting" in refused(command, RunState.STARTING)
    assert sentence("starting-again-attempt") in refused(command, RunState.STARTING, attempt=3)
    assert "waits for its devices" in refused(command, RunState.QUEUED, accepts_commands=False)
    assert "lost its rank 0" in refused(command, accepts_commands=False)
    assert "is ending" in refused(command, RunState.STOPPING)
    assert "is ending" in refused(command, training_ended=True)


def test_a_script_without_steps_cannot_do_what_is_done_after_one() -> None:
    for command in (SaveCheckpoint(), Pause()):
        assert "No step" in refused(command, sees_steps=False)
    assert refused(Stop(), sees_steps=False) == ""


@pytest.mark.parametrize("state", [RunState.STARTING, RunState.PAUSED, RunState.STOPPING])
def test_stop_is_never_refused(state: RunState) -> None:
    assert refused(Stop(), state, training_ended=True) == ""


def test_a_paused_run_cannot_be_paused_nor_a_running_one_resumed() -> None:
    assert refused(Pause(), RunState.PAUSED) == sentence("run-is-paused-already")
    assert refused(Resume(), RunState.PAUSED) == ""
    assert refused(Resume()) == "The run is not paused."


def test_only_gpus_can_be_freed_and_only_by_strategies_that_can() -> None:
    assert refused(FREE, devices=GPU) == ""
    assert sentence("cpu-devices-have-no-memory-of-their-own-to-free") in refused(FREE)
    assert sentence("cannot-take-model-off") in refused(FREE, strategy="tf/single", devices=GPU)


def test_a_paused_run_can_still_be_asked_to_free_its_devices() -> None:
    assert refused(FREE, RunState.PAUSED, devices=GPU) == ""
    assert "paused already" in refused(FREE, RunState.PAUSED, devices=GPU, freed=True)
