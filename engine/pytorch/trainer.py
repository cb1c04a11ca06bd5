"""The PyTorch side of the training loop: steps, validation and checkpoints of one rank."""

from __future__ import annotations

import json
import math
import os
import random
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import chain, takewhile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
import torch._dynamo  # every optimizer imports it; here it comes before the seeds are set
from torch.utils._pytree import tree_map

from engine.messages.events import Notice, Shrunk
from engine.pytorch import memory
from engine.pytorch.compilation import fix_size, graph_count
from engine.pytorch.devices import gpu_module, is_gpu, own_devices
from engine.pytorch.optimizer_step import OptimizerStep, chosen_optimizer
from engine.pytorch.parallel import Objective, Parallel, Rank, loss_of
from engine.pytorch.precision import NOTHING, Precision
from engine.pytorch.probes import measurements
from engine.pytorch.probes.failed_step import FailedStep, NotFinite
from engine.pytorch.probes.memory_probe import MemoryProbe
from engine.pytorch.probes.step_inspector import StepInspector
from engine.pytorch.probes.trial import Trial, check_shared_tensors, listed, plan_notices
from engine.pytorch.process_group import Group, ProcessGroup, SingleProcess
from engine.pytorch.recipe import libraries
from engine.pytorch.recipe.from_file import torch_recipe
from engine.pytorch.recipe.optimizer_plan import OptimizerPlan
from engine.pytorch.recipe.torch_recipe import Carried, PlannedRun, TorchRecipe, Turn, Value, Values
from engine.pytorch.samples.batch_sharder import BatchSharder, LocalBatch
from engine.pytorch.samples.data import to_device
from engine.pytorch.samples.names import NamesBatch
from engine.pytorch.state import training_state, weight_average
from engine.pytorch.state.snapshot import Snapshot
from engine.pytorch.state.unsaved_state import UnsavedState
from engine.pytorch.state.weight_average import WeightAverage
from engine.pytorch.torch_strategy import OneProcess, TorchStrategy
from engine.pytorch.training_data import DataFacts, TrainingData
from engine.runs.checkpoints.checkpoint_files import Position
from engine.spec.run_spec import RunSpec
from engine.training import run_length
from engine.training.errors import (
    CheckpointMisfit,
    DevicesFull,
    LossNotFinite,
    OutOfMemory,
    TrainingFailed,
)
from engine.training.probes.measuring import Measurements
from engine.training.probes.memory_record import RankRecord, is_asked
from engine.training.probes.step_inspection import inspected_step, write_inspection
from engine.training.protocols import DoneSteps, emit_once
from engine.training.shrinking import SHRINK, Sharing, Shortage, exhausted, shrunk
from engine.worker import environment
from engine.worker.model_outline import model_facts
from engine.worker.session import WorkerSession

AGAIN_SECONDS = 4.0
"""Time to train again up to the step whose loss is not finite, when a run fails by it."""


