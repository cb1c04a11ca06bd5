from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import main
from engine.environments import creation, registry
from engine.environments.creation import CreationFailed, Stage, create
from engine.environments.registry import CannotChange, Environment
from engine.processes.process import PROJECT
from engine.system.cancelled import Cancelled
from tests.engine.environments.conftest import FakePython
from tests.support.sentences import sentence

SECONDS = 60.0


def _left() -> list[str]:
    """What lies in the folder of environments, without logs."""
    return [each.name for each in registry.folder().iterdir() if each.suffix != ".log"]


def test_an_environment_is_made_checked_and_added(python: FakePython) -> None:
    stages: list[Stage] = []
    made = create("my tf", ["torch==2.13.0"], base=str(python.program), report=stages.append)
    assert registry.find("my tf") == made
    assert made.is_ours
    assert made.python == str(registry.folder() / "my-tf" / "bin" / "python")
    assert made.facts.python.startswith("3.")
    words, temporary = json.loads(python.asked.read_text())
    assert words[-6:] == [
        *("torch==2.13.0", "msgspec>=0.19", "numpy>=2", "psutil>=6", "scikit-learn>=1.5"),
        "safetensors>=0.5",
    ]
    assert Path(temporary).parent == registry.folder() / "my-tf"
    assert not Path(temporary).exists()
    assert sentence("making-virtual-environment") in [each.doing for each in stages]
    assert "Collecting" in creation.log_file("my tf").read_text()
    assert _left() == ["my-tf"]


def test_what_failed_leaves_only_its_log(python: FakePython) -> None:
    python.pip.write_text("print('ERROR: No matching distribution for nonsense'); sys.exit(1)")
    with pytest.raises(CreationFailed) as failed:
        create("new", ["nonsense"], base=str(python.program))
    assert sentence("nonsense-could-not-be-installed") in str(failed.value)
    assert str(creation.log_file("new")) in str(failed.value)
    assert "No matching" in creation.log_file("new").read_text()
    assert _left() == []
    assert registry.environments() == []


def test_a_full_disk_is_named(python: FakePython) -> None:
    python.pip.write_text("print('ERROR: [Errno 28] No space left on device'); sys.exit(1)")
    with pytest.raises(CreationFailed, match=r"the disk of .* is full"):
        create("new", ["torch==2.13.0"], base=str(python.program))
    assert _left() == []


def test_a_cancelled_creation_leaves_nothing(python: FakePython) -> None:
    python.pip.write_text("Path('half').write_text('x'); time.sleep(600)")
    cancelled = threading.Event()

    def report(stage: Stage) -> None:
        if stage.doing.startswith("Collecting"):
            cancelled.set()

    begun = time.monotonic()
    with pytest.raises(Cancelled):
        create(
            "new",
            ["torch==2.13.0"],
            base=str(python.program),
            report=report,
            is_cancelled=cancelled.is_set,
        )
    assert time.monotonic() - begun < SECONDS
    assert list(registry.folder().iterdir()) == []


def test_what_killed_processes_left_is_deleted_by_the_next_creation(python: FakePython) -> None:
    registry.folder().mkdir(parents=True, mode=0o700)
    abandoned = registry.folder() / "abandoned"
    abandoned.mkdir()
    (abandoned / "being-made").touch()
    (registry.folder() / "of-another-kind").mkdir()
    with creation._folder_in_work(registry.folder() / "in-work"):
        create("new", ["torch==2.13.0"], base=str(python.program))
        assert sorted(_left()) == ["in-work", "new", "of-another-kind"]


def test_a_name_of_which_one_is_being_made_is_refused(python: FakePython) -> None:
    registry.folder().mkdir(parents=True, mode=0o700)
    with (
        creation._folder_in_work(registry.folder() / "new"),
        pytest.raises(CannotChange, match="'new' is being made now"),
    ):
        create("new", ["torch==2.13.0"], base=str(python.program))


def test_a_deletion_that_is_killed_is_gone_on_with(
    python: FakePython, monkeypatch: pytest.MonkeyPatch
) -> None:
    abandoned = registry.folder() / "abandoned"
    (abandoned / "lib").mkdir(parents=True, mode=0o700)
    (abandoned / registry.BEING_MADE).touch()

    def killed(folder: Path, **_: bool) -> None:
        shutil.rmtree(folder)
        raise KeyboardInterrupt

    with monkeypatch.context() as double:
        double.setattr(creation, "shutil", SimpleNamespace(rmtree=killed))
        with pytest.raises(KeyboardInterrupt):
            creation.remove_leftovers()
    assert list(abandoned.iterdir()) == [abandoned / registry.BEING_MADE]
    creation.remove_leftovers()
    assert not abandoned.exists()


