"""The figures on the cards, from curves, events and status."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from engine.client import RunInfo
from engine.diagnosis.process_memory import EVERY_SECONDS
from engine.messages.events import EpochEnded, Event, Rewound, TrainingStarted
from engine.runs.run_state import RunState, RunStatus
from engine.runs.store.downsampling import BlockStatistics
from engine.runs.store.store_reader import StoredEvent
from engine.spec.run_spec import RunSpec
from gui.run_view.run_figures import RunFigures
from tests.gui.stored_points import stored_points
from tests.support.sentences import sentence

SPEC = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",))
EACH_SECOND = "the largest of samples every second"
SAMPLED = f"the largest of samples every {EVERY_SECONDS:.0f} s, more often at first"


class Cards:
    def __init__(self, figures: RunFigures) -> None:
        self.shown: dict[str, tuple[str, str, str]] = {}
        self.captions: list[str] = []
        figures.metric_named.connect(self.captions.append)
        figures.figure.connect(self._show)

    def _show(self, key: str, value: str, note: str, tone: str) -> None:
        """Keep the longest form of a note; the others say the same in fewer words."""
        longest, *shorter = note.splitlines() or [""]
        assert sorted(shorter, key=len, reverse=True) == shorter
        assert all(len(form) < len(longest) for form in shorter)
        self.shown[key] = value, longest, tone


@pytest.fixture
def figures(qtbot: QtBot) -> RunFigures:
    return RunFigures()


def info(**status: object) -> RunInfo:
    whole = RunStatus(state=RunState.RUNNING, **status)  # type: ignore[arg-type]
    return RunInfo("1", Path("runs/1"), SPEC, whole, RunState.RUNNING, "")


def stored(*events: Event) -> list[StoredEvent]:
    return [StoredEvent(number, 0.0, event) for number, event in enumerate(events, 1)]


def validated(
    figures: RunFigures,
    *ends: tuple[int, int, dict[str, float]],
    directions: dict[str, str] | None = None,
) -> None:
    """Epochs have ended (epoch, step, metrics), as the store has them: points, event, status."""
    metrics: dict[str, float] = {}
    for epoch, step, found in ends:
        metrics |= found
        for name, value in found.items():
            figures.add_points(name, stored_points(np.array([float(step)]), np.array([value])))
        figures.add_events(stored(EpochEnded(epoch, step, found)))
    figures.show_info(info(metrics=metrics, metric_directions=directions or {}))


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
    validated(
        figures,
        (1, 10, {"validation/loss": 0.5, "validation/accuracy": 0.8}),
        (2, 20, {"validation/loss": 0.4, "validation/accuracy": 0.95}),
        (3, 30, {"validation/loss": 0.3, "validation/accuracy": 0.9}),
    )
    assert cards.shown["metric"] == ("90.0 %", "★ best 95.0 % @ epoch 2", "best")
    assert cards.captions[-1] == "VAL ACCURACY"
    figures.add_events(stored(Rewound(10, "step-10")))
    figures.set_points("validation/accuracy", stored_points(np.array([10.0]), np.array([0.8])))
    figures.show_info(info(metrics={"validation/accuracy": 0.8}))
    assert cards.shown["metric"] == ("80.0 %", "★ best 80.0 % @ epoch 1", "best")


@pytest.mark.parametrize(
    ("name", "values", "directions", "shown"),
    [
        ("accuracy", (0.9, 0.9, 0.9), {}, ("90.0 %", "★ best 90.0 % @ epoch 1")),
        ("loss", (0.25, 0.5), {}, ("0.5", "★ best 0.25 @ epoch 1")),
        ("score", (0.25, 0.5), {"score": "min"}, ("0.5", "★ best 0.25 @ epoch 1")),
    ],
)
def test_the_first_of_equals_and_the_smallest_loss_are_the_best(
    figures: RunFigures,
    name: str,
    values: tuple[float, ...],
    directions: dict[str, str],
    shown: tuple[str, str],
) -> None:
    cards = Cards(figures)
    ends = ((n, 10 * n, {f"validation/{name}": value}) for n, value in enumerate(values, 1))
    validated(figures, *ends, directions=directions)
    assert cards.shown["metric"] == (*shown, "best")


def test_a_validation_within_an_epoch_is_the_best_by_its_step(figures: RunFigures) -> None:
    """A run of a number of steps validates at its end, and a script whenever it likes."""
    cards = Cards(figures)
    validated(figures, (1, 10, {"validation/loss": 0.5}))
    figures.add_points("validation/loss", stored_points(np.array([1015.0]), np.array([0.25])))
    figures.show_info(info(metrics={"validation/loss": 0.25}))
    assert cards.shown["metric"] == ("0.25", "★ best 0.25 @ step 1,015", "best")


def test_a_rewind_keeps_the_epochs_before_it_however_long_they_were(figures: RunFigures) -> None:
    """The batch size was changed after the first epoch: the second one had 4 steps, not 10."""
    cards = Cards(figures)
    validated(
        figures,
        (1, 10, {"validation/accuracy": 0.8}),
        (2, 14, {"validation/accuracy": 0.95}),
        (3, 18, {"validation/accuracy": 0.9}),
    )
    figures.add_events(stored(Rewound(14, "step-14")))
    curve = stored_points(np.array([10.0, 14.0]), np.array([0.8, 0.95]))
    figures.set_points("validation/accuracy", curve)
    figures.show_info(info(metrics={"validation/accuracy": 0.95}))
    assert cards.shown["metric"] == ("95.0 %", "★ best 95.0 % @ epoch 2", "best")


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
    assert cards.shown["memory"][:2] == (
        "1.5 GiB",
        sentence("gpu-1-all-processes", each_second=EACH_SECOND),
    )
    figures.set_device_names({"GPU-b": "GPU 3"})
    assert cards.shown["memory"][:2] == (
        "1.5 GiB",
        sentence("gpu-3-all-processes", each_second=EACH_SECOND),
    )


def test_the_step_time_says_what_was_no_computing_on_the_mean_rank(figures: RunFigures) -> None:
    cards = Cards(figures)
    figures.show_info(info(step_seconds=0.0649))
    assert cards.shown["step_time"][1] == sentence("per-step-mean-of-last-seconds")
    figures.add_points(
        "rank/0/communication_share", stored_points(np.arange(2.0), np.array([0.5, 0.53]))
    )
    figures.add_points(
        "rank/1/communication_share", stored_points(np.arange(1.0), np.array([0.01]))
    )
    figures.set_points("rank/0/data_share", stored_points(np.arange(2.0), np.array([0.5, 0.03])))
    figures.add_points("rank/1/data_share", stored_points(np.arange(1.0), np.array([0.09])))
    figures.add_points("rank/0/data_share", stored_points(np.arange(1.0), np.array([np.nan])))
    figures.show_info(info(step_seconds=0.0649))
    assert cards.shown["step_time"][1] == sentence("data-comm-mean-of-last-seconds")
    figures.clear()
    figures.show_info(info(step_seconds=0.0649))
    assert cards.shown["step_time"][1] == sentence("per-step-mean-of-last-seconds")


def test_another_run_begins_with_unknown_figures(figures: RunFigures) -> None:
    cards = Cards(figures)
    validated(figures, (1, 10, {"validation/loss": 0.25}))
    figures.clear()
    assert {value for value, _, _ in cards.shown.values()} == {"–"}
    figures.show_info(info(metrics={"validation/loss": 0.25}))
    assert cards.shown["metric"][0] == "–"


def test_on_a_cpu_the_peak_is_that_of_the_runs_processes(figures: RunFigures) -> None:
    """And not what the whole machine uses, unless that is all that an old run has."""
    cards = Cards(figures)
    machine = stored_points(np.arange(2.0), np.array([19.1 * 2**30, 18 * 2**30]))
    figures.set_points("device/cpu/memory", machine)
    assert cards.shown["memory"][:2] == ("19.1 GiB", f"whole machine · {EACH_SECOND}")
    own = stored_points(np.arange(2.0), np.array([0.25 * 2**30, 0.125 * 2**30]))
    figures.set_points("device/cpu/process_memory", own)
    assert cards.shown["memory"][:2] == ("256.0 MiB", f"processes of this run · {SAMPLED}")


def test_of_another_machine_the_peak_is_that_of_the_runs_processes_too(figures: RunFigures) -> None:
    cards = Cards(figures)
    for series, size in {"gpus/cpu/memory": 19.0, "gpus/cpu/process_memory": 0.5}.items():
        points = stored_points(np.arange(2.0), np.array([size, size]) * 2**30)
        figures.set_points(f"device/{series}", points)
    text = f"processes of this run, gpus/cpu · {SAMPLED}"
    assert cards.shown["memory"][:2] == ("512.0 MiB", text)


def trend_of(figures: RunFigures, first: list[float], *epochs: list[float]) -> tuple[str, str]:
    """What the card says after epochs with these losses."""
    cards = Cards(figures)
    losses = np.array([first, *epochs]).ravel()
    figures.add_events(stored(TrainingStarted(0, len(first), 9, 1, parameters=5)))
    figures.set_points("train/loss", stored_points(np.arange(1.0, len(losses) + 1), losses))
    figures.show_info(info(steps_per_epoch=len(first), metrics={"train/loss": losses[-1]}))
    return cards.shown["loss"][1:]


NOISE = [0.01, 0.09, 0.02, 0.08], [0.09, 0.02, 0.1, 0.03]
TINY = [1.1e-6, 0.9e-6, 1e-6, 1e-6]


@pytest.mark.parametrize(
    ("epochs", "shown"),
    [
        (([2.3, 2.2, 2.1, 2.0], *NOISE), ("", "")),
        (([2.3] * 4, TINY, [2 * value for value in TINY]), ("▲ 100.0 % / epoch", "")),
        (
            ([2.3] * 4, [0.5, 0.52, 0.48, 0.5], [0.9, 0.92, 0.88, 0.9]),
            ("▲ 80.0 % / epoch", "warning"),
        ),
        (([2.0], [0.5], [0.6]), ("", "")),
    ],
    ids=["noise", "a tiny loss that doubles", "a loss that rises", "epochs of one step"],
)
def test_what_is_a_trend_and_what_alarms(
    figures: RunFigures, epochs: tuple[list[float], ...], shown: tuple[str, str]
) -> None:
    assert trend_of(figures, *epochs) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.000123, "0.123 ms"),
        (0.0649, "64.9 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1 s"),
        (12.34, "12.3 s"),
        (1234.5, "1,234 s"),
    ],
)
def test_a_step_time_is_a_number_that_people_write(
    figures: RunFigures, seconds: float, shown: str
) -> None:
    cards = Cards(figures)
    figures.show_info(info(step_seconds=seconds))
    assert cards.shown["step_time"][0] == shown


def test_an_accuracy_that_was_logged_in_percent_is_one(figures: RunFigures) -> None:
    """Also where it is below 1: it is a part of 1 only if no value is larger."""
    cards = Cards(figures)
    name = "validation/accuracy"
    figures.set_points(name, stored_points(np.array([1.0, 2.0, 3.0]), np.array([0.8, 90.0, 0.5])))
    figures.show_info(info(metrics={name: 0.5}))
    value, note, _ = cards.shown["metric"]
    assert (value, note) == ("0.5 %", "★ best 90.0 % @ step 2")
