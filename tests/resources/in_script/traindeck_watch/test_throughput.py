"""The samples per second of a script: of the samples that there were, in the time of its steps."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from traindeck_watch import keras_training, throughput
from traindeck_watch.pytorch import Loading, Pass, TorchHooks, _patch_save, patch_modes
from traindeck_watch.throughput import Throughput
from traindeck_watch.trainers import samples_of_step
from traindeck_watch.watch import Watch


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(throughput, "time", clock)
    return clock


def steps(measured: Throughput, clock: Clock, count: int, samples: float, seconds: float) -> None:
    for _ in range(count):
        clock.now += seconds
        measured.add(samples)
        measured.stepped()


def test_the_rate_is_that_of_the_samples_that_there_were(clock: Clock) -> None:
    measured = Throughput()
    steps(measured, clock, 1, 1437, 9.0)
    assert measured.look(1) is None, "the first step imports and compiles"
    steps(measured, clock, 4, 1437, 0.1)
    assert measured.look(5) == pytest.approx(14_370)
    assert measured.step_seconds == pytest.approx(0.1)


def test_what_is_no_step_takes_none_of_the_time(clock: Clock) -> None:
    measured = Throughput()
    steps(measured, clock, 2, 10, 0.1)
    measured.look(2)
    measured.interrupted()
    clock.now += 60.0
    steps(measured, clock, 3, 10, 0.1)
    assert measured.look(5) == pytest.approx(100)
    clock.now += 60.0
    measured.goes_on()
    steps(measured, clock, 2, 10, 0.1)
    assert measured.look(7) == pytest.approx(100)


class Module:
    """As that of PyTorch: the modes of a model are those of its parts."""

    def __init__(self, *parts: Module) -> None:
        self.parts = parts

    def train(self, mode: bool = True) -> Module:
        for part in self.parts:
            part.train(mode)
        return self

    def eval(self) -> Module:
        return self.train(False)


def test_a_validation_of_a_model_in_eval_mode_is_no_step(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("train", "eval"):
        monkeypatch.setattr(Module, name, vars(Module)[name])
    measured = Throughput()
    patch_modes(Module, SimpleNamespace(throughput=measured, guard=lambda *_: lambda *_: None))
    part = Module()
    model, teacher = Module(part), Module()
    steps(measured, clock, 2, 10, 0.1)
    measured.look(2)
    model.eval()
    clock.now += 30.0
    assert model.train() is model
    steps(measured, clock, 1, 10, 0.1)
    assert measured.look(3) == pytest.approx(100)
    assert measured.step_seconds == pytest.approx(0.1)

    model.train()
    for each in (part, teacher):  # frozen: these steps take their time
        each.eval()
        steps(measured, clock, 1, 10, 0.2)
    model.eval()
    steps(measured, clock, 1, 10, 0.2)  # trained in this mode
    clock.now += 0.1
    model.train()
    steps(measured, clock, 1, 10, 0.1)
    measured.look(7)
    assert measured.step_seconds == pytest.approx(0.2)


def test_only_the_first_train_after_a_validation_ends_it(clock: Clock) -> None:
    measured, model = Throughput(), object()
    steps(measured, clock, 2, 10, 0.1)
    measured.look(2)
    measured.evaluates(model)
    clock.now += 30.0
    measured.trains(model)
    clock.now += 0.3  # the first part of an accumulated step
    measured.trains(model)
    steps(measured, clock, 1, 10, 0.1)
    measured.look(3)
    assert measured.step_seconds == pytest.approx(0.4)


def test_a_checkpoint_of_the_script_is_no_part_of_a_step_also_within_a_validation(
    clock: Clock,
) -> None:
    measured, model = Throughput(), object()
    measured.saved(clock.now)  # before the first step
    steps(measured, clock, 2, 10, 0.1)
    measured.look(2)
    save(measured, clock, 2.0)
    steps(measured, clock, 1, 10, 0.1)
    measured.evaluates(model)
    clock.now += 30.0
    save(measured, clock, 2.0)
    clock.now += 1.0
    measured.trains(model)
    steps(measured, clock, 1, 10, 0.1)
    measured.look(4)
    assert measured.step_seconds == pytest.approx(0.1)


def save(measured: Throughput, clock: Clock, seconds: float) -> None:
    since = clock.now
    clock.now += seconds
    measured.saved(since)


def test_a_part_that_is_frozen_for_the_training_takes_no_time_from_a_step(clock: Clock) -> None:
    measured, norm = Throughput(), object()
    steps(measured, clock, 2, 10, 0.1)
    measured.look(2)
    measured.evaluates(norm)
    clock.now += 0.3  # the first part of an accumulated step
    measured.computes_gradients()
    measured.trains(norm)
    steps(measured, clock, 1, 10, 0.1)
    measured.look(3)
    assert measured.step_seconds == pytest.approx(0.4)


def test_torch_saves_in_the_thread_that_trains_only() -> None:
    saved: list[float] = []
    throughput = SimpleNamespace(saved=saved.append, computes_gradients=lambda: None)
    watch: Any = SimpleNamespace(throughput=throughput, wrote_file=lambda file: None)
    hooks = TorchHooks.__new__(TorchHooks)
    hooks._threads = [threading.get_ident()]
    torch: Any = SimpleNamespace(save=lambda obj, file: None, serialization=SimpleNamespace())
    _patch_save(torch, watch, hooks)
    torch.save({}, "here.pt")
    thread = threading.Thread(target=torch.save, args=({}, "elsewhere.pt"))
    thread.start()
    thread.join()
    assert len(saved) == 1


def test_the_next_batch_that_is_there_already_counts_for_no_step(clock: Clock) -> None:
    loading, iterator, loader = Loading(), Data(), Loader(32)
    watch: Any = SimpleNamespace(loading=loading, throughput=Throughput(), step=0, _doing="")
    watch.epoch_is_told = False
    watch._started_training, watch.calls_are_used = True, False
    watch.throughput.counted = lambda: loading.trained
    rates = []
    for _ in range(3):
        loading.begun = Pass(loader, iterator, 325, False)
        for batch in range(11):
            loading.took(iterator, None)
            clock.now += 0.03
            if batch in (4, 8):  # in the middle of a step
                rates.append(watch.throughput.look(watch.step))
            clock.now += 0.02
            Watch.count_step(watch)
        rates.append(watch.throughput.look(watch.step))
    known = [rate for rate in rates if rate is not None]
    assert len(known) > 5
    assert all(325 / 11 / 0.05 * 0.75 < rate < 641 for rate in known), known
    assert watch.epoch == 3


def test_without_known_samples_there_is_the_time_of_a_step_only(clock: Clock) -> None:
    measured = Throughput()
    for step in range(1, 4):
        clock.now += 0.5
        measured.stepped()
        assert measured.look(step) is None
    assert measured.step_seconds == pytest.approx(0.5)


class Adapter:
    batch_size, num_batches, partial_batch_size = 32, 3, 7


class Data:
    data_adapter = Adapter()


def test_keras_tells_the_sizes_of_its_batches() -> None:
    def fit() -> list[float]:
        epoch_iterator = Data()
        sizes = throughput.fit_sizes()
        assert sizes is not None
        assert epoch_iterator
        return [sizes(batch) for batch in range(3)]

    assert fit() == [32, 32, 7]
    assert throughput.fit_sizes() is None


@pytest.mark.parametrize("batches", [1, 4])
def test_what_keras_does_at_the_turn_of_an_epoch_is_no_step(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    monkeypatch.setattr(keras_training, "time", clock)
    measured = Throughput()
    watch = SimpleNamespace(step=0, throughput=measured, trains=True, is_silent=True)
    watch.guard = lambda *_: lambda *_: None
    watch.boundary = lambda: None
    watch.doing = lambda _: measured.interrupted()

    def count_step(at: float | None = None) -> None:
        watch.step += 1
        measured.stepped(at=at)

    watch.count_step = count_step
    callback = keras_training._callback_type(object)(watch, 32)
    for epoch in range(3):
        callback.on_epoch_begin(epoch)
        clock.now += 5.0  # it makes an iterator
        for batch in range(batches):
            callback.on_train_batch_begin(batch)
            clock.now += 0.1
            callback.on_train_batch_end(batch)
        clock.now += 7.0  # it makes another one, for the validation
        callback.on_test_begin()
        clock.now += 60.0
        callback.on_epoch_end(epoch)
    measured.look(watch.step)
    assert watch.step == 3 * batches
    assert measured.step_seconds == pytest.approx(0.1)


class Loader:
    batch_sampler = None

    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size


class Tensor:
    def __init__(self, rows: int) -> None:
        self.shape = (rows, 3)


@pytest.mark.parametrize(
    ("size", "length", "batches", "samples"),
    [(5000, 1437, 1, 1437), (32, 100, 4, 100), (32, 96, 3, 96), (16, 64, 2, 32)],
)
def test_a_loader_tells_the_samples_of_each_batch(
    size: int, length: int, batches: int, samples: int
) -> None:
    loading, iterator, loader = Loading(), Data(), Loader(size)
    for epoch in (1, 2):
        loading.begun = Pass(loader, iterator, length, False)
        for step in range(batches):
            loading.took(iterator, [Tensor(3)])
            assert loading.stepped(step) == (step == 0)
        assert (loading.samples, loading.batches) == (epoch * samples, epoch * batches)


def test_of_a_stream_the_batches_themselves_are_counted() -> None:
    loading, iterator, loader = Loading(), Data(), Loader(32)
    loading.begun = Pass(loader, iterator, None, False)
    for batch in ([Tensor(32), Tensor(1)], {"x": (Tensor(7),)}, "what has no shape"):
        loading.took(iterator, batch)
    loading.stepped(0)
    assert loading.samples == 32 + 7 + 32


def train(
    loading: Loading, loader: Loader, batches: int, *, steps: bool = True, evaluates: bool = False
) -> None:
    """Iterate over a loader, with a step after each batch or without."""
    iterator = Data()
    loading.begun = Pass(loader, iterator, 96, evaluates)
    for number in range(batches):
        loading.took(iterator, None)
        if steps:
            loading.stepped(number)


def test_a_loop_over_a_loader_without_a_step_is_no_epoch() -> None:
    """Whatever it is: a validation that turns gradients off within its loop, or statistics."""
    loading, data, held = Loading(), Loader(32), Loader(32)
    train(loading, data, 3, steps=False)
    for _ in range(2):
        train(loading, data, 3)
        train(loading, held, 3, steps=False, evaluates=True)
    assert (loading.epochs, loading.samples) == (2, 192)
    assert loading.loader() is data


def test_the_step_after_a_validation_is_that_of_a_batch_from_before_it() -> None:
    """As with a loader that is read ahead."""
    loading, data, held = Loading(), Loader(32), Loader(32)
    train(loading, data, 2)
    train(loading, held, 3, steps=False, evaluates=True)
    loading.stepped(2)
    assert (loading.epochs, loading.samples) == (1, 64)


def test_a_model_that_trains_in_eval_mode_is_seen_at_its_second_step() -> None:
    loading, data = Loading(), Loader(32)
    train(loading, data, 3, evaluates=True)
    assert (loading.epochs, loading.samples) == (1, 96)


def test_an_epoch_that_the_script_ends_early_is_as_long_as_it_was() -> None:
    loading, data = Loading(), Loader(32)
    train(loading, data, 2)
    assert loading.shortest is None
    train(loading, data, 2)
    assert loading.shortest == 2


@pytest.mark.parametrize(
    ("step", "count", "drops", "samples"),
    [(1, 100, False, 32), (4, 100, False, 4), (5, 100, False, 32), (4, 100, True, 32)],
)
def test_a_trainer_of_hugging_face_tells_the_last_batch_of_an_epoch(
    step: int, count: int, drops: bool, samples: int
) -> None:
    arguments = SimpleNamespace(dataloader_drop_last=drops)
    handler = SimpleNamespace(train_dataloader=SimpleNamespace(dataset=range(count)))
    state = SimpleNamespace(global_step=step)
    assert samples_of_step(arguments, state, handler, 32) == samples
    assert samples_of_step(arguments, state, handler, 5000) == count
    assert samples_of_step(arguments, state, None, 32) == 32, "a stream"
