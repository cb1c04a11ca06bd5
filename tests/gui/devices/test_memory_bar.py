"""The segments of a memory bar."""

from __future__ import annotations

import pytest

from engine.telemetry.memory_attribution import memory_use
from gui.devices.memory_bar import filled, segments
from tests.support.device_states import BUSY, GIB, SILENT, eight_gpus, gpu, process, workers


def test_every_user_has_a_segment_as_large_as_its_memory() -> None:
    device = next(each for each in eight_gpus().devices if each.id == BUSY)
    found = segments(device, memory_use(device, workers()))
    kinds = [each.kind for each in found]
    assert kinds == ["tensors", "cache", "context", "unnamed", "reserved"]
    assert found[0].part == pytest.approx(41 / 80)
    assert sum(each.part for each in found) == pytest.approx(61.8 / 80, abs=1e-3)


def test_what_cannot_be_divided_is_one_segment() -> None:
    device = gpu(0, 48, processes=(process(7001, 30), process(9, 12)))
    both = [workers()[0]._replace(devices=(BUSY, SILENT))]
    found = {each.kind: each.part for each in segments(device, memory_use(device, both))}
    assert found["ours"] == pytest.approx(30 / 80)
    assert found["others"] == pytest.approx(12 / 80)


def test_before_anybody_is_asked_all_of_it_is_one_segment() -> None:
    found = segments(gpu(0, 40), None)
    assert (found[0].kind, found[0].part) == ("ours", 0.5)


def test_the_bar_never_overflows_and_may_be_empty() -> None:
    device = gpu(0, 40, processes=(process(1, 70), process(2, 60)))
    assert sum(each.part for each in segments(device, memory_use(device, []))) == pytest.approx(1)
    for broken in (gpu(0, 40), gpu(0, None)):
        for total in (None, 0, -GIB):
            odd = type(broken)(
                id="x", kind="gpu", label="", name="", memory_total=total, memory_used=5
            )
            assert segments(odd, None) == []
            assert filled(odd) is None
    assert filled(gpu(0, 900)) == 1.0
    assert filled(gpu(0, None)) is None