class TorchTrainer:
    """One rank's model, optimizer and data; see `engine.training.protocols.Trainer`."""

    def __init__(self, session: WorkerSession, strategy: TorchStrategy) -> None:
        spec = session.spec
        self._spec = spec
        self._emit = session.emit
        self._asked_accumulation = session.asked_accumulation
        self._accumulation = spec.accumulation
        """The accumulation steps that are in force."""

        self._during = ""
        """What this rank does in a step beside forward and backward pass."""

        self._batch_size = self._largest_batch = 0
        """The samples of the present global batch, and of the largest one so far."""

        self._device_names = session.plan.devices
        devices = own_devices(session.devices, session.machine_devices)
        with session.connecting():
            group = _group(session, strategy, devices[0])
        self._rank = Rank(session.rank, session.world_size, devices, group, spec)
        if spec.deterministic:
            os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
            torch.use_deterministic_algorithms(True)
        defaults = strategy.defaults(session.recipe.file)
        recipe_module = session.load_recipe()
        _seed(spec.seed)  # after the imports: some of them draw random numbers
        recipe = torch_recipe(recipe_module, session.settings_for, defaults)
        with self._explain_out_of_memory(may_shrink=False):
            if recipe.takes_data:
                given = recipe.make_datasets()
                model = recipe.make_model(given)
            else:  # in this order, because both may draw random numbers
                model = recipe.make_model(None)
                given = recipe.make_datasets()
            self._recipe = recipe = libraries.adapted(recipe, model)
            self._data = data = TrainingData(given, self._data_facts(session))
            if further := [prefix for prefix in data.prefixes if prefix]:
                session.add_validation_sets(further)
            if recipe.carries_state and spec.on_oom == SHRINK:
                raise TrainingFailed(
                    "step() of the recipe carries state from batch to batch, which belongs to the "
                    "parts of a batch: they cannot become smaller (on_oom shrink). Choose stop."
                )
            if recipe.carries_state and data.is_shuffled:
                raise TrainingFailed(
                    "step() of the recipe carries state from batch to batch, and its samples are "
                    "shuffled: let datasets() give a DataLoader whose sampler keeps their order."
                )
            recipe.build(model, data.first())
            averaged = recipe.make_average and weight_average.checked(recipe.make_average(model))
            shared = check_shared_tensors(model, spec.strategy, self._rank.devices)
            training_state.check_complete(model)
            self.model_facts = model_facts(model) if session.rank == 0 else None
            self.data_facts = data.fingerprint() if session.rank == 0 else None
            with session.connecting():  # the ranks exchange their first data
                self._parallel = strategy.wrap_model(model, self._rank, recipe)
            training_state.check(self._parallel.module)
            precision = Precision(spec.precision, self._rank.device.type)
            self._objective = Objective(
                recipe.loss,
                recipe.metrics,
                precision,
                recipe.step,
                recipe.weight,
                recipe.validate,
                recipe.sample_loss,
            )
            self._train = data.train_sharder(self._parallel)
            batches = self._train.batches
            total = run_length.total_steps(spec, Position(), batches)
            usual_rate = session.recipe.learning_rate
            facts = PlannedRun(spec.learning_rate, total, batches, usual_rate, spec.precision)
            plans = _optimizers(recipe, self._parallel, spec, facts)

        def notice(text: str) -> None:
            emit_once(session, Notice(text, session.rank))

        self._repeats = spec.on_oom == SHRINK and self._parallel.can_repeat_steps
        self._snapshot: Snapshot | None = None
        self._trial = Trial(self._parallel, self._objective, self._rank, recipe.weight, notice)
        self._is_first_step = True
        self._has_saving_checked = False
        self.input_problem = ""
        self.goes_on: Callable[[int], bool] = lambda number: True
        self.progress: Callable[[int], None] = lambda size: None
        self._has_explained = False
        for text in (shared, *plan_notices(plans, self._parallel.module)):
            if text:
                notice(text)
        self._average: WeightAverage | None = None
        if averaged:
            self._average = WeightAverage(self._parallel.module, averaged, self._parallel.reshard)
        self._unsaved, self._told_unsaved = UnsavedState(self._parallel.recipe_model()), False
        self._notice = notice
        # From here on every rank draws different random numbers: dropout must differ.
        _seed(spec.seed + session.rank)
        self._validation = data.validation_sets(self._parallel)
        self.replicas = strategy.replicas(spec.slots)
        self.steps_per_epoch = self._train.batches
        self.validation_batches = self._validation.batches
        _check_validation(recipe, plans, self.validation_batches != 0)
        self.parameters = self._parallel.count_parameters()
        self._updates = {
            name: OptimizerStep(
                plan.optimizer, self._parallel, self._rank.group, precision, spec, plan.schedulers
            )
            for name, plan in plans.items()
        }
        if recipe.has_several_optimizers:
            self._parallel.use_optimizers({n: u.parameters for n, u in self._updates.items()})
        self._optimizers = [plan.optimizer for plan in plans.values()]
        self._precision = precision
        self._carried = [Carried() for _ in range(spec.accumulation)]
        self._epoch_sums: dict[str, float] = {}
        self._epoch_steps = 0
        self._turn = Turn()
        self._value_names: tuple[str, ...] = ()
        self.epoch_ended = False
        self._samples = 0.0
        self._on_gpus = not any(device.startswith("cpu") for device in spec.devices)
        self._sums: dict[tuple[str, str], float] = {}
        self._amounts: dict[tuple[str, str], float] = {}
        self._validated: str | None = None
        self._carried_in_validation: list[Carried] = []
        self._offload: memory.HostOffload | None = None
        self._steps, self._step_seconds = 0, 0.0
        self._probe = MemoryProbe(devices, session.plan.devices) if is_asked() else None
        self._inspector: StepInspector | None = None
        self._inspected_step = inspected_step()
        self._folder = session.folder
        self._first_not_finite: Turn | None = None
        self._remake = (lambda: None) if recipe.takes_data else lambda: recipe.make_model(None)

    def run_steps(self, position: Position, count: int) -> DoneSteps:
        begin, self._samples = time.perf_counter(), 0.0
        if self._average:
            self._average.take_back()
        if not self._is_first_step and not self._has_saving_checked:
            self._check_saving()
            self._data.move_to_gpu()  # a step is done: it has all the memory that steps need
        self._parallel.train()
        steps: list[dict[str, Any]] = []
        total = self._total_steps(position)
        with self._explain_out_of_memory():
            for number in takewhile(self.goes_on, range(count)):
                at = position.step + number
                with self._watched(at):
                    turn = Turn("", None, position.epoch, position.batch + number, at)
                    step = self._step(turn, total)
                self.epoch_ended = not step
                if self.epoch_ended:
                    break
                steps.append(step)
        figures: dict[str, list[Any]] = {}
        for step in steps:
            for name, value in step.items():
                figures.setdefault(name, []).append(value)
        copies = {name: _HostCopy(values) for name, values in figures.items()}
        done = len(figures.get("loss", ()))
        self._step_seconds += time.perf_counter() - begin
        return DoneSteps(done, self._samples, lambda: self._read(position, copies), self._on_gpus)

    def _read(self, position: Position, copies: dict[str, _HostCopy]) -> dict[str, list[float]]:
        """Return the values of the steps from `position`; all ranks call it."""
        if not copies:
            return {"loss": []}
        begin = time.perf_counter()
        # One all-reduce for the whole chunk.
        shared = [copies.pop(name).read() for name in self._value_names]
        sums = self._rank.group.all_reduce_sum(torch.cat(shared)).view(len(shared), -1)
        means = dict(zip(self._value_names, sums.tolist(), strict=True))
        on_host = {name: copy.read().tolist() for name, copy in copies.items()}
        self._add_to_epoch(position, means)
        self._explain_not_finite(position, means["loss"])
        self._steps += len(means["loss"])
        self._step_seconds += time.perf_counter() - begin
        return means | on_host

    def rank_metrics(self) -> dict[str, float]:
        seconds = self._step_seconds
        data = min(1.0, self._train.waiting_seconds / seconds) if seconds else 0.0
        communicated = self._parallel.communication_seconds(self._steps)
        communication = min(1 - data, communicated / seconds) if seconds else 0.0
        self._train.waiting_seconds = self._step_seconds = 0.0
        self._steps = 0
        return {
            "data_share": data,
            "communication_share": communication,
            "compute_share": 1 - data - communication,
        } | memory.metrics(self._rank.devices)

    def memory_record(self) -> RankRecord:
        """Return what this rank held, where `engine.training.probes.memory_record.is_asked`."""
        return self._probe.record() if self._probe else RankRecord()

    def begin_validation(self) -> None:
        self._parallel.evaluate()
        self._validation.begin()
        self._during = "validation"
        self._sums, self._amounts, self._validated = {}, {}, None
        if self._average:
            self._average.put_in_place()
        self._carried_in_validation = [Carried() for _ in self._carried]

    def validate(self, batch: int, count: int) -> int:
        unread: list[tuple[tuple[str, str], Value, float]] = []
        done = count
        with self._explain_out_of_memory():
            for number in range(count):
                found = self._validation.next()
                if found is None:
                    done = number
                    break
                prefix, local_batches = found
                if prefix != self._validated:
                    self._validated = prefix
                    self._carried_in_validation = [Carried() for _ in self._carried]
                carried = self._carried_in_validation
                for local, state in zip(local_batches, carried, strict=False):
                    turn = self._turn._replace(optimizer="", carried=state, batch=batch + number)
                    with NamesBatch(turn.batch, "the validation data", local.batch, local.names):
                        values = self._parallel.validate_batch(local.batch, self._objective, turn)
                    if not local.amount and self._recipe.forget_batch is not None:
                        self._recipe.forget_batch()
                    for name, value in values.items() if local.amount else ():
                        unread.append(((prefix, name), value, local.amount))
            # One copy from the device for all batches.
            numbers = _numbers([value for _, value, _ in unread])
        for (key, _, amount), value in zip(unread, numbers, strict=True):
            self._sums[key] = self._sums.get(key, 0.0) + value * amount
            # A batch may leave out a name: it counts in the mean of the others only.
            self._amounts[key] = self._amounts.get(key, 0.0) + amount
        return done

    def end_validation(self) -> dict[str, float]:
        if self._average:
            self._average.take_back()
        names = self._names_of_all_ranks(list(self._sums))
        local = [table.get(name, 0.0) for table in (self._sums, self._amounts) for name in names]
        both = self._rank.group.all_reduce_sum(torch.tensor(local, dtype=torch.float64)).tolist()
        sums, amounts = both[: len(names)], both[len(names) :]
        means = {
            prefix + name: total / amount
            for (prefix, name), total, amount in zip(names, sums, amounts, strict=True)
        }
        if self._recipe.after_validation is not None:
            further = self._recipe.after_validation(self._parallel.recipe_model())
            means |= {name: float(value) for name, value in further.items()}
        known = {f"validation/{name}": value for name, value in means.items()}
        known |= {f"train/{name}": 0.0 for name in (*self._epoch_sums, *self._value_names)}
        for update in self._updates.values():
            update.check_metrics(known)
        return means

    def end_epoch(self, epoch: int, metrics: dict[str, float]) -> str:
        steps = max(1, self._epoch_steps)
        train = {f"train/{name}": value / steps for name, value in self._epoch_sums.items()}
        known = {**train, **metrics}
        for carried in self._carried:
            carried.state = None
        for update in self._updates.values():
            update.end_epoch(epoch, known)
        if self._recipe.on_epoch is None:
            return ""
        answer = self._recipe.on_epoch(self._parallel.recipe_model(), epoch, known)
        if self._recipe.after_epoch is not None:
            further = self._recipe.after_epoch()
            metrics.update({f"train/{name}": float(value) for name, value in further.items()})
        reason = ""
        if answer and self._rank.number == 0:
            why = f": {answer}" if isinstance(answer, str) else ""
            reason = f"on_epoch() of the recipe ended the training after epoch {epoch}{why}."
        # Rank 0 decides for all: what the recipe measures may differ between ranks.
        return self._rank.group.broadcast_text(reason)

    def save(self, folder: Path) -> None:
        self._parallel.sync_buffers()
        with self._average.taken_back() if self._average else NOTHING:
            training_state.save(
                folder,
                self._parallel.module,
                self._optimizers,
                self._rank.group.cpu,
                self._further_tensors(),
                self.progress,
            )
        shared = self._shared_state()
        if shared and self._rank.number == 0:
            training_state.save_shared_state(folder, shared)
        state = {
            "scaler": self._precision.scaler.state_dict(),
            "data": self._train.state(),
            "unsaved": self._changed_unsaved(),
            **self._parallel.rank_state(),
        }
        if self._recipe.carries_state:
            state["carried"] = self._carried_on_host()
            state["carried by"] = self._sharing()
        path = folder / f"rank{self._rank.number}.pt"
        training_state.save_rank_state(path, state, self._rank.devices)

    def restore(self, folder: Path) -> None:
        training_state.restore(
            folder,
            self._parallel.module,
            self._optimizers,
            self._rank.group.cpu,
            self._further_tensors(),
            self.progress,
        )
        self._load_shared_state(training_state.restore_shared_state(folder))
        path = folder / f"rank{self._rank.number}.pt"
        if path.exists():  # it is missing if the checkpoint has fewer ranks
            state = training_state.restore_rank_state(path, self._rank.devices)
            if scaler := state.pop("scaler"):  # it is empty if the run did not use fp16
                self._precision.scaler.load_state_dict(scaler)
            self._train.load_state(state.pop("data", {}))  # older checkpoints have none
            self._restore_carried(state.pop("carried", None), state.pop("carried by", None))
            self._unsaved.restore(state.pop("unsaved", {}))
            self._parallel.load_rank_state(state)
        elif (first := folder / "rank0.pt").exists():
            self._unsaved.restore(training_state.rank_state(first).get("unsaved", {}))

    def _changed_unsaved(self) -> dict[str, Any]:
        """Return what the model has changed beside its state_dict, and say so once."""
        found = self._unsaved.changed()
        if found and not self._told_unsaved and self._rank.number == 0:
            self._told_unsaved = True
            self._notice(
                "The model changes what its state_dict() leaves out: checkpoints keep "
                f"{listed([*found])} beside it."
            )
        return found

    def free_devices(self) -> None:
        self._parallel.free_devices()
        if self._average:
            self._average.take_back()
            self._average.move(torch.device("cpu"))
        for carried in self._all_carried():
            carried.state = _on_host(carried.state)
        if not self._offload:
            self._offload = memory.HostOffload(self._parallel.placed_module, self._optimizers)
        self._data.move_to_host()
        self._snapshot = None
        memory.free_workspaces()
        self.empty_cache()

    def restore_devices(self) -> None:
        if not self._offload:
            return
        # In two parts: the ranks prepare the exchange of gradients together, or not at all.
        for part in (self._restore_tensors, self._restore_rest):
            full = ""
            try:
                part()
            except (torch.OutOfMemoryError, RuntimeError) as error:
                if not memory.is_out_of_memory(error, self._rank.devices):
                    raise
                full = memory.full_text(error, self._rank.devices, self._device_names)
            if any(self.agree((int(bool(full)), 0))):
                self.free_devices()  # the run can stay paused, and try it again
                raise DevicesFull(full)
        if self._has_saving_checked:
            self._data.move_to_gpu()

    def _restore_tensors(self) -> None:
        if self._offload:
            self._offload.restore()
            self._offload = None

    def _restore_rest(self) -> None:
        self._parallel.restore_devices()
        if self._average:
            self._average.move(None)
        for carried in self._all_carried():
            carried.state = to_device(carried.state, self._parallel.device)

    def measure(self, told: Measurements) -> None:
        """Measure, for a preflight, what a step waits for; all ranks call it after their steps."""
        rank, parallel = self._rank, self._parallel
        self._train.close()  # its loader workers would read ahead meanwhile
        if parallel.replicas == rank.world_size > 1:
            measurements.weights(parallel.parameters(), told)
        if rank.world_size > 1:
            measurements.all_reduce(rank, told, told.seconds / 5)
        measurements.copies(rank, told)
        measurements.layout(parallel.module, told)
        self._measure_validation(told)
        told.tell("loading/own_workers", self._data.own_loader_workers)
        told.tell("loading/is_needed", float(not self._data.needs_no_loading))
        measurements.loading(
            lambda workers: self._data.sharder_with(workers, parallel),
            rank,
            told,
            0.9 * told.seconds_left,
        )

    def _measure_validation(self, told: Measurements) -> None:
        """Measure a few validation batches, after the one that warms up."""
        batches = self._validation.batches
        told.tell("validation/batches", max(0, batches))
        if batches <= 0:
            return
        self.begin_validation()
        seconds = [0.0]
        for batch in range(min(batches, 3)):
            begin = time.perf_counter()
            self.validate(batch, 1)
            seconds.append(time.perf_counter() - begin)
        told.tell("validation/batch_seconds", seconds[-1])
        if self._average:
            self._average.take_back()

    def empty_cache(self) -> dict[str, int]:
        return memory.empty_cache(self._rank.devices, self._device_names)

    def agree(self, control_word: tuple[int, int]) -> tuple[int, int]:
        return self._rank.group.agree(control_word)

    def keep_failure(self, error: BaseException) -> None:
        """Keep the step that `error` has ended, for the failure file. Raises OSError."""
        attempt = int(os.environ.get(environment.ATTEMPT, "0"))
        place = self._folder, attempt
        step = FailedStep(self._parallel, self._objective, self._rank, self._turn, place)
        found = None
        if isinstance(error, LossNotFinite) and (turn := self._first_not_finite) is not None:
            parts = list(self._train.local_batches(turn.epoch, turn.batch))
            found = NotFinite(turn, parts, self._other_weights(turn))
        step.keep(error, found)

    def long_read(self, seconds: float) -> tuple[int, int, int, list[int]] | None:
        """Return step, epoch and batch, and the samples that are read for so many seconds, if there
        are some. Any thread may call this."""
        reading = self._train.reading(seconds) if isinstance(self._train, BatchSharder) else []
        turn = self._turn
        return (turn.step + 1, turn.epoch, turn.batch, reading) if reading else None

    def _other_weights(self, turn: Turn) -> Iterator[str]:
        """Bring weights in place with which the loss of a step may not be finite; yield what they
        are. Those before the step are lost: it, and some after it, were done."""
        model = self._parallel.recipe_model()
        _seed(self._spec.seed)
        made = self._remake()
        if not isinstance(made, torch.nn.Module) or self._rank.world_size > 1:
            return
        self._recipe.build(made, self._data.first())
        model.load_state_dict(made.state_dict())
        yield "those that model() of the recipe gives"
        model.load_state_dict(made.state_dict())
        for update in self._updates.values():
            update.optimizer.state.clear()
        _seed(self._spec.seed + self._rank.number)
        self.goes_on = lambda number: True
        until = time.monotonic() + AGAIN_SECONDS
        for step in range(turn.step):
            if time.monotonic() > until:
                return
            epoch, batch = divmod(step, self.steps_per_epoch or turn.step)
            self.run_steps(Position(epoch, batch, step), 1)
        yield "those before the step: it was trained again from the beginning"

    def close(self) -> None:
        self._train.close()
        self._validation.close()
        self._rank.group.close()

    def _step(self, turn: Turn, total: int) -> dict[str, Any]:
        """Do the optimizer step `turn` of `total`; return its metrics.

        They are empty if the data of the epoch have ended. The losses and other values are this
        rank's part of the means over the global batch.
        """
        if turn.batch == 0:
            for carried in self._carried:
                carried.state = None
        self._turn = turn
        is_first_step, self._is_first_step = self._is_first_step, False
        graphs = graph_count() if is_first_step else 0
        step_of = self._step_of_one
        if self._recipe.has_several_optimizers:
            step_of = self._steps_of_several
        with self._trial.indices() if is_first_step else NOTHING:
            values, metrics = step_of(total, is_first_step=is_first_step)
        if not values:
            return {}
        if is_first_step and self._spec.compile and graph_count() == graphs:
            self._trial.say_once(_NO_GRAPH)
        self._samples += self._batch_size
        if self._average:
            self._average.update()
        return self._noted(values) | metrics

    def _step_of_one(self, total: int, *, is_first_step: bool) -> tuple[Values, dict[str, Any]]:
        """Do a step of the only optimizer; return its values and its metrics."""
        is_new = is_first_step

        def gradients() -> Values:
            nonlocal is_new
            batches = self._local_batches(is_new=is_new)
            is_new = False
            if batches is None:
                return {}
            return self._gradients("", batches, is_first_step=is_first_step)

        values = self._repeatedly("", gradients)
        return values, self._apply("", total, values) if values else {}

    def _steps_of_several(
        self, total: int, *, is_first_step: bool
    ) -> tuple[Values, dict[str, Any]]:
        """Do the steps of all optimizers, one after the other; return their values and metrics."""
        kept: list[_Share] = []
        is_new = is_first_step
        loss = torch.zeros((), device=self._rank.device)
        values: Values = {"loss": loss}
        metrics: dict[str, Any] = {}
        for name in self._updates:

            def gradients(name: str = name) -> Values:
                nonlocal kept, is_new
                if len(kept) != self._accumulation:
                    kept = []
                    kept = list(self._local_batches(is_new=is_new) or ())
                    is_new = False
                if not kept:
                    return {}
                return self._gradients(name, iter(kept), is_first_step=is_first_step)

            with self._parallel.training_only(name):
                own = self._repeatedly(name, gradients)
            if not own:
                return {}, {}
            loss = loss + loss_of(own).to(loss.device)
            values |= {f"{name}_{key}": value for key, value in own.items()}
            for key, value in self._apply(name, total, own).items():
                metrics[key if key not in metrics else f"{name}_{key}"] = value
        return values | {"loss": loss}, metrics

    def _local_batches(self, *, is_new: bool) -> Iterator[_Share] | None:
        """Return the local batches of the present step; None: the data of the epoch have ended.

        `is_new`: it is the first step of the training, which is tried out.
        """
        self._during = _READING
        local_batches = self._train.local_batches(self._turn.epoch, self._turn.batch)
        # What the ranks do together cannot be done again by one of them.
        is_together = is_new or not isinstance(self._train, BatchSharder)
        with self._explain_out_of_memory() if is_together else NOTHING:
            first = next(local_batches, None)
            if first is None:
                return None
            self._batch_size = first.global_size
            if self._batch_size > 1:  # 1 may also be a ready batch that cannot be counted
                self._largest_batch = max(self._largest_batch, self._batch_size)
            if is_new:
                with NamesBatch(self._turn.batch, "the epoch", first.batch, first.names):
                    self._trial.inputs(first)
                    self._trial.loss(first, self._first_turn())
        local_batches = chain([first], local_batches)
        is_last = self._turn.batch + 1 == self._train.batches
        if self._spec.compile and is_last and self._batch_size < self._largest_batch:
            self._trial.say_once(_SMALLER_BATCH)
            local_batches = map(_with_fixed_size, local_batches)
        return self._shares(local_batches)

    def _apply(self, optimizer: str, total: int, values: Values) -> dict[str, Any]:
        """Update the weights; return the metrics of the step."""
        self._during = "the update of the weights"
        update = self._updates[optimizer]
        with self._inspector.update(update, self._first_turn()) if self._inspector else NOTHING:
            metrics = update.apply(self._turn.step, total, loss_of(values))
        self._during = ""
        return metrics

    def _repeatedly(self, optimizer: str, compute: Callable[[], Values]) -> Values:
        """Return what `compute` does, which adds the gradients of a step; average them.

        While any rank is out of memory in it, all ranks call it again, with smaller parts.
        """
        if not self._repeats:
            return compute()
        if self._snapshot is None:
            self._snapshot = Snapshot(self._parallel.changed_tensors(), self._rank.devices)
        else:
            self._snapshot.take()
        parameters = self._updates[optimizer].parameters
        clause = ""
        while True:
            values, shortage = {}, None
            try:
                if clause:
                    self._train.accumulate(self._accumulation)
                values = compute()
            except TrainingFailed as error:
                if clause and not isinstance(error, OutOfMemory):
                    raise TrainingFailed(f"{clause}. {error}") from error
                raise
            except (torch.OutOfMemoryError, RuntimeError, MemoryError) as error:
                if not memory.is_out_of_memory(error, self._rank.devices):
                    raise
                what = memory.failed_allocation(error, self._rank.devices, self._device_names)
                shortage = self._shortage(what)
            # Outside of the handler: the frames of the error hold tensors.
            with_gradient = zlib.crc32(bytes(each.grad is not None for each in parameters))
            failed = 0 if shortage is None else self._rank.number + 1
            failed, most, least = self._rank.group.maximum([failed, with_gradient, -with_gradient])
            if not failed:
                if values:
                    is_equal = most == -least
                    self._parallel.exchange_gradients(optimizer, has_equal_sets=is_equal)
                return values
            clause = self._shrink(failed - 1, shortage)

    def _shrink(self, failed: int, own: Shortage | None) -> str:
        """Prepare to compute the present step again, with parts of half the size.

        `failed` is the rank that was out of memory, and `own` where this one was. Return what has
        happened, in a clause. Ends the training on all ranks if parts have one sample already.
        """
        is_here = self._rank.number == failed
        text = self._rank.group.broadcast_text(json.dumps(own) if is_here else "")
        shortage = Shortage(*json.loads(text))
        # A rank that has not read the present batch does not know its size.
        [self._largest_batch] = self._rank.group.maximum([self._largest_batch])
        for update in self._updates.values():
            update.optimizer.zero_grad(set_to_none=True)
        self._parallel.module.zero_grad(set_to_none=True)
        self._data.move_to_host()
        if self._snapshot:
            self._snapshot.bring_back()
        if not is_here and self._shared.halved() is None:
            self._rank.group.maximum([0])  # fails when the rank that says why has left
        event = self._shrunk(shortage, restarts=False)
        self._accumulation = event.accumulation
        self._carried = [Carried() for _ in range(event.accumulation)]
        self._validation.accumulate(event.accumulation)
        self.empty_cache()
        memory.leave_driver_room(self._rank.devices)
        if is_here:
            self._emit(event)
        return shortage.clause

    @property
    def _shared(self) -> Sharing:
        """How a global batch is shared. Its size may be the recipe's, and the last may be small."""
        size = self._largest_batch or self._spec.batch_size
        return Sharing(size, self._parallel.replicas, self._asked_accumulation, self._accumulation)

    def _shortage(self, what: str) -> Shortage:
        during = self._during or self._parallel.doing
        return Shortage(self._rank.number, self._turn.step + 1, during, what)

    def _shrunk(self, shortage: Shortage, *, restarts: bool) -> Shrunk:
        """Return how to go on after `shortage`. Raises OutOfMemory if parts have one sample."""
        before, after = self._shared, self._shared.halved()
        if after is None:
            raise exhausted(shortage, before)
        model = self._parallel.recipe_model()
        modules = model.modules() if isinstance(model, torch.nn.Module) else ()
        event = shrunk(
            shortage,
            before,
            after,
            restarts=restarts,
            has_batch_norm=any("BatchNorm" in type(module).__name__ for module in modules),
        )
        return msgspec.structs.replace(event, batch_size=self._spec.batch_size)

    def _watched(self, step: int) -> AbstractContextManager[None]:
        """Return the context of a step, by its number from 0."""
        if step + 1 == self._inspected_step:
            return self._inspected()
        if self._probe is not None and self._probe.is_due(step):
            return self._recorded(self._probe)
        return NOTHING

    def _recorded(self, probe: MemoryProbe) -> AbstractContextManager[None]:
        """Return a context in which the memory of a step is recorded."""
        average = self._average.tensors().values() if self._average else ()
        return probe.recorded(self._parallel.module, self._optimizers, average)

    @contextmanager
    def _inspected(self) -> Iterator[None]:
        """Write what is seen of a step that is done in this context."""
        self._inspector = StepInspector(
            self._parallel, self._objective, self._precision, self._rank
        )
        with self._inspector.watching():
            yield
        write_inspection(self._folder, self._inspector.result())
        self._inspector = None

    def _check_saving(self) -> None:
        """Raise CannotBeSaved if no checkpoint of this training can be saved."""
        self._has_saving_checked = True
        plain = {
            "a scheduler of the recipe": self._shared_state(),
            "what step() of the recipe carries": {"carried": self._carried_on_host()},
            "what the model changes beside its state_dict": self._unsaved.changed(),
        }
        training_state.check_saving(
            self._parallel.module,
            self._optimizers,
            self._rank.group.cpu,
            self._further_tensors(),
            plain,
        )

    def _all_carried(self) -> list[Carried]:
        return [*self._carried, *self._carried_in_validation]

    def _carried_on_host(self) -> list[Any]:
        return [_on_host(carried.state) for carried in self._carried]

    def _further_tensors(self) -> dict[str, torch.Tensor]:
        return self._average.tensors() if self._average else {}

    def _shared_state(self) -> dict[str, Any]:
        """Return what all ranks know alike besides tensors; {} if the recipe needs none of it."""
        updates = {name: state for name, u in self._updates.items() if (state := u.state())}
        if not (updates or self._average or self._recipe.on_epoch):
            return {}
        return {
            "optimizers": updates,
            "averaged": self._average.updates if self._average else 0,
            "epoch": [self._epoch_sums, self._epoch_steps],
        }

    def _load_shared_state(self, state: dict[str, Any]) -> None:
        for name, update in self._updates.items():
            update.load_state(state.get("optimizers", {}).get(name, {}))
        if self._average:
            self._average.updates = state.get("averaged", 0)
        self._epoch_sums, self._epoch_steps = state.get("epoch", ({}, 0))

    def _sharing(self) -> list[int]:
        """Return what decides which samples each local batch of this rank has."""
        parallel, spec = self._parallel, self._spec
        return [parallel.replica, parallel.replicas, self._accumulation, spec.batch_size]

    def _restore_carried(self, states: list[Any] | None, sharing: list[int] | None) -> None:
        """Restore what the step carries from batch to batch; forget it if the ranks changed."""
        if states is None or not self._recipe.carries_state:
            return
        if sharing != self._sharing():
            raise CheckpointMisfit(
                "What step() of the recipe carries from batch to batch belongs to the samples of "
                "each rank: resume with the same devices, batch size and accumulation, or from a "
                "checkpoint at the end of an epoch."
            )
        for carried, saved in zip(self._carried, states, strict=True):
            carried.state = to_device(saved, self._parallel.device)

    def _first_turn(self) -> Turn:
        carried = Carried() if self._recipe.carries_state else None
        return self._turn._replace(optimizer=next(iter(self._updates)), carried=carried)

    def _gradients(
        self, optimizer: str, shares: Iterator[_Share], *, is_first_step: bool
    ) -> Values:
        """Compute the gradients of a step of one optimizer; return its values by name.

        In the first step, it is found which parameters get none. If the strategy needs all of them,
        it is told so, and the gradients are computed once more.
        """
        if not is_first_step:
            return self._accumulated(optimizer, shares)
        parameters = self._updates[optimizer].parameters
        if not self._parallel.needs_all_gradients():
            values = self._accumulated(optimizer, shares)
            self._trial.gradients(optimizer, parameters)
            return values
        kept, bring_back = list(shares), self._trial.remember()
        carried = [each.state for each in self._carried]
        values = self._accumulated(optimizer, iter(kept))
        if self._trial.lacks_gradients(parameters):
            self._trial.gradients(optimizer, parameters)
            self._parallel.allow_missing_gradients()
            bring_back()
            for each, state in zip(self._carried, carried, strict=True):
                each.state = state
            values = self._accumulated(optimizer, iter(kept))
        return values

    def _accumulated(self, optimizer: str, shares: Iterator[_Share]) -> Values:
        """Add up the gradients of all local batches of a step; return the values by name."""
        self._updates[optimizer].begin()
        inspector = self._inspector
        if inspector:
            inspector.begin(optimizer)
        if optimizer:  # those of the others may be left from the step before
            self._parallel.module.zero_grad(set_to_none=True)
        values: Values = {}
        turn = self._turn
        for number, (local, weight) in enumerate(shares):
            self._during = ""
            if inspector:
                inspector.take_part(local)
            with NamesBatch(self._turn.batch, "the epoch", local.batch, local.names):
                result = self._parallel.train_batch(
                    local.batch,
                    weight,
                    inspector.objective if inspector else self._objective,
                    sync=number == self._accumulation - 1,
                    turn=Turn(optimizer, self._carried[number], turn.epoch, turn.batch, turn.step),
                )
            self._during = _READING
            values = result if not number else _added(values, result)
        return values

    def _shares(self, batches: Iterator[LocalBatch]) -> Iterator[_Share]:
        """Return local batches, each with its part in the means over the global batch.

        With a weight of the recipe's, all are fetched first, and all replicas add theirs up.
        """
        if self._recipe.weight is None:
            return map(_share, batches)
        with self._explain_out_of_memory():
            fetched = list(batches)
        total = sum(local.amount for local in fetched)
        if self._parallel.replicas > 1:
            total = float(self._rank.group.all_reduce_sum(torch.tensor([total]).double()))
        return iter([(local, local.amount / total if total else 0.0) for local in fetched])

    def _explain_not_finite(self, position: Position, losses: list[float]) -> None:
        """Find out once whether a loss is not finite because of the inputs; all ranks call it."""
        bad = next((n for n, loss in enumerate(losses) if not math.isfinite(loss)), None)
        if bad is None or self._has_explained or not isinstance(self._train, BatchSharder):
            return
        self._has_explained = True
        self._first_not_finite = self._first_turn()._replace(
            epoch=position.epoch, batch=position.batch + bad, step=position.step + bad
        )
        again = list(self._train.local_batches(position.epoch, position.batch + bad))
        self.input_problem = self._trial.input_problem(again)

    def _add_to_epoch(self, position: Position, means: Mapping[str, list[float]]) -> None:
        """Add values of steps from `position` on to the sums of their epoch."""
        if position.batch == 0:
            self._epoch_sums, self._epoch_steps = {}, 0
        for name, values in means.items():
            self._epoch_sums[name] = math.fsum([self._epoch_sums.get(name, 0.0), *values])
        self._epoch_steps += len(means["loss"])

    def _noted(self, values: Values) -> Values:
        """Return `values`. Raises TrainingFailed if their names are not those of the first step."""
        names = tuple(values)
        if not self._value_names:
            self._value_names = names
        elif names != self._value_names:
            raise TrainingFailed(
                f"step() of the recipe gave the entries {', '.join(names)}, and in the first step "
                f"{', '.join(self._value_names)}: give the same ones in every step, with nan for "
                "what there is not."
            )
        return values

    def _names_of_all_ranks(self, own: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return `own` and what other ranks have beside it, in one order on all ranks."""
        group, rank = self._rank.group, self._rank.number
        found: dict[tuple[str, str], None] = {}
        for number in range(self._rank.world_size):
            has_more = rank == number and not found.keys() >= set(own)
            text = group.broadcast_text(json.dumps(own) if has_more else "")
            found |= dict.fromkeys((prefix, name) for prefix, name in json.loads(text or "[]"))
        return list(found)

    def _total_steps(self, position: Position) -> int:
        return run_length.total_steps(self._spec, position, self.steps_per_epoch)

    def _data_facts(self, session: WorkerSession) -> DataFacts:
        recipe = self._recipe

        def notice(text: str) -> None:
            emit_once(session, Notice(text, session.rank))

        def is_equal(number: int) -> bool:
            numbers = self._rank.group.all_reduce_sum(torch.tensor([number], dtype=torch.float64))
            return float(numbers) == number * self._rank.world_size

        return DataFacts(
            self._spec,
            self._rank.device,
            recipe.takes_pairs,
            recipe.has_own_loss,
            recipe.collate,
            recipe.weight,
            session.recipe.owns,
            notice,
            is_equal if self._rank.world_size > 1 else lambda _: True,
        )

    @contextmanager
    def _explain_out_of_memory(self, *, may_shrink: bool = True) -> Iterator[None]:
        """Raise OutOfMemory for such an error; with `may_shrink`, it says how to go on then."""
        spec, accumulation = self._spec, self._accumulation
        batch = -(-spec.batch_size // (self._rank.world_size * accumulation))
        devices, names = self._rank.devices, self._device_names
        try:
            with memory.explain_out_of_memory(devices, names, batch, accumulation):
                yield
        except OutOfMemory as error:
            if may_shrink and spec.on_oom == SHRINK and error.what and not error.shrunk:
                error.shrunk = self._shrunk(self._shortage(error.what), restarts=True)
            raise


_READING = "reading its samples"

_NO_GRAPH = (
    "torch.compile has compiled nothing in the first step, so the training is as fast as without "
    "it. It compiles what a call of the model itself computes: step() of the recipe calls parts of "
    "it only, or PyTorch cannot trace it."
)

_SMALLER_BATCH = (
    "The last batch of an epoch is smaller, and torch.compile now compiles the model for it, too: "
    "this step takes about as long as the first one, once. A batch size that divides the number "
    "of samples avoids it."
)

_Share = tuple[LocalBatch, float]
"""A local batch, and the weight of its values in the means over the global batch."""


def build(session: WorkerSession, strategy: TorchStrategy) -> TorchTrainer:
    """Return the trainer of this process."""
    return TorchTrainer(session, strategy)


def _group(session: WorkerSession, strategy: TorchStrategy, device: torch.device) -> Group:
    if isinstance(strategy, OneProcess):
        return SingleProcess()
    shares_gpus = session.spec.workers_per_device > 1  # nccl allows one rank per GPU
    backend = "gloo" if shares_gpus else session.spec.backend
    return ProcessGroup(session.rank, session.world_size, device, backend)


class _HostCopy:
    """A copy of numbers or 0-d tensors of one device to the host, as float64 on the CPU.

    It begins at once, and the host does not wait for it before `read`.
    """

    def __init__(self, values: list[Any]) -> None:
        self._copied: Any = None
        if not isinstance(values[0], torch.Tensor):
            self._numbers = torch.tensor(values, dtype=torch.float64)
            return
        stacked = torch.stack(values).double()
        self._numbers = stacked.to("cpu", non_blocking=True)
        if is_gpu(stacked.device):
            gpu = gpu_module(stacked.device)
            # A wait leaves the processor to other threads: so for CUDA, and always for XPU.
            self._copied = gpu.Event(blocking=True) if stacked.is_cuda else gpu.Event()
            self._copied.record(gpu.current_stream(stacked.device))

    def read(self) -> torch.Tensor:
        """Return the numbers, once they are there."""
        if self._copied is not None:
            self._copied.synchronize()
        return self._numbers


def _numbers(values: list[Value]) -> list[float]:
    """Return `values` as numbers; what is on GPUs is read by one copy for each GPU and type."""
    numbers: list[float] = [0.0] * len(values)
    on_gpus: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for index, value in enumerate(values):
        if isinstance(value, torch.Tensor) and is_gpu(value.device):
            on_gpus.setdefault((value.device, value.dtype), []).append(index)
        else:
            numbers[index] = float(value)
    for indices in on_gpus.values():
        chosen: list[Any] = [values[index] for index in indices]
        read = torch.stack([value.detach().reshape(()) for value in chosen]).double().cpu().tolist()
        for index, number in zip(indices, read, strict=True):
            numbers[index] = number
    return numbers


def _share(local: LocalBatch) -> _Share:
    return local, local.weight


def _with_fixed_size(local: LocalBatch) -> LocalBatch:
    fix_size(local.batch)
    return local


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _on_host(tree: Any) -> Any:
    return tree_map(lambda leaf: leaf.cpu() if isinstance(leaf, torch.Tensor) else leaf, tree)


def _added(values: Values, more: Values) -> Values:
    """Return the sums of the values of two local batches of a step."""
    return {name: value + more.get(name, math.nan) for name, value in values.items()}


def _check_validation(
    recipe: TorchRecipe, plans: Mapping[str, OptimizerPlan], is_validated: bool
) -> None:
    """Raise TrainingFailed if there is too much or too little to validate with."""
    if is_validated and recipe.has_several_optimizers and not recipe.validate:
        raise TrainingFailed(
            "The recipe has several optimizers, and no validate(model, batch) that says what to "
            "compute from the validation data: define it, or give no validation data."
        )
    followed = [s.monitor for plan in plans.values() for s in plan.schedulers if s.monitor]
    for monitor in followed:
        if not is_validated and not monitor.startswith("train"):
            raise TrainingFailed(
                f"A scheduler of the recipe follows {monitor!r}, and datasets() gave no validation "
                'data: give some, or let it follow "train/loss".'
            )


def _optimizers(
    recipe: TorchRecipe, parallel: Parallel, spec: RunSpec, facts: PlannedRun
) -> Mapping[str, OptimizerPlan]:
    """Return the optimizers by name: of the spec, or else the recipe's. Raises TrainingFailed."""
    chosen = chosen_optimizer(spec, parallel.parameters())
    if chosen is None:
        return recipe.make_optimizers(parallel.trained_model(), facts)
    if recipe.has_several_optimizers:
        raise TrainingFailed(
            f"This run has the optimizer {spec.optimizer}, and the recipe has several in "
            "optimizers(): choose the optimizer recipe."
        )
    return {"": OptimizerPlan(parallel.as_torch_optimizer(chosen))}
