from __future__ import annotations

from traindeck_watch.rounds import Rounds


def steps_and_boundaries(members):
    rounds, step, found = Rounds(), 0, []
    for member in members:
        step += rounds.enter(ord(member))
        found.append((step, rounds.is_complete))
    return found


def test_one_member_makes_a_step_each_time():
    assert steps_and_boundaries("AAA") == [(1, True), (2, True), (3, True)]


def test_two_that_take_turns_make_one_step_together():
    assert steps_and_boundaries("DGDGDG")[2:] == [(2, False), (2, True), (3, False), (3, True)]


def test_more_of_the_one_than_of_the_other():
    assert [step for step, _ in steps_and_boundaries("DDDGDDDG")] == [1, 2, 3, 3, 4, 5, 6, 6]


def test_one_that_follows_another_goes_on():
    assert [step for step, _ in steps_and_boundaries("AAABBB")] == [1, 2, 3, 3, 4, 5]
