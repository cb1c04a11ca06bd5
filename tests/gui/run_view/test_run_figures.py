"""The figures on the cards, from curves, events and status."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from engine.client import RunInfo
from engine.messages.events import EpochEnded, Event, Rewound, TrainingStarted
from engine.runs.downsampling import BlockStatistics
from engine.runs.run_state import RunState, RunStatus
from engine.runs.store_reader import StoredEvent
from engine.spec.run_spec import RunSpec
from gui.run_view.run_figures import RunFigures
from tests.gui.stored_points import stored_points

SPEC = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",))


class Cards:
    def __init__(self, figures: RunFigures) -> None:
        self.shown: dict[str, tuple[str, str, str]] = {}
        self.captions: list[str] = []
        figures.metric_named.connect(self.captions.append)
        figures.figure.connect(lambda key, *rest: self.shown.update({key: rest}))


@pytest.fixture
def figures(qtbot: QtBot) -> RunFigures:
    return RunFigures()


def info(**status: object) -> RunInfo:
    whole = RunStatus(state=RunState.RUNNING, **status)  # type: ignore[arg-type]
    return RunInfo("1", Path("runs/1"), SPEC, whole, RunState.RUNNING, "")


def stored(*events: Event) -> list[StoredEvent]:
    return [StoredEvent(number, 0.0, event) for number, event in enumerate(events, 1)]


def test_the_trend_compares_the_last_epoch_with_the_one_before(figures: RunFigures) -> None:
    cards = Cards(figures)
    figures.add_events(stored(TrainingStarted(0, 10, 3, 1, parameters=5)))
    figures.set_points("train/loss", stored_points(np.arange(1.0, 11), np.full(10, 2.0)))
    figures.add_points("train/loss", stored_points(np.arange(11.0, 21), np.full(10, 1.0)))
    figures.show_info(info(steps_per_epoch=10, metrics={"train/loss": 1.0}))
    assert cards.shown["loss"] == ("1", "▼ 50.0 % / epoch", "good")
    figures.add_points("train/loss", stored_points(np.arange(21.0, 31), np.full(10, np.nan)))
    figures.show_info(info(steps_per_epoch=10, metrics={"train/loss": float("nan")}))
    assert cards.shown["loss"] == ("nan", "", "")


def test_the_trend_of_a_curve_of_blocks_is_that_of_their_means(figures: RunFigures) -> None:
    cards = Cards(figures)
    figures.add_events(stored(TrainingStarted(0, 10, 3, 1, parameters=5)))
    extremes, mean = np.tile([0.0, 90.0], 10), np.repeat([2.0, 1.0], 10)
    statistics = BlockStatistics(mean, np.full(20, 8.0))
    figures.set_points(
        "train/loss", stored_points(np.arange(1.0, 21), extremes, np.arange(20.0), statistics)
    )
    figures.show_info(info(steps_per_epoch=10, metrics={"train/loss": 1.0}))
    assert cards.shown["loss"] == ("1", "▼ 50.0 % / epoch", "good")


def test_the_best_epoch_by_the_metric_that_is_no_loss(figures: RunFigures) -> None:
    cards = Cards(figures)
    figures.add_events(
        stored(
            TrainingStarted(0, 10, 3, 1, parameters=5),
            EpochEnded(1, 10, {"validation/loss": 0.5, "validation/accuracy": 0.8}),
            EpochEnded(2, 20, {"validation/loss": 0.4, "validation/accuracy": 0.95}),
            EpochEnded(3, 30, {"validation/loss": 0.3, "validation/accuracy": 0.9}),
        )
    )
    assert cards.shown["metric"] == ("90.0 %", "★ best 95.0 % @ epoch 2", "best")
    assert cards.captions[-1] == "VAL ACCURACY"
    figures.add_events(stored(Rewound(10, "step-10")))
    assert cards.shown["metric"] == ("80.0 %", "★ best 80.0 % @ epoch 1", "best")


def test_a_rewind_keeps_the_epochs_before_it_however_long_they_were(figures: RunFigures) -> None:
    """The batch size was changed after the first epoch: the second one had 4 steps, not 10."""
    cards = Cards(figures)
    figures.add_events(
        stored(
            TrainingStarted(0, 10, 3, 1, 99),
            EpochEnded(1, 10, {"validation/accuracy": 0.8}),
            Rewound(10, "step-10"),
            TrainingStarted(10, 4, 3, 1, 99, total_steps=18),
            EpochEnded(2, 14, {"validation/accuracy": 0.95}),
            EpochEnded(3, 18, {"validation/accuracy": 0.9}),
            Rewound(14, "step-14"),
        )
    )
    assert cards.shown["metric"] == ("95.0 %", "★ best 95.0 % @ epoch 2", "best")


def test_of_a_loss_the_smallest_is_the_best(figures: RunFigures) -> None:
    cards = Cards(figures)
    figures.add_events(
        stored(
            EpochEnded(1, 10, {"validation/loss": 0.25}),
            EpochEnded(2, 20, {"validation/loss": 0.5}),
        )
    )
    assert cards.shown["metric"] == ("0.5", "★ best 0.25 @ epoch 1", "best")


def test_speed_and_the_fullest_device(figures: RunFigures) -> None:
    cards = Cards(figures)
    figures.set_device_names({"GPU-b": "GPU 1"})
    figures.show_info(info(samples_per_second=11840.4, step_seconds=0.0649, replicas=2))
    assert cards.shown["throughput"][:2] == ("11,840 samples/s", "2 replicas")
    assert cards.shown["step_time"][0] == "64.9 ms"
    figures.set_points(
        "device/GPU-a/memory", stored_points(np.arange(2.0), np.array([2.0**30, 0.0]))
    )
    figures.set_points(
        "device/GPU-b/memory", stored_points(np.arange(2.0), np.array([1.5 * 2**30, 1.0]))
    )
    figures.add_points("device/GPU-b/memory", stored_points(np.arange(1.0), np.array([np.nan])))
    assert cards.shown["memory"][:2] == ("1.5 GiB", "GPU 1")
    figures.set_device_names({"GPU-b": "GPU 3"})
    assert cards.shown["memory"][:2] == ("1.5 GiB", "GPU 3")


def test_the_step_time_says_what_was_no_computing(figures: RunFigures) -> None:
    cards = Cards(figures)
    figures.show_info(info(step_seconds=0.0649))
    assert cards.shown["step_time"][1] == "per step"
    figures.add_points(
        "rank/0/communication_share", stored_points(np.arange(2.0), np.array([0.5, 0.08]))
    )
    figures.set_points("rank/0/data_share", stored_points(np.arange(2.0), np.array([0.5, 0.03])))
    figures.add_points("rank/1/data_share", stored_points(np.arange(1.0), np.array([0.9])))
    figures.add_points("rank/0/data_share", stored_points(np.arange(1.0), np.array([np.nan])))
    figures.show_info(info(step_seconds=0.0649))
    assert cards.shown["step_time"][1] == "data 3 % · comm. 8 %"
    figures.clear()
    figures.show_info(info(step_seconds=0.0649))
    assert cards.shown["step_time"][1] == "per step"


def test_another_run_begins_with_unknown_figures(figures: RunFigures) -> None:
    cards = Cards(figures)
    figures.add_events(stored(EpochEnded(1, 10, {"validation/loss": 0.25})))
    figures.clear()
    assert {value for value, _, _ in cards.shown.values()} == {"–"}
    figures.add_events([])
    assert cards.shown["metric"][0] == "–"


def test_the_run_may_say_which_way_its_metric_is_better(figures: RunFigures) -> None:
    cards = Cards(figures)
    figures.add_events(
        stored(
            TrainingStarted(0, 10, 2, 1, parameters=5, metric_directions={"score": "min"}),
            EpochEnded(1, 10, {"validation/score": 0.25}),
            EpochEnded(2, 20, {"validation/score": 0.5}),
        )
    )
    assert cards.shown["metric"] == ("0.5", "★ best 0.25 @ epoch 1", "best")
