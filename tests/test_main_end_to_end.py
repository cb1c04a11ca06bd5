"""`python main.py train` as people and scripts call it: a process of its own, real workers."""

from __future__ import annotations

import argparse
import json
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import main as program
from engine import client
from engine.cli.output import Exit
from engine.runs.run_state import RunState
from tests.support.runs import is_training, wait_for, wait_for_run, wait_until_gone
from tests.support.sentences import sentence

ROOT = Path(__file__).parent.parent
TRAIN = ("train", "--recipe", "digits", "--devices", "cpu:0")
ENDLESS = (*TRAIN, "--epochs", "100000", "--json")

on_posix = pytest.mark.skipif(os.name != "posix", reason="Windows has no SIGINT for one process")


@contextmanager
def traindeck(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command line at work; at the end, nothing that it started is left."""
    with subprocess.Popen(
        [sys.executable, "main.py", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
            for info in client.runs():
                if not info.state.is_over:
                    main("stop", info.id, "--now")


def main(*arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one call."""
    done = subprocess.run(
        [sys.executable, "main.py", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def wait_for_training(process: subprocess.Popen[str], attempt: int = 1) -> str:
    """The id of the run that `process` starts, once it trains in its `attempt`-th attempt."""
    run_id = wait_for_run(process, attempt)
    wait_for(run_id, is_training)
    return run_id


def last_object(text: str) -> dict[str, Any]:
    found = json.loads(text.splitlines()[-1])
    assert isinstance(found, dict)
    return found


@pytest.mark.usefixtures("processes")
def test_a_run_trains_to_its_end_and_can_be_looked_at_afterwards() -> None:
    code, output, errors = main(*TRAIN, "--epochs", "2", "--set", "width=8", "--json")
    assert code == 0, errors
    result = last_object(output)
    assert list(result) == ["id", "state", "reason", "epoch", "step", "metrics", "run_dir"]
    assert (result["state"], result["epoch"]) == ("finished", 2)
    assert result["metrics"]["validation/accuracy"] > 0.3
    assert "epoch 2/2" in errors
    assert "Traceback" not in errors
    run_dir = Path(result["run_dir"])
    assert not list(run_dir.glob("logs/debug-*")), "nothing is logged by default"
    assert (run_dir / "logs" / "rank0.log").read_text() == ""

    shown = last_object(main("show", result["id"], "--json")[1])
    assert shown.pop("overview")["attempt"]["attempt"] == 1
    assert shown == result
    assert "finished" in main("runs")[1]
    assert main("stop", result["id"])[0] == 2


def test_ctrl_c_while_it_is_still_importing_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", interrupted)
    monkeypatch.setattr(sys, "argv", ["main.py", "runs"])
    try:
        with pytest.raises(SystemExit, match=r"^130$"):
            runpy.run_path(str(ROOT / "main.py"), run_name="__main__")
    finally:  # a program that ends ignores it
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.usefixtures("processes")
@on_posix
def test_ctrl_c_saves_and_stops_and_the_run_can_be_resumed() -> None:
    with traindeck(*ENDLESS) as process:
        run_id = wait_for_training(process)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=120)
    assert process.returncode == 3, errors
    result = last_object(output)
    assert (result["id"], result["state"]) == (run_id, "stopped")
    assert "saving a checkpoint" in errors
    (saved,) = client.run_checkpoints(run_id)
    assert saved.manifest.position.step == result["step"] > 0

    with traindeck("resume", run_id, "--json") as process:
        assert wait_for_training(process, attempt=2) == run_id
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=120)
    assert process.returncode == 3, errors
    assert last_object(output)["step"] > result["step"]
    wait_until_gone(client.get_run(run_id))


@pytest.mark.usefixtures("processes")
def test_a_run_survives_the_command_line_that_started_it_and_takes_commands_by_its_number(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with traindeck(*ENDLESS) as process:
        run_id = wait_for_training(process)
        process.kill()
        process.communicate()
        step = client.get_run(run_id).status.step
        wait_for(run_id, lambda info: info.status.step > step)

        code, output, errors = main("checkpoint", run_id)
        assert code == 0, errors
        assert Path(output.strip()).is_dir()
        assert program.main(["pause", run_id]) == 0
        assert client.get_run(run_id).state is RunState.PAUSED
        capsys.readouterr()
        assert program.main(["empty-cache", run_id]) == 0
        assert capsys.readouterr().out.startswith("cpu:0")
        assert program.main(["resume", run_id]) == 0

        code, output, errors = main("stop", run_id)
        assert code == 0, errors
        assert output.startswith(f"Run {run_id} is stopped.")
        wait_until_gone(client.get_run(run_id))


@pytest.mark.usefixtures("processes")
@pytest.mark.nightly
def test_a_damaged_checkpoint_is_named_and_an_older_one_goes_on_elsewhere() -> None:
    code, output, errors = main(
        *ENDLESS, *("--checkpoint-epochs", "1", "--keep-checkpoints", "50"), "--detach"
    )
    assert code == 0, errors
    run_id = last_object(output)["id"]
    wait_for(run_id, lambda _: len(client.run_checkpoints(run_id)) > 1)
    code, output, errors = main("pause", run_id, "--free-gpus")
    assert code == 2
    assert sentence("cpu-devices-have-no-memory-of-their-own") in errors
    assert main("stop", run_id)[0] == 0

    *_, before, newest = client.run_checkpoints(run_id)
    assert before.manifest.kinds == ("epochs",)
    # The Stop may have come just when an epoch was done.
    assert newest.manifest.kinds in [("last",), ("epochs", "last")]
    assert "validation/accuracy" in before.manifest.metrics
    damaged = next(newest.folder / name for name in newest.manifest.files)
    damaged.write_bytes(damaged.read_bytes()[:-1])
    stale = newest.folder.with_name("step-99999999.tmp")
    stale.mkdir()
    code, output, errors = main("resume", run_id)
    assert (code, output) == (2, "")
    for name in (newest.folder.name, damaged.name, before.folder.name):
        assert name in errors

    elsewhere = ("--strategy", "ddp", "--devices", "cpu:0,cpu:1", "--detach")
    code, output, errors = main("resume", run_id, "--checkpoint", before.folder.name, *elsewhere)
    assert code == 0, errors
    wait_for(run_id, lambda info: info.status.attempt == 2 and info.status.replicas == 2)
    assert not stale.exists()
    code, output, errors = main("show", run_id)
    for part in ("torch/ddp", "cpu:0, cpu:1", before.folder.name, "epochs"):
        assert part in output
    assert main("stop", run_id)[0] == 0


@pytest.mark.usefixtures("processes")
def test_a_failing_run_says_why_and_exits_with_1(tmp_path: Path) -> None:
    recipe = tmp_path / "broken.py"
    recipe.write_text(
        "import torch\ndef model(): raise RuntimeError('no model today')\ndef datasets(): ...\n"
    )
    code, output, errors = main("train", "--recipe", str(recipe), "--devices", "cpu:0", "--json")
    assert code == 1
    assert last_object(output)["state"] == "failed"
    for part in ("no model today", "rank 0 on cpu:0", f"{recipe}:2"):
        assert part in errors


@pytest.mark.usefixtures("processes")
def test_a_closed_pipe_is_no_reason_for_a_traceback() -> None:
    with traindeck("recipes") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(60) == Exit.UNREAD


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(os.name != "posix", reason="the shell closes the output")
@pytest.mark.parametrize("command", ["recipes", "--version"])
def test_a_closed_output_is_no_reason_for_a_traceback(command: str) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "main.py", command],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 1, "what was printed is lost"
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is full")
@pytest.mark.parametrize(("command", "unbuffered"), [("recipes", ""), ("--version", "1")])
def test_output_that_cannot_be_written_is_told_in_a_sentence(command: str, unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "main.py", command],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        )
    assert done.returncode == 1
    assert done.stderr == sentence("this-could-not-be-done")


