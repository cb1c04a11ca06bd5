"""Options of the TensorFlow strategies: what each refuses, and how a device is divided."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.runs.run_state import RunState
from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from tests.support.contract import last_checkpoint, probe
from tests.support.runs import logs, train
from tests.support.weights import largest_difference

GPU = "GPU-00000000-0000-0000-0000-000000000001"


@pytest.mark.parametrize(
    ("name", "options", "field", "said"),
    [
        ("tf/mirrored", {"cross_device": "nccl"}, "cross_device", "NVIDIA GPUs"),
        ("tf/mirrored", {"cross_device": "hierarchical"}, "cross_device", ""),
        (
            "tf/mirrored",
            {"cross_device": "nccl", "workers_per_device": 2, "devices": (GPU,)},
            "cross_device",
            "one replica per GPU",
        ),
        ("tf/single", {"cross_device": "one_device"}, "cross_device", "tf/mirrored"),
        ("torch/ddp", {"cross_device": "nccl"}, "cross_device", "TensorFlow"),
        ("torch/keras_ddp", {"memory_limit_mib": 100}, "memory_limit_mib", "TensorFlow"),
        ("tf/mirrored", {"memory_limit_mib": 100}, "memory_limit_mib", "GPUs"),
        ("tf/mirrored", {"memory_limit_mib": 9, "devices": (GPU,)}, "memory_limit_mib", ""),
        ("tf/single", {"workers_per_device": 2}, "workers_per_device", "tf/mirrored"),
        ("tf/mirrored", {"workers_per_device": 2}, "workers_per_device", ""),
        (
            "tf/mirrored",
            {"workers_per_device": 2, "devices": (GPU,)},
            "workers_per_device",
            "memory limit",
        ),
        ("tf/mirrored", {"precision": "tf32"}, "precision", "NVIDIA GPUs"),
        ("tf/mirrored", {"precision": "fp16"}, "precision", ""),
        ("tf/mirrored", {"momentum": 0.9, "optimizer": "adam"}, "momentum", "SGD"),
        ("tf/mirrored", {"loader_workers": 2}, "loader_workers", "arrays"),
    ],
)
def test_only_impossible_options_are_refused(
    name: str, options: dict[str, object], field: str, said: str
) -> None:
    spec = probe(catalog.strategy(name), **options) if "devices" not in options else None
    if spec is None:
        spec = RunSpec(recipe="digits_keras", strategy=name, **options)  # type: ignore[arg-type]
    refusal = catalog.strategy(name).refusal(field, spec)
    assert said in refusal
    assert bool(refusal) == bool(said)


@pytest.mark.parametrize("way", ["hierarchical", "one_device"])
def test_one_device_can_be_divided(way: str, tmp_path: Path, single: Path) -> None:
    """Two replicas on one device, for each cross-device operation."""
    mirrored = catalog.strategy("tf/mirrored")
    info = train(probe(mirrored, devices=1, workers_per_device=2, cross_device=way))
    assert info.state is RunState.FINISHED, f"{info.reason}\n{logs(info)}"
    assert info.status.replicas == 2
    assert largest_difference(last_checkpoint(info), single) < 1e-5


@pytest.fixture(scope="module")
def single(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The last checkpoint of the same training on one device."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINDECK_HOME", str(tmp_path_factory.mktemp("single")))
        return last_checkpoint(train(probe(catalog.strategy("tf/single"))))
