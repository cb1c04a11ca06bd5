"""Which number of loader workers is proposed."""

from __future__ import annotations

from typing import Any

import pytest

from engine.planning.checks.loading import best_number, loading_finding
from engine.planning.short_run import ShortRun
from tests.engine.planning.checks.conftest import Make
from tests.support.sentences import sentence


def loads(table: dict[int, float], **more: float) -> dict[str, float]:
    """The figures of two ranks, of which the second is slower."""
    found = {f"rank/0/loading/{n}/seconds": 0.9 * seconds for n, seconds in table.items()}
    return found | {f"rank/1/loading/{n}/seconds": seconds for n, seconds in table.items()} | more


def waiting(made: Make, table: dict[int, float], spec: Any = None, **more: float) -> ShortRun:
    """A run that waits 80 ms of each step of 100 ms for samples."""
    shares = {"compute": 0.2, "communication": 0.0, "data": 0.8}
    return made(spec, rank_shares={0: shares, 1: shares}, measured=loads(table, **more))


def test_a_reason_against_loader_workers_is_all_that_is_said(made: Make) -> None:
    found = loading_finding(made(), "Keras recipes give arrays.")
    assert (found.level, found.text) == ("ok", "Keras recipes give arrays.")


def test_arrays_need_no_loader_workers(made: Make) -> None:
    found = loading_finding(made(measured={"loading/is_needed": 0.0}), "")
    assert (found.level, "arrays" in found.text) == ("ok", True)


def test_a_loader_that_keeps_up_is_not_the_limit(made: Make) -> None:
    found = loading_finding(made(measured=loads({0: 0.005, 1: 0.005})), "")
    assert found.level == "ok"
    assert sentence("loader-is-not-the-limit") in found.text
    assert found.change is None


def test_the_smallest_number_that_ends_the_wait_is_proposed(made: Make) -> None:
    run = waiting(made, {0: 0.08, 1: 0.081, 2: 0.02, 4: 0.0195})
    found = loading_finding(run, "")
    assert found.level == "warning"
    assert found.text == sentence("steps-wait-for-samples")
    assert found.advice == sentence("use-loader-workers-step-then-takes")
    assert found.change is not None
    assert found.change.label == "Use 2 loader workers"
    assert found.change.fields == {"loader_workers": 2}


def test_what_a_try_has_shown_is_told_in_place_of_the_estimate(made: Make) -> None:
    run = waiting(made, {0: 0.08, 1: 0.04, 2: 0.03, 4: 0.025})
    found = loading_finding(run, "", made(samples_per_second=2000.0))
    assert sentence("is-best-of-these-and-steps") in found.text
    assert found.advice == sentence("use-loader-workers-tried-it-gave")


@pytest.mark.parametrize(
    "table", [{0: 0.08}, {0: 0.08, 1: 0.1, 2: 0.1, 4: 0.1}, {}], ids=["alone", "slow", "none"]
)
def test_where_no_number_helps_none_is_proposed(made: Make, table: dict[int, float]) -> None:
    found = loading_finding(waiting(made, table), "")
    assert (found.level, found.change) == ("warning", None)
    assert sentence("make-loading-itself-quicker") in found.advice


def test_the_number_in_use_is_not_proposed(made: Make) -> None:
    run = waiting(made, {0: 0.3, 1: 0.2, 2: 0.08}, {"loader_workers": 2})
    assert loading_finding(run, "").change is None


def test_zero_means_the_number_that_the_recipe_asks_for(made: Make) -> None:
    run = waiting(made, {0: 0.08, 1: 0.3, 2: 0.15, 4: 0.02}, **{"loading/own_workers": 3.0})
    assert best_number(run) == 4
    assert "80 ms with 3" in loading_finding(run, "").text
