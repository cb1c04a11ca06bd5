"""What TensorFlow's GPUs would do, on logical CPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import found_by
from tests.support.sentences import sentence


@pytest.fixture(scope="module")
def found(processes: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `small_devices.py` found, by the name of its functions."""
    file: Path = tmp_path_factory.mktemp("devices") / "found.json"
    return found_by("tensorflow", "tests.engine.tf.small_devices", file)


def test_indices_are_computed_on_the_host_and_the_model_on_its_device(
    found: dict[str, Any],
) -> None:
    """A GPU would be waited for, because the host gathers the samples by them."""
    placed = found["placement"]
    assert {"MatMul", "BiasAdd"} <= set(placed["other CPU:1"]), "it is the second device's part"
    assert {"StridedSlice", "GatherV2"} <= set(placed["index CPU:0"])
    assert "index CPU:1" not in placed
    assert "index " not in placed, "where nothing is said, TensorFlow takes the first GPU"


def test_a_process_asks_only_its_own_devices_for_their_memory(found: dict[str, Any]) -> None:
    """TensorFlow lists those of the whole cluster, and fails if it is asked for others."""
    assert found["cluster"]["listed"] > len(found["cluster"]["own"]) == 2
    assert found["cluster"]["asked"] == found["cluster"]["own"]
    assert found["cluster"]["joined"] == {"memory_allocated": 16.0}
    assert found["cluster"]["without"] == ["memory_resident"]


@pytest.mark.parametrize(("number", "name"), [("0", "GPU-a"), ("1", "GPU-b")])
def test_the_gpu_that_is_full_is_named(found: dict[str, Any], number: str, name: str) -> None:
    said = found["errors"][number]
    assert said.startswith(sentence("is-out-of-memory-tensor", name=name))
    assert "gradient accumulation 4" in said


def test_a_gpu_that_tensorflow_does_not_see_is_refused_in_a_sentence(
    found: dict[str, Any],
) -> None:
    said = found["errors"]["missing"]
    assert sentence("sees-none-of-chosen-gpus") in said
    assert "doctor` says whether" in said


def test_the_default_precision_is_that_of_tensorflow(found: dict[str, Any]) -> None:
    assert found["tf32"] == {"default": True, "fp32": False, "tf32": True}
