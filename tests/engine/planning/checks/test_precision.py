"""What is said of the precision of a run, and of the order in which images lie."""

from __future__ import annotations

from typing import Any

import pytest

from engine.planning.checks.precision import faster_precision, layout_finding, precision_finding
from tests.engine.planning.checks.conftest import Make

GPU = ("GPU-a",)


@pytest.mark.parametrize(
    ("devices", "precision", "other"),
    [
        (GPU, "fp32", "default"),
        (GPU, "default", "bf16"),
        (GPU, "tf32", "bf16"),
        (GPU, "bf16", None),
        (("cpu:0",), "default", None),
    ],
)
def test_which_precision_is_tried_beside_that_of_the_run(
    devices: tuple[str, ...], precision: str, other: str | None, made: Make
) -> None:
    run = made({"devices": devices, "precision": precision})
    assert faster_precision(run.spec) == other


@pytest.mark.parametrize(("rate", "level"), [(1408.0, "hint"), (650.0, "ok")])
def test_it_is_proposed_where_it_is_faster(rate: float, level: str, made: Make) -> None:
    tried = made({"devices": GPU, "precision": "default"}, samples_per_second=rate)
    found = precision_finding(made({"devices": GPU, "precision": "fp32"}), tried)
    assert found is not None
    assert found.level == level
    assert f"{rate:,.0f} samples/s" in found.text
    assert "640" in found.text
    change = {"precision": "default"} if level == "hint" else None
    assert (found.change and found.change.fields) == change


def test_a_trial_that_failed_says_nothing(made: Make) -> None:
    assert precision_finding(made(), made(problem="It has no bf16.")) is None


@pytest.mark.parametrize(
    ("settings", "count", "is_said"),
    [
        ({"devices": GPU, "precision": "bf16"}, 53.0, True),
        ({"devices": GPU, "precision": "bf16"}, 0.0, False),
        ({"devices": GPU, "precision": "fp32"}, 53.0, False),
        ({"devices": ("cpu:0",), "precision": "bf16"}, 53.0, False),
    ],
)
def test_channels_last_is_proposed_for_16_bit_convolutions_on_gpus(
    settings: dict[str, Any], count: float, is_said: bool, made: Make
) -> None:
    found = layout_finding(made(settings, measured={"model/channels_first": count}))
    assert (found is not None) is is_said
    assert found is None or "53 convolutions" in found.text
