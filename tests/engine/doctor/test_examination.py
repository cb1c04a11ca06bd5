"""What is asked of which device, and what is said where a probe does not answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from engine.doctor import examination as module
from engine.doctor.examination import Examination, Pythons
from engine.doctor.finding import Finding
from engine.doctor.probing import Answer
from engine.system.cancelled import Cancelled
from tests.engine.doctor.test_builds import torch_of

FIRST, SECOND, DIVIDED = "GPU-a", "GPU-b", "GPU-c"
DRIVER = {
    "driver": "580.95.05",
    "gpus": [
        {"index": 0, "uuid": FIRST, "name": "H100", "capability": [9, 0]},
        {"index": 1, "uuid": SECOND, "name": "H100", "capability": [9, 0]},
        {
            "index": 2,
            "uuid": DIVIDED,
            "name": "H100",
            "capability": [9, 0],
            "is_divided": True,
            "slices": [{"uuid": "MIG-1", "name": "1g.10gb"}],
        },
    ],
}
COMPUTED = {"errors": {"matmul fp32": 1e-7}, "failures": {}, "count": 1}


class Question(NamedTuple):
    """One call of a probe."""

    probe: str
    arguments: tuple[str, ...]
    visible: str
    python: str


class Probes:
    """Answers as the test says, and notes what was asked."""

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self.answers: dict[str, Answer] = {
            "driver": Answer(DRIVER),
            "torch_gpu": Answer(COMPUTED),
            "torch_ranks": Answer({"state": "ok", "error": ""}),
            "tensorflow_gpu compute": Answer({"devices": 2, "errors": {"convolution 0": 1e-7}}),
            "tensorflow_gpu mirrored": Answer({"devices": 2, "sum": [[3, 3], [3, 3]]}),
            "torch_build": Answer({"version": "2.13.0", "cuda": "13.0", "kernels": ["sm_90"]}),
            "tensorflow_build": Answer(None, "failed: ImportError: libcudart"),
        }

    def ask(
        self,
        probe: str,
        *arguments: str,
        seconds: float,
        is_cancelled: Callable[[], bool],
        python: str = "",
        variables: dict[str, str] | None = None,
    ) -> Answer:
        if is_cancelled():
            raise Cancelled
        visible = (variables or {}).get("CUDA_VISIBLE_DEVICES", "not set")
        self.asked.append(Question(probe, arguments, visible, python))
        return (
            self.answers.get(f"{probe} {arguments[-1]}" if arguments else probe)
            or (self.answers[probe])
        )


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> Probes:
    made = Probes()
    monkeypatch.setattr(module, "ask", made.ask)
    return made


def examined(**options: Any) -> Examination:
    return Examination(Pythons("/torch", "/tf"), environment=options.pop("environment", {}))


def by_name(checks: list[Finding]) -> dict[str, str]:
    return {check.name: check.level for check in checks}


def test_each_device_is_asked_alone_and_by_its_uuid(probes: Probes) -> None:
    found = by_name(list(examined().on_gpus()))
    assert [(q.probe, q.visible, q.python) for q in probes.asked[1:]] == [
        ("torch_gpu", FIRST, "/torch"),
        ("torch_gpu", SECOND, "/torch"),
        ("torch_gpu", "MIG-1", "/torch"),
        ("torch_ranks", f"{FIRST},{SECOND}", "/torch"),
        ("tensorflow_gpu", f"{FIRST},{SECOND}", "/tf"),
        ("tensorflow_gpu", f"{FIRST},{SECOND}", "/tf"),
    ]
    assert found["PyTorch computes on GPU 0"] == "ok"
    assert found["PyTorch computes on GPU 2, slice MIG-1"] == "ok"
    assert found["NCCL"] == "ok"
    assert found["MirroredStrategy"] == "ok"
    assert found["TensorFlow XLA"] == "unknown"


def test_only_what_was_given_is_touched(probes: Probes) -> None:
    environment = {"CUDA_VISIBLE_DEVICES": SECOND}
    found = by_name(list(examined(environment=environment).on_gpus()))
    assert {q.visible for q in probes.asked[1:]} == {SECOND}
    assert found["NCCL"] == "unknown"  # one card
    probes.asked.clear()
    [check] = examined(environment={"CUDA_VISIBLE_DEVICES": ""}).on_gpus()
    assert check.level == "unknown"
    assert [q.probe for q in probes.asked] == ["driver"]


def test_a_probe_that_does_not_answer_is_a_problem_and_the_others_go_on(probes: Probes) -> None:
    late = Answer(None, "did not end within 180 s", is_late=True)
    probes.answers |= {"torch_gpu": late, "torch_ranks": late, "tensorflow_gpu compute": late}
    checks = list(examined().on_gpus())
    found = by_name(checks)
    assert found["PyTorch computes on GPU 0"] == found["PyTorch computes on GPU 1"] == "error"
    assert found["NCCL"] == found["TensorFlow devices"] == "error"
    assert all("did not end within 180 s" in check.text for check in checks)


def test_imports_hide_the_gpus_and_tell_what_fails(
    probes: Probes, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = list(Examination(environment={}).imports())
    hidden = {q.probe: q.visible for q in probes.asked if q.probe.endswith("_build")}
    assert hidden == {"torch_build": "", "tensorflow_build": ""}
    found = by_name(checks)
    assert found["PyTorch import"] == "ok"
    assert found["TensorFlow import"] == "error"
    assert "failed: ImportError: libcudart" in checks[-1].text


def test_nothing_is_computed_with_a_build_that_cannot(
    probes: Probes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for_cpu = torch_of(tmp_path, "2.13.0+cpu")
    monkeypatch.setattr(module, "installed_for", lambda python: for_cpu)
    examination = Examination(environment={})
    assert by_name(list(examination.quick()))["PyTorch"] == "error"
    found = by_name(list(examination.on_gpus()))
    assert found["PyTorch computes"] == "unknown"
    assert found["TensorFlow computes"] == "unknown"
    assert [q.probe for q in probes.asked] == ["driver"]


def test_cards_of_amd_are_asked_by_the_variables_of_rocm_and_no_other(
    probes: Probes, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuids = ("GPU-8d2c0a4b5c6d7e8f", "GPU-amd1")
    cards = [{"index": n, "uuid": uuid, "name": "AMD"} for n, uuid in enumerate(uuids)]
    facts = {"problem": "NVMLError_LibraryNotFound", "other_gpus": cards}
    probes.answers["driver"] = Answer(facts)
    given: list[dict[str, str]] = []
    asked = probes.ask

    def ask(*what: str, variables: dict[str, str] | None = None, **options: Any) -> Answer:
        given.append(variables or {})
        return asked(*what, variables=variables, **options)

    monkeypatch.setattr(module, "ask", ask)
    found = by_name(list(examined().on_gpus()))
    assert [each.get("ROCR_VISIBLE_DEVICES") for each in given[1:4]] == [
        uuids[0],
        "1",
        f"{uuids[0]},1",
    ]
    assert [each.get("HIP_VISIBLE_DEVICES") for each in given[1:4]] == ["0", "0", "0,1"]
    assert found["PyTorch computes on GPU 1"] == "ok"
    [check] = [each for each in examined().quick() if each.name == "driver"]
    assert check.level == "ok"