@pytest.mark.usefixtures("processes")
@on_posix
@pytest.mark.parametrize(
    ("command", "code", "closed"),
    [
        ("show 7", 2, "<&- >&- 2>&-"),
        ("devices", 1, ">&- 2>&-"),
        ("devices", 0, "<&- 2>&-"),
    ],
)
def test_only_a_closed_output_is_an_error(command: str, code: int, closed: str) -> None:
    program = f'exec "$0" main.py {command} {closed}'
    done = subprocess.run(
        ["sh", "-c", program, sys.executable], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("processes")
@on_posix
def test_no_file_takes_the_place_of_a_closed_output(traindeck_home: Path) -> None:
    """The first file that is opened would get the descriptor, and what is printed."""
    program = (
        "import main, os, sys; sys.argv = ['main.py', '--version']; main.entry(); "
        "file = open(sys.executable); os._exit(file.fileno() < 3)"
    )
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" <&- >&- 2>&-', sys.executable, program],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is full")
@pytest.mark.nightly
def test_a_full_disk_loses_errors_and_progress_but_no_result(tmp_path: Path) -> None:
    """Also if the folder for temporary files has a long path, and the environment is no text."""
    long = tmp_path / ("x" * 120)
    long.mkdir()
    surroundings = {**os.environb, b"TMPDIR": os.fsencode(long), b"GREETING": b"\xff\xe9"}
    with Path("/dev/full").open("w") as full:
        refused = subprocess.run([sys.executable, "main.py", "show", "7"], cwd=ROOT, stderr=full)
        assert refused.returncode == 2
        trained = subprocess.run(
            [sys.executable, "main.py", *TRAIN, "--epochs", "1", "--json"],
            cwd=ROOT,
            env=surroundings,
            stdout=subprocess.PIPE,
            stderr=full,
            text=True,
        )
    assert trained.returncode == 0, [client.get_run(run.id).reason for run in client.runs()]
    assert last_object(trained.stdout)["state"] == "finished"


