"""Real preflights, and what each kind of trouble is called."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine import client
from engine.doctor.finding import Finding
from engine.planning import preflight as module
from engine.planning.preflight import preflight, with_names
from engine.planning.results import Doing, Found, News, Preflight
from engine.planning.short_run import ShortRun
from engine.spec.run_spec import RunSpec
from engine.system import paths
from tests.support.fake_nvml import FakeNvml
from tests.support.full_disk import fill, small_disk
from tests.support.runs import spec
from tests.support.sentences import sentence

pytestmark = pytest.mark.usefixtures("processes")

PATIENT = 400.0
"""Seconds, of which a preflight takes the time to start only where the machine is slow."""

GIB = 2**30


def recipe(folder: Path, text: str) -> str:
    file = folder / "mine.py"
    file.write_text(f"import time\nimport torch\nfrom torch import nn\n{text}")
    return str(file)


def named(found: Preflight, name: str) -> Finding:
    findings = [each for each in found.findings if each.name == name]
    assert findings, found.findings
    return findings[0]


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder for this test alone: preflights of other tests run at the same time."""
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def own_processes(temporary: Path) -> list[str]:
    """The command lines of what a preflight has started, and of what that has started."""
    lines = []
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
        except psutil.Error:
            continue
        if f"{temporary}/traindeck-own-preflight" in line:
            lines.append(line)
    return lines


@pytest.fixture
def without_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """No run is started: a test looks at what is said besides."""

    def instead(spec: RunSpec, **_: Any) -> ShortRun:
        return ShortRun(spec=spec, problem="It was not tried.")

    monkeypatch.setattr(module, "short_run", instead)


@pytest.mark.nightly
def test_two_ranks_are_measured_and_nothing_is_left(temporary: Path) -> None:
    news: list[News] = []
    found = preflight(spec("digits", "torch/ddp", 2, epochs=50), PATIENT, news.append)

    assert [each.finding for each in news if isinstance(each, Found)] == list(found.findings)
    assert any(isinstance(each, Doing) for each in news)
    assert [each for each in found.findings if each.level == "error"] == []
    assert named(found, "steps").level == "ok"
    assert sentence("ranks-have-same-weights") in named(found, "equal weights").text
    assert "2 ranks sum 1.0 KiB in" in named(found, "all-reduce").text
    assert "rows of arrays" in named(found, "sample loading").text
    assert "A checkpoint has" in named(found, "checkpoints").text
    assert "steps of the whole run" in named(found, "whole run").text
    assert {name for name in found.figures if name.startswith("all_reduce/")} >= {
        "all_reduce/1024",
        "all_reduce/1048576",
    }
    assert found.expected_seconds > 0
    assert own_processes(temporary) == []
    assert not paths.run_ids()


@pytest.mark.nightly
def test_the_replicas_of_tensorflow_are_measured_too(temporary: Path) -> None:
    found = preflight(spec("digits_keras", "tf/mirrored", 2, epochs=20), PATIENT)
    assert [each for each in found.findings if each.level == "error"] == []
    assert "2 replicas sum 1.0 KiB in" in named(found, "all-reduce").text
    assert "of gradients of a step" in named(found, "all-reduce").text
    assert sentence("no-samples-need-to-be-fetched") in named(found, "sample loading").text
    assert found.expected_seconds > 0
    assert own_processes(temporary) == []


@pytest.mark.nightly
def test_a_slow_loader_gets_the_number_of_workers_that_ends_the_wait(
    tmp_path: Path, temporary: Path
) -> None:
    """Loading takes 320 ms and the step 200 ms: one worker is too few, and two are enough."""
    mine = recipe(
        tmp_path,
        """
class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, index):
        time.sleep(0.04)
        return torch.ones(4), index % 2

class Net(nn.Linear):
    def forward(self, inputs):
        time.sleep(0.2)
        return super().forward(inputs)

def model():
    return Net(4, 2)

def datasets():
    return Slow(), None
""",
    )
    found = preflight(spec(mine, "torch/single", batch_size=8), PATIENT)
    loading = named(found, "sample loading")
    assert loading.level == "warning"
    assert "Steps wait for samples" in loading.text
    assert loading.change is not None, loading
    # More than two only where pauses of the machine make the figures of two worse.
    assert loading.change.fields["loader_workers"] in (2, 4), loading
    assert "tried, it gave" in loading.advice
    assert own_processes(temporary) == []


@pytest.mark.nightly
def test_a_batch_that_is_too_large_is_tried_in_smaller_parts(tmp_path: Path) -> None:
    mine = recipe(
        tmp_path,
        """
class Net(nn.Linear):
    def forward(self, inputs):
        if len(inputs) > 100:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return super().forward(inputs)

def model():
    return Net(4, 2)

def datasets():
    return (torch.ones(400, 4), torch.zeros(400, dtype=torch.long)), None
""",
    )
    found = preflight(spec(mine, "torch/single", batch_size=256), PATIENT)
    memory = named(found, "memory")
    assert memory.level == "error"
    assert "The batch is too large" in memory.text
    assert "2.00 GiB were asked for" in memory.text
    assert memory.change is not None
    assert memory.change.fields == {"accumulation": 4}
    assert named(found, "steps").level == "ok"  # the rest was measured with what fits


