"""The calls' one state: where the script is, what it keeps, what is done between two batches."""

from __future__ import annotations

import functools
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from traindeck import _link
from traindeck._callers import is_left_by_break
from traindeck._errors import Stopped, TraindeckError
from traindeck._figures import Figures
from traindeck._passes import Pass, Passes, Plain
from traindeck._schedule import Schedule
from traindeck._source import IterableSource, Part, Source, samples
from traindeck._state import checkpoint
from traindeck._state.kept import Kept
from traindeck._state.random_state import RandomState
from traindeck._surroundings import surroundings

_END = object()

Call = Callable[..., Any]


class Numbers(Source):
    """The numbers of `steps`."""

    fingerprint = ["steps"]

    def __init__(self, count: int) -> None:
        self._count = count
        self._first = 0

    def begin(self, first: int, seed: int) -> None:
        self._first = first

    def batches(self) -> Iterator[int]:
        return iter(range(self._first, self._count))

    def part(self, batch: Any) -> Part:
        return Part(0, 0)


class FitPlace(NamedTuple):
    """What is done of a `fit` that a resumed script comes to."""

    epoch: int
    batch: int
    is_here: bool
    """Whether the checkpoint was saved in it; otherwise nothing of it is left to do."""


class Deck:
    """One process' part in a run; outside of Traindeck, loops and figures pass through."""

    def __init__(self) -> None:
        self.surroundings = surroundings()
        self.client = _link.client()
        self.kept = Kept()
        self.figures = Figures(self.client)
        self.epoch = 0
        self.step = 0
        self._passes = Passes()
        self._schedule = Schedule()
        self._sources: weakref.WeakKeyDictionary[Any, dict[bool | None, Source]] = (
            weakref.WeakKeyDictionary()
        )
        self._torch: Any = None
        self._tensorflow: Any = None
        self._saved: Plain | None = None
        self._has_read = False
        self._is_tried = False
        self._batches_per_step = 0
        self._samples = 0
        self._has_begun = False
        self._passes_begun = 0
        self._fits = 0
        self._fit_batches = 0
        self._is_in_fit = False
        self._saved_step = -1
        self._plan: dict[str, int | None] = {}
        self._requested: set[str] = set()
        self._saves_at_stop = True

    # What the script trains -----------------------------------------------------------------

    @property
    def torch(self) -> Any:
        """What this process does with PyTorch; None: the script has not imported it."""
        if self._torch is None and "torch" in sys.modules:
            from traindeck._torch_ranks import TorchRanks

            self._torch = TorchRanks(self.surroundings)
        return self._torch

    @property
    def tensorflow(self) -> Any:
        """What this process does with TensorFlow; None: the script has not imported it."""
        if self._tensorflow is None and "tensorflow" in sys.modules:
            from traindeck._tensorflow import Replicas

            self._tensorflow = Replicas(self.surroundings)
        return self._tensorflow

    def place(self, things: tuple[Any, ...], **options: Any) -> Any:
        """See `traindeck.place`."""
        torch, tensorflow = self.torch, self.tensorflow
        if torch is not None and any(torch.can_place(thing) for thing in things):
            placed = torch.place(things, **options)
            self.kept.mesh = torch.mesh
        elif tensorflow is not None:
            placed = tensorflow.place(things)
        else:
            raise TraindeckError(
                "place() takes models and optimizers of PyTorch, Keras or TensorFlow: import "
                "torch or tensorflow before."
            )
        if self.surroundings.inside:
            self.begin()
            self.kept.add_placed(placed)
            if self.client is not None:
                self.client.outline(placed)
        return placed[0] if len(placed) == 1 else placed

    def keep(self, things: dict[str, Any]) -> None:
        """See `traindeck.keep`."""
        if self.surroundings.inside:
            self.begin()
            self.kept.add(things)

    # Loops that know where they are ---------------------------------------------------------

    def epochs(self, count: int) -> Iterator[int]:
        """See `traindeck.epochs`."""
        if not self.surroundings.inside:
            yield from range(count)
            return
        self.begin()
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
            self._end_epoch(is_last=self.epoch >= count)
        if self._saved is not None and first >= count:
            self.reenter()

    def steps(self, count: int) -> Iterator[int]:
        """See `traindeck.steps`."""
        if not self.surroundings.inside:
            yield from range(count)
            return
        self.begin()
        self._plan["total_steps"] = count
        self._check_is_placed()
        if self.torch is not None and self.surroundings.shares_work and self._saved is None:
            self.torch.draw_apart()
        is_inner = self._passes.leading is not None
        try:
            for number, _ in self._iterate(Numbers(count), counts_steps=True, is_training=True):
                yield number
        except GeneratorExit:
            if not is_inner and is_left_by_break(sys._getframe(1)):
                self._save_after_loop()
            raise
        if not is_inner:
            self._save_after_loop()

    def batches(
        self,
        loader: Iterable[Any],
        *,
        training: bool | None,
        split: bool | None,
        is_counted: bool = False,
    ) -> Iterator[tuple[int, Any]]:
        """Yield the batches of `loader` with their numbers; see `traindeck.batches`.

        `is_counted`: the script counts them with `enumerate`, from 0.
        """
        if not self.surroundings.inside:
            for number, batch in enumerate(loader):
                yield number, self._to_device(batch)
            return
        self.begin()
        is_training = not self._is_evaluating() if training is None else training
        if is_training:
            self._check_is_placed()
        if self.client is not None:
            measure = self.client.goes_on if is_training else self.client.interrupted
            measure()
        source = self._source(loader, split if is_training or split else False)
        yield from self._iterate(
            source, counts_steps=False, is_training=is_training, is_counted=is_counted
        )

    def _check_numbers(self, new: Pass) -> None:
        """Refuse a count that would begin at 0 in the middle of a pass."""
        remedy = "say `for number, batch in batches(loader, numbered=True)` in its place"
        if new.done:
            raise TraindeckError(
                f"The script counts its batches with enumerate, which would begin at 0 although "
                f"{new.done} batches of the epoch are done: {remedy}, and resume once more."
            )
        if self.client is not None:
            self.client.notice(
                "The script counts its batches with enumerate, which would begin at 0 after a "
                f"resume within an epoch: {remedy}."
            )

    def _iterate(
        self,
        source: Source,
        *,
        counts_steps: bool,
        is_training: bool,
        is_counted: bool = False,
    ) -> Iterator[tuple[int, Any]]:
        new, leads = self._begin_pass(source, counts_steps, is_training)
        if leads:
            self.reenter()
        steps_before, leads_now = self._optimizer_steps(), False
        try:
            batches = iter(()) if new.is_finished else source.batches()
            while (batch := next(batches, _END)) is not _END:
                if is_counted and is_training:
                    self._check_numbers(new)
                    is_counted = False
                own = source.divide(batch)
                part = source.part(batch)
                leads_now = is_training and new is self._passes.leading
                if leads_now:
                    self._weigh(source, part)
                steps_before = self._optimizer_steps()
                new.has_handed_out = True
                yield new.done, own if counts_steps else self._to_device(own)
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
                    self._boundary(new, part.whole or samples(batch))
        except GeneratorExit:
            # The loop was left by `break`: its last body counts if it has trained.
            if leads_now and self._optimizer_steps() > steps_before:
                new.has_handed_out = False
                new.done += 1
                self._count_last(part.whole or samples(batch))
            raise
        finally:
            self._passes.close(new)

    def _begin_pass(
        self, source: Source, counts_steps: bool, is_training: bool
    ) -> tuple[Pass, bool]:
        """Begin a pass. Return it, and whether the checkpoint's place is here."""
        new = Pass(source, counts_steps=counts_steps)
        saved = self._passes.take_awaited(source) if is_training else None
        self._passes_begun += 1
        random = RandomState.now()
        start: Plain = {
            "random": random.plain(),
            "generators": source.generator_states(),
            "seed": random.seed(self.epoch, self._passes_begun),
        }
        is_shared = False
        if saved is None and source.is_divided:
            is_shared = self.surroundings.rank > 0
            start = self.torch.word_of_rank_0(start)
        new.begin(saved, start, is_shared=is_shared)
        if is_training:
            self._passes.open(new)
        return new, saved is not None and saved["leads"]

    def _source(self, loader: Any, split: bool | None) -> Source:
        rank, world = self.surroundings.rank, self.surroundings.world_size
        if not self.surroundings.shares_work:
            rank, world = 0, 1
        make: Callable[[], Source] | None = None
        if self.tensorflow is not None and self.tensorflow.is_dataset(loader):
            make = functools.partial(self.tensorflow.source, loader, is_training=split is not False)
        elif self.torch is not None:
            from traindeck import _torch_data

            if _torch_data.is_loader(loader):
                make = functools.partial(_torch_data.LoaderSource, loader, rank, world, split)
        if make is None:
            other = IterableSource(loader, rank, world, split)
            if not other.keeps_state:
                return other
            make = functools.partial(IterableSource, loader, rank, world, split)
        known = self._sources.setdefault(loader, {})
        if split not in known:
            known[split] = make()
            self._passes.know(known[split])
        return known[split]

    def mean(self, value: Any, weight: float) -> Any:
        """See `traindeck.mean`."""
        return value if self.torch is None else self.torch.mean(value, weight)

    @property
    def device(self) -> Any:
        """See `traindeck.device`."""
        if self.torch is not None:
            return self.torch.device
        if self.tensorflow is not None:
            return self.tensorflow.device
        raise TraindeckError(
            "traindeck.device is known when torch or tensorflow is imported: import it before."
        )

    def scope(self) -> Any:
        """See `traindeck.scope`."""
        if self.tensorflow is None:
            raise TraindeckError("traindeck.scope() is for TensorFlow: import it before.")
        return self.tensorflow.scope()

    def replicated(self, function: Call) -> Call:
        """See `traindeck.replicated`."""
        if self.tensorflow is None:
            raise TraindeckError("traindeck.replicated() is for TensorFlow: import it before.")
        return self.tensorflow.replicated(function)  # type: ignore[no-any-return]

    # Between two batches --------------------------------------------------------------------

    def _boundary(self, led: Pass, count: int) -> None:
        """Count a step, and do what all ranks do after it."""
        self._passes.stop_awaiting()
        torch = self.torch
        self._batches_per_step += not self._is_tried
        self._samples += count
        if not led.counts_steps and torch is not None and torch.accumulates(self.kept):
            return
        samples, self._samples = self._samples, 0
        self._count_step(led, 1, samples)

    def _count_step(self, led: Pass | None, new: int, count: int = 0) -> None:
        """Count `new` steps of `count` samples, and do what all ranks do after them."""
        before, self.step = self.step, self.step + new
        if not self._is_tried:
            self._first_step(led, count)
        self.figures.step = self.step + 1
        self.client.at(self.step, self.epoch, count or None)
        self._requested |= self._schedule.due(before, self.step)
        self._act()

    def _count_last(self, count: int) -> None:
        """Count the step of a loop that is being left; nothing can be raised into the script."""
        before, self.step = self.step, self.step + 1
        self.figures.step = self.step + 1
        samples, self._samples = self._samples + count, 0
        self.client.at(self.step, self.epoch, samples or None)
        self._requested |= self._schedule.due(before, self.step)

    def _act(self) -> None:
        stop: int | None = None
        acts = self.client.due(self.step)
        for act in acts:
            stop = self._do(act, stop)
        if stop is not None:
            self._stop(stop)
        if self._requested:
            self._save(self._requested)
        elif not acts:
            return
        self.client.goes_on()

    def _do(self, act: Any, stop: int | None) -> int | None:
        """Do one command. Return the number of the Stop, if there was one."""
        if act.what == "stop":
            self._saves_at_stop = bool(act.details.get("save", True))
            return int(act.number)
        if act.what == "checkpoint":
            self._save(set(act.details.get("kinds") or ["request"]), act.number)
        elif act.what == "pause":
            return self._pause(stop)
        elif act.what == "empty_cache":
            self._empty_cache()
        return stop

    def _pause(self, stop: int | None) -> int | None:
        self.client.send({"kind": "paused", "step": self.step})
        self.client.flush()
        while stop is None:
            self.client.wait()
            for act in self.client.due(self.step, is_paused=True):
                if act.what == "resume":
                    self.client.send({"kind": "resumed", "step": self.step})
                    return None
                if act.what != "pause":
                    stop = self._do(act, stop)
        return stop

    def _stop(self, number: int) -> None:
        if self.kept and self._saves_at_stop:
            self._save({"last", *self._requested}, number)
        self.client.send({"kind": "stopping", "step": self.step, "number": number})
        self.client.flush()
        raise Stopped

    def _empty_cache(self) -> None:
        if self.torch is not None:
            device, freed = self.torch.empty_cache()
            self.client.send({"kind": "cache_emptied", "device": device, "freed": freed})

    def _end_epoch(self, *, is_last: bool) -> None:
        metrics = self.figures.end_epoch()
        self.client.send(
            {"kind": "epoch", "epoch": self.epoch, "step": self.step, "metrics": metrics}
        )
        kinds = self._schedule.epoch_ended(self.epoch, metrics)
        if self.torch is not None and self.surroundings.shares_work and self.torch.has_placed:
            # Only rank 0 may have validated.
            kinds = set(self.torch.word_of_rank_0({"kinds": sorted(kinds)})["kinds"])
        self._requested |= kinds
        if is_last:
            self._requested.add("last")
        self.client.at(self.step, self.epoch, None)
        self._act()

    def _first_step(self, led: Pass | None, count: int) -> None:
        """Check, after the first step, that a checkpoint can be saved and what it would lack."""
        self._is_tried = True
        things = self.kept.things()
        parameters: int | None = None
        torch = self.torch
        if torch is not None:
            torch.check_equal_models()
            parameters = torch.parameters(things.values()) or None
            for optimizer in torch.stepped:
                if things and not self.kept.is_kept(optimizer):
                    self.client.notice(
                        f"{type(optimizer).__name__} makes steps, but it is neither placed nor "
                        "kept: its state is not in the checkpoints. traindeck.keep(optimizer=...) "
                        "keeps it."
                    )
        if self.tensorflow is not None:
            parameters = parameters or self.tensorflow.parameters(things.values()) or None
        if self.tensorflow is not None and (problem := self.tensorflow.seed_problem()):
            self.client.notice(problem)
        schedule = self.client.schedule() or {}
        if torch is not None and self.surroundings.shares_work:
            schedule = torch.word_of_rank_0({"schedule": schedule})["schedule"]
        self._schedule.follow(schedule)
        if self.kept:
            checkpoint.try_out(self._tree())
        self._plan |= {"parameters": parameters, "batch_size": count or None}
        self._plan["replicas"] = self._replicas()
        if led is not None and not led.counts_steps and led.source.count:
            # Gradients of several batches may make one step.
            self._plan["steps_per_epoch"] = -(-led.source.count // self._batches_per_step)
        self.client.send({"kind": "plan"} | _without_unknown(self._plan))

    # Keras' fit -----------------------------------------------------------------------------

    def begin_fit(
        self, things: dict[str, Any], *, epochs: int, batches: int | None
    ) -> FitPlace | None:
        """Begin a `fit`, which trains `things`. Return its place in a resumed script."""
        self.begin()
        self._fits += 1
        saved = self._saved["fit"] if self._saved is not None else None
        if saved is not None and saved["number"] > self._fits:
            return FitPlace(epochs, 0, is_here=False)
        self.kept.replace(things)
        self._plan |= {"epochs": epochs, "steps_per_epoch": batches}
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

    # Checkpoints ----------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """See `traindeck.checkpoint`."""
        if not self.surroundings.inside:
            return
        self.begin()
        if self._passes.leading is None:
            self._save({"request"})
        elif self.surroundings.rank == 0:
            self.client.propose("checkpoint", kinds=["request"])

    def _save_after_loop(self) -> None:
        """Save at the end of a loop of `steps`; loaders that it drew from may still be open."""
        self._passes.is_between = True
        try:
            self._save({"last", *self._requested})
        finally:
            self._passes.is_between = False

    def _save(self, kinds: set[str], number: int = 0) -> None:
        """Write this rank's part, and tell its process of Traindeck."""
        batch = self._fit_batches if self._is_in_fit else self._passes.batch
        place = {"step": self.step, "epoch": self.epoch, "batch": batch}
        self._requested = set()
        if not self.kept:
            if kinds - {"last"}:
                text = (
                    "The script keeps nothing, so there is nothing to save. Call "
                    "traindeck.keep(model=model, optimizer=optimizer) before the loop."
                )
                self.client.send({"kind": "not_saved", "number": number, "text": text} | place)
            return
        self.client.send({"kind": "doing", "what": "checkpoint", "step": self.step})
        begin = time.perf_counter()
        if self._saved_step != self.step:
            try:
                own = self.surroundings
                checkpoint.write(own.run_folder, own.rank, self.step, self._tree())
            except OSError as error:
                text = f"Rank {self.surroundings.rank} could not write its part: {error}"
                self.client.send({"kind": "not_saved", "number": number, "text": text} | place)
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

    def _tree(self) -> Plain:
        """Return this rank's part of a checkpoint, in plain values."""
        own = self.surroundings
        states = self.kept.states()
        torch = self.torch
        gradients: Plain = {}
        if torch is not None:
            gradients = torch.gradients(self.kept.things())
            if own.rank > 0 and own.strategy == "ddp":
                states = {name: s for name, s in states.items() if not self._is_replicated(name)}
        return {
            "format": checkpoint.FORMAT,
            "strategy": own.strategy,
            "world_size": own.world_size,
            "epoch": self.epoch,
            "step": self.step,
            "passes_begun": self._passes_begun,
            "fit": self._fit_place(),
            **self._passes.plain(),
            "random": self._random(),
            "gradients": gradients,
            "kept": states,
        }

    def _fit_place(self) -> Plain | None:
        """Return where `fit` is; after it, a resumed script passes by all that were begun."""
        if not self._fits:
            return None
        if self._is_in_fit:
            return {"number": self._fits, "batch": self._fit_batches}
        return {"number": self._fits + 1, "batch": 0}

    def _is_replicated(self, name: str) -> bool:
        """Whether the thing is the same on all ranks of DDP, so that rank 0 saves it for all."""
        thing = self.kept.things()[name]
        return bool(self.torch.is_replicated(thing))

    def _random(self) -> Plain:
        state = RandomState.now(devices=True).plain()
        if self.tensorflow is not None:
            state["tensorflow"] = self.tensorflow.random_state()
        return state

    def begin(self) -> None:
        """Read the checkpoint that the run resumes from, when the first call needs it."""
        if not self._has_begun:
            self._has_begun = True
            self.client.calls_begin()
        if self._has_read or not self.surroundings.checkpoint:
            return
        self._has_read = True
        saved = checkpoint.read(self.surroundings)
        self._saved = saved
        self.epoch, self.step = saved["epoch"], saved["step"]
        self._passes_begun = saved["passes_begun"]
        self._saved_step = self.step
        self.figures.step = self.step + 1
        self._passes.resume_from(saved)
        self.kept.resume_from(saved["kept"])
        self.client.at(self.step, self.epoch, None)

    def reenter(self) -> None:
        """The script is where it was when the checkpoint was saved: make all states those again.

        What it has kept was restored before, but the script may have changed it on its way here,
        such as with a scheduler's step at the begin of an epoch.
        """
        assert self._saved is not None
        saved = checkpoint.read(self.surroundings)
        self.kept.restore(saved["kept"])
        if self.torch is not None:
            self.torch.restore_gradients(self.kept.things(), saved["gradients"])
        if self.tensorflow is not None and "tensorflow" in saved["random"]:
            self.tensorflow.set_random_state(saved["random"]["tensorflow"])
        RandomState.from_plain(saved["random"]).restore()
        self._passes_begun = saved["passes_begun"]
        self._saved = None
        self.kept.resume_from(None)

    # Small helpers --------------------------------------------------------------------------

    def _to_device(self, batch: Any) -> Any:
        torch = self.torch
        return torch.to_device(batch) if torch is not None and torch.has_placed else batch

    def _weigh(self, source: Source, part: Part) -> None:
        if self.torch is not None and self.surroundings.shares_work:
            self.torch.weigh(part if source.is_divided else Part(1, 1))

    def _optimizer_steps(self) -> int:
        return 0 if self._torch is None else int(self._torch.steps)

    def _check_is_placed(self) -> None:
        if self.surroundings.shares_work:
            if self.torch is None:
                raise TraindeckError(
                    f"script/{self.surroundings.strategy} is for PyTorch, which the script has not "
                    "imported. Choose script/single, or script/mirrored for TensorFlow."
                )
            self.torch.check_is_placed()

    def _is_evaluating(self) -> bool:
        torch = self.torch
        return torch is not None and bool(torch.is_evaluating(self.kept.things().values()))

    def _replicas(self) -> int:
        if self.surroundings.shares_work:
            return self.surroundings.world_size
        return 1 if self.tensorflow is None else int(self.tensorflow.replicas)


def _without_unknown(plan: dict[str, int | None]) -> dict[str, int]:
    return {name: value for name, value in plan.items() if value is not None}