@pytest.mark.usefixtures("processes")
@on_posix
@pytest.mark.parametrize("module", ["signal", "engine.cli.errors", "rich.console"])
def test_ctrl_c_during_the_imports_is_no_reason_for_a_traceback(module: str) -> None:
    program = (
        "import os, runpy, sys\n"
        "sys.modules.pop('signal', None)\n"
        "def hook(event, what):\n"
        f"    if event == 'import' and what[0] == {module!r}:\n"
        f"        os.kill(os.getpid(), {int(signal.SIGINT)})\n"
        "sys.addaudithook(hook)\n"
        "sys.argv = ['main.py', 'runs']\n"
        "sys.path.insert(0, '.')\n"
        "runpy.run_path('main.py', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    by_signal = done.returncode == -signal.SIGINT
    assert by_signal or done.returncode == 130
    assert done.stderr == ("" if by_signal else "The command was interrupted.\n")


@pytest.mark.usefixtures("processes")
@on_posix
def test_ctrl_c_while_the_interpreter_ends_does_not_change_the_result() -> None:
    program = (
        "import atexit, os, runpy, signal, sys\n"
        "class Late:\n"
        "    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.SIGINT):\n"
        "        kill(pid, number)\n"
        "sys.late = Late()\n"
        "atexit.register(os.kill, os.getpid(), signal.SIGINT)\n"
        "sys.argv = ['main.py', 'show', '77']\n"
        "sys.path.insert(0, '.')\n"
        "runpy.run_path('main.py', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("There is no run 77")


@pytest.mark.usefixtures("processes")
@on_posix
@pytest.mark.parametrize("home", ["~/link/../decks", "decks"])
@pytest.mark.nightly
def test_all_processes_find_the_same_home(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The supervisor, which has another working directory, writes the queue."""
    (tmp_path / "user").mkdir()
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "user" / "link").symlink_to(tmp_path / "a" / "b")
    done = subprocess.run(
        [sys.executable, str(ROOT / "main.py"), "train", "--devices", "cpu:0", "--epochs", "1"],
        cwd=tmp_path / "user",
        env=os.environ | {"TRAINDECK_HOME": home, "HOME": str(tmp_path / "user")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    folders = {file.parent.resolve() for file in tmp_path.rglob("queue.json")}
    assert folders == {file.parent.resolve() for file in tmp_path.rglob("runs")}
    [folder] = folders
    assert folder.name == "decks"


@pytest.mark.usefixtures("processes")
@on_posix
def test_a_home_whose_name_is_no_text_is_refused_in_a_sentence(tmp_path: Path) -> None:
    home = os.fsencode(tmp_path) + b"/\xff\xe9"
    for command in ("runs --json", "train --epochs 1"):
        done = subprocess.run(
            [sys.executable, "main.py", *command.split()],
            cwd=ROOT,
            env={**os.environb, b"TRAINDECK_HOME": home},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 2
        assert "is not valid UTF-8" in done.stderr
        assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def processes(lines: list[str]) -> set[str]:
    """Which processes have logged `lines`."""
    return {line.split()[2].partition("[")[0] for line in lines}


@pytest.mark.usefixtures("processes")
@pytest.mark.nightly
def test_a_command_can_be_followed_through_all_processes(traindeck_home: Path) -> None:
    two = ("train", "--recipe", "digits", "--strategy", "ddp", "--devices", "cpu:0,cpu:1")
    code, output, errors = main(*two, "--epochs", "100000", "--detach", "--log-level", "info")
    assert code == 0, errors
    run_id = output.strip()
    info = wait_for(run_id, is_training)
    code, _, errors = main("--log-level", "info", "checkpoint", run_id)
    assert code == 0, errors
    assert main("stop", run_id)[0] == 0
    wait_until_gone(info)

    files = [*traindeck_home.glob("logs/debug-*.log"), *info.folder.glob("logs/debug-*.log")]
    lines = sorted(line for file in files for line in file.read_text().splitlines())
    accepted = next(line for line in lines if f"run {run_id}: accepted as command " in line)
    command = " ".join(accepted.split()[-2:])
    followed = [line for line in lines if command in line]
    assert processes(followed) == {"cli", "supervisor", "rank0"}
    acted = next(line for line in lines if f"CHECKPOINT, {command}" in line)
    boundary = acted.partition("step boundary ")[2].partition(":")[0]
    others = [line for line in lines if f"step boundary {boundary}: CHECKPOINT" in line]
    assert processes(others) == {"rank0", "rank1"}
    assert any(f"step boundary {boundary}: done, {command}" in line for line in lines)
    for rank in (0, 1):
        assert (info.folder / "logs" / f"rank{rank}.log").read_text() == ""
