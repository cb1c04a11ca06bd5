"""When a training counts as hanging, by a clock that the test moves; and what stacks show."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.diagnosis import hang_watch
from engine.diagnosis.hang_watch import HangWatch
from engine.diagnosis.stack_dumps import Frame, locate_worker, working_threads
from engine.messages.channel import Alive
from engine.messages.events import Metrics, Progress, Resumed, TrainingStarted, Trouble
from engine.processes.process import PROJECT
from engine.runs.run_state import RunState, RunStatus
from engine.spec.recipe_file import RecipeInfo
from engine.spec.strategy import WorkerPlan
from engine.system import paths
from tests.support.sentences import sentence

RECIPE = RecipeInfo(name="mine", path="/home/ben/mine.py", framework="torch", builtin=False)
PLANS = (WorkerPlan(0, ("cpu:0",)), WorkerPlan(1, ("cpu:1",)))
STARTED = TrainingStarted(0, 10, 3, 2, 1234)
STACKS = """Thread 0x00007f0000000001 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 331 in wait
  File "/usr/lib/python3.11/threading.py", line 1045 in _bootstrap_inner

Current thread 0x00007f0000000002 (most recent call first):
  File "/usr/lib/python3.11/ssl.py", line 9 in read
  File "/home/ben/fetch.py", line 7 in fetch
  File "/home/ben/mine.py", line 57 in loss
  File "{project}/engine/pytorch/trainer.py", line 200 in run_steps
"""


@dataclass
class Case:
    """A watch over a run of two workers, and its clock."""

    folder: Path
    minutes: float = 1.0
    step_seconds: float = 0.5

    def __post_init__(self) -> None:
        self.now = 1000.0
        self.requested: list[int] = []
        self.state = RunState.RUNNING
        self.watch = HangWatch(self.folder, self.minutes, PLANS, RECIPE, lambda: self.now)

    @property
    def status(self) -> RunStatus:
        return RunStatus(
            state=self.state, step=7, step_seconds=self.step_seconds, worker_pids=(11, 12)
        )

    def wait(self, seconds: int) -> list[Trouble]:
        """Let time pass, and call `tick` every second, as the supervisor does."""
        troubles = []
        for _ in range(seconds):
            self.now += 1.0
            if trouble := self.watch.tick(self.status):
                assert isinstance(trouble, Trouble)
                troubles.append(trouble)
        return troubles

    def step(self, step: int = 7) -> None:
        self.watch.received(0, Progress(1, step, 64.0, self.step_seconds, 9.0))


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    (tmp_path / "logs").mkdir()
    made = Case(tmp_path)
    monkeypatch.setattr(hang_watch, "ask_for_stacks", made.requested.append)
    return made


def test_after_the_limit_all_stacks_are_requested_and_the_hang_is_reported_once(case: Case) -> None:
    case.watch.received(0, STARTED)
    case.step()
    assert case.wait(60) == []
    assert case.requested == []
    [trouble] = case.wait(10)
    assert case.requested == [11, 12]
    assert trouble.raised
    assert trouble.text.startswith(sentence("no-step-was-done"))


def test_older_stacks_in_the_file_are_ignored(case: Case) -> None:
    file = paths.stacks_file(case.folder, 1)
    file.write_text(STACKS.replace("loss", "older"))
    case.step()
    case.wait(61)
    with file.open("a") as written:
        written.write(STACKS)
    [trouble] = case.wait(1)
    assert sentence("rank-is-in-fetch-there") in trouble.text
    case.wait(120)
    failure = case.watch.failure(case.status)
    assert failure is not None
    assert (failure.rank, failure.where) == (1, "/home/ben/fetch.py:7")
    assert failure.message.startswith(
        sentence("training-hangs-is-in-fetch", rank="Rank 1 on cpu:1")
    )


def test_the_end_of_a_hang_is_reported_and_it_may_hang_again(case: Case) -> None:
    case.step()
    case.wait(70)
    case.step(8)
    assert case.wait(1) == [Trouble("hang", "The training goes on.", raised=False)]
    assert [trouble.raised for trouble in case.wait(70)] == [True]


@pytest.mark.parametrize("sign", [Alive("validation", 3), Alive("checkpoint", 7)])
def test_a_validation_or_checkpoint_may_take_ten_times_as_long(case: Case, sign: Alive) -> None:
    case.step()
    case.watch.received(0, sign)
    for _ in range(590):
        case.watch.received(0, sign)  # the same sign of life every second
        assert case.wait(1) == []
    assert case.wait(20)


def test_a_first_step_may_compile_for_long(case: Case) -> None:
    case.watch.received(0, STARTED)
    assert case.wait(590) == []
    assert case.wait(20)


def test_a_validation_that_makes_progress_is_no_hang(case: Case) -> None:
    case.step()
    for batch in range(2000):
        case.watch.received(0, Alive("validation", batch))
        assert case.wait(1) == []


def test_slow_steps_have_the_time_of_ten_steps(case: Case) -> None:
    case.step_seconds = 30.0
    case.step()
    assert case.wait(299) == []
    assert case.wait(5)


def test_a_sign_of_life_alone_is_no_progress(case: Case) -> None:
    case.step()
    for _ in range(59):
        case.watch.received(0, Alive("training", 7))
        case.watch.received(1, Alive("training", 7))
        case.watch.received(1, Metrics(1.0, 2.0, []))
        assert case.wait(1) == []
    assert case.wait(5)


def test_a_pause_is_no_hang_and_restarts_the_clock(case: Case) -> None:
    case.step()
    case.state = RunState.PAUSED
    assert case.wait(1000) == []
    case.state = RunState.RUNNING
    case.watch.received(0, Resumed(7))
    assert case.wait(59) == []


def test_after_a_gap_of_the_supervisor_the_time_is_counted_from_zero(case: Case) -> None:
    case.step()
    case.now += 1000.0  # the machine slept
    assert case.wait(59) == []


def test_a_sleep_of_the_machine_does_not_end_a_hang(case: Case) -> None:
    case.step()
    case.wait(70)
    case.now += 1000.0
    assert case.wait(40) == []
    assert case.watch.failure(case.status) is None, "the sleep does not count"
    assert case.wait(15) == []
    assert case.watch.failure(case.status) is not None


def test_a_stop_during_a_hang_does_not_end_the_hang(case: Case) -> None:
    case.step()
    case.wait(70)
    case.state = RunState.STOPPING
    assert case.wait(30) == []


def test_a_limit_of_zero_reports_no_hang(case: Case) -> None:
    case.minutes = 0.0
    case.__post_init__()
    case.step()
    assert case.wait(5000) == []


def test_the_main_thread_is_the_last_one() -> None:
    [frames] = working_threads(STACKS)
    assert frames[0] == Frame("/usr/lib/python3.11/ssl.py", 9, "read")
    assert len(frames) == 4


OTHER_THREADS = """
Thread 0x00007f0000000003 (most recent call first):
  File "/home/ben/mine.py", line 90 in prefetch
  File "/usr/lib/python3.11/threading.py", line 982 in run
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Thread 0x00007f0000000004 (most recent call first):
  File "/home/ben/mine.py", line 30 in augment
  File "/site-packages/tensorflow/python/ops/script_ops.py", line 267 in __call__

