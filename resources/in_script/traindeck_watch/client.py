"""What the calls of level 1 (`import traindeck`) use of the watch."""

from __future__ import annotations

from typing import Any

from traindeck_watch import current
from traindeck_watch.agreement import Act, Command
from traindeck_watch.link import Frame
from traindeck_watch.loggers import media
from traindeck_watch.throughput import fit_sizes as fit_sizes
from traindeck_watch.watch import Watch

SCHEDULE_SECONDS = 2.0
"""Longest wait for the schedule of checkpoints, which Traindeck sends when a process connects."""


def _watch() -> Watch:
    found = current()
    assert found is not None, "this process is not watched"
    return found


def is_in_run() -> bool:
    """Whether this process belongs to a run. Otherwise the other functions must not be used."""
    return current() is not None


def calls_begin(save: Command, stop: Command) -> bool:
    """Level 1 counts the steps, and `save`s and `stop`s at them; from now on hooks only capture.

    Returns whether it does: not in a process beside the one that trains.
    """
    return _watch().take_calls(save, stop)


def at(done: int, epoch: int | None = None, samples: int | None = None) -> None:
    """So many steps are done; what hooks capture from now on belongs to the next one.

    `samples`: those of the new steps, of all ranks.
    """
    watch = _watch()
    new = done - watch.step
    watch.step = done
    watch.epoch = epoch
    if samples is not None:
        watch.throughput.add(samples)
    if new > 0:
        watch.throughput.stepped(new)
    else:
        watch.throughput.interrupted()


def interrupted() -> None:
    """Something else than a step is done now, such as a validation: it is not measured."""
    _watch().throughput.interrupted()


def goes_on() -> None:
    """A pause or a checkpoint has ended just now: its time is no part of the next step."""
    _watch().throughput.goes_on()


def log(series: str, value: Any, step: int | None = None) -> None:
    """Keep a figure: a number, or a tensor with one element. Hooks no longer record the series."""
    watch = _watch()
    if watch.is_silent:
        return
    watch.by_calls.add(series)
    copy = value.detach().clone() if hasattr(value, "detach") else value
    watch.start_thread()
    watch.recorder.record(series, watch.present_step if step is None else step, copy)


def image(series: str, value: Any, step: int | None = None, caption: str = "") -> None:
    """Keep a picture: an array, a tensor, a PIL image, a figure, or the path of a PNG file."""
    watch = _watch()
    media.image(watch, series, watch.present_step if step is None else step, value, caption=caption)


def histogram(series: str, values: Any, step: int | None = None) -> None:
    """Keep how values are distributed."""
    watch = _watch()
    media.histogram(watch, series, watch.present_step if step is None else step, values)


def send(frame: Frame) -> None:
    """Send a frame behind the points that came before it."""
    watch = _watch()
    watch.start_thread()
    watch.recorder.put(frame)


def outline(things: list[Any]) -> None:
    """Tell the layers of those of `things` that are models."""
    from traindeck_watch.models.outline import is_model

    watch = _watch()
    watch.guard(watch.outline, "the layers of the model")([t for t in things if is_model(t)])


def flush() -> None:
    """Send now what waits."""
    _watch().flush()


def notice(text: str) -> None:
    """Tell a person something, once."""
    _watch().notice(text)


def boundary(step: int) -> None:
    """Carry out the commands that are due after `step`."""
    _watch().carry_out(step)


def request_checkpoint() -> None:
    """Let all ranks save at one of their next steps; only rank 0's script asks for it."""
    watch = _watch()
    if watch.rank() == 0:
        watch.agreement.ask(Act("checkpoint", 0, {"kinds": ["request"]}))


def schedule() -> dict[str, Any] | None:
    """The newest `save_every` frame; the first one comes as soon as the process is connected."""
    return _watch().schedule(SCHEDULE_SECONDS)


def rank() -> int:
    """This process' number among all ranks."""
    return _watch().rank()


def world() -> int:
    """Number of ranks."""
    return _watch().world()
