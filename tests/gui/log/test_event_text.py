"""Every event there is has a sentence."""

from __future__ import annotations

import typing

import pytest

from engine.messages import events
from engine.messages.events import Event, Failure, Metrics, Points, RunEnded
from gui.log.event_text import Level, event_name, event_text
from tests.support.sentences import sentence

EXAMPLES: list[Event] = [
    events.WorkerReady(1, ("cpu:1",), {"torch": "2.13.0"}),
    events.TrainingStarted(0, 23, 5, 2, 12_345),
    Metrics(0.0, 1.0, [Points("train/loss", [1], [0.5])]),
    events.Progress(1, 7, 1234.0, 0.01, 60.0),
    events.EpochEnded(1, 23, {"validation/accuracy": 0.5}),
    events.CheckpointSaved("checkpoints/23", 23, 1, 2048, 0.25),
    events.CacheEmptied(1, "cpu:1", 1024**2),
    events.Paused(5),
    events.Resumed(5),
    events.TrainingEnded(23, True),
    events.Notice("The disk is nearly full.", 1),
    events.WorkerFailed(1, "ValueError: no", "recipe.py:3", "", False),
    events.AttemptStarted(2, 4711, 0.0),
    events.WorkerStarted(1, 4712, ("cpu:1",)),
    events.CommandReceived("SaveCheckpoint"),
    events.CommandRefused("Pause", "It is paused."),
    events.StopStage("terminate"),
    events.Rewound(23, "step-23"),
    RunEnded("failed", "Rank 1 died.", Failure(1, "cpu:1", -9, "SIGKILL", "died", "", "")),
    events.Alarm("GPU-1", "hot", "GPU 1 is hot.", True),
    events.RecipeChosen(events.RecipeVersion.AS_IT_WAS, "mine.py: 3 lines changed"),
    events.Queued(("12",), "Queued behind run 12 on GPU 0 (next in line)."),
    events.CheckpointFailed(20, "The checkpoint of step 20 could not be saved."),
    events.Trouble("hang", "No step was done for 120 s.", True),
    events.ImageLogged("samples", 10, "media/1.png", 8, 4),
    events.HistogramLogged("weights", 10, [0.0, 1.0], [3.0]),
    events.Restarting(Failure(-1, "", 0, "", "It hangs.", "", ""), 1, 3),
    events.Shrunk(1, 37, "Rank 1 ran out of memory.", 2, 1, 128, 2),
]


def test_what_is_not_known_of_a_script_is_not_said() -> None:
    assert event_text(events.WorkerReady(0, ("cpu:0",), {})).text == "Ready on cpu:0."
    started = events.TrainingStarted(5, 0, 0, 1, 161)
    assert event_text(started).text == sentence("training-starts-at-step-replicas-parameters")
    assert event_text(events.TrainingStarted(0, 0, 0, 0, 0)).text == sentence(
        "training-starts-at-step"
    )


def test_what_helps_beside_the_message_is_said_too() -> None:
    event = events.WorkerFailed(1, "ValueError: no", "r.py:3", "", False, "Try\n  another: x")
    assert event_text(event).text == sentence("failed-in-valueerror-no-try-another")


def test_the_examples_are_all_events_there_are() -> None:
    assert {type(example) for example in EXAMPLES} == set(typing.get_args(Event))


@pytest.mark.parametrize("event", EXAMPLES, ids=event_name)
def test_every_event_has_a_sentence_with_its_figures(event: Event) -> None:
    said = event_text(event)
    assert said.text
    assert "\n" not in said.text
    assert said.rank == getattr(event, "rank", 1 if isinstance(event, RunEnded) else -1)


@pytest.mark.parametrize(
    ("event", "level", "words"),
    [
        (EXAMPLES[5], Level.INFO, sentence("checkpoint-of-step-epochs-done-saved")),
        (EXAMPLES[5], Level.INFO, "2.0 KiB, 0.25 s"),
        (EXAMPLES[4], Level.INFO, "validation/accuracy 50.0 %"),
        (EXAMPLES[14], Level.INFO, "received: save checkpoint."),
        (EXAMPLES[15], Level.WARN, sentence("refused-pause-it-is-paused")),
        (EXAMPLES[11], Level.ERROR, "in recipe.py:3: ValueError: no"),
        (EXAMPLES[18], Level.ERROR, "Rank 1 died."),
        (events.Paused(5), Level.INFO, "Paused after step 5."),
        (events.Paused(5, freed_devices=True), Level.INFO, "in the host's memory"),
        (RunEnded("finished", ""), Level.INFO, "Run finished."),
        (RunEnded("stopped", "You stopped it."), Level.INFO, "You stopped it."),
        (events.StopStage("ask"), Level.INFO, "asked to save and exit"),
        (events.StopStage("kill"), Level.WARN, "are killed"),
        (EXAMPLES[19], Level.WARN, "GPU 1 is hot."),
        (EXAMPLES[-1], Level.WARN, "Rank 1 ran out of memory."),
        (events.Alarm("GPU-1", "lost", "GPU 1 is lost.", True), Level.ERROR, "GPU 1 is lost."),
        (events.Alarm("GPU-1", "lost", "GPU 1 is back.", False), Level.INFO, "GPU 1 is back."),
    ],
)
def test_level_and_words(event: Event, level: Level, words: str) -> None:
    said = event_text(event)
    assert said.level is level
    assert words in said.text


def test_the_name_of_an_event() -> None:
    assert event_name(EXAMPLES[5]) == "Checkpoint saved"
