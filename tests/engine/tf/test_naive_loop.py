"""The loop that circulates in tutorials computes something else than ours: never bring it back.

It calls `strategy.run` on data that is not distributed, so that every replica computes the whole
batch, and takes the mean of each replica's loss, so that the summed gradients are as many times too
large as there are replicas. An optimizer such as Adam, which divides by the size of the gradients,
hides that.
"""

from __future__ import annotations

from typing import Any


def test_the_naive_loop_trains_at_a_multiple_of_the_learning_rate(small: dict[str, Any]) -> None:
    naive = small["naive"]
    assert naive["from ours"] > 1e-2
    assert naive["from ours at twice the rate"] < 1e-6