Current thread 0x00007f0000000002 (most recent call first):
  File "/site-packages/tensorflow/python/eager/execute.py", line 53 in quick_execute
  File "{project}/engine/tf/trainer.py", line 118 in run_steps
"""


def test_a_thread_of_the_framework_calls_the_recipe_for_the_main_one() -> None:
    """As in a `py_function`. Other threads of the recipe are not the cause of a hang."""
    threads = working_threads(OTHER_THREADS.format(project=PROJECT))
    found = locate_worker(PLANS[0], threads, RECIPE)
    assert found.text == sentence("rank-is-in-augment")
    assert found.where == "/home/ben/mine.py:30"


def test_a_thread_of_ours_works_for_the_main_one() -> None:
    """As `fit`, which runs in a thread of its own."""
    ours = OTHER_THREADS.replace(
        '"/usr/lib/python3.11/threading.py", line 982',
        '"{project}/engine/tf/fit_epoch.py", line 83',
    )
    threads = working_threads(ours.format(project=PROJECT))
    found = locate_worker(PLANS[0], threads, RECIPE)
    assert found.text == sentence("rank-is-in-prefetch")


def test_outside_of_the_recipe_the_module_of_ours_is_named() -> None:
    frames = [
        Frame("/site-packages/torch/distributed.py", 3000, "all_reduce"),
        Frame(str(PROJECT / "engine/pytorch/process_group.py"), 88, "agree"),
    ]
    found = locate_worker(PLANS[0], [frames], RECIPE)
    assert found.text == sentence("rank-is-in-agree-there")
    assert found.where == ""


@pytest.mark.parametrize("has_stepped", [False, True])
def test_gpus_that_hang_in_the_first_step_are_told_of_their_link(
    case: Case, has_stepped: bool
) -> None:
    plans = (WorkerPlan(0, ("GPU-1", "GPU-2")),)
    case.watch = HangWatch(case.folder, 1.0, plans, RECIPE, lambda: case.now)
    case.watch.received(0, STARTED)
    if has_stepped:
        case.step()
    [trouble] = case.wait(700)
    assert ("NCCL_P2P_DISABLE=1" in trouble.text) == (not has_stepped)
