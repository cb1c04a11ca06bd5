"""What becomes of a run when a worker ends, falls silent or is stopped, at any moment."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.diagnosis import deadlines
from engine.files.scratch_folder import shared_page
from engine.messages.channel import CONNECTING, LOADING, Alive, Message
from engine.messages.commands import Pause, Resume, Stop
from engine.messages.events import (
    Alarm,
    CheckpointSaved,
    Event,
    Notice,
    Progress,
    RunEnded,
    StopStage,
    TrainingEnded,
    TrainingStarted,
    Trouble,
    WorkerFailed,
)
from engine.processes.process import ORPHANED, UNKNOWN_EXIT
from engine.runs.run_state import RunState
from engine.supervisor.attempt import CUT_OFF_MARGIN
from engine.supervisor.inbox import (
    Disconnected,
    Launch,
    LaunchedCold,
    LaunchFailed,
    SignalReceived,
    SnapshotReceived,
    WorkerLaunched,
)
from engine.supervisor.stop_escalation import TERMINATE_SECONDS
from engine.system import paths
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from tests.engine.supervisor.conftest import MakeRun
from tests.support.events import EXAMPLES, losses
from tests.support.scripted_pool import (
    NO_PROCESS,
    Act,
    ScriptedPool,
    Worker,
    dies,
    falls_silent,
    hangs,
    loses_channel,
    raises,
    says,
)
from tests.support.scripted_run import ScriptedRun
from tests.support.sentences import sentence

GPU = "GPU-11111111-2222-3333-4444-555555555555"
OTHER_GPU = "GPU-99999999-2222-3333-4444-555555555555"
LOST_PEER = "RuntimeError: Connection closed by peer"


def stages(run: ScriptedRun) -> list[str]:
    return [event.stage for event in run.events(StopStage)]


def seconds_between(run: ScriptedRun, first: Event, second: Event) -> float:
    return when(run, second) - when(run, first)


def when(run: ScriptedRun, event: Event) -> float:
    return next(time for time, each in run.happened() if each == event)


def test_a_run_that_nothing_disturbs_finishes(make_run: MakeRun) -> None:
    run = make_run("torch/ddp", 2)
    assert run.train() == RunEnded("finished", "All 30 steps are done.")
    assert run.steps() == list(range(1, 31))
    assert run.status.state is RunState.FINISHED


@pytest.mark.parametrize(
    ("code", "signal"),
    [
        (-9, "SIGKILL"),
        (-11, "SIGSEGV"),
        (-6, "SIGABRT"),
        (3, ""),
        (UNKNOWN_EXIT, ""),
        (ORPHANED, ""),
    ],
)
@pytest.mark.parametrize("others", [[], [raises(LOST_PEER, lost_peer=True)]], ids=["", "peer"])
def test_a_worker_that_ends_is_the_root_cause_also_if_the_others_fail_first(
    make_run: MakeRun, code: int, signal: str, others: list[Act]
) -> None:
    run = make_run("torch/ddp", 2)
    for act in others:
        run.script(5, act, rank=0)
    run.script(5, dies(code), rank=1)
    paths.log_file(run.folder, 1).write_text("a word before the end\n")
    ended = run.train()
    assert (ended.state, ended.failure) != ("failed", None)
    assert ended.failure is not None
    assert (ended.failure.rank, ended.failure.device) == (1, "cpu:1")
    assert (ended.failure.exit_code, ended.failure.signal) == (code, signal)
    assert ended.reason == ended.failure.message
    assert ended.failure.log_tail == "a word before the end"
    assert not any(worker.is_alive for worker in run.pools[0].workers)
    assert run.steps() == [1, 2, 3, 4]


@pytest.mark.parametrize("code", [0, 1])
def test_a_worker_that_leaves_without_ending_its_training_is_a_failure(
    make_run: MakeRun, code: int
) -> None:
    run = make_run()
    run.script(5, dies(code))
    ended = run.train()
    assert ended.state == "failed"
    assert ("without finishing" in ended.reason) == (code == 0)


@pytest.mark.parametrize("rank", [0, 1])
def test_an_exception_is_told_and_the_ranks_that_wait_for_its_rank_are_killed(
    make_run: MakeRun, rank: int
) -> None:
    """Also if the worker hangs in its exit handlers."""
    run = make_run("torch/ddp", 2)
    run.script(5, raises("ValueError: no", leaves=False), rank=rank)
    ended = run.train()
    assert ended.failure is not None
    assert ended.failure.rank == rank
    assert ended.reason.endswith("ValueError: no")
    assert run.pools[0].ends[0] == "kill"
    [failed] = run.events(WorkerFailed)
    grace = seconds_between(run, failed, ended)
    assert deadlines.FAILURE_GRACE_SECONDS <= grace < deadlines.FAILURE_GRACE_SECONDS + 1


def test_the_one_that_reports_later_is_named_if_the_others_have_only_lost_it(
    make_run: MakeRun,
) -> None:
    run = make_run("torch/ddp", 2)
    run.script(5, raises(LOST_PEER, lost_peer=True), rank=0)
    run.script(5, lambda late: run.clock.after(0.5, lambda: raises("ValueError: no")(late)), rank=1)
    ended = run.train()
    assert ended.failure is not None
    assert ended.failure.rank == 1
    assert ended.reason.endswith("ValueError: no")


def test_a_rank_for_which_the_others_wait_in_vain_is_named(make_run: MakeRun) -> None:
    run = make_run("torch/ddp", 2)
    run.script(5, raises(LOST_PEER, lost_peer=True), rank=0)
    run.script(5, falls_silent, rank=1)
    ended = run.train()
    assert ended.failure is not None
    assert ended.failure.rank == 1
    assert "stopped answering" in ended.reason


def test_a_rank_of_a_cluster_that_falls_silent_is_named(make_run: MakeRun) -> None:
    run = make_run("tf/multi_worker", 2)
    run.script(5, falls_silent, rank=1)
    ended = run.train()
    assert "it has not answered for" in ended.reason
    assert ended.failure is not None
    assert ended.failure.rank == 1


def test_workers_that_never_get_ready_are_named_and_ended(make_run: MakeRun) -> None:
    run = make_run("torch/ddp", 2)
    for rank in range(2):
        run.script(0, hangs, rank=rank)
    ended = run.train()
    assert ended.reason.startswith(sentence("two-ranks-did-not-start-within"))
    assert not any(worker.is_alive for worker in run.pools[0].workers)


def test_a_worker_that_loads_a_large_checkpoint_has_its_time_again(make_run: MakeRun) -> None:
    run = make_run("torch/ddp", 2)
    run.script(0, hangs, rank=0)
    run.script(0, hangs, rank=1)
    for number in range(4):
        loads = Alive(LOADING, number)
        run.script(
            0,
            lambda worker, when=200.0 * number, says=loads: run.clock.after(
                when, lambda: worker.say(says)
            ),
        )
    ended = run.train()
    assert sentence("did-not-start-within") in ended.reason
    assert 900 <= when(run, ended) - run.happened()[0][0] < 910


@pytest.mark.parametrize("second", [OTHER_GPU, None], ids=["two GPUs", "two CPUs"])
@pytest.mark.parametrize("first", [CONNECTING, ""], ids=["waits", "is still imported"])
def test_ranks_that_wait_for_each_other_s_gpus_are_told_of_their_link(
    make_run: MakeRun, second: str | None, first: str
) -> None:
    """If one is still imported, the other one waits for it, and not for its GPU."""
    run = make_run("torch/ddp", (GPU, second) if second else 2)
    for rank, doing in enumerate((first, CONNECTING)):
        run.script(0, says(Alive(doing)), rank=rank)
        run.script(0, hangs, rank=rank)
    ended = run.train()
    assert "did not start within" in ended.reason
    assert ("NCCL_P2P_DISABLE=1" in ended.reason) == bool(second and first)


def test_a_cold_start_is_told_once_and_the_run_goes_on(make_run: MakeRun) -> None:
    run = make_run()
    run.pools_have(starts=reports(LaunchedCold("there is no template")))
    assert run.train().state == "finished"
    [notice] = run.events(Notice)
    assert "there is no template" in notice.text


def test_a_launch_that_fails_ends_the_workers_that_were_started(make_run: MakeRun) -> None:
    run = make_run("torch/ddp", 2)
    failed = LaunchFailed("A worker could not be started: no room.")

    def starts(pool: ScriptedPool) -> bool:
        return reports(WorkerLaunched(0, NO_PROCESS), failed)(pool) and False

    run.pools_have(starts=starts)
    assert run.train().reason == failed.reason
    assert run.pools[0].ends[0] == "kill"


def reports(*launches: Launch) -> Callable[[ScriptedPool], bool]:
    """A start of a pool that reports these, and goes on."""

    def starts(pool: ScriptedPool) -> bool:
        for launch in launches:
            pool.inbox.put(launch)
        return True

    return starts


NONSENSE: list[Message] = [
    *(event for event in EXAMPLES if not isinstance(event, WorkerFailed | TrainingEnded)),
    WorkerFailed(1, "ValueError: of another rank", "", "", False),
    Progress(1, -7, 1.0, 1.0, 1.0),
    TrainingStarted(-1, 10, 3, 1, 1),
]


@pytest.mark.parametrize("rank", [1, 7, -3], ids=["another rank", "no rank", "nobody"])
def test_what_no_worker_may_say_changes_nothing(make_run: MakeRun, rank: int) -> None:
    run = make_run()
    for message in NONSENSE:
        run.script(5, lambda worker, said=message: run.hear(rank, said))
    assert run.train().state == "finished"
    assert run.steps() == list(range(1, 31))
    assert not run.events(Notice, WorkerFailed)
    assert run.status.attempt == 1


def test_events_that_only_a_supervisor_makes_are_ignored_but_counted(make_run: MakeRun) -> None:
    """A worker counts what it has sent: otherwise it would keep all that comes later."""
    run = make_run(steps=6)
    run.script(5, says(RunEnded("failed", "no"), StopStage("kill"), Progress(1, -7, 1.0, 1.0, 1.0)))
    assert run.train().state == "finished"
    assert len(run.events(RunEnded)) == 1
    assert not run.events(StopStage)
    assert run.status.recorded[0] == 2 * 6 + 3 + 3, "steps, nonsense, and the begin and the end"


@pytest.mark.parametrize("devices", [1, 2])
def test_a_worker_that_lives_without_its_connection_saves_and_is_a_failure(
    make_run: MakeRun, devices: int
) -> None:
    run = make_run("torch/ddp", 2) if devices == 2 else make_run()
    run.script(7, loses_channel, rank=devices - 1)
    ended = run.train()
    assert ended.failure is not None
    assert (ended.failure.rank, ended.failure.exit_code) == (devices - 1, ORPHANED)
    assert list(run.saved_steps())[-1] >= 7


def test_a_worker_without_a_connection_that_does_not_leave_is_killed(make_run: MakeRun) -> None:
    run = make_run("torch/ddp", 2, orphan_seconds=10.0)
    run.script(7, loses_channel, rank=1)
    run.script(8, hangs, rank=0)
    ended = run.train()
    assert ended.failure is not None
    assert ended.failure.rank == 1
    [cut_off] = run.events(WorkerFailed)
    waited = seconds_between(run, cut_off, ended)
    assert 10.0 + CUT_OFF_MARGIN <= waited < 10.0 + CUT_OFF_MARGIN + 2
    assert run.pools[0].ends[0] == "kill"


def test_a_window_that_disconnects_is_no_worker_that_is_cut_off(make_run: MakeRun) -> None:
    run = make_run()
    run.script(5, lambda _: run.inbox.put(Disconnected(-1)))
    assert run.train().state == "finished"
    assert not run.events(WorkerFailed)


def test_workers_that_hang_after_their_training_are_killed_and_the_run_is_finished(
    make_run: MakeRun,
) -> None:
    run = make_run("torch/ddp", 2)
    run.script(30, says(TrainingEnded(30, completed=True)), rank=0)
    run.script(30, hangs, rank=0)
    ended = run.train()
    assert ended.state == "finished"
    [told] = run.events(TrainingEnded)
    waited = seconds_between(run, told, ended)
    assert deadlines.EXIT_SECONDS <= waited < deadlines.EXIT_SECONDS + 1


STACKS = """Current thread 0x1 (most recent call first):
  File "{file}", line {line} in {function}
