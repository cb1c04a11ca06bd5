"""The calls' one state: where the script is, what it keeps, what is done between two batches."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from traindeck import _link
from traindeck._callers import is_left_by_break
from traindeck._errors import Stopped, TraindeckError
from traindeck._figures import Figures
from traindeck._passes import Pass, Passes, Plain
from traindeck._schedule import Schedule
from traindeck._source import Source, samples
from traindeck._state import checkpoint
from traindeck._state.kept import Kept
from traindeck._state.random_state import random_state, set_random_state

_END = object()
_SAVE_YOURSELF = (
    "Save and load with the script's own code, as without Traindeck, and let --resume-with say how "
    "it goes on; or write a recipe, which resumes under every strategy."
)


class FitPlace(NamedTuple):
    """What is done of a `fit` that a resumed script comes to."""

    epoch: int
    batch: int
    is_here: bool
    """Whether the checkpoint was saved in it; otherwise nothing of it is left to do."""


class Deck:
    """The one process of a script; outside of Traindeck, and in one of several ranks, loops pass
    through."""

    def __init__(self) -> None:
        self.client = _link.client()
        self.kept = Kept()
        self.figures = Figures(self.client)
        self.epoch = 0
        self.step = 0
        self._is_in_charge: bool | None = None
        self._passes = Passes()
        self._schedule = Schedule()
        self._torch: Any = None
        self._run_folder = os.environ.get("TRAINDECK_RUN_FOLDER", "")
        self._checkpoint = os.environ.get("TRAINDECK_CHECKPOINT", "")
        self._saved: Plain | None = None
        self._is_tried = False
        self._batches_per_step = 0
        self._samples = 0
        self._fits = 0
        self._fit_batches = 0
        self._is_in_fit = False
        self._saved_step = -1
        self._plan: dict[str, int | None] = {}
        self._requested: set[str] = set()

    # Who counts the steps -------------------------------------------------------------------

    def takes_charge(self, call: str) -> bool:
        """Whether the steps are counted, saved and resumed here, from the first `call` on.

        It is the only process that trains in a run of Traindeck. Each of several ranks is watched
        as one without calls.
        """
        if self._is_in_charge is None:
            self._is_in_charge = self._take_charge(call)
        return self._is_in_charge

    def needs_one_process(self, call: str) -> bool:
        """Return `takes_charge`. Raises TraindeckError in one of several ranks."""
        if self.client is not None and (ranks := _link.ranks(self.client)) > 1:
            raise TraindeckError(
                f"traindeck.{call} is for a script of one process, and this is one of {ranks} "
                f"ranks: leave it out. {_SAVE_YOURSELF}"
            )
        return self.takes_charge(call)

    def _take_charge(self, call: str) -> bool:
        if self.client is None:
            return False
        if (ranks := _link.ranks(self.client)) > 1:
            text = (
                f"traindeck.{call} does not know where the script was, because it is one of "
                f"{ranks} ranks: it begins at 0, also after a resume. {_SAVE_YOURSELF}"
            )
            if self._checkpoint:
                raise TraindeckError(text)
            if self.client.rank() == 0:
                self.client.notice(text)
            return False
        if not self.client.calls_begin(self._save_on_request, self._stop):
            return False
        if self._checkpoint:
            self._resume()
        return True

    def _resume(self) -> None:
        self._saved = saved = checkpoint.read(self._checkpoint)
        self.epoch, self.step = saved["epoch"], saved["step"]
        self._saved_step = self.step
        self._passes.resume_from(saved)
        self.kept.resume_from(saved["kept"])
        self.client.at(self.step, self.epoch, None)

    @property
    def torch(self) -> Any:
        """What is followed of PyTorch; None: the script has not imported it."""
        if self._torch is None and "torch" in sys.modules:
            from traindeck._torch import TorchState

            self._torch = TorchState()
        return self._torch

    @property
    def tensorflow(self) -> Any:
        """The functions for TensorFlow; None: the script has not imported it."""
        if "tensorflow" not in sys.modules:
            return None
        from traindeck import _tensorflow

        return _tensorflow

    def keep(self, things: dict[str, Any]) -> None:
        """See `traindeck.keep`."""
        if self.needs_one_process("keep()"):
            self.kept.add(things)
            self.client.outline(list(self.kept.things.values()))

    # Loops that know where they are ---------------------------------------------------------

    def epochs(self, count: int) -> Iterator[int]:
        """See `traindeck.epochs`."""
        if not self.takes_charge("epochs()"):
            yield from range(count)
            return
        self._plan["epochs"] = count
        saved = self._saved
        first = saved["epoch"] if saved is not None else 0
        for self.epoch in range(first, count):
            self._passes.new_epoch()
            if self._saved is not None and not self._saved["passes"]:
                self.reenter()
            yield self.epoch
            self.epoch += 1
            self._passes.new_epoch()
            if self._saved is None:
                self._passes.stop_awaiting()  # a pass of `zip` whose leader was at its end
            self._end_epoch(is_last=self.epoch >= count)
        if self._saved is not None and first >= count:
            self.reenter()

    def steps(self, count: int) -> Iterator[int]:
        """See `traindeck.steps`."""
        if not self.takes_charge("steps()"):
            yield from range(count)
            return
        self._plan["total_steps"] = count
        is_inner = self._passes.leading is not None
        numbers = range(count)
        new = Pass(Source(numbers, ["steps"]), numbers, counts_steps=True)
        try:
            for number, _ in self._iterate(new, is_training=True):
                yield number
        except GeneratorExit:
            if not is_inner and is_left_by_break(sys._getframe(1)):
                self._save_after_loop()
            raise
        if not is_inner:
            self._save_after_loop()

    def batches(
        self, loader: Iterable[Any], *, training: bool | None, is_counted: bool = False
    ) -> Iterator[tuple[int, Any]]:
        """Yield the batches of `loader` with their numbers; see `traindeck.batches`.

        `is_counted`: the script counts them with `enumerate`, from 0.
        """
        if not self.takes_charge("batches()"):
            yield from enumerate(loader)
            return
        is_training = not self._is_evaluating() if training is None else training
        measure = self.client.goes_on if is_training else self.client.interrupted
        measure()
        new = Pass(self._passes.source_of(loader), loader, counts_steps=False)
        yield from self._iterate(new, is_training=is_training, is_counted=is_counted)

    def _check_numbers(self, new: Pass) -> None:
        """Refuse a count that would begin at 0 in the middle of a pass."""
        remedy = "say `for number, batch in batches(loader, numbered=True)` in its place"
        if new.done:
            raise TraindeckError(
                f"The script counts its batches with enumerate, which would begin at 0 although "
                f"{new.done} batches of the epoch are done: {remedy}, and resume once more."
            )
        self.client.notice(
            "The script counts its batches with enumerate, which would begin at 0 after a "
            f"resume within an epoch: {remedy}."
        )

    def _iterate(
        self, new: Pass, *, is_training: bool, is_counted: bool = False
    ) -> Iterator[tuple[int, Any]]:
        batches = self._begin_pass(new, is_training=is_training)
        steps_before, leads_now, count = self._optimizer_steps(), False, 0
        try:
            while (batch := next(batches, _END)) is not _END:
                if is_counted and is_training:
                    self._check_numbers(new)
                    is_counted = False
                leads_now = is_training and new is self._passes.leading
                count = samples(batch)
                steps_before = self._optimizer_steps()
                new.has_handed_out = True
                yield new.done, batch
                new.has_handed_out = False
                new.done += 1
                if not is_training and self._optimizer_steps() > steps_before:
                    raise TraindeckError(
                        "An optimizer made a step in a loop over batches that counts as a "
                        "validation, because gradients are off or all models are in eval(). Call "
                        "model.train() before the loop, or say batches(loader, training=True)."
                    )
                steps_before = self._optimizer_steps()
                if is_training and new is self._passes.leading:
                    self._boundary(new, count)
        except GeneratorExit:
            # The loop was left by `break`: its last body counts if it has trained.
            if leads_now and self._optimizer_steps() > steps_before:
                new.has_handed_out = False
                new.done += 1
                self._count_last(count)
            raise
        finally:
            self._passes.close(new)

    def _begin_pass(self, new: Pass, *, is_training: bool) -> Iterator[Any]:
        """Begin a pass, or go on with it where the checkpoint was saved. Return its batches."""
        saved = self._passes.take_awaited(new.source) if is_training else None
        batches = new.begin(saved)
        if is_training:
            self._passes.open(new)
        if saved is not None and saved["leads"]:
            self.reenter()
        return batches

    # Between two batches --------------------------------------------------------------------

    def _boundary(self, led: Pass, count: int) -> None:
        """Count a step, and do what is due after it."""
        self._passes.stop_awaiting()
        torch = self.torch
        self._batches_per_step += not self._is_tried
        self._samples += count
        if not led.counts_steps and torch is not None and torch.accumulates(self.kept):
            return
        of_step, self._samples = self._samples, 0
        self._count_step(led, 1, of_step)

    def _count_step(self, led: Pass | None, new: int, count: int = 0) -> None:
        """Count `new` steps of `count` samples, and do what is due after them."""
        self._note_steps(new, count)
        if not self._is_tried:
            self._first_step(led, count)
        self._act()

    def _count_last(self, count: int) -> None:
        """Count the step of a loop that is being left; nothing can be raised into the script."""
        of_step, self._samples = self._samples + count, 0
        self._note_steps(1, of_step)

    def _note_steps(self, new: int, count: int) -> None:
        before, self.step = self.step, self.step + new
        self.client.at(self.step, self.epoch, count or None)
        self._requested |= self._schedule.due(before, self.step)

    def _act(self) -> None:
        self.client.boundary(self.step)
        if self._requested:
            self._save(self._requested)

    def _save_on_request(self, step: int, act: Any) -> None:
        self._save(set(act.details.get("kinds") or ["request"]), act.number)

    def _stop(self, step: int, act: Any) -> None:
        if self.kept and act.details.get("save", True):
            self._save({"last", *self._requested}, act.number)
        self.client.send({"kind": "stopping", "step": step, "number": act.number})
        self.client.flush()
        raise Stopped

    def _end_epoch(self, *, is_last: bool) -> None:
        metrics = self.figures.end_epoch()
        self.client.send(
            {"kind": "epoch", "epoch": self.epoch, "step": self.step, "metrics": metrics}
        )
        self._requested |= self._schedule.epoch_ended(self.epoch, metrics)
        if is_last:
            self._requested.add("last")
        self.client.at(self.step, self.epoch, None)
        self._act()

    def _first_step(self, led: Pass | None, count: int) -> None:
        """Check, after the first step, that a checkpoint can be saved and what it would lack."""
        self._is_tried = True
        if _link.ranks(self.client) > 1:
            raise TraindeckError(
                "The script has called traindeck before its ranks have met: call "
                "torch.distributed.init_process_group first."
            )
        things = self.kept.things
        parameters = 0
        torch, tensorflow = self.torch, self.tensorflow
        if torch is not None:
            parameters = torch.parameters(things.values())
            for optimizer in torch.stepped:
                if things and not self.kept.is_kept(optimizer):
                    self.client.notice(
                        f"{type(optimizer).__name__} makes steps, but it is not kept: its state is "
                        "not in the checkpoints. traindeck.keep(optimizer=...) keeps it."
                    )
        if tensorflow is not None:
            parameters = parameters or tensorflow.parameters(things.values())
            if problem := tensorflow.seed_problem():
                self.client.notice(problem)
        self._schedule.follow(self.client.schedule() or {})
        if self.kept:
            self._tree()  # it raises what a checkpoint cannot hold
        self._plan.update(parameters=parameters or None, batch_size=count or None, replicas=1)
        if led is not None and not led.counts_steps and led.source.count:
            # Gradients of several batches may make one step.
            self._plan["steps_per_epoch"] = -(-led.source.count // self._batches_per_step)
        known = {name: value for name, value in self._plan.items() if value is not None}
        self.client.send({"kind": "plan", **known})

    # Keras' fit -----------------------------------------------------------------------------

    def begin_fit(
        self, things: dict[str, Any], *, epochs: int, batches: int | None
    ) -> FitPlace | None:
        """Begin a `fit`, which trains `things`. Return its place in a resumed script."""
        self._fits += 1
        saved = self._saved["fit"] if self._saved is not None else None
        if saved is not None and saved["number"] > self._fits:
            return FitPlace(epochs, 0, is_here=False)
        self.kept.replace(things)
        self._plan.update(epochs=epochs, steps_per_epoch=batches)
        self._fit_batches = 0
        self._is_in_fit = True
        if saved is None or saved["number"] < self._fits:
            return None
        assert self._saved is not None
        return FitPlace(self._saved["epoch"], saved["batch"], is_here=True)

    def fit_boundary(self, batches: int, new: int, samples: int = 0) -> None:
        """Do what is due after `new` more batches of so many samples, `batches` of the epoch."""
        self._fit_batches = batches
        self._count_step(None, new, samples)

    def fit_epoch_ended(self, *, is_last: bool) -> None:
        """Do what is due after an epoch of `fit`."""
        self._fit_batches = 0
        self.epoch += 1
        self._end_epoch(is_last=is_last)

    def end_fit(self) -> None:
        """Note that a `fit` is over."""
        self._is_in_fit = False

    def _fit_place(self) -> Plain | None:
        """Return where `fit` is; after it, a resumed script passes by all that were begun."""
        if not self._fits:
            return None
        if self._is_in_fit:
            return {"number": self._fits, "batch": self._fit_batches}
        return {"number": self._fits + 1, "batch": 0}

    # Checkpoints ----------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """See `traindeck.checkpoint`."""
        if self.client is None:
            return
        if self._is_in_charge and self._passes.leading is None:
            self._save({"request"})
        else:
            self.client.request_checkpoint()

    def _save_after_loop(self) -> None:
        """Save at the end of a loop of `steps`; loaders that it drew from may still be open."""
        self._passes.is_between = True
        try:
            self._save({"last", *self._requested})
        finally:
            self._passes.is_between = False

    def _save(self, kinds: set[str], number: int = 0) -> None:
        """Write a checkpoint, and tell the process of Traindeck."""
        batch = self._fit_batches if self._is_in_fit else self._passes.batch
        place = {"step": self.step, "epoch": self.epoch, "batch": batch}
        self._requested = set()
        if not self.kept:
            if kinds - {"last"}:
                text = (
                    "The script keeps nothing, so there is nothing to save. Call "
                    "traindeck.keep(model=model, optimizer=optimizer) before the loop."
                )
                self.client.send({"kind": "not_saved", "number": number, "text": text, **place})
            return
        self.client.send({"kind": "doing", "what": "checkpoint", "step": self.step})
        begin = time.perf_counter()
        if self._saved_step != self.step:
            try:
                checkpoint.write(self._run_folder, self.step, self._tree())
            except OSError as error:
                text = f"The checkpoint could not be written: {error}"
                self.client.send({"kind": "not_saved", "number": number, "text": text, **place})
                return
        self._saved_step = self.step
        self.client.send(
            {
                "kind": "saved",
                **place,
                "number": number,
                "seconds": time.perf_counter() - begin,
                "parameters": self._plan.get("parameters") or 0,
                "kinds": sorted(kinds),
                "metrics": self.figures.validation,
            }
        )
        self.client.send({"kind": "doing", "what": "training", "step": self.step})
        self.client.flush()
        self.client.goes_on()

    def _tree(self) -> Plain:
        """Return a checkpoint in plain values."""
        random = random_state()
        if self.tensorflow is not None:
            random["tensorflow"] = self.tensorflow.random_state()
        gradients = {} if self.torch is None else self.torch.gradients(self.kept.things)
        return {
            "format": checkpoint.FORMAT,
            "epoch": self.epoch,
            "step": self.step,
            "fit": self._fit_place(),
            **self._passes.plain(),
            "random": random,
            "gradients": gradients,
            "kept": self.kept.states(),
        }

    def reenter(self) -> None:
        """The script is where it was when the checkpoint was saved: make all states those again.

        What it has kept was restored before, but the script may have changed it on its way here,
        such as with a scheduler's step at the begin of an epoch.
        """
        saved = checkpoint.read(self._checkpoint)
        self.kept.restore(saved["kept"])
        if self.torch is not None:
            self.torch.restore_gradients(self.kept.things, saved["gradients"])
        if self.tensorflow is not None and "tensorflow" in saved["random"]:
            self.tensorflow.set_random_state(saved["random"]["tensorflow"])
        set_random_state(saved["random"])
        self._saved = None
        self.kept.resume_from(None)

    def _optimizer_steps(self) -> int:
        return 0 if self.torch is None else int(self.torch.steps)

    def _is_evaluating(self) -> bool:
        torch = self.torch
        return torch is not None and bool(torch.is_evaluating(self.kept.things.values()))
