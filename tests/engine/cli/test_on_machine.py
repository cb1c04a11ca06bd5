"""`--on` and `machines`: against a real `sshd`, of this machine with another data folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

from engine.interface.values import PIECE
from engine.planning import kept
from engine.processes.process import PROJECT
from engine.remote import ssh
from engine.runs import run_info
from engine.runs.checkpoints import checkpoint_files
from engine.system import machines
from engine.system.machines import RemoteMachine
from main import main
from tests.engine.scripts.test_secrets import HUSH
from tests.support import ssh_server
from tests.support.recorded_runs import RecordedRun, save_checkpoint
from tests.support.sentences import sentence
from tests.support.ssh_server import HOST, SshServer

with_ssh = pytest.mark.skipif(bool(ssh_server.MISSING), reason=ssh_server.MISSING)

RECIPE = """
import torch
from helper import WIDTH


def model():
    return torch.nn.Linear(4, WIDTH)


def datasets():
    data = torch.utils.data.TensorDataset(torch.zeros(8, 4), torch.zeros(8, dtype=torch.long))
    return data, data
"""

with_terminal = pytest.mark.skipif(os.name != "posix", reason="a terminal of POSIX")

Text = pytest.CaptureFixture[str]


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """The data folder of the other machine."""
    return tmp_path / "there"


@pytest.fixture
def gpus(
    tmp_path: Path, there: Path, monkeypatch: pytest.MonkeyPatch, processes: None
) -> Iterator[SshServer]:
    """A machine that was added."""
    server = SshServer(tmp_path / "ssh")
    monkeypatch.setenv(ssh.PROGRAM_VARIABLE, server.ssh)
    server.start()
    command = server.command(there)
    machines.add(RemoteMachine(name=HOST, destination=HOST, command=command))
    yield server
    server.stop()


@pytest.fixture
def run_there(there: Path, monkeypatch: pytest.MonkeyPatch) -> RecordedRun:
    """A run of the other machine."""
    with monkeypatch.context() as patch:
        patch.setenv("TRAINDECK_HOME", str(there))
        run = RecordedRun()
        with closing(run.store):
            run.begin()
            run.add_points("train/loss", range(3))
    return run


def test_machines_are_added_listed_and_removed(capsys: Text) -> None:
    assert main(["machines"]) == 0
    assert "machines add NAME user@host" in capsys.readouterr().out
    assert main(["machines", "add", "lab", "me@lab", "--start", "/opt/traindeck"]) == 0
    capsys.readouterr()
    assert main(["machines", "list", "--json"]) == 0
    (added,) = json.loads(capsys.readouterr().out)
    assert added == {"name": "lab", "destination": "me@lab", "command": "/opt/traindeck"}
    assert main(["machines"]) == 0
    assert "me@lab" in capsys.readouterr().out
    assert main(["machines", "add", "bad name", "me@lab"]) == 2
    assert "no name for a machine" in capsys.readouterr().err
    assert main(["machines", "add", "other", "--", "-oProxyCommand=reboot"]) == 2
    assert "no destination for SSH" in capsys.readouterr().err
    assert main(["machines", "remove", "lab"]) == 0
    assert main(["machines", "remove", "lab"]) == 2


@with_ssh
def test_a_machine_is_checked(gpus: SshServer, capsys: Text) -> None:
    assert main(["machines", "check", HOST, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "connected"
    gpus.stop()
    assert main(["machines", "check", HOST, "--json"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["state"] == "failed"
    assert sentence("gpus-refuses-ssh-connections") in printed.err


@with_ssh
@pytest.mark.parametrize("words", [["--on", HOST], [f"--on={HOST}"]])
def test_a_command_runs_there_with_its_output_and_its_exit_code(
    gpus: SshServer, run_there: RecordedRun, capfd: Text, words: list[str]
) -> None:
    assert main(["runs", "--json", *words]) == 0
    (listed,) = json.loads(capfd.readouterr().out)
    assert listed["id"] == run_there.id
    assert main(["show", "77", *words]) == 2
    assert "There is no run 77" in capfd.readouterr().err


@with_ssh
def test_a_run_is_named_with_its_machine(
    gpus: SshServer, run_there: RecordedRun, capfd: Text
) -> None:
    assert main(["show", f"{HOST}:{run_there.id}", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["id"] == run_there.id
    assert main(["stop", f"{HOST}:77"]) == 2
    assert f"main.py runs --on {HOST}`" in capfd.readouterr().err
    assert main(["show", f"{HOST}:{run_there.id}", "--on", "other"]) == 2
    assert "leave out `--on other`" in capfd.readouterr().err


def in_terminal(
    words: Sequence[str],
    *presses: tuple[str, str],
    before: Callable[[], object] = lambda: None,
) -> tuple[str, int]:
    """Call the program with a terminal; return what it showed, and its exit code.

    `presses`: what is waited for, and what is typed then; `before` is called before that.
    """
    import pty

    pid, terminal = pty.fork()
    if not pid:  # the child, whose terminal this is
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # tests in the background ignore it
        os.execv(sys.executable, [sys.executable, str(PROJECT / "main.py"), *words])
    shown = b""
    try:
        with suppress(OSError):  # the terminal of a program that has ended
            for text, keys in presses:
                while text.encode() not in shown:
                    shown += os.read(terminal, 4096)
                before()
                os.write(terminal, keys.encode())
            while more := os.read(terminal, 4096):
                shown += more
    finally:
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
    return shown.decode(), os.waitstatus_to_exitcode(status)


@with_ssh
@with_terminal
def test_ctrl_c_in_a_terminal_reaches_the_command_there(
    gpus: SshServer, run_there: RecordedRun
) -> None:
    """It ends the following as it does here, and not `ssh`."""
    shown, code = in_terminal(["attach", f"{HOST}:{run_there.id}"], ("digits", "\x03"))
    assert "goes on" in shown
    assert code == 0


def is_template(process: psutil.Process) -> bool:
    """Whether a process is a template, which stays for the next run."""
    with suppress(psutil.NoSuchProcess):
        return any("template" in word for word in process.cmdline())
    return False


@with_ssh
@with_terminal
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("command", "begins", "said", "code"),
    [
        ("race --strategies single --steps 1000000", "Trains", "The race was stopped", 3),
        ("preflight --seconds 600", "of at most", "; it took", 0),
        ("memory", "…", "it has found nothing", 130),
        ("batch-size", "…", "was stopped", 3),
    ],
)
def test_two_ctrl_c_end_what_is_measured_there_as_one_does(
    gpus: SshServer, command: str, begins: str, said: str, code: int
) -> None:
    """The second one comes when the command has said its last word, or just before it has."""
    words = [*command.split(), "--devices", "cpu:0", "--on", HOST]
    measuring: list[psutil.Process] = []
    shown, ended = in_terminal(
        words,
        (begins, "\x03"),
        (said, "\x03"),
        before=lambda: measuring.extend(gpus.processes()),
    )
    assert said in shown
    assert "no connection" not in shown
    assert ended in (code, 130)
    assert len(measuring) > 2, "the connection, the command and what it started"
    passing = [each for each in measuring if not is_template(each)]
    _, alive = psutil.wait_procs(passing, timeout=120)
    assert not alive


@with_ssh
def test_a_recipe_goes_there_with_its_modules_and_trains(
    gpus: SshServer,
    there: Path,
    tmp_path: Path,
    capfd: Text,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "nets.py").write_text(RECIPE)
    (mine / "helper.py").write_text("WIDTH = 3\n")
    command = ["train", "--recipe", str(mine / "nets.py"), "--devices", "cpu:0", "--epochs", "1"]
    assert main([*command, "--json", "--on", HOST]) == 0, capfd.readouterr().err
    ended = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert ended["state"] == "finished"
    assert run_info.runs() == [], "nothing ran here"
    monkeypatch.setenv("TRAINDECK_HOME", str(there))
    (info,) = run_info.runs()
    assert Path(info.spec.recipe).is_relative_to(there / "received")
    assert (info.folder / "modules" / "helper.py").read_text() == "WIDTH = 3\n"


@with_ssh
@pytest.mark.nightly
def test_a_sweep_runs_there_with_a_recipe_of_here(
    gpus: SshServer, there: Path, tmp_path: Path, capfd: Text
) -> None:
    pytest.importorskip("optuna")
    (tmp_path / "nets.py").write_text(RECIPE)
    (tmp_path / "helper.py").write_text("WIDTH = 3\n")
    command = ["sweep", "--recipe", str(tmp_path / "nets.py"), "--devices", "cpu:0"]
    command += ["--epochs", "1", "--set", "learning_rate=0.1,0.2", "--sampler", "grid"]
    assert main([*command, "--json", "--on", HOST]) == 0, capfd.readouterr().err
    ended = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert (ended["state"], ended["done"]) == ("finished", 2)
    assert Path(ended["recipe"]).is_relative_to(there / "received")
    assert main(["sweep", "list", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == [], "nothing is swept here"
    assert main(["sweep", "show", "1", "--on", HOST]) == 0
    assert "best:" in capfd.readouterr().out
    assert main(["sweep", "show", "--on", HOST]) == 2
    assert f"sweep list --on {HOST}`" in capfd.readouterr().err


@with_ssh
def test_an_export_comes_back(
    gpus: SshServer, run_there: RecordedRun, tmp_path: Path, capfd: Text
) -> None:
    target = tmp_path / "out"
    words = ["export", run_there.id, "--format", "csv", "-o", str(target), "--on", HOST]
    assert main(words) == 0, capfd.readouterr().err
    assert "train/loss" in (target / "points.csv").read_text()
    assert main(words) == 2
    assert "exists already" in capfd.readouterr().err
    assert main(["export", "77", "--format", "csv", "--on", HOST]) == 2


@with_ssh
def test_checkpoints_are_listed_and_one_comes_here(
    gpus: SshServer, there: Path, run_there: RecordedRun, tmp_path: Path, capfd: Text
) -> None:
    saved = save_checkpoint(run_there.folder, 120, 3 * PIECE + 1)
    assert main(["checkpoints", f"{HOST}:{run_there.id}", "--json"]) == 0, capfd.readouterr().err
    (listed,) = json.loads(capfd.readouterr().out)
    assert listed["checkpoint"] == "step-00000120"
    target = tmp_path / "out"
    words = ["checkpoints", run_there.id, "--copy", "newest", "-o", str(target), "--on", HOST]
    assert main(words) == 0, capfd.readouterr().err
    assert checkpoint_files.verify(target) == saved.manifest
    assert main(words) == 2
    assert "exists already" in capfd.readouterr().err
    words[words.index(str(target))] = str(tmp_path / "other")
    (saved.folder / "rank0" / "model.safetensors").write_bytes(bytes(3 * PIECE + 1))
    assert main(words) == 2
    assert "is not what was saved" in capfd.readouterr().err
    assert not list(tmp_path.glob("*other*"))
    assert main(["checkpoints", "77", "--on", HOST]) == 2
    assert "There is no run 77" in capfd.readouterr().err


@with_ssh
def test_files_of_this_machine_are_imported_there(
    gpus: SshServer, there: Path, tmp_path: Path, capfd: Text, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))  # also of the server, which is started anew
    gpus.stop()
    gpus.start()
    folder = tmp_path / "früher: 50 % *"
    folder.mkdir()
    (folder / "a b.csv").write_text("step,loss\n1,0.5\n2,0.25\n")
    (folder / "dataset.bin").write_bytes(bytes(1000))
    assert main(["import", str(folder), "--json", "--on", HOST]) == 0, capfd.readouterr().err
    assert json.loads(capfd.readouterr().out) == {"runs": ["1"], "points": 2, "remarks": []}
    assert run_info.runs() == [], "nothing was imported here"
    (folder / "c.csv").write_text("step,loss\nx,y\n")
    assert main(["import", str(folder / "c.csv"), "--on", HOST]) == 2
    assert f"{folder}/c.csv" in capfd.readouterr().err, "the file is called as it is here"
    assert not list(temporary.iterdir())
    monkeypatch.setenv("TRAINDECK_HOME", str(there))
    (info,) = run_info.runs()
    assert info.spec.imported_from.endswith(f":{folder}/a b.csv")


@with_ssh
def test_a_script_goes_there_with_its_modules_and_runs(
    gpus: SshServer, there: Path, tmp_path: Path, capfd: Text, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine"
    (mine / "inner").mkdir(parents=True)
    (mine / "inner" / "my train.py").write_text(
        "import os, subprocess, sys, helper\n"
        "print('sum', helper.ADD + int(sys.argv[1]))\n"
        "value = os.environ['HF_TOKEN']\n"
        "commands = subprocess.check_output(['ps', '-axww', '-o', 'command'], text=True)\n"
        "print('token of', len(value), commands.count(value), 'my train.py' in commands)\n"
    )
    (mine / "inner" / "helper.py").write_text("ADD = 40\n")
    (mine / "pkg").mkdir()
    (mine / "pkg" / "__main__.py").touch()
    monkeypatch.chdir(mine)
    options = ["run", "--devices", "cpu:0", "--on", HOST]
    command, token = [*options, "--var", f"HF_TOKEN={HUSH}", "--"], f"token of {len(HUSH)} 0 True"
    assert main([*command, "python", "-u", "inner/my train.py", "2"]) == 0, capfd.readouterr().err
    printed = capfd.readouterr()
    run = there / "runs" / "1"
    output = (run / "logs" / "rank0.log").read_text()
    assert "sum 42" in output
    assert token in output, "the value of a variable goes over the connection, and is in no command"
    assert "HF_TOKEN" in (run / "spec.toml").read_text()
    assert HUSH not in (run / "spec.toml").read_text() + str(printed)
    assert "not passed on" not in printed.err
    assert sentence("sent-with-its-modules") in printed.err
    for words in (["-m", "pkg"], ["pkg"]):
        assert main([*command, *words]) == 2
        assert "--folder FOLDER" in capfd.readouterr().err


@pytest.mark.nightly
@with_ssh
def test_the_switches_and_environments_are_those_of_that_machine(
    gpus: SshServer, capfd: Text
) -> None:
    assert main(["warm", "--on", HOST]) == 0
    assert main(["env", "list", "--on", HOST]) == 0
    assert main(["env", "add", "mine", "--python", sys.executable, "--on", HOST]) == 0
    capfd.readouterr()
    assert main(["env", "list", "--json", "--on", HOST]) == 0
    assert json.loads(capfd.readouterr().out)[-1]["name"] == "mine"
    assert main(["env", "list", "--json"]) == 0
    assert "mine" not in capfd.readouterr().out


@with_ssh
def test_what_cannot_be_reached_is_one_sentence_also_as_json(gpus: SshServer, capfd: Text) -> None:
    gpus.stop()
    assert main(["runs", "--json", "--on", HOST]) == 1
    printed = capfd.readouterr()
    (problem,) = json.loads(printed.out)["problems"]
    assert sentence("gpus-refuses-ssh-connections") in problem["text"]
    assert main(["train", "--recipe", "digits", "--on=-oProxyCommand=x"]) == 2


@with_ssh
def test_a_missing_traindeck_is_said(gpus: SshServer, capfd: Text) -> None:
    machines.add(RemoteMachine(name="bare", destination=HOST, command="no-such-program"))
    assert main(["runs", "--on", "bare"]) == 1
    assert "was not found on bare" in capfd.readouterr().err


def test_what_cannot_be_honoured_there_is_refused_by_name(tmp_path: Path, capsys: Text) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('no recipe')\n")
    for command in (["train", "--recipe"], ["check"]):
        assert main([*command, str(script), "--on", "me@lab"]) == 2
        assert f"run --on me@lab -- {script}" in capsys.readouterr().err
    assert main(["import", str(script), "--on", "me@lab"]) == 2
    assert sentence("neither-tensorboard-event-file") in capsys.readouterr().err
    assert main(["export", "lab:1", "gpus:2", "3", "--format", "csv"]) == 2
    assert sentence("several-machines-gpus-lab-this-machine") in capsys.readouterr().err
    assert main(["show", "gpus:"]) == 2
    assert sentence("gpus-names-no-run-say-machine") in (capsys.readouterr().err)
    assert main(["stop", ":12"]) == 2
    assert sentence("names-no-run-say-machine") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["new-recipe", "--on", "lab"], sentence("works-on-this-machine-only")),
        (["machines", "list", "--on=lab"], sentence("works-on-this-machine-only")),
        (["machines", "--on", "lab"], sentence("works-on-this-machine-only")),
        (["train", "--on", ""], sentence("on-needs-name-of-machine")),
        (["runs", "--on="], sentence("on-needs-name-of-machine")),
    ],
)
def test_what_names_no_other_machine_says_so(capsys: Text, words: list[str], said: str) -> None:
    with pytest.raises(SystemExit):
        main(words)
    assert said in capsys.readouterr().err


@pytest.mark.nightly
@with_ssh
def test_a_race_there_names_the_recipe_as_it_is_called_here(
    gpus: SshServer, there: Path, tmp_path: Path, capfd: Text, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tmp_path / "nets.py"
    recipe.write_text(RECIPE)
    (tmp_path / "helper.py").write_text("WIDTH = 3\n")
    command = ["race", "--recipe", str(recipe), "--strategies", "single", "--steps", "20"]
    assert main([*command, "--devices", "cpu:0", "--json", "--on", HOST]) == 0
    (entry,) = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert entry["samples_per_second"] > 0
    assert f" train --recipe {recipe} " in entry["command"]
    assert entry["command"].endswith(f" --planned 1 --on {HOST}"), "the result is kept there"
    assert kept.numbers() == [], "nothing was raced here"
    assert [file.name for file in (there / "planning").glob("*.json")] == ["1.json"]


@pytest.mark.nightly
@with_ssh
def test_a_preflight_there_names_the_place_in_the_recipe_of_here(
    gpus: SshServer, tmp_path: Path, capfd: Text
) -> None:
    recipe = tmp_path / "nets.py"
    recipe.write_text(RECIPE)
    (tmp_path / "helper.py").write_text("WIDTH = 3\nraise ValueError('no width')\n")
    command = ["preflight", "--recipe", str(recipe), "--strategy", "single", "--devices", "cpu:0"]
    assert main([*command, "--on", HOST]) == 1
    printed = capfd.readouterr().out
    assert f"no width ({tmp_path}/helper.py:2)" in printed
    assert "received" not in printed


@with_ssh
def test_a_measurement_there_ends_with_the_command_here(
    gpus: SshServer,
) -> None:
    words = ["race", "--devices", "cpu:0", "--strategies", "single", "--steps", "1000000"]
    command = [sys.executable, str(PROJECT / "main.py"), *words, "--on", HOST]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        process.stderr.readline()  # it is measured
        measuring = gpus.processes()
        process.kill()
    _, alive = psutil.wait_procs(measuring, timeout=120)
    assert len(measuring) > 2, "the connection, the command and what it started"
    assert not alive
