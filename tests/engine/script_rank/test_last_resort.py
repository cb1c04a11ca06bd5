"""Which figures of the output become curves, and when."""

from __future__ import annotations

from engine.script_rank.figures import Figure, FigureReader
from engine.script_rank.last_resort import NOTE_SECONDS, Heard, LastResort

LINE = [Figure("train/loss", 1, 0.5), Figure("validation/loss", 1, 0.25)]
NEXT_LINE = [Figure("train/loss", 2, 0.4), Figure("validation/loss", 2, 0.2)]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_script_that_reports_nothing_shows_what_its_lines_say() -> None:
    clock = Clock()
    figures = LastResort(clock)
    clock.now = 100.0
    figures.add([*LINE, *NEXT_LINE, Figure("train/learning_rate", 1, 0.1)], Heard())
    assert figures.take(Heard()) == []
    clock.now = 116.0
    assert figures.take(Heard()) == [*LINE, *NEXT_LINE]  # what is printed once may be a setting
    figures.add(LINE, Heard())
    assert figures.take(Heard()) == LINE  # it is known now: they wait no longer


def test_the_first_line_of_a_slow_script_waits_for_the_figures_of_its_steps() -> None:
    """Imports, data, a compilation and the first steps may take longer than those 15 seconds."""
    clock = Clock()
    figures = LastResort(clock)
    clock.now = 30.0
    figures.add(LINE[:1], Heard(loads=True))
    clock.now = 60.0
    assert figures.take(Heard(loads=True)) == []
    slow = Heard(loads=True, step=1, has_stepped=True, step_seconds=20.0)
    clock.now = 120.0
    assert figures.take(slow) == []
    assert figures.take(slow._replace(step=2, losses=True), final=True) == []


def test_a_script_that_logs_its_figures_has_none_of_its_lines() -> None:
    figures = LastResort(Clock())
    figures.add(LINE, Heard(step=5, has_stepped=True, losses=True))
    heard = Heard(step=6, has_stepped=True, losses=True, logs=True)
    assert figures.take(heard, final=True) == []


def test_what_a_validation_prints_is_a_point_at_its_step() -> None:
    """Of the lines of one validation, the last one has the result; losses of steps are known."""
    clock = Clock()
    figures = LastResort(clock)
    during = Heard(loads=True, step=40, has_stepped=True, losses=True)
    figures.add(LINE, during)
    figures.add([Figure("validation/loss", 2, 0.75), Figure("validation/accuracy", 1, 0.9)], during)
    clock.now = 20.0
    assert figures.take(during) == []
    found = [Figure("validation/loss", 40, 0.75), Figure("validation/accuracy", 40, 0.9)]
    assert figures.take(during._replace(step=41)) == found
    figures.add([Figure("validation/loss", 3, 0.125)], during._replace(step=80))
    end = during._replace(step=80)
    assert figures.take(end) == []
    assert figures.take(end, final=True) == [Figure("validation/loss", 80, 0.125)]


TRAINS = Heard(loads=True, step=40, has_stepped=True, losses=True)


def test_a_line_has_the_step_that_the_script_notes_for_it() -> None:
    """Whether the note or the line comes first, and however many steps are done meanwhile."""
    clock, reader = Clock(), FigureReader()
    figures = LastResort(clock)
    figures.printed([("val acc 50%", 6), ("\tnever seen: val acc 1", 7), ("val  acc 50%", 12)])
    figures.add(reader.read(b"val acc 50%\n"), TRAINS)
    figures.add(reader.read(b"val acc 50%\nval \xe2\x9c\x93 loss: 0.5 val acc: 1\n"), TRAINS)
    figures.printed([("val \u2713 loss: 0.5 val acc: 1", 18), ("val acc 50%", -1)])
    clock.now = 16.0
    assert figures.take(TRAINS) == [
        Figure("validation/accuracy", 6, 0.5),
        Figure("validation/accuracy", 12, 0.5),
        Figure("validation/loss", 18, 0.5),
        Figure("validation/accuracy", 18, 1.0),
    ]


