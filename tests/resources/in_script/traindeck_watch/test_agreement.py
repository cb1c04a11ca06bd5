from __future__ import annotations

import random

import pytest
from traindeck_watch.agreement import Act, Agreement, Control

SAVE = Act("checkpoint", 1, {})


def ranks(folder, world, seconds_per_step=0.0):
    made = [
        Agreement(str(folder / "agreement"), lambda r=r: r, lambda: world) for r in range(world)
    ]
    for agreement in made:
        agreement.is_alone = world < 2
        agreement.seconds_per_step = seconds_per_step
    return made


def test_one_rank_acts_at_the_next_boundary(tmp_path):
    [only] = ranks(tmp_path, 1)
    assert only.due(4) == []
    only.ask(SAVE)
    assert only.due(5) == [SAVE]
    assert only.due(6) == []
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("seed", range(20))
def test_all_ranks_act_at_one_step_however_far_they_are_apart(tmp_path, seed):
    order = random.Random(seed)
    world, steps = 3, [0, 0, 0]
    all_ranks = ranks(tmp_path, world)
    acts = [Act("checkpoint", n, {}) for n in range(4)]
    asked = list(acts)
    done: list[list[tuple[int, Act]]] = [[], [], []]
    for _ in range(2000):
        rank = order.randrange(world)
        if order.random() < 0.7 and steps[rank] > min(steps):
            rank = steps.index(min(steps))
        if asked and order.random() < 0.02:
            all_ranks[0].ask(asked.pop(0))
        steps[rank] += 1
        done[rank] += [(steps[rank], act) for act in all_ranks[rank].due(steps[rank])]
    last = min(steps)
    seen = [[entry for entry in one if entry[0] <= last] for one in done]
    assert seen[0] == seen[1] == seen[2]
    assert [act for _, act in done[0]] == acts


def test_a_slow_step_leaves_the_least_distance(tmp_path):
    first, second = ranks(tmp_path, 2, seconds_per_step=10.0)
    first.ask(SAVE)
    assert first.due(10) == []
    assert second.due(11) == []
    assert [first.due(step) for step in (11, 12, 13)] == [[], [], [SAVE]]
    assert [second.due(step) for step in (12, 13)] == [[], [SAVE]]


def test_a_later_program_of_the_command_does_nothing_that_was_told_to_another(tmp_path):
    first, second = ranks(tmp_path, 2)
    first.ask(SAVE)
    for step in range(1, 9):
        first.due(step)
        second.due(step)
    later, _ = ranks(tmp_path, 2)
    later.begin()
    assert [later.due(step) for step in range(1, 20)] == [[]] * 19


def test_a_checkpoint_during_a_pause_is_done_in_it_and_resume_ends_it(tmp_path):
    [only] = ranks(tmp_path, 1)
    frames: list[dict[str, object]] = []
    control = Control(only, frames.append)
    control.save = lambda step, act: frames.append({"kind": "saved", "step": step})
    for number, what in enumerate(("pause", "checkpoint", "resume")):
        only.ask(Act(what, number, {}))
    control.boundary(7)
    assert [(f["kind"], f["step"]) for f in frames] == [
        ("paused", 7),
        ("saved", 7),
        ("resumed", 7),
    ]
