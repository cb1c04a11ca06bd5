"""Who uses a GPU's memory: the worker's report first, then the driver's list, no guesses."""

from __future__ import annotations

from typing import Any

import pytest

from engine.telemetry.memory_attribution import (
    CLOCK_SLACK,
    LONGEST_POOL_START,
    MemoryUse,
    Worker,
    is_same,
    memory_use,
    memory_uses,
)
from engine.telemetry.snapshot import GpuProcess, MigSlice
from tests.support.device_states import GIB, TIME, eight_gpus, gpu, process, uuid, workers


def worker(**known: Any) -> Worker:
    """Our worker with pid 10 on GPU 0, noted a second after its process began."""
    made = Worker("digits", 0, 10, TIME - 3599, (uuid(0),), 20.0 * GIB, 26.0 * GIB)
    return made._replace(**known)


def use(*processes: GpuProcess, used: float = 40, **known: Any) -> MemoryUse:
    """The memory of GPU 0 with `used` GiB in use and our worker on it."""
    return memory_use(gpu(0, used, processes=processes), [worker(**known)])


def test_report_and_driver_together_tell_tensors_cache_and_context() -> None:
    found = use(process(10, 28), process(11, 11.5))
    [ours] = found.ours
    assert (ours.total, ours.tensors) == (28 * GIB, 20 * GIB)
    assert (ours.cache, ours.context, ours.rest) == (6 * GIB, 2 * GIB, 0)
    assert [each.pid for each in found.others] == [11]
    assert found.unassigned == GIB // 2
    assert found.is_busy
    assert not found.is_empty


def test_a_pid_that_was_given_away_again_is_not_ours() -> None:
    found = use(process(10, 28, started=TIME - 60))
    assert [each.pid for each in found.others] == [10]
    assert not found.ours[0].listed
    assert found.ours[0].context is None


@pytest.mark.parametrize(
    ("late", "same"),
    [
        (0.0, True),
        (-LONGEST_POOL_START, True),
        (CLOCK_SLACK, True),
        (-LONGEST_POOL_START - 1, False),
        (CLOCK_SLACK + 1, False),
        (None, False),
    ],
)
def test_the_start_time_decides_whose_the_pid_is(late: float | None, same: bool) -> None:
    started = None if late is None else worker().start_event_time + late
    assert is_same(process(10, 1, started=started), worker()) is same


def test_the_report_of_a_worker_is_used_where_the_driver_does_not_count_by_process() -> None:
    [ours] = use(process(10, None)).ours
    assert (ours.total, ours.tensors, ours.cache) == (26 * GIB, 20 * GIB, 6 * GIB)
    assert ours.context is None


def test_in_a_container_an_unknown_process_is_not_taken_for_another_users() -> None:
    found = use(process(91_234, None, name="", user="", started=None), process(12, 3), used=31)
    assert [each.pid for each in found.others] == [12]
    assert found.unassigned == 2 * GIB
    alone = use(process(91_234, None, name="", user="", started=None), used=28)
    assert not alone.is_busy


def test_a_report_that_is_older_than_the_drivers_figure_is_not_used() -> None:
    [ours] = use(process(10, 3)).ours
    assert (ours.total, ours.tensors, ours.cache, ours.context) == (3 * GIB, None, None, None)
    assert ours.rest == 3 * GIB


def test_one_process_on_several_gpus_is_not_split_by_guessing() -> None:
    both = worker(devices=(uuid(0), uuid(1)))
    devices = [gpu(0, 30, processes=(process(10, 28),)), gpu(1, 20, processes=(process(10, 18),))]
    found = memory_uses(devices, [both])
    totals = [(each.ours[0].total, each.ours[0].tensors) for each in found.values()]
    assert totals == [(28 * GIB, None), (18 * GIB, None)]


def test_what_is_not_known_of_ours_leaves_the_rest_unknown() -> None:
    both = worker(devices=(uuid(0), uuid(1)))
    found = memory_use(gpu(0, 30, processes=(process(10, None),)), [both])
    assert found.ours[0].total is None
    assert found.unassigned is None
    assert not found.is_busy
    assert not found.is_empty


def test_tensorflow_tells_its_tensors_only() -> None:
    [ours] = use(process(10, 28), reserved=None).ours
    assert (ours.tensors, ours.cache, ours.context, ours.rest) == (20 * GIB, None, None, 8 * GIB)


def test_a_worker_without_a_report_is_on_its_card_all_the_same() -> None:
    found = use(used=0.4, allocated=None, reserved=None)
    assert (found.ours[0].total, found.ours[0].listed) == (None, False)
    assert not found.is_empty


def test_a_worker_on_a_slice_is_on_the_gpu() -> None:
    device = gpu(0, 30, slices=(MigSlice(uuid="MIG-a", name="3g.40gb"),))
    assert memory_use(device, [worker(devices=("MIG-a",))]).ours


def test_a_desktop_is_not_work_but_unnamed_memory_may_be() -> None:
    desktop = memory_use(gpu(0, 0.6, processes=(process(5, 0.1, name="Xorg"),)), [])
    assert (desktop.is_busy, desktop.is_empty) == (False, True)
    unlisted = memory_use(gpu(0, 12, processes=None), [])
    assert (unlisted.is_busy, unlisted.others_known, unlisted.unassigned) == (True, False, 12 * GIB)


def test_a_card_of_which_nothing_is_known_is_not_called_empty() -> None:
    assert not memory_use(gpu(0, None, processes=None), []).is_empty
    assert memory_use(gpu(0, None, processes=None, asleep=True), []).is_empty


def test_nonsense_of_a_worker_or_a_driver_raises_nothing() -> None:
    for value in (float("nan"), float("inf"), -1.0):
        [ours] = use(process(10, 28), allocated=value, reserved=value).ours
        assert (ours.total, ours.tensors) == (28 * GIB, None)
    assert use(process(10, 90), used=40).unassigned == 0


def test_cpus_and_lost_gpus_have_no_entry() -> None:
    found = memory_uses(eight_gpus().devices, workers())
    assert set(found) == {uuid(number) for number in (0, 1, 3, 4, 5, 6, 7)}


def test_what_a_script_has_started_is_the_work_of_its_run() -> None:
    found = use(process(20, 18), process(21, 10), process(11, 5), pid=10, below=(20, 21, 22))
    [ours] = found.ours
    assert (ours.total, ours.listed) == (28 * GIB, True)
    assert [each.pid for each in found.others] == [11]
