"""What a PyTorch checkpoint brings back, and what it never runs."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import nn

from engine.pytorch.state import training_state
from engine.pytorch.state.training_state import CheckpointMisfit
from engine.training.errors import CannotBeSaved
from tests.support.sentences import sentence

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def random_state() -> Iterator[None]:
    """No other test sees what this one does to the random numbers."""
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(before[0])
    np.random.set_state(before[1])
    torch.set_rng_state(before[2])


class Training:
    """A small network with an optimizer that has a memory."""

    def __init__(self, seed: int, width: int = 3, make: Any = torch.optim.AdamW) -> None:
        torch.manual_seed(seed)
        self.model: Any = nn.Linear(2, width)
        self.optimizer: torch.optim.Optimizer = make(list(self.model.parameters()))

    def step(self) -> None:
        self.optimizer.zero_grad()
        torch.autograd.backward(self.model(torch.ones(1, 2)).square().sum())
        self.optimizer.step()

    def save(self, folder: Path) -> None:
        training_state.save(folder, self.model, [self.optimizer], None, {})

    def restore(self, folder: Path) -> None:
        training_state.restore(folder, self.model, [self.optimizer], None, {})

    def weights(self) -> torch.Tensor:
        return torch.cat([p.detach().flatten() for p in self.model.parameters()])


def seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def draw() -> list[float]:
    """The next numbers of every generator; an odd count of normals leaves one in store."""
    return [
        random.random(),
        random.gauss(),
        float(np.random.normal()),
        float(np.random.random()),
        float(torch.randn(())),
    ]


def optimizers() -> dict[str, Callable[[list[nn.Parameter]], torch.optim.Optimizer]]:
    return {
        "AdamW": lambda p: torch.optim.AdamW(p, 0.1, amsgrad=True),
        "SGD": lambda p: torch.optim.SGD(p, 0.1),
        "SGD with momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
        "RMSprop": lambda p: torch.optim.RMSprop(p, 0.1, momentum=0.5, centered=True),
        "Adagrad": lambda p: torch.optim.Adagrad(p, 0.1, lr_decay=0.1),
        "Rprop": lambda p: torch.optim.Rprop(p, 0.1),
    }


@pytest.mark.parametrize("name", optimizers())
def test_a_restored_training_goes_on_exactly_like_the_one_that_was_saved(
    name: str, tmp_path: Path
) -> None:
    make = optimizers()[name]
    original = Training(seed=1, make=make)
    original.step()
    original.step()
    original.save(tmp_path)
    restored = Training(seed=2, make=make)
    restored.restore(tmp_path)
    for training in (original, restored):
        training.step()
        training.step()
    assert torch.equal(original.weights(), restored.weights())


def test_groups_of_parameters_keep_their_own_settings(tmp_path: Path) -> None:
    def make(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        groups = [{"params": [p], "lr": 0.1 / k} for k, p in enumerate(parameters, start=1)]
        return torch.optim.AdamW(groups)

    original = Training(seed=1, make=make)
    original.step()
    original.save(tmp_path)
    restored = Training(seed=2, make=make)
    restored.restore(tmp_path)
    assert [group["lr"] for group in restored.optimizer.param_groups] == [0.1, 0.05]
    original.step()
    restored.step()
    assert torch.equal(original.weights(), restored.weights())


def test_statistics_of_a_batch_norm_come_back(tmp_path: Path) -> None:
    original, restored = Training(seed=1), Training(seed=2)
    original.model = nn.Sequential(original.model, nn.BatchNorm1d(3))
    restored.model = nn.Sequential(restored.model, nn.BatchNorm1d(3))
    original.model(torch.randn(8, 2))
    original.save(tmp_path)
    restored.restore(tmp_path)
    for ours, theirs in zip(original.model.buffers(), restored.model.buffers(), strict=True):
        assert torch.equal(ours, theirs)


def tie(model: nn.Module) -> None:
    model[2].weight = model[0].weight


def share_a_module(model: nn.Module) -> None:
    model.again = model[1]


def view(model: nn.Module) -> None:
    model[2].weight = nn.Parameter(model[0].weight.data.t())


def transpose(model: nn.Module) -> None:
    model[0].weight = nn.Parameter(torch.randn(4, 4).t())


def use_channels_last(model: nn.Module) -> None:
    model.convolution = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)


def conjugate(model: nn.Module) -> None:
    model.register_buffer("conjugate", torch.randn(3, dtype=torch.complex64).conj())


def share_buffers(model: nn.Module) -> None:
    model.register_buffer("first", torch.randn(8))
    model.register_buffer("second", model.first)
    model.register_buffer("part", model.first[2:5])


def add_empty_and_single_values(model: nn.Module) -> None:
    for name, value in {"empty": torch.zeros(0), "single": torch.randn(())}.items():
        model.register_buffer(name, value)
        model.register_buffer(f"same_{name}", value)


class ScaledBy(nn.Linear):
    """A layer with a state of its own beside its tensors."""

    def __init__(self, own: Any) -> None:
        super().__init__(4, 4)
        self.own = own

    def get_extra_state(self) -> Any:
        return self.own

    def set_extra_state(self, state: Any) -> None:
        self.own = state


def changed(seed: int, change: Callable[[nn.Module], None]) -> Training:
    training = Training(seed)
    training.model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4, bias=False))
    change(training.model)
    training.optimizer = torch.optim.AdamW(training.model.parameters(), 0.1)
    return training


def train_step(training: Training) -> None:
    training.optimizer.zero_grad()
    for parameter in training.model.parameters():
        parameter.grad = torch.ones_like(parameter) * parameter.detach().sum()
    training.optimizer.step()


@pytest.mark.parametrize(
    "change",
    [
        tie,
        share_a_module,
        view,
        transpose,
        use_channels_last,
        conjugate,
        share_buffers,
        add_empty_and_single_values,
    ],
)
def test_memory_of_any_layout_comes_back_and_what_is_tied_stays_so(
    change: Callable[[nn.Module], None], tmp_path: Path
) -> None:
    original, restored = changed(1, change), changed(2, change)
    training_state.check(original.model)
    train_step(original)
    original.save(tmp_path)
    restored.restore(tmp_path)
    for training in (original, restored):
        train_step(training)
    ours, theirs = original.model.state_dict(), restored.model.state_dict()
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert torch.equal(value, theirs[name]), name
        assert value.stride() == theirs[name].stride(), name
    if change is tie:
        assert restored.model[2].weight is restored.model[0].weight


def test_a_parameter_that_had_no_gradient_yet_has_no_state_afterwards_either(
    tmp_path: Path,
) -> None:
    def nothing(_: nn.Module) -> None: ...

    original, restored = changed(1, nothing), changed(2, nothing)
    for parameter in original.model[0].parameters():
        parameter.grad = torch.ones_like(parameter)
    original.optimizer.step()
    original.save(tmp_path)
    restored.restore(tmp_path)
    for training in (original, restored):
        train_step(training)
    assert torch.equal(original.weights(), restored.weights())


def test_a_checkpoint_of_another_optimizer_is_refused(tmp_path: Path) -> None:
    original = Training(seed=1, make=lambda p: torch.optim.SGD(p, 0.1, momentum=0.9))
    original.step()
    original.save(tmp_path)
    with pytest.raises(CheckpointMisfit, match=r"optimizer\.state\.(weight|bias)\."):
        Training(seed=1).restore(tmp_path)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (torch.eye(3).to_sparse(), "layout torch.sparse_coo"),
        (torch.zeros(1).expand(5), r"at one place in memory \(expand\)"),
        (torch.zeros(3, device="meta"), "has no values yet"),
        (torch.zeros(3, dtype=torch.complex128), "type torch.complex128"),
    ],
)
def test_what_no_checkpoint_can_bring_back_is_refused_by_name(
    value: torch.Tensor, reason: str
) -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    model[0].register_buffer("odd", value)
    with pytest.raises(CannotBeSaved, match=rf"0\.odd .*{reason}"):
        training_state.check(model)
    model[0].register_buffer("odd", value, persistent=False)
    training_state.check(model)


def test_a_state_dict_that_leaves_out_what_is_trained_is_refused() -> None:
    class Adapters(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base, self.adapter = nn.Linear(2, 2), nn.Linear(2, 2)

        def state_dict(self, *_: Any, **options: Any) -> Any:
            return {f"renamed.{name}": p.data for name, p in self.adapter.named_parameters()}

    model = Adapters()
    with pytest.raises(CannotBeSaved, match=sentence("leaves-out-trained-parameters-base").pattern):
        training_state.check_complete(model)
    model.base.requires_grad_(False)
    training_state.check_complete(model)


def test_a_state_of_a_modules_own_is_saved_if_it_consists_of_tensors(tmp_path: Path) -> None:
    def add(value: Any) -> Callable[[nn.Module], None]:
        return lambda model: model.add_module("own", ScaledBy(value))

    original, restored = (
        changed(seed, add({"scale": torch.tensor([float(seed)])})) for seed in (1, 2)
    )
    training_state.check(original.model)
    original.save(tmp_path)
    restored.restore(tmp_path)
    assert restored.model.own.own["scale"].item() == 1.0
    with pytest.raises(CannotBeSaved, match=sentence("holds-value-of-type-int").pattern):
        training_state.check(changed(1, add({"scale": 1})).model)


def test_the_tensors_can_be_read_without_torchs_help(tmp_path: Path) -> None:
    training = Training(seed=1)
    training.save(tmp_path)
    [file] = (tmp_path / training_state.TENSORS).iterdir()
    tensors = load_file(file)
    assert np.array_equal(tensors["model.weight"], training.model.weight.detach().numpy())


def test_every_generator_goes_on_where_it_was(tmp_path: Path) -> None:
    seed_all(7)
    draw()
    training_state.save_rank_state(tmp_path / "rank0.pt", {}, [CPU])
    expected = draw()
    seed_all(8)
    training_state.restore_rank_state(tmp_path / "rank0.pt", [CPU])
    assert draw() == expected


def test_what_belongs_to_a_rank_comes_back(tmp_path: Path) -> None:
    training_state.save_rank_state(tmp_path / "rank0.pt", {"scaler": {"scale": 2.0}}, [CPU])
    assert training_state.restore_rank_state(tmp_path / "rank0.pt", [CPU]) == {
        "scaler": {"scale": 2.0}
    }


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    Training(seed=1, width=3).save(tmp_path)
    with pytest.raises(CheckpointMisfit, match=r"for model\.(bias|weight)"):
        Training(seed=1, width=4).restore(tmp_path)


def test_a_checkpoint_without_some_of_the_models_tensors_is_refused(tmp_path: Path) -> None:
    Training(seed=1).save(tmp_path)
    other = Training(seed=1)
    other.model = nn.Sequential(other.model)
    with pytest.raises(CheckpointMisfit, match=r"model\.0\.(bias|weight)"):
        other.restore(tmp_path)


class RunsCode:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.trace,)


def test_code_in_a_ranks_own_file_is_never_run(tmp_path: Path) -> None:
    trace = tmp_path / "code was here"
    torch.save(RunsCode(trace), tmp_path / "rank0.pt")
    with pytest.raises(training_state.CheckpointMisfit, match="code, which is never run"):
        training_state.restore_rank_state(tmp_path / "rank0.pt", [CPU])
    assert not trace.exists()


def test_code_in_place_of_tensors_is_never_run(tmp_path: Path) -> None:
    trace = tmp_path / "code was here"
    training = Training(seed=1)
    training.save(tmp_path)
    for file in (tmp_path / training_state.TENSORS).iterdir():
        torch.save(RunsCode(trace), file)
    metadata = (
        tmp_path / training_state.TENSORS / ".metadata"
    )  # where torch's own format keeps a pickle
    with metadata.open("wb") as file:
        torch.save(RunsCode(trace), file)
    with pytest.raises(CheckpointMisfit):
        training.restore(tmp_path)
    assert not trace.exists()


def test_saving_and_loading_tell_each_tensor_and_leave_the_sync_to_the_publisher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sync of a file of many GiB would look like a disk that hangs."""
    training = Training(1)
    training.step()
    size = sum(p.nbytes for p in training.model.parameters())
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    saved: list[int] = []
    module, optimizers = training.model, [training.optimizer]
    training_state.save(tmp_path, module, optimizers, None, {}, saved.append)
    assert synced == []
    loaded: list[int] = []
    training_state.restore(tmp_path, module, optimizers, None, {}, loaded.append)
    assert sum(saved) == sum(loaded)
    assert len(saved) > 4
    assert sum(saved) >= 3 * size, "weights, and two moments of each"