def test_a_creation_that_is_killed_leaves_nothing_to_the_next_removal(
    python: FakePython, tmp_path: Path
) -> None:
    python.pip.write_text("time.sleep(600)")
    code = (
        "from engine.environments.creation import create; import sys\n"
        "create('new', ['torch==2.13.0'], base=sys.argv[1])"
    )
    words = [sys.executable, "-c", code, str(python.program)]
    killed = subprocess.Popen(words, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(PROJECT)})
    deadline = time.monotonic() + SECONDS
    while not (creation.log_file("new").exists() and python.asked.exists()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    killed.kill()
    killed.wait()
    assert (registry.folder() / "new" / registry.BEING_MADE).exists()
    while _left():
        assert time.monotonic() < deadline
        registry.add(Environment("other", str(python.program)))
        assert main.main(["env", "list"]) == 0
        assert _left(), "a list deletes nothing"
        assert main.main(["env", "remove", "other"]) == 0


def test_both_cuda_sets_are_never_asked_for_at_once() -> None:
    both = ["torch>=2.13", "tensorflow[and-cuda]"]
    with pytest.raises(CannotChange, match=sentence("make-environment-for-each").pattern):
        create("new", both)
    assert creation.requirements_problem(["torch==2.13.0+cpu", "tensorflow[and-cuda]"]) == ""
    assert "no requirement" in creation.requirements_problem(["--index-url=x"])


def test_an_environment_with_both_cuda_sets_is_not_kept(python: FakePython) -> None:
    python.pip.write_text(
        "site = Path(os.environ['VIRTUAL_ENV'], 'lib/python3.12/site-packages')\n"
        "for name in ('nvidia_nccl_cu12-2.0', 'nvidia_nccl_cu13-2.0'):\n"
        "    (site / f'{name}.dist-info').mkdir()\n"
        "    (site / f'{name}.dist-info/RECORD').write_text('nvidia/nccl/lib/libnccl.so.2,,\\n')\n"
    )
    with pytest.raises(CreationFailed, match="Two CUDA sets"):
        create("new", ["something"], base=str(python.program))
    assert _left() == []


def test_a_removed_environment_is_deleted_only_if_it_was_made_here(
    python: FakePython, tmp_path: Path
) -> None:
    made = create("new", ["torch==2.13.0"], base=str(python.program))
    creation.delete(registry.remove("new"))
    assert not Path(made.python).exists()
    assert not creation.log_file("new").exists()
    elsewhere = tmp_path / "env" / "bin" / "python"
    elsewhere.parent.mkdir(parents=True)
    elsewhere.touch()
    registry.add(registry.Environment("mine", str(elsewhere)))
    creation.delete(registry.remove("mine"))
    assert elsewhere.exists()


def test_an_environment_that_lies_elsewhere_is_not_deleted(tmp_path: Path) -> None:
    other = tmp_path / "moved home" / "environments" / "mine" / "bin" / "python"
    other.parent.mkdir(parents=True)
    other.touch()
    assert not creation.delete(registry.Environment("mine", str(other), is_ours=True))
    assert not creation.delete(registry.Environment("mine", "python", is_ours=True))
    assert other.exists()


@pytest.mark.parametrize(
    ("text", "is_taken"),
    [
        ("torch>=2.11,<2.15", True),
        ("tensorflow[and-cuda] >= 2.21, < 2.22", True),
        ("numpy (>=2)", True),
        ("six", True),
        ("torch==2.13.0+cpu", True),
        ("six; python_version < '4' and sys_platform in 'linux'", True),
        ("mine @ file:///somewhere/mine.whl", True),
        ("git+https://example.org/mine.git", True),
        (str(Path(__file__).parent), True),
        (";rm -rf x", False),
        ("six; touch /tmp/x", False),
        ("six numpy", False),
        ("-r file", False),
        (" ", False),
    ],
)
def test_what_pip_cannot_take_is_refused(text: str, is_taken: bool) -> None:
    problem = creation.requirements_problem([text])
    assert ("no requirement" in problem) is not is_taken


def test_names_are_free(python: FakePython) -> None:
    assert creation.suggested_name("tensorflow", []) == "tensorflow-gpu"
    registry.add(registry.Environment("tensorflow-gpu", "/nowhere/bin/python"))
    assert creation.suggested_name("tensorflow", registry.environments()) == "tensorflow-gpu-2"
    with pytest.raises(CannotChange, match="already"):
        create("tensorflow-gpu", ["torch"], base=str(python.program))