def test_a_second_validation_by_lines_shows_that_there_is_no_other_report_of_it() -> None:
    """Early stopping must not wait those seconds: a script may do many evaluations in them."""
    reader, figures = FigureReader(), LastResort(Clock())
    during = Heard(loads=True, step=21, has_stepped=True, losses=True)
    for progress in (b"val loss: 3\n", b"val loss: 1\n"):  # of one validation
        figures.add(reader.read(progress), during)
    figures.printed([("val loss: 3", 20), ("val loss: 1", 20)])
    assert figures.take(during._replace(step=39)) == []
    figures.add(reader.read(b"val loss: 2\n"), during._replace(step=40))
    figures.printed([("val loss: 2", 40)])
    assert figures.take(during._replace(step=40)) == []
    second = during._replace(step=41)
    found = [Figure("validation/loss", 20, 1.0), Figure("validation/loss", 40, 2.0)]
    assert figures.take(second) == found


def test_a_line_without_a_note_waits_a_while_and_keeps_its_place() -> None:
    clock, reader = Clock(), FigureReader()
    figures = LastResort(clock)
    figures.add(reader.read(b"val loss 1\n"), TRAINS)
    clock.now = 16.0
    assert figures.take(TRAINS._replace(step=41)) == [Figure("validation/loss", 40, 1.0)]
    figures.add(reader.read(b"val loss 2\ntest loss 3\n"), TRAINS._replace(step=45))
    figures.printed([("test loss 3", 44)])
    clock.now += NOTE_SECONDS - 1
    assert figures.take(TRAINS._replace(step=50)) == []
    clock.now += 2
    found = [Figure("validation/loss", 45, 2.0), Figure("test/loss", 44, 3.0)]
    assert figures.take(TRAINS._replace(step=50)) == found


def test_a_test_is_no_validation() -> None:
    reader, figures = FigureReader(), LastResort(Clock())
    figures.add(reader.read(b"val loss: 0.5\nTest set: loss= 7.5\n"), TRAINS)
    assert figures.take(TRAINS, final=True) == [
        Figure("validation/loss", 40, 0.5),
        Figure("test/loss", 40, 7.5),
    ]


def test_figures_of_all_sets_on_a_line_are_kept_beside_the_steps() -> None:
    figures = LastResort(Clock())
    line = b"Epoch: 001, Loss: 0.6, Train: 0.75, Val: 0.5, Test: 0.25\n"
    figures.add(FigureReader().read(line), TRAINS)
    assert figures.take(TRAINS, final=True) == [
        Figure("train/metric", 40, 0.75),
        Figure("validation/metric", 40, 0.5),
        Figure("test/metric", 40, 0.25),
    ]
    figures.add(FigureReader().read(b"train accuracy: 0.75\n"), TRAINS)
    assert figures.take(TRAINS, final=True) == []


def test_a_loss_that_the_steps_hide_is_that_of_the_lines() -> None:
    """As of a `tf.function` that prints its loss and returns nothing."""
    clock = Clock()
    figures = LastResort(clock)
    for step in (1, 2, 3):
        heard = Heard(losses=True, has_loss=False, step=step, has_stepped=True)
        figures.add([Figure("train/loss", step, 1 / step), Figure("train/score", step, 0.0)], heard)
    clock.now = 60.0
    found = figures.take(heard, final=True)
    assert found == [Figure("train/loss", step, 1 / step) for step in (1, 2, 3)]
    late = [Figure("train/loss", step, 0.5) for step in (4, 5, 6)]
    figures.add(late, heard)  # lines come before the steps that they belong to
    assert figures.take(heard._replace(step=6), final=True) == late
    figures.add([Figure("train/loss", 7, 0.5)], heard)
    assert figures.take(heard._replace(has_loss=True), final=True) == []