"""


def test_a_hang_is_told_with_the_line_of_each_rank_and_nothing_is_ended(make_run: MakeRun) -> None:
    run = make_run("torch/ddp", 2, hang_minutes=1.0)
    recipe = run.spec.recipe
    run.stacks[0] = STACKS.format(file="/lib/torch/distributed.py", line=9, function="all_reduce")
    run.stacks[1] = STACKS.format(file=recipe, line=12, function="fetch")
    run.script(12, hangs, rank=1)
    run.script(12, lambda _: run.clock.after(300.0, lambda: run.pools[0].go_on()), rank=1)
    assert run.train().state == "finished"
    raised, over = run.events(Trouble)
    assert (raised.kind, raised.raised, over.raised) == ("hang", True, False)
    assert sentence("rank-is-in-fetch-of-probe") in raised.text
    assert sentence("rank-is-in-all-reduce") in raised.text
    assert "step 11" in raised.text
    assert run.steps() == list(range(1, 31))


def test_a_hang_of_a_run_that_may_restart_is_a_failure_with_the_line_of_the_recipe(
    make_run: MakeRun,
) -> None:
    run = make_run("torch/ddp", 2, hang_minutes=1.0, max_restarts=1, checkpoint_steps=5)
    run.stacks[0] = STACKS.format(file="/lib/torch/distributed.py", line=9, function="all_reduce")
    run.stacks[1] = STACKS.format(file=run.spec.recipe, line=12, function="fetch")
    run.script(12, hangs, rank=1)
    assert run.train().state == "finished"
    [restarting] = run.restarts()
    assert restarting.failure.rank == 1
    assert restarting.failure.where.endswith("probe_torch.py:12")
    assert run.steps() == list(range(1, 31))


def test_ranks_that_write_no_stacks_do_not_answer(make_run: MakeRun) -> None:
    run = make_run(hang_minutes=1.0)
    run.script(12, falls_silent)
    run.script(12, lambda _: run.clock.after(200.0, lambda: run.command(Stop())))
    ended = run.train()
    assert (ended.state, ended.reason) == ("stopped", sentence("stopped-at-once-without-saving"))
    [trouble] = run.events(Trouble)
    assert sentence("rank-does-not-answer") in trouble.text


def sees(lost: str | None = None, power: float | None = None) -> Act:
    """The telemetry tells something of the GPU."""
    device = DeviceSnapshot(id=GPU, kind="gpu", label="3", name="G", lost=lost, power=power)

    def act(worker: Worker) -> None:
        snapshot = Snapshot(time=worker.pool.clock.time(), devices=(device,))
        worker.pool.inbox.put(SnapshotReceived(snapshot))

    return act


def failed_because_of_the_gpu(ended: RunEnded) -> bool:
    return ended.state == "failed" and ended.reason.startswith(
        "GPU 3 stopped answering, so the run was ended. GPU is lost. There is no check"
    )


@pytest.mark.parametrize("code", [None, -11, 1], ids=["hangs", "crashes", "raises"])
def test_a_lost_gpu_ends_the_run_and_no_restart_is_tried(
    make_run: MakeRun, code: int | None
) -> None:
    run = make_run(devices=(GPU,), max_restarts=3)
    for lost in (None, "GPU is lost", "GPU is lost"):
        run.script(5, sees(lost))
    error = "AcceleratorError: CUDA error: unknown error"
    run.script(5, {None: hangs, 1: raises(error)}.get(code) or dies(code or 0))
    ended = run.train()
    assert failed_because_of_the_gpu(ended), ended.reason
    assert ended.failure is not None
    assert (ended.failure.rank, ended.failure.device) == (0, GPU)
    assert [(alarm.kind, alarm.raised) for alarm in run.events(Alarm)] == [("lost", True)]
    assert run.status.attempt == 1
    assert not any(worker.is_alive for worker in run.pools[0].workers)


def test_a_worker_that_fails_after_training_on_is_to_blame_and_is_restarted(
    make_run: MakeRun,
) -> None:
    run = make_run(devices=(GPU,), max_restarts=1)
    for _ in range(2):
        run.script(5, sees("Unknown Error"))
    run.script(8, raises("ValueError: no"))
    assert run.train().state == "finished"
    [restarting] = run.restarts()
    failure = restarting.failure
    assert (failure.rank, failure.device) == (0, GPU)
    assert failure.message.endswith("ValueError: no")


def test_a_time_limit_finishes_the_run_with_a_checkpoint(make_run: MakeRun) -> None:
    run = make_run(time_limit_minutes=0.03)
    ended = run.train()
    assert (ended.state, ended.early) == ("finished", True)
    step = run.status.step
    assert ended.reason == sentence("time-limit-of-min-is-reached", step=step)
    assert run.saved_steps() == [step]
    assert run.steps() == list(range(1, step + 1))


def test_an_energy_limit_finishes_the_run_once_its_gpus_have_used_so_much(
    make_run: MakeRun,
) -> None:
    run = make_run(devices=(GPU,), energy_limit_wh=0.1)
    for step in range(1, 31):
        run.script(step, sees(power=360.0))  # 0.01 Wh in each step
    ended = run.train()
    assert (ended.state, ended.early) == ("finished", True)
    assert ended.reason.startswith(sentence("energy-limit-of-wh-is-reached"))


def test_an_energy_limit_needs_devices_that_tell_their_power(make_run: MakeRun) -> None:
    run = make_run(devices=(GPU,), energy_limit_wh=1.0)
    for step in range(1, 10):
        run.script(step, sees(power=None))
    ended = run.train()
    assert ended.state == "stopped"
    assert ended.reason.startswith(sentence("gpu-does-not-tell-power"))


@pytest.mark.parametrize(
    ("late", "reason"),
    [
        ([TrainingStarted(0, 10, 0, 1, 1234)], sentence("stopped-before-training-began")),
        (
            [TrainingStarted(0, 10, 0, 1, 1234), Progress(1, 3, 100.0, 0.0, 60.0)],
            sentence("stopped-at-once-without-saving"),
        ),
    ],
    ids=["no step", "a few steps"],
)
def test_a_training_that_begins_while_the_run_is_stopped_counts_once_it_has_done_a_step(
    make_run: MakeRun, late: list[Event], reason: str
) -> None:
    run = make_run()
    run.script(0, hangs)
    run.script(0, lambda worker: run.clock.after(0.3, lambda: worker.say(*late)))
    run.commands(0, Stop())
    run.pools_have(ignores=frozenset({"terminate"}))
    assert run.train() == RunEnded("stopped", reason)


def test_a_stop_before_the_training_ends_the_workers_at_once(make_run: MakeRun) -> None:
    run = make_run()
    run.script(0, hangs)
    run.commands(0, Stop())
    assert run.train() == RunEnded("stopped", sentence("stopped-before-training-began"))
    assert stages(run)[0] == "terminate"


def test_a_resumed_run_that_is_stopped_before_it_trains_says_where_it_stands(
    make_run: MakeRun,
) -> None:
    run = make_run()
    run.commands(5, Stop())
    assert run.train().reason == sentence("stopped-after-step-with-checkpoint-saved", step=5)
    again = run.again()
    again.script(5, hangs, attempt=2)
    again.commands(5, Stop(), attempt=2)
    ended = again.train("step-00000005")
    assert ended == RunEnded("stopped", sentence("stopped-before-training-went", step=5))


@pytest.mark.parametrize("how", ["command", "SIGTERM", "SIGINT", "SIGHUP"])
@pytest.mark.parametrize("is_paused", [False, True], ids=["trains", "paused"])
def test_a_stop_saves_a_checkpoint_first(make_run: MakeRun, how: str, is_paused: bool) -> None:
    run = make_run("torch/ddp", 2)
    if is_paused:
        run.commands(9, Pause())

    def stop() -> None:
        if how == "command":
            run.command(Stop())
        else:
            run.inbox.put(SignalReceived(how))

    run.script(9, lambda _: run.clock.after(5.0 if is_paused else 0.0, stop))
    ended = run.train()
    assert ended == RunEnded(
        "stopped", sentence("stopped-after-step-with-checkpoint-saved", step=9)
    )
    assert stages(run) == ["ask"]
    assert run.saved_steps() == [9]
    told = [event.text for event in run.events(Notice)]
    assert told == ([] if how == "command" else [f"The supervisor got {how}: the run is stopped."])
    assert sum(isinstance(event, RunEnded) for _, event in run.happened()) == 1


@pytest.mark.parametrize("ignores", [(), ("ask",), ("ask", "terminate")])
def test_a_worker_that_ignores_a_stop_is_ended_stage_by_stage(
    make_run: MakeRun, ignores: tuple[str, ...]
) -> None:
    run = make_run(stop_seconds=20.0)
    run.pools_have(ignores=frozenset(ignores))
    run.commands(5, Stop())
    if ignores:
        run.script(6, hangs)
    ended = run.train()
    assert ended.state == "stopped"
    assert stages(run) == ["ask", "terminate", "kill"][: 1 + len(ignores)]
    if not ignores:
        return
    assert ended.reason == sentence("stopped-at-once-without-saving")
    entered = run.events(StopStage)
    assert 20.0 <= seconds_between(run, entered[0], entered[1]) < 21.0
    assert run.pools[0].ends[0] == "terminate"
    if len(ignores) == 2:
        assert 0 <= seconds_between(run, entered[1], entered[2]) - TERMINATE_SECONDS < 1.0
        assert run.pools[0].ends[1] == "kill"


@pytest.mark.parametrize("second", [Stop(now=True), SignalReceived("SIGTERM"), Stop()])
def test_only_a_second_stop_that_says_so_is_quicker(
    make_run: MakeRun, second: Stop | SignalReceived
) -> None:
    """A system may send its signal twice."""
    run = make_run(stop_seconds=20.0)
    run.pools_have(ignores=frozenset({"ask"}))
    run.commands(5, Stop())
    run.script(6, hangs)
    stop_again = (
        (lambda: run.command(second))
        if isinstance(second, Stop)
        else (lambda: run.inbox.put(second))
    )
    run.script(6, lambda _: run.clock.after(5.0, stop_again))
    assert run.train().state == "stopped"
    ask, terminate = run.events(StopStage)
    waited = seconds_between(run, ask, terminate)
    assert 5.0 <= waited < 6.0 if second == Stop(now=True) else 20.0 <= waited < 21.0


@pytest.mark.parametrize("gets_on", [True, False])
def test_a_stop_waits_for_a_slow_checkpoint_as_long_as_it_gets_on(
    make_run: MakeRun, gets_on: bool
) -> None:
    run = make_run(stop_seconds=8.0)
    run.pools_have(save_seconds=60.0, save_gets_on=gets_on)
    run.commands(5, Stop())
    ended = run.train()
    assert stages(run) == ["ask", "terminate"][: 1 if gets_on else 2]
    assert run.saved_steps() == ([5] if gets_on else [])
    assert ended.reason.endswith("a checkpoint saved." if gets_on else "without saving.")


def test_a_second_stop_ends_a_slow_checkpoint(make_run: MakeRun) -> None:
    run = make_run(stop_seconds=8.0)
    run.pools_have(save_seconds=60.0)
    run.commands(5, Stop())
    run.script(5, lambda _: run.clock.after(5.0, lambda: run.command(Stop(now=True))))
    assert run.train().reason == sentence("stopped-at-once-without-saving")
    assert run.saved_steps() == []


def test_a_rank_that_fails_during_a_stop_makes_the_run_failed(make_run: MakeRun) -> None:
    run = make_run("torch/ddp", 2, max_restarts=3)
    run.pools_have(save_seconds=30.0)
    run.commands(5, Stop())
    run.script(5, lambda late: run.clock.after(5.0, lambda: raises("OSError: no")(late)), rank=1)
    ended = run.train()
    assert (ended.state, run.status.attempt) == ("failed", 1)
    assert "OSError: no" in ended.reason


def test_workers_that_were_ended_by_force_after_a_save_have_not_lost_it(make_run: MakeRun) -> None:
    run = make_run(stop_seconds=8.0)
    saved = CheckpointSaved("x", 5, 0, 9, 0.5)
    run.commands(5, Stop())
    run.pools_have(ignores=frozenset({"ask"}))
    run.script(6, says(saved))
    run.script(6, hangs)
    ended = run.train()
    assert ended.reason == sentence("stopped-at-once-with-checkpoint-saved")


def test_a_pause_may_last_long_and_is_no_hang(make_run: MakeRun) -> None:
    run = make_run(hang_minutes=1.0, max_restarts=1)
    run.commands(5, Pause())
    run.script(5, lambda _: run.clock.after(900.0, lambda: run.command(Resume())))
    assert run.train().state == "finished"
    assert not run.events(Trouble)
    assert run.status.attempt == 1
    assert run.steps() == list(range(1, 31))


def test_what_the_workers_share_and_leave_is_removed_with_them(make_run: MakeRun) -> None:
    run = make_run(max_restarts=1)
    seen = []

    def look(_: object) -> None:
        assert run.supervisor is not None
        scratch = run.supervisor._attempt.scratch
        assert scratch is not None
        seen.append(scratch)
        (scratch / "left").touch()
        (run.folder / "attempt-1.rendezvous").touch()

    run.script(5, look)
    run.script(5, dies(-9))
    run.script(5, look, attempt=2)
    assert run.train().state == "finished"
    assert len(set(seen)) == 2
    assert not any(scratch.exists() or shared_page(scratch) for scratch in seen)
    assert not list(run.folder.glob("*.rendezvous"))


def test_points_are_stored_though_other_ranks_report_too(make_run: MakeRun) -> None:
    run = make_run("torch/ddp", 2)
    run.script(5, says(losses([9.0], first_step=99)), rank=1)
    assert run.train().state == "finished"
    assert 99 in run.steps()