@pytest.mark.nightly
def test_a_recipe_that_hangs_is_found_at_its_line(tmp_path: Path, temporary: Path) -> None:
    told = tmp_path / "told"
    mine = recipe(
        tmp_path,
        f"""
def model():
    return nn.Linear(4, 2)

def datasets():
    open({str(told)!r}, "w").close()
    time.sleep(100_000)
""",
    )
    found = preflight(spec(mine, "torch/single"), 20.0)
    while not told.exists():  # the machine is slow: it did not come so far
        found = preflight(spec(mine, "torch/single"), 60.0)
    steps = named(found, "steps")
    assert "It did no step within" in steps.text
    assert "datasets (mine.py:" in steps.text
    assert own_processes(temporary) == []


def test_a_cancelled_preflight_returns_what_it_knows(temporary: Path) -> None:
    known: list[News] = []

    def is_cancelled() -> bool:
        return any(isinstance(each, Found) and each.finding.name == "disk" for each in known)

    found = preflight(spec("digits", "torch/ddp", 2), PATIENT, known.append, is_cancelled)
    assert named(found, "disk").level == "ok"
    assert sentence("because-it-was-stopped-before-steps") in named(found, "not made").text
    assert own_processes(temporary) == []


@pytest.mark.usefixtures("without_steps")
def test_a_full_disk_is_an_error(traindeck_home: Path) -> None:
    with small_disk(traindeck_home, "64m"):
        fill(traindeck_home / "filler")
        found = preflight(spec("digits", "torch/single"), 30.0)
    disk = named(found, "disk")
    assert disk.level == "error"
    assert sentence("cannot-be-written-no-space-left-on-device-b") in disk.text


def test_sentences_have_the_names_of_gpus() -> None:
    said = Finding(name="ranks", level="warning", text="Rank 1 on GPU-b straggles.", advice="GPU-b")
    shown = with_names(said, {"GPU-a": "GPU 0", "GPU-b": "GPU 1"})
    assert (shown.text, shown.advice) == (sentence("rank-on-gpu-straggles"), "GPU 1")


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver with the GPUs GPU-0, of which this process uses 30 GiB, and GPU-1."""
    folder = tmp_path / "driver"
    folder.mkdir()
    driver = FakeNvml(folder)
    for number in range(2):
        driver.add_gpu(f"GPU-{number}", pci_bus=f"0000:0{number}:00.0")
    driver.answer("gpu1", "nvmlDeviceGetMemoryInfo_v2", 80 * GIB, 0, 80 * GIB, 0)
    driver.run("gpu0", [(os.getpid(), 30 * GIB)])
    for name, value in driver.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(client, "gpu_problem", lambda *_: "")


@pytest.mark.usefixtures("two_gpus", "without_steps")
def test_a_gpu_that_somebody_else_uses_is_named() -> None:
    found = preflight(spec("digits", "torch/single", ("GPU-0",)), 60.0)
    devices = named(found, "devices")
    assert devices.level == "warning"
    assert sentence("gib-uses-gpu-gib-of-gib") in devices.text
    assert devices.change is not None
    assert devices.change.fields == {"devices": ["GPU-1"]}


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize("has_time", [True, False])
def test_a_faster_precision_is_tried_on_gpus_while_there_is_time(
    has_time: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def instead(spec: RunSpec, **_: Any) -> ShortRun:
        return ShortRun(
            spec=spec,
            steps=9,
            step_seconds=0.1,
            first_step_seconds=1.0 if has_time else PATIENT,
            samples_per_second={"default": 1280.0, "bf16": 2560.0}[spec.precision],
            measured={"loading/is_needed": 0.0, "model/channels_first": 9.0},
        )

    monkeypatch.setattr(module, "short_run", instead)
    found = preflight(spec("digits", "torch/single", ("GPU-1",)), PATIENT)
    said = [each for each in found.findings if each.name == "precision"]
    assert [each.change and each.change.fields for each in said] == (
        [{"precision": "bf16"}] if has_time else []
    )
    found = preflight(spec("digits", "torch/single", ("GPU-1",), precision="bf16"), PATIENT)
    assert "9 convolutions" in named(found, "image layout").text


def test_a_script_is_refused_by_name() -> None:
    script = spec("digits", "script/single", command=("train.py",))
    with pytest.raises(client.CannotStart, match=sentence("preflight-is-for-recipes").pattern):
        preflight(script)


@pytest.mark.parametrize(
    ("changes", "seconds", "phrase"),
    [
        ({}, 1.0, "needs at least 5 s"),
        ({}, float("nan"), "needs at least 5 s"),
        ({"devices": ("other/cpu:0",)}, 60.0, "on this machine only"),
        ({"batch_size": 0}, 60.0, "[Bb]atch"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    changes: dict[str, Any], seconds: float, phrase: str
) -> None:
    settings = {"devices": ("cpu:0",)} | changes
    with pytest.raises(client.CannotStart, match=phrase):
        preflight(spec("digits", "torch/single", **settings), seconds)
