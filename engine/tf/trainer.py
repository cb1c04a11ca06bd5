"""The TensorFlow side of the training loop: model, optimizer and data of a process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import keras
import msgspec
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from engine.facts.run_facts import DataFacts
from engine.runs.checkpoints.checkpoint_files import Position
from engine.tf import measurements, training_state
from engine.tf.batch_norm import RunningStatistics
from engine.tf.devices import (
    NoHostOffload,
    empty_cache,
    explain_out_of_memory,
    memory_metrics,
    memory_record,
    set_numerics,
)
from engine.tf.failed_step import FailedStep
from engine.tf.graph import keep_generated_code_in_memory
from engine.tf.graph_loop import GraphLoop
from engine.tf.optimizer_step import OptimizerStep
from engine.tf.random_streams import RandomStreams
from engine.tf.recipe import compiled
from engine.tf.recipe.epochs import Epochs
from engine.tf.recipe.tf_recipe import TfRecipe, check_model, read_data
from engine.tf.replica import Replica
from engine.tf.samples.batch_stream import DataSet
from engine.tf.samples.data import ArraySamples
from engine.tf.step_inspector import StepInspector
from engine.tf.tf_strategy import TfStrategy
from engine.training.errors import LossNotFinite, OutOfMemory, TrainingFailed
from engine.training.probes.data_fingerprint import fingerprint
from engine.training.probes.measuring import Measurements
from engine.training.probes.memory_record import RankRecord
from engine.training.probes.step_inspection import inspected_step, write_inspection
from engine.training.protocols import DoneSteps
from engine.training.shrinking import SHRINK, Sharing, Shortage, exhausted, shrunk
from engine.worker import environment
from engine.worker.model_outline import model_facts
from engine.worker.session import WorkerSession

SUMMED = ("tf/mirrored", "tf/multi_worker")
"""Strategies whose replicas sum their gradients by an all-reduce in the graph of a step."""


class TfTrainer(NoHostOffload):
    """See `engine.training.protocols.Trainer`; the strategy's `Parallel` does the steps."""

    input_problem = ""
    goes_on: Callable[[int], bool]
    """The steps of a chunk are one graph, in which Python decides nothing."""

    progress: Callable[[int], None]
    """Not called: TensorFlow saves and loads all variables in one call. The files grow in a save,
    and the system counts what is read."""

    def __init__(self, session: WorkerSession, strategy: TfStrategy) -> None:
        spec = session.spec
        self._session = session
        self._parallel = strategy.parallel(session)
        set_numerics(spec)
        keras.utils.set_random_seed(spec.seed)
        compiled.weigh_local_batches_once()
        keep_generated_code_in_memory()
        recipe = TfRecipe(session)
        given = recipe.data()
        train = read_data(given.train, recipe, spec, is_training=True)
        validation = {
            name: read_data(each, recipe, spec, is_training=False)
            for name, each in given.validation.items()
        }
        if len(validation) > 1:
            session.add_validation_sets([_prefix(name) for name in list(validation)[1:]])
        distribution = self._parallel.distribution
        replicas = strategy.replicas(spec.slots)
        shrinks = spec.on_oom == SHRINK
        most_parts = replicas * spec.accumulation * (2 if shrinks else 1)

        with session.connecting(), distribution.scope():
            RandomStreams.prepare(spec.seed)
            model = self._parallel.make_model(
                lambda: recipe.make_model(train.sample), recipe.stages
            )
            written = self._parallel.as_written(model)
            check_model(
                written,
                most_parts,
                in_order=not isinstance(train, ArraySamples),
            )
            objective = recipe.objective(written, from_arrays=isinstance(train, ArraySamples))
            optimizer = recipe.optimizer(written)
            objective.build(model, train.sample, most_parts)
            optimizer_step = OptimizerStep(optimizer, model.trainable_variables, spec)
        self._written = written
        self._remake = partial(recipe.make_model, train.sample)
        self._last = Position(), 0
        """The place where the newest chunk began, and its number of steps."""

        self._parallel.check(objective)
        self.model_facts = model_facts(written) if session.rank == 0 else None
        self.data_facts = _fingerprint(train, spec.seed) if session.rank == 0 else None
        if compiled.is_compiled(written) and written.jit_compile:
            wanted = msgspec.structs.replace(spec, compile=True)
            if reason := strategy.refusal("compile", wanted):
                raise TrainingFailed(f"The model is compiled with jit_compile=True. {reason}")
            spec = wanted
        self._replica = Replica(
            spec,
            replicas,
            model,
            (train, validation),
            objective,
            optimizer_step,
            RandomStreams(distribution, model, session.rank),
            RunningStatistics(distribution, model),
            self._parallel.batch_gradients,
        )
        self._sums: dict[str, npt.NDArray[np.float64]] = {}
        self._results: dict[str, float] = {}
        self._done = 0
        """Optimizer steps before the chunk that is computed."""

        self._now = (0, 0)
        """The number of the validation set that is read, and that of its next batch."""

        self.replicas = self._replica.replicas
        self.parameters = self._replica.parameters
        self.steps_per_epoch = self._replica.steps_per_epoch
        self.validation_batches = self._replica.all_validation_batches
        self._loop = self._parallel.make_loop(self._replica)
        self._epochs = Epochs(
            spec,
            written,
            optimizer_step,
            recipe.function("on_epoch"),
            recipe.callbacks(),
            shows_last=objective.updates_weights,
        )

    @property
    def _state(self) -> tuple[keras.Model, keras.optimizers.Optimizer, Sequence[tf.Variable]]:
        replica = self._replica
        return replica.model, replica.optimizer, replica.objective.more_variables

    @property
    def epoch_ended(self) -> bool:
        return self._loop.epoch_ended

    def run_steps(self, position: Position, count: int) -> DoneSteps:
        self._epochs.begin(position)
        during = "" if count == 1 else f"one of {count} steps from there on"
        self._done = position.step
        self._last = position, count
        inspector = self._inspector(position, count)
        with self._explain_out_of_memory(during):
            found = self._loop.run_steps(position, count)
        sizes = self._loop.sizes
        self._epochs.count(position, found, sizes)
        if inspector is not None:
            write_inspection(self._session.folder, inspector.inspect())
        return DoneSteps(len(found["loss"]), sum(sizes), lambda: found)

    def _inspector(self, position: Position, count: int) -> StepInspector | None:
        """Return what looks into the next step, if it is the one to inspect, on rank 0."""
        is_asked = count == 1 and position.step + 1 == inspected_step()
        if not is_asked or self._session.rank:
            return None
        return StepInspector(self._replica, self._written, position)

    def rank_metrics(self) -> dict[str, float]:
        return memory_metrics()

    def memory_record(self) -> RankRecord:
        """Return what this process held, where `engine.training.probes.memory_record.is_asked`."""
        replica = self._replica
        trained = [variable.value for variable in replica.variables]
        return memory_record(
            self._session.plan.devices,
            [variable.value for variable in replica.model.variables],
            trained,
            [variable.value for variable in replica.optimizer.variables],
        )

    def begin_validation(self) -> None:
        self._replica.statistics.sync_buffers()
        self._sums = {}
        self._results = {}
        self._now = (0, 0)

    def validate(self, batch: int, count: int) -> int:
        replica, names = self._replica, list(self._replica.validation)
        done = 0
        while done < count and self._now[0] < len(names):
            number, first = self._now
            name = names[number]
            batches = replica.validation_batches[name]
            wanted = min(count - done, batches - first) if batches else count - done
            if first == 0:
                replica.objective.reset_metrics()
            with self._explain_out_of_memory(_VALIDATION):
                found = self._loop.validation_sums(name, first, wanted)
            for sums in found:
                before = self._sums.get(name, 0.0)
                self._sums[name] = sums if replica.objective.validates_to_last else before + sums
            done += len(found)
            self._now = (number, first + len(found))
            if len(found) < wanted or first + len(found) == batches:
                self._end_set(name)
                self._now = (number + 1, 0)
        self._parallel.note_validated(done)
        return done

    @contextmanager
    def _explain_out_of_memory(self, during: str) -> Iterator[None]:
        """Raise OutOfMemory for such an error; if the next attempt may go on, it says how."""
        session, spec = self._session, self._session.spec
        batch = -(-spec.batch_size // self._replica.local_batches)
        try:
            with explain_out_of_memory(session.plan.devices, batch, spec.accumulation):
                yield
        except OutOfMemory as error:
            if spec.on_oom != SHRINK:
                raise
            shortage = Shortage(session.rank, self._done + 1, during, error.what)
            if during == _VALIDATION:
                raise TrainingFailed(
                    f"{shortage.clause}. Under TensorFlow a validation computes whole batches, "
                    "which accumulation does not divide: choose a smaller batch size."
                ) from error
            asked = session.asked_accumulation
            before = Sharing(spec.batch_size, self.replicas, asked, spec.accumulation)
            after = before.halved()
            if after is None:
                raise exhausted(shortage, before) from error
            layers = self._replica.model._flatten_layers()
            error.shrunk = shrunk(
                shortage,
                before,
                after,
                restarts=True,
                has_batch_norm=any("BatchNorm" in type(layer).__name__ for layer in layers),
            )
            raise

    def end_validation(self) -> dict[str, float]:
        return self._results

    def _end_set(self, name: str) -> None:
        """Keep the means over a validation set; the first one's have no prefix."""
        if name not in self._sums:
            raise TrainingFailed("datasets() gave validation data without a batch.")
        *sums, weight = self._sums[name].tolist()
        means = [value / weight for value in sums]
        found = dict(zip(self._replica.metric_names, means, strict=True))
        found |= self._loop.metric_results()
        prefix = _prefix(name) if self._results else ""
        self._results |= {prefix + metric: value for metric, value in found.items()}

    def end_epoch(self, epoch: int, metrics: Mapping[str, float]) -> str:
        reason = self._epochs.end(epoch, metrics)
        # Rank 0 decides for all: what the recipe measures may differ between ranks.
        word = (int(bool(reason)), 0) if self._session.rank == 0 else (0, 0)
        ends = bool(self._parallel.agree(word)[0])
        return (reason or "The recipe ended the training.") if ends else ""

    def save(self, folder: Path) -> None:
        self._replica.statistics.sync_buffers()
        metrics = self._replica.objective.metric_state()
        if self._session.rank == 0:
            training_state.save(folder, *self._state)
            training_state.save_metrics(folder, metrics)
            self._epochs.save(folder)
        training_state.save_rank_state(folder, self._session.rank, self._replica.streams)

    def restore(self, folder: Path) -> None:
        training_state.restore(folder, *self._state)
        self._replica.objective.load_metric_state(training_state.restore_metrics(folder))
        self._epochs.restore(folder)
        step = self._replica.optimizer_step
        # A step of the model's own may have changed it: keep that, unless the user chose another.
        if not self._replica.objective.updates_weights or self._epochs.saved_rate != step.rate:
            step.reset_learning_rate()
        training_state.restore_rank_state(folder, self._session.rank, self._replica.streams)

    def measure(self, told: Measurements) -> None:
        """Measure, for a preflight, what a run waits for; all ranks call it after their steps."""
        if self._session.spec.strategy in SUMMED and self.replicas > 1:
            distribution = self._parallel.distribution
            measurements.all_reduce(distribution, self.agree, told, told.seconds / 3)
        batches = self._replica.all_validation_batches
        told.tell("validation/batches", max(0, batches))
        if batches <= 0 or not isinstance(self._loop, GraphLoop):
            return
        for _ in range(2):  # the first one traces its graph
            self.begin_validation()
            begin = time.perf_counter()
            self.validate(0, 1)
            seconds = time.perf_counter() - begin
        told.tell("validation/batch_seconds", seconds)

    def empty_cache(self) -> dict[str, int]:
        return empty_cache(self._session.plan.devices)

    def agree(self, control_word: tuple[int, int]) -> tuple[int, int]:
        return self._parallel.agree(control_word)

    def keep_failure(self, error: BaseException) -> None:
        """Keep the step that `error` has ended, for the failure file. Raises OSError."""
        attempt = int(os.environ.get(environment.ATTEMPT, "0"))
        place = self._session.folder, attempt, self._session.rank
        first, count = self._last
        if isinstance(error, LossNotFinite):
            epoch, batch = divmod(error.step - 1, max(1, self.steps_per_epoch))
            first, count = Position(epoch, batch, error.step - 1), 1
        positions = (
            Position(first.epoch, first.batch + number, first.step + number)
            for number in range(count)
        )
        weights = self._weights(first)
        if isinstance(error, LossNotFinite):
            next(weights)  # the present ones, which the step has changed
        FailedStep(self._replica, self._written, place).keep(error, positions, weights)

    def _weights(self, position: Position) -> Iterator[str]:
        """Bring weights in place with which the step at `position` may fail; yield what they are.

        The present ones are those before it, unless steps after it were done.
        """
        yield ""
        keras.utils.set_random_seed(self._session.spec.seed)
        fresh = [np.array(variable) for variable in self._remake().variables]

        def begin_anew() -> None:
            for variable, value in zip(self._written.variables, fresh, strict=True):
                variable.assign(value)

        begin_anew()
        yield "those that model() of the recipe gives"
        begin_anew()
        optimizer = self._replica.optimizer
        for variable in optimizer.variables:
            if variable is not optimizer._learning_rate:
                variable.assign(tf.zeros_like(tf.convert_to_tensor(variable)))
        for step in range(position.step):
            epoch, batch = divmod(step, max(1, self.steps_per_epoch))
            self._loop.run_steps(Position(epoch, batch, step), 1)
        yield "those before the step: it was trained again from the beginning"

    def close(self) -> None:
        self._epochs.close()
        self._loop.close()
        self._parallel.close()


_VALIDATION = "validation"


def _fingerprint(train: DataSet, seed: int) -> DataFacts | None:
    """Return what the training data hold; None: they come in an order of their own."""
    if not isinstance(train, ArraySamples):
        return None

    def read(index: int) -> list[npt.NDArray[np.generic]]:
        return [leaf.numpy() for leaf in tf.nest.flatten(train.batch(tf.constant([index])))]

    return fingerprint(len(train), seed, read)


def _prefix(validation_set: str) -> str:
    """Return how the names of the metrics of a further validation set begin."""
    return f"{validation_set}_"
