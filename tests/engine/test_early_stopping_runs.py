"""Early stopping with real workers of both frameworks: ended with its epoch, and gone on later."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from engine import client
from engine.runs.run_state import RunState
from engine.spec import catalog
from tests.support.contract import assert_alike, plain, probe
from tests.support.runs import curve, train, wait_for_end
from tests.support.sentences import sentence

pytestmark = pytest.mark.usefixtures("processes")


@pytest.mark.parametrize("strategy", ["torch/ddp", "tf/mirrored_fit"])
def test_a_run_ends_early_and_counts_on_when_it_goes_on(strategy: str) -> None:
    """It also trains on as a run does that never ended."""
    # The loss falls, so the first epoch has the highest one.
    early = {"epochs": 50, "early_stopping": "loss:max", "patience": 2}
    wanted = probe(catalog.strategy(strategy), **early)
    info = train(wanted)
    assert info.state is RunState.FINISHED
    losses = curve(info, "validation/loss")[1]
    assert losses == sorted(losses, reverse=True)
    assert (info.status.epoch, len(losses)) == (3, 3)
    steps = info.status.steps_per_epoch
    assert info.reason == sentence(
        "early-stopping-loss-has-not-improved",
        last=3 * steps,
        best=f"{losses[0]:.4g}",
        step=steps,
        digits=f"{steps:08d}",
    )
    kinds = {each.folder.name: each.manifest.kinds for each in client.run_checkpoints(info.id)}
    assert kinds == {f"step-{steps:08d}": ("best",), f"step-{3 * steps:08d}": ("last",)}

    client.resume(info.id, spec=replace(wanted, patience=4))
    info = wait_for_end(info.id)
    assert (info.status.epoch, info.state) == (5, RunState.FINISHED)
    assert sentence("has-not-improved-for-evaluations") in info.reason
    assert_alike(info, plain(catalog.strategy(strategy)), tolerance=1e-6)
