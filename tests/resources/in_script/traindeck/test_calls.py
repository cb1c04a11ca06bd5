"""Scripts with calls: as without them outside of a run, and resumed bit for bit inside."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.supervisor.script_attempt import free_ports
from tests.resources.in_script.traindeck.conftest import Bare, Start
from tests.support.sentences import sentence


@pytest.mark.nightly
def test_a_run_computes_what_the_script_computes_alone(start: Start, bare: Bare) -> None:
    run = start("digits.py", every={"steps": 7}, cold=True)
    assert run.wait() == [0], run.output()
    assert run.lines() == bare("digits.py", cold=True)
    losses = [float(line.split()[2]) for line in run.lines()[:-1]]
    assert [step for step, _ in run.points("train/loss")] == list(range(1, 16))
    assert [value for _, value in run.points("train/loss")] == pytest.approx(losses)
    plan = run.frames("plan")[-1]
    assert (plan["epochs"], plan["steps_per_epoch"], plan["parameters"]) == (3, 5, 178)
    assert [(frame["epoch"], frame["step"]) for frame in run.frames("epoch")] == [
        (1, 5),
        (2, 10),
        (3, 15),
    ]
    assert run.frames("epoch")[0]["metrics"].keys() == {"validation/accuracy"}
    assert [(f["step"], f["epoch"], f["batch"], f["kinds"]) for f in run.frames("saved")] == [
        (7, 1, 2, ["steps"]),
        (14, 2, 4, ["steps"]),
        (15, 3, 0, ["last"]),
    ]
    assert max(frame["step"] for frame in run.frames("points")) == 15


def test_a_killed_run_resumes_bit_for_bit(start: Start) -> None:
    run = start("digits.py", "epochs=4000", every={"steps": 7, "epochs": 2})
    run.wait_for(lambda: len(run.frames("saved")) > 4)
    run.kill()
    # In the middle of an epoch, and after the validation of one.
    for step in (7, 10):
        again = start("digits.py", "epochs=4", folder=f"from-{step}", checkpoint=run.saved(step))
        assert again.wait() == [0], again.output()
        assert again.lines()[:-1] == run.lines()[step:20]


@pytest.mark.parametrize(
    "arguments",
    [("noise=1", "workers=2"), ("workers=2", "persistent=1")],  # those that stay draw on
    ids=lambda each: each[-1],
)
def test_loader_workers_resume_bit_for_bit(start: Start, arguments: tuple[str, ...]) -> None:
    run = start("digits.py", *arguments, every={"steps": 7})
    assert run.wait() == [0], run.output()
    again = start("digits.py", *arguments, folder="again", checkpoint=run.saved(7))
    assert again.wait() == [0], again.output()
    assert again.lines() == run.lines()[7:]


def test_stop_pause_and_checkpoint_come_between_two_batches(start: Start) -> None:
    run = start("digits.py", "epochs=4000")
    run.wait_for(lambda: run.frames("epoch"))
    run.act("checkpoint", 1, kinds=["request"])
    run.wait_for(lambda: run.frames("saved"))
    run.act("pause", 2)
    run.wait_for(lambda: run.frames("paused"))
    run.act("resume", 3)
    run.wait_for(lambda: run.frames("resumed"))
    run.act("stop", 4)
    assert run.wait() == [0], run.output()
    assert [f["step"] for f in run.frames("paused")] == [f["step"] for f in run.frames("resumed")]
    assert [f["number"] for f in run.frames("saved")] == [1, 4]
    step = run.frames("stopping")[0]["step"]
    assert [p.name for p in run.saved(step).iterdir()] == ["rank0.pt"]


RANKS = """
import sys, time, torch, traindeck
from torch import distributed, nn
distributed.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if "keep" in sys.argv:
    traindeck.keep(model=model)
for epoch in traindeck.epochs(1000):
    for batch in traindeck.batches([torch.ones(2, 4)] * 5):
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        traindeck.log(mine=loss)
        time.sleep(0.01)
    if epoch == 0:
        traindeck.checkpoint()
