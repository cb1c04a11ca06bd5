"""A TensorFlow trainer with models and options that easily go wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.sentences import sentence

pytestmark = pytest.mark.nightly


def test_it_trains_like_one_device(small: dict[str, Any]) -> None:
    """Regularisation, sparse gradients, chosen optimizers, and clipping by the recipe."""
    assert len(small["equal_to_one_device"]) == 8
    assert max(small["equal_to_one_device"].values()) < 1e-6


def test_the_running_statistics_of_replica_0_count_everywhere(small: dict[str, Any]) -> None:
    found = small["batch_norm"]
    assert found["apart before"] > 1e-4  # each replica has seen other samples
    assert found["apart after"] == 0
    assert found["from the first"] == 0
    assert found["central from the first"] < 1e-6


def test_a_restored_training_goes_on_exactly(small: dict[str, Any]) -> None:
    """With dropout, running statistics, a schedule and a loss scale."""
    found = small["resumed"]
    assert found["tf/single"] == 0
    assert found["tf/mirrored"] < 1e-6
    assert found["tf/central_storage"] < 1e-6


def test_only_further_validation_sets_have_their_name_in_front(small: dict[str, Any]) -> None:
    assert small["further_sets"] == [["test_"], ["loss", "test_loss"]]


def test_a_checkpoint_that_does_not_fit_is_named(small: dict[str, Any]) -> None:
    assert len(small["misfits"]) == 3
    for said in small["misfits"]:
        assert sentence("does-not-fit-this-model") in said
        assert said.endswith(sentence("resume-with-recipe-and-settings-that"))


def test_data_sets_of_a_wrong_type_are_named(small: dict[str, Any]) -> None:
    assert len(small["nonsense"]) == 5
    assert all("that is not two data sets" in said for said in small["nonsense"][:2])
    assert all(sentence("a-pair-of-arrays") in said for said in small["nonsense"][2:])


def test_every_replica_draws_its_own_numbers(small: dict[str, Any]) -> None:
    found = small["streams"]
    assert len(set(found["drawn"])) == 6  # two replicas, three steps
    assert all(len(stream) == 2 and stream[0] != stream[1] for stream in found["states"])
    assert [drawn for _, drawn in found["states"][0]] == [3, 3]  # dropout, once a step


def test_all_replicas_skip_a_step_that_overflowed_on_one(small: dict[str, Any]) -> None:
    found = small["overflow"]
    assert found["skipped"] == 1
    assert found["updates"] == 3
    assert found["scales"][1] == found["scales"][0] / 2
    assert found["finite"]
    assert found["apart"] == 0


def test_with_skip_a_step_whose_loss_is_nan_changes_nothing(small: dict[str, Any]) -> None:
    """Neither weights nor running statistics, on any replica."""
    assert len(small["left_out"]) == 6
    for first, *others in small["left_out"].values():
        assert first == [False, 0.0]
        assert all(finite and 0 < difference < 1 for finite, difference in others)


def test_half_precision_trains_almost_alike(small: dict[str, Any]) -> None:
    for difference in small["half_precision"].values():
        assert 0 < difference < 0.02


def test_xla_trains_alike(small: dict[str, Any]) -> None:
    assert small["compiled"] < 1e-5


def test_a_recipes_loss_may_depend_on_a_tensors_value(small: dict[str, Any]) -> None:
    assert small["asking"] == {"tf/single": 0, "tf/mirrored": 0}


def test_a_schedule_of_the_recipes_own_stays(small: dict[str, Any]) -> None:
    found = small["schedules"]
    assert found["rates"] == pytest.approx([0.1, 0.05, 0.025])
    assert sentence("learning-rate-schedule-of-own") in found["said"]


def test_it_counts_the_samples_that_were_trained_on(small: dict[str, Any]) -> None:
    """97 samples in batches of 32, or all of them in one batch of 500."""
    assert list(small["samples"].values()) == [[97, 97]] * 3


def test_gpus_grow_or_are_divided(small: dict[str, Any]) -> None:
    found = small["gpus"]
    growing, divided = found["asked"][:2], found["asked"][2:4]
    assert growing == [["first", True], ["second", True]]
    assert divided == [["first", 512, 512], ["second", 512, 512]]
    assert found["names"] == [["GPU:0", "GPU:1"], ["GPU:0", "GPU:1", "GPU:2", "GPU:3"]]
    assert sentence("sees-of-chosen-gpus-b-c") in found["said"]


def test_the_naive_loop_trains_at_a_multiple_of_the_learning_rate(small: dict[str, Any]) -> None:
    """The loop of many tutorials trains differently from ours: never use it.

    It calls `strategy.run` on data that is not distributed, so that every replica computes the
    whole batch, and takes the mean of each replica's loss: the summed gradients are as many times
    too large as there are replicas. An optimizer such as Adam, which divides by the size of the
    gradients, hides that.
    """
    naive = small["naive"]
    assert naive["from ours"] > 1e-2
    assert naive["from ours at twice the rate"] < 1e-6
