"""The layers of models of all frameworks, by doubles that have their shapes.

The real ones: `tests/engine/test_strategy_contract.py`, for each strategy.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from traindeck_watch.models import outline as module
from traindeck_watch.models.outline import library_versions, outline


class Weight:
    """A tensor of PyTorch, or a variable of Keras and TensorFlow."""

    def __init__(self, *shape: int, trained: bool = True, dtype: str = "float32") -> None:
        self.shape = shape
        self.requires_grad = self.trainable = trained
        self.dtype = dtype

    def element_size(self) -> int:
        return 4


class Module:
    """`torch.nn.Module`."""

    def __init__(self, **parts: Any) -> None:
        self._parameters = {k: v for k, v in parts.items() if isinstance(v, Weight)}
        self._modules = {k: v for k, v in parts.items() if isinstance(v, Module)}
        self._buffers: dict[str, Weight | None] = {"none": None}

    def modules(self) -> Iterator[Module]:
        yield self
        for child in self._modules.values():
            yield from child.modules()

    def extra_repr(self) -> str:
        return "first\nsecond"


class Linear(Module):
    def __init__(self, inputs: int, outputs: int, **parts: Any) -> None:
        super().__init__(weight=Weight(outputs, inputs), **parts)
        self.in_features, self.out_features = inputs, outputs


class Sequential(Module):
    pass


class Layer:
    """A layer or a model of Keras."""

    def __init__(self, name: str, *weights: Weight, inside: tuple[Layer, ...] = ()) -> None:
        self.name = name
        self._own, self._inside = list(weights), inside

    @property
    def weights(self) -> list[Weight]:
        return self._own + [each for layer in self._inside for each in layer.weights]

    trainable_weights = weights

    def count_params(self) -> int:
        return 0

    def _flatten_layers(self, include_self: bool, recursive: bool) -> Iterator[Layer]:
        assert not include_self
        assert not recursive
        yield from self._inside


@pytest.fixture(autouse=True)
def torch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    double = ModuleType("torch")
    vars(double)["nn"] = SimpleNamespace(Module=Module)
    monkeypatch.setitem(sys.modules, "torch", double)
    for name in ("tensorflow", "keras"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return double


def numbers(rows: list[list[Any]]) -> dict[str, tuple[int, int, int]]:
    return {row[0]: (row[3], row[4], row[5]) for row in rows}


def test_each_module_holds_what_is_in_it() -> None:
    frozen = Linear(2, 3, bias=Weight(3, trained=False))
    frozen._buffers["mean"] = Weight(5)
    model = Module(body=Sequential(a=frozen, b=Linear(3, 4)), head=Linear(4, 1))
    rows = outline(model)
    assert [(row[0], row[1], row[2]) for row in rows] == [
        ("", 0, "Module"),
        ("body", 1, "2 × Linear"),
        ("body.a", 2, "Linear 2→3"),
        ("body.b", 2, "Linear 3→4"),
        ("head", 1, "Linear 4→1"),
    ]
    assert numbers(rows) == {
        "": (25, 22, 120),
        "body": (21, 18, 104),
        "body.a": (9, 6, 56),
        "body.b": (12, 12, 48),
        "head": (4, 4, 16),
    }
    assert rows[0][7] == "first"


def test_what_a_module_holds_beside_others_has_a_row_so_that_the_rows_add_up() -> None:
    inner = Module(scale=Weight(3, trained=False), head=Linear(2, 2))
    model = Module(token=Weight(8), body=inner, tied=inner._modules["head"])
    model._parameters["again"] = model._parameters["token"]
    rows = outline(model)
    assert numbers(rows) == {
        "": (15, 12, 60),
        "token": (8, 8, 32),
        "body": (7, 4, 28),
        "body.scale": (3, 0, 12),
        "body.head": (4, 4, 16),
        "tied": (0, 0, 0),
    }
    for row in rows:
        inside = [each for each in rows if each[0].rpartition(".")[0] == row[0] and each is not row]
        assert not inside or sum(each[3] for each in inside) == row[3]
    assert {row[2] for row in rows if row[0].endswith(("token", "scale"))} == {"Parameter"}


def test_layers_that_are_wrapped_one_by_one_are_named_as_the_users() -> None:
    class FullyShardedDataParallel(Module):
        pass

    FullyShardedDataParallel.__module__ = "torch.distributed.fsdp.wrap"
    wrapped = [FullyShardedDataParallel(module=Linear(2, 2)) for _ in range(2)]
    rows = outline(Sequential(a=wrapped[0], b=wrapped[1]))
    assert [(row[0], row[2]) for row in rows] == [
        ("", "2 × Linear"),
        ("a", "Linear 2→2"),
        ("b", "Linear 2→2"),
    ]


def test_a_tied_weight_counts_once() -> None:
    tied = Weight(10, 2)
    first, second = Module(weight=tied), Module(weight=tied)
    rows = outline(Module(first=first, second=second, again=first))
    assert numbers(rows) == {
        "": (20, 20, 80),
        "first": (20, 20, 80),
        "second": (0, 0, 0),
        "again": (0, 0, 0),
    }
    assert [row[6] for row in rows] == [True, False, True, True]


def test_wrappers_of_a_model_are_no_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    class DistributedDataParallel(Module):
        pass

    DistributedDataParallel.__module__ = "torch.nn.parallel.distributed"
    rows = outline(DistributedDataParallel(module=Sequential(a=Linear(1, 1))))
    assert [(row[0], row[2]) for row in rows] == [("", "1 × Linear"), ("a", "Linear 1→1")]
    own = Module(module=Linear(1, 1))  # the user's own module may have this name
    assert [row[0] for row in outline(own)] == ["", "module"]


def test_shards_of_fsdp_are_counted_in_full() -> None:
    class FlatParameter(Weight):
        pass

    first, second = Linear(4, 8), Linear(8, 2)
    first._parameters["weight"] = Weight(5)  # a view of the shard
    del second._parameters["weight"]  # or no parameter at all
    flat = FlatParameter(13)  # a shard
    pairs = ((first, "weight"), (second, "weight"))
    infos = [SimpleNamespace(module=each, param_name=name) for each, name in pairs]
    vars(flat).update(_param_infos=infos, _shapes=[(8, 4), (2, 8)])
    model = Module(first=first, second=second)
    vars(model)["_handle"] = SimpleNamespace(flat_param=flat)
    model._parameters["_flat_param"] = flat
    assert not any(row[6] for row in outline(model)), "nothing is shared"
    assert numbers(outline(model)) == {
        "": (48, 48, 192),
        "first": (32, 32, 128),
        "second": (16, 16, 64),
    }


def test_the_kind_of_a_sharded_module_is_that_of_the_user() -> None:
    class FSDPModule:
        pass

    class FSDPLinear(FSDPModule, Linear):
        pass

    assert outline(FSDPLinear(2, 3))[0][2] == "Linear 2→3"


def test_a_huge_model_is_listed_less_deeply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 12)
    blocks = {f"b{n}": Module(x=Linear(1, 1), y=Linear(1, 1)) for n in range(10)}
    rows = outline(Module(**blocks))
    assert len(rows) == 11
    assert rows[0][3] == 20
    assert [row[8] for row in rows] == [False] + [True] * 10
    monkeypatch.setattr(module, "MOST_ROWS", 5)
    rows = outline(Module(**blocks))
    assert len(rows) == 5
    assert rows[0][3] == 20
    assert rows[0][8]


def test_a_weight_without_a_shape_yet_counts_nothing() -> None:
    class Lazy(Weight):
        @property
        def shape(self) -> Any:
            raise RuntimeError("it is not initialized")

        @shape.setter
        def shape(self, value: Any) -> None: ...

    assert numbers(outline(Module(weight=Lazy()))) == {"": (0, 0, 0)}


def test_layers_of_keras() -> None:
    shared = Layer("dense", Weight(3, 4), Weight(4))
    norm = Layer("norm", Weight(4), Weight(4, trained=False, dtype="float16"))
    vars(norm)["units"] = 4
    model = Layer("net", inside=(Layer("block", inside=(shared, norm)), shared, Layer("dense")))
    rows = outline(model)
    assert [row[0] for row in rows] == [
        "", "block", "block.dense", "block.norm", "dense", "dense_2"
    ]  # fmt: skip
    assert numbers(rows)[""] == (24, 20, 88)
    assert numbers(rows)["block.norm"] == (8, 4, 24)
    assert numbers(rows)["dense"] == (0, 0, 0)
    assert rows[3][2] == "Layer 4"
    assert rows[2][7] == "3×4, 4"
    assert rows[4][6]


def test_modules_of_tensorflow() -> None:
    class TfModule:
        def __init__(self, *weights: Weight, **parts: Any) -> None:
            self._weights = list(weights)
            vars(self).update(parts)

        submodules = ()

        @property
        def variables(self) -> list[Weight]:
            found = list(self._weights)
            for part in vars(self).values():
                for each in part if isinstance(part, list) else [part]:
                    if isinstance(each, TfModule):
                        found += each.variables
            return found

        trainable_variables = variables

    model = TfModule(Weight(2), layers=[TfModule(Weight(3)), TfModule(Weight(5, trained=False))])
    assert numbers(outline(model)) == {
        "": (10, 5, 40),
        "layers.0": (3, 3, 12),
        "layers.1": (5, 0, 20),
        "variable": (2, 2, 8),
    }


def test_what_the_process_has_loaded(torch: ModuleType) -> None:
    class Version(str):
        pass

    vars(torch).update(
        __version__=Version("2.13.0+cu130"),
        version=SimpleNamespace(cuda="13.0"),
        backends=SimpleNamespace(cudnn=SimpleNamespace(version=lambda: 91501)),
        cuda=SimpleNamespace(nccl=SimpleNamespace(version=lambda: (2, 28, 3))),
    )
    found = library_versions()
    assert found == {"torch": "2.13.0+cu130", "CUDA": "13.0", "cuDNN": "9.15.1", "NCCL": "2.28.3"}
    assert {type(text) for text in found.values()} == {str}