"""


@pytest.fixture
def ranks(tmp_path: Path) -> str:
    (tmp_path / "ranks.py").write_text(RANKS)
    return "ranks.py"


def test_several_ranks_are_watched_as_without_calls(start: Start, ranks: str) -> None:
    run = start(ranks, ranks=2)
    run.wait_for(lambda: run.frames("saved"))
    run.act("stop", 4)
    run.wait()
    assert [rank for rank in (0, 1) if not run.frames("stopping", rank)] == []
    steps = [run.frames("stopping", rank)[0]["step"] for rank in (0, 1)]
    assert steps[0] == steps[1]
    assert [step for step, _ in run.points("train/mine")][:3] == [1, 2, 3]
    assert not run.frames("calls")
    [notice] = [each for each in run.notices if "traindeck" in each]
    assert sentence("loops-of-ranks-begin-at-0") in notice
    assert not [each for each in run.frames("notice", 1) if "traindeck" in each["text"]]


def test_ranks_that_the_script_starts_itself_log_too(start: Start, tmp_path: Path) -> None:
    (tmp_path / "spawn.py").write_text(
        """
import multiprocessing, traindeck
def work(rank):
    import torch
    from torch import distributed, nn
    way = "tcp://127.0.0.1:PORT"
    distributed.init_process_group("gloo", init_method=way, rank=rank, world_size=2)
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in traindeck.batches([torch.ones(2, 4)] * 5):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        traindeck.log(mine=rank)
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    ranks = [context.Process(target=work, args=(rank,)) for rank in range(2)]
    for each in ranks: each.start()
    for each in ranks: each.join()
""".replace("PORT", str(*free_ports(1)))
    )
    run = start("spawn.py")
    assert run.wait() == [0], run.output()
    assert run.points("train/mine") == [(step, 0.0) for step in range(1, 6)]


def test_several_ranks_keep_nothing(start: Start, ranks: str, tmp_path: Path) -> None:
    run = start(ranks, "keep", ranks=2)
    assert run.wait() == [1, 1]
    assert sentence("keep-is-for-one-process") in run.failure
    again = start(ranks, ranks=2, folder="again", checkpoint=tmp_path)
    assert again.wait() == [1, 1]
    assert sentence("loops-of-ranks-begin-at-0") in again.failure


@pytest.mark.nightly
def test_ranks_that_have_not_met_yet_are_told_at_the_first_step(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "early.py").write_text(
        """
import torch, traindeck
from torch import distributed, multiprocessing
def work(rank):
    traindeck.keep(state={})
    way = "tcp://127.0.0.1:PORT"
    distributed.init_process_group("gloo", init_method=way, rank=rank, world_size=2)
    for batch in traindeck.batches([1, 2]): pass
if __name__ == "__main__":
    multiprocessing.spawn(work, nprocs=2)
""".replace("PORT", str(*free_ports(1)))
    )
    run = start("early.py")
    assert run.wait() == [1]
    assert sentence("ranks-have-not-met") in run.output()


def test_what_is_gone_says_what_to_do_instead(tmp_path: Path, bare: Bare) -> None:
    names = ["place", "mean", "scope", "replicated", "device", "rank"]
    script = tmp_path / "old.py"
    script.write_text(
        f"import traindeck\nfor name in {names}:\n"
        "    try:\n        getattr(traindeck, name)\n"
        "    except RuntimeError as error:\n        print(error)\n"
    )
    for name, line in zip(names, bare(script), strict=True):
        assert line.startswith(f"traindeck.{name} is no longer there: ")


def test_a_checkpoint_is_opened_without_running_code(start: Start) -> None:
    import torch

    run = start("digits.py", "epochs=1")
    assert run.wait() == [0]
    tree = torch.load(run.saved(5) / "rank0.pt", weights_only=True)
    assert set(tree["kept"]) == {"model", "optimizer", "scheduler", "best"}
    assert tree["kept"]["model"]["0.weight"].shape == (16, 8)


def test_what_cannot_be_saved_is_refused_at_the_first_step(start: Start, tmp_path: Path) -> None:
    (tmp_path / "lock.py").write_text(
        """
import threading, traindeck
class Odd:
    def state_dict(self): return {"count": 1, "inner": [threading.Lock()]}
    def load_state_dict(self, state): pass
traindeck.keep(odd=Odd())
for step in traindeck.steps(100):
    print(step, flush=True)
"""
    )
    run = start("lock.py")
    assert run.wait() == [1]
    assert run.lines()[0] == "0"
    assert not any(line == "1" for line in run.lines())
    assert sentence("kept-value-is-a-lock") in run.failure
