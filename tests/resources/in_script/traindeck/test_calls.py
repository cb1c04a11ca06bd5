"""Scripts with calls: as without them outside of a run, and resumed bit for bit inside."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def test_what_loader_workers_draw_resumes_bit_for_bit(start: Start) -> None:
    arguments = ("noise=1", "workers=2", "persistent=1")
    run = start("digits.py", *arguments, every={"steps": 7})
    assert run.wait() == [0], run.output()
    again = start("digits.py", *arguments, folder="again", checkpoint=run.saved(7))
    assert again.wait() == [0], again.output()
    assert again.lines() == run.lines()[7:]


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_two_ranks_train_as_one(start: Start, strategy: str) -> None:
    # 65 samples: the last batch has one, so that the second rank has none.
    arguments = ("dropout=0", "samples=65")
    single = start("digits.py", *arguments, folder="single")
    run = start("digits.py", *arguments, strategy=strategy, ranks=2, every={"steps": 7})
    assert run.wait() == [0, 0], run.output()
    assert single.wait() == [0]
    ends = [_sums(script.lines(rank)[-1]) for script, rank in ((single, 0), (run, 0), (run, 1))]
    assert ends[1] == pytest.approx(ends[0], rel=1e-5)
    assert ends[2] == ends[1]
    assert run.frames("plan")[-1]["replicas"] == 2

    again = start(
        "digits.py",
        *arguments,
        strategy=strategy,
        ranks=2,
        folder="again",
        checkpoint=run.saved(7),
    )
    assert again.wait() == [0, 0], again.output()
    assert [again.lines(0), again.lines(1)] == [run.lines(0)[7:], run.lines(1)[7:]]


def _sums(line: str) -> list[float]:
    return [float.fromhex(word) for word in line.split()[1:5]]


def test_stop_pause_and_checkpoint_come_at_one_step_of_all_ranks(start: Start) -> None:
    arguments = ("epochs=4000", "dropout=0")
    run = start("digits.py", *arguments, strategy="ddp", ranks=2)
    run.wait_for(lambda: run.frames("epoch"))
    run.act("checkpoint", 1, kinds=["request"])
    run.wait_for(lambda: run.frames("saved") and run.frames("saved", 1))
    run.act("pause", 2)
    run.wait_for(lambda: run.frames("paused") and run.frames("paused", 1))
    run.act("resume", 3)
    run.wait_for(lambda: run.frames("resumed", 1))
    run.act("stop", 4)
    assert run.wait() == [0, 0], run.output()
    for kind in ("saved", "paused", "resumed", "stopping"):
        steps = [[f["step"] for f in run.frames(kind, rank)] for rank in (0, 1)]
        assert steps[0] == steps[1] != [], kind
    assert [f["number"] for f in run.frames("saved")] == [1, 4]
    step = run.frames("stopping")[0]["step"]
    assert sorted(p.name for p in run.saved(step).iterdir()) == ["rank0.pt", "rank1.pt"]


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
