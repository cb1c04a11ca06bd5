"""Loops of libraries on PyTorch: Lightning's Trainer, and that of Hugging Face."""

from __future__ import annotations

import functools
import math
import os
import re
import sys
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

from traindeck_watch.loggers.hooks import keep
from traindeck_watch.watch import Watch, nested

_EVALUATION = "eval_"
_LEFT_OUT = re.compile(
    r"loss|learning_rate|epoch|step|total_flos|train_.*|eval_(runtime|.*_per_second|.*_time)"
)
"""What the optimizer hooks record in every step, and what is no figure of the training."""


# Lightning


def patch_lightning(module: ModuleType, watch: Watch) -> None:
    """After the module of Lightning's Trainer: its end, its epochs, its validation, its files."""
    trainer_type = module.Trainer
    library = sys.modules.get(module.__name__.split(".", 1)[0])
    watch.versions(lightning=str(getattr(library, "__version__", "")))
    fit = vars(trainer_type).get("fit")
    save = vars(trainer_type).get("save_checkpoint")
    if fit is None:
        watch.notice("Lightning's Trainer has no fit(): it is watched as PyTorch only.")
        return

    @functools.wraps(fit)
    def fit_and_watch(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = watch.graceful_stop
        watch.graceful_stop = functools.partial(_end_lightning, weakref.ref(self))
        watch.epoch_is_told = True
        poll = watch.guard(
            functools.partial(_look_at_lightning, weakref.ref(self), watch), "Lightning"
        )
        watch.polls.insert(0, poll)
        try:
            return fit(self, *args, **kwargs)
        finally:
            poll()
            watch.graceful_stop = before
            watch.polls.remove(poll)

    trainer_type.fit = fit_and_watch
    if save is not None:

        @functools.wraps(save)
        def save_checkpoint(self: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
            found = save(self, filepath, *args, **kwargs)
            watch.wrote_file(filepath, is_state=True)
            return found

        trainer_type.save_checkpoint = save_checkpoint


def _end_lightning(reference: Any) -> None:
    trainer = reference()
    if trainer is not None:
        trainer.should_stop = True


def _look_at_lightning(reference: Any, watch: Watch) -> None:
    """Epoch, plan and what it does now, as Lightning knows them. Called by the thread."""
    trainer = reference()
    if trainer is None or not watch.trains:
        return
    epochs, steps = trainer.max_epochs, trainer.max_steps
    watch.epoch = int(trainer.current_epoch) + 1
    if epochs and epochs > 0:
        watch.epoch = min(watch.epoch, int(epochs))
    batches = getattr(trainer.fit_loop, "max_batches", None) or 0
    batches = int(batches) if batches != float("inf") else 0
    accumulated = int(getattr(trainer, "accumulate_grad_batches", 1) or 1)
    watch.plan(
        epochs=int(epochs) if epochs and epochs > 0 else None,
        total_steps=int(steps) if steps and steps > 0 else None,
        steps_per_epoch=-(-batches // accumulated) if batches else None,
    )
    if getattr(trainer, "validating", False) or getattr(trainer, "sanity_checking", False):
        watch.doing("validation")
    elif getattr(trainer, "training", False):
        watch.doing("training")


def patch_lightning_logs(module: ModuleType, watch: Watch) -> None:
    """After the module through which Lightning gives figures to its loggers, if there are any."""
    connector = module._LoggerConnector
    original = connector.log_metrics

    def note(self: Any, metrics: Any, step: Any = None) -> None:
        trainer = self.trainer
        if trainer.sanity_checking or not trainer.is_global_zero:
            return
        for name, value in metrics.items():
            if name not in ("epoch", "step"):
                # Lightning's own step counts batches that stepped, from 0: the same as ours.
                keep(watch, name, value, watch.step if step is None else step)

    quietly = watch.guard(note, "Lightning's figures")

    @functools.wraps(original)
    def log_metrics(self: Any, metrics: Any, *args: Any, **kwargs: Any) -> Any:
        if not watch.is_quiet:
            quietly(self, metrics, *args, **kwargs)
        with nested(watch):
            return original(self, metrics, *args, **kwargs)

    connector.log_metrics = log_metrics


# Hugging Face


def patch_transformers(module: ModuleType, watch: Watch) -> None:
    """After the module of the Trainer's callbacks: its own events, as a callback would get them."""
    library = sys.modules.get("transformers")
    watch.versions(transformers=str(getattr(library, "__version__", "")))
    handler = module.CallbackHandler
    state_of_stop = {"asked": False}

    def ask() -> None:
        state_of_stop["asked"] = True

    def begun(args: Any, state: Any, control: Any, handler: Any = None) -> None:
        state_of_stop["asked"] = False
        watch.graceful_stop = ask
        watch.epoch_is_told = True
        epochs = getattr(state, "num_train_epochs", None)
        size = getattr(args, "train_batch_size", None)
        if size:
            watch.batch_is_told = True  # its loader is read ahead of the steps
            watch.batch_size = int(size) * args.gradient_accumulation_steps * watch.world()
        watch.plan(
            batch_size=watch.batch_size,
            epochs=int(epochs) if epochs else None,
            total_steps=int(state.max_steps) if state.max_steps and state.max_steps > 0 else None,
        )

    def ended(args: Any, state: Any, control: Any, handler: Any = None) -> None:
        watch.graceful_stop = None

    def stepped(args: Any, state: Any, control: Any, handler: Any = None) -> None:
        if watch.batch_size:
            watch.throughput.add(samples_of_step(args, state, handler, watch.batch_size))
        if state.epoch is not None and not watch.calls_are_used:
            watch.epoch = max(1, math.ceil(state.epoch - 1e-6))  # the one of the step that is done
        if state_of_stop["asked"]:
            control.should_training_stop = True
            if str(getattr(args, "save_strategy", "no")).split(".")[-1].lower() != "no":
                control.should_save = True  # its own checkpoint is what its own resume reads

    def logged(args: Any, state: Any, control: Any, logs: Any = None, handler: Any = None) -> None:
        if not getattr(state, "is_world_process_zero", True):
            return
        for name, value in (logs or {}).items():
            if _LEFT_OUT.fullmatch(name):
                continue
            evaluated = name.startswith(_EVALUATION)
            series = f"validation/{name[len(_EVALUATION) :]}" if evaluated else f"train/{name}"
            keep(watch, series, value, state.global_step)

    def saved(args: Any, state: Any, control: Any, handler: Any = None) -> None:
        folder = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")  # noqa: PTH118
        watch.wrote_file(folder, is_state=True)

    def evaluating(args: Any, state: Any, control: Any, handler: Any = None) -> None:
        if watch.trains:
            watch.doing("validation")

    events: dict[str, Callable[..., None]] = {
        "on_train_begin": begun,
        "on_train_end": ended,
        "on_step_end": stepped,
        "on_log": logged,
        "on_save": saved,
        "on_prediction_step": evaluating,
    }
    for name, note in events.items():
        original = vars(handler).get(name)
        if original is None:
            watch.notice(f"This version of transformers has no {name}: it is watched in part.")
            continue
        setattr(handler, name, _with_note(watch, original, watch.guard(note, "transformers")))


def samples_of_step(args: Any, state: Any, handler: Any, batch: int) -> int:
    """The samples of the step that was done, of all ranks; the last of an epoch has the rest."""
    data: Any = getattr(getattr(handler, "train_dataloader", None), "dataset", None)
    try:
        count = len(data)
    except TypeError:  # a stream
        return batch
    if count < batch:
        return count
    if getattr(args, "dataloader_drop_last", False):
        return batch
    done = (int(state.global_step) - 1) % -(-count // batch) * batch
    return min(batch, count - done)


def _with_note(watch: Watch, original: Any, note: Any) -> Any:
    @functools.wraps(original)
    def event(self: Any, args: Any, state: Any, control: Any, *more: Any, **named: Any) -> Any:
        with nested(watch):  # what its own callbacks give to loggers comes through here already
            found = original(self, args, state, control, *more, **named)
        note(args, state, found if found is not None else control, *more, handler=self, **named)
        return found

    return event


def patch_transformers_files(module: ModuleType, watch: Watch) -> None:
    """After the module of the Trainer: its checkpoint is told once it is whole, by `on_save`."""
    original = vars(module.Trainer).get("_save_checkpoint")
    if original is None:
        return

    @functools.wraps(original)
    def save_checkpoint(self: Any, *args: Any, **kwargs: Any) -> Any:
        with nested(watch):
            return original(self, *args, **kwargs)

    module.Trainer._save_checkpoint = save_checkpoint


def patch_accelerate(module: ModuleType, watch: Watch) -> None:
    """After the module of Accelerator: a state that it saves is one folder, not its files."""
    original = vars(module.Accelerator).get("save_state")
    if original is None:
        return

    @functools.wraps(original)
    def save_state(self: Any, *args: Any, **kwargs: Any) -> Any:
        with nested(watch):
            folder = original(self, *args, **kwargs)
        watch.wrote_file(folder, is_state=True)
        return folder

    module.Accelerator.save_state = save_state
