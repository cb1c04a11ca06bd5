from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.other_pythons import other_python
from tests.support.script_listener import IN_SCRIPT, ScriptListener, finished, without_watch

pytestmark = pytest.mark.usefixtures("processes")

SEES = """
import json, os, pickle, sys
class Thing: pass
print(json.dumps([sys.path, sys.argv, __name__, sys.modules["__main__"].__dict__.get("__file__"),
                  type(pickle.loads(pickle.dumps(Thing()))).__module__, os.environ.get("SEEN")]))
"""


@pytest.fixture
def listener(short_folder):
    with ScriptListener(short_folder) as listener:
        yield listener


def test_a_script_sees_what_it_would_see_alone(listener, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SEES)
    alone = subprocess.run(
        [sys.executable, str(script), "--x", "1"],
        env=without_watch(),
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert finished(listener.start(str(script), "--x", "1")) == alone
    assert listener.wait_for("hello")["argv"] == [str(script), "--x", "1"]


def test_the_users_own_sitecustomize_runs(listener, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import os; os.environ['SEEN'] = 'own'")
    script = tmp_path / "train.py"
    script.write_text("import os, sitecustomize; print(os.environ['SEEN'], sitecustomize.__file__)")
    path = f"{IN_SCRIPT}:{tmp_path}"
    printed = finished(listener.start(str(script), variables={"PYTHONPATH": path}))
    assert printed.split() == ["own", str(tmp_path / "sitecustomize.py")]


NAMES = ["random", "tempfile", "socket", "select", "traceback", "pathlib", "json"]


def test_modules_of_the_script_hide_those_of_the_standard_library(listener, tmp_path):
    """As they do alone, also where the watch has loaded one of that name before the script."""
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys; print(*sys.modules)"],
        env=without_watch(),
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    shadows = [name for name in NAMES if name not in loaded]  # a Python may load some itself
    assert len(shadows) > 3
    for name in shadows:
        (tmp_path / f"{name}.py").write_text("OWN = True")
    script = tmp_path / "train.py"
    script.write_text(
        f"import {', '.join(shadows)}\nprint({' + '.join(f'{n}.OWN' for n in shadows)})"
    )
    assert finished(listener.start(str(script))) == f"{len(shadows)}\n"
    variables = {"PYTHONPATH": f"{IN_SCRIPT}:{tmp_path}"}
    code = script.read_text()
    assert finished(listener.start("-c", code, variables=variables)) == f"{len(shadows)}\n"
    assert len(listener.of_kind("hello")) == 2


CLOSES = """
import os, sys, time
from pathlib import Path
import wandb

def wait_for(seen):
    while not Path(sys.argv[1] + seen).exists():
        time.sleep(0.01)

run = wandb.init(project="p")
wandb.log({"a": 1.0}, step=1)
wait_for("first")
os.closerange(3, 100)
files = [open(sys.argv[1] + str(n), "wb") for n in range(20)]
wandb.log({"a": 2.0}, step=2)
wait_for("second")
for number, file in enumerate(files):
    file.write(b"x")
    file.close()
print([open(sys.argv[1] + str(n), "rb").read() for n in range(20)] == [b"x"] * 20)
"""


def test_a_script_may_close_all_descriptors(listener, tmp_path):
    """Their numbers are those of its own files then; the watch connects anew."""
    script = tmp_path / "train.py"
    script.write_text(CLOSES)
    program = listener.start(str(script), str(tmp_path / "f"))
    for count, seen in enumerate(("first", "second"), start=1):
        listener.wait_for("points", count)
        (tmp_path / f"f{seen}").touch()
    assert finished(program).endswith("True\n")
    assert listener.series == {"a": [(1, 1.0), (2, 2.0)]}


def test_the_figures_of_a_script_that_leaves_at_once_are_sent(listener, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import os, wandb\nrun = wandb.init(project='p')\nwandb.log({'a': 1.0}, step=1)\n"
        "if os.fork() == 0: os._exit(0)\nos.wait()\nos._exit(status=3)\n"
    )
    program = listener.start(str(script))
    program.communicate(timeout=120)
    assert program.returncode == 3
    listener.wait_for("points")
    assert listener.series == {"a": [(1, 1.0)]}


def test_our_packages_are_found_although_their_folder_is_not_on_the_path(listener, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import traindeck_watch.client as c; print(c.is_in_run())")
    assert finished(listener.start(str(script))) == "True\n"


def test_children_of_a_script_are_not_watched(listener, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import multiprocessing, subprocess, sys\n"
        "def work(n): return n\n"
        "if __name__ == '__main__':\n"
        "    for method in ('fork', 'spawn'):\n"
        "        with multiprocessing.get_context(method).Pool(1) as pool:\n"
        "            print(pool.map(work, [1, 2]))\n"
        "    subprocess.run([sys.executable, '-m', 'this'], capture_output=True)\n"
        "    subprocess.run([sys.executable, '-c', 'pass'], check=True)\n"
    )
    assert finished(listener.start(str(script))) == "[1, 2]\n[1, 2]\n"
    assert listener.connections == 1


def test_what_a_shell_script_starts_is_watched_one_after_the_other(listener, tmp_path):
    (tmp_path / "prepare.py").write_text("pass")
    (tmp_path / "train.py").write_text("pass")
    program = subprocess.Popen(
        ["sh", "-c", f"{sys.executable} prepare.py; {sys.executable} train.py"],
        env=without_watch() | listener.environment,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    finished(program)
    assert [frame["argv"][0] for frame in listener.of_kind("hello")] == ["prepare.py", "train.py"]


def test_a_crash_is_told_with_the_line_of_the_users_code(listener, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import json\n\ndef load():\n    json.loads('{')\n\nload()\n")
    program = listener.start(str(script))
    output, _ = program.communicate(timeout=120)
    assert program.returncode == 1
    assert "JSONDecodeError" in output
    failed = listener.wait_for("failed")
    assert failed["where"] == f"{script}:4"
    assert failed["message"].startswith("json.decoder.JSONDecodeError: Expecting property name")
    assert "load()" in failed["traceback"]


def test_a_script_runs_on_if_nobody_listens(listener, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("print('trained')")
    variables = {"TRAINDECK_LINK": str(tmp_path / "nothing")}
    assert finished(listener.start(str(script), variables=variables)) == "trained\n"


@pytest.mark.parametrize(
    "version",
    [
        "3.9",
        pytest.param("3.10", marks=pytest.mark.nightly),
        pytest.param("3.12", marks=pytest.mark.nightly),
        "3.13",
    ],
)
def test_other_versions_of_python(version, listener, tmp_path):
    found = other_python(version)
    if not found:
        pytest.skip(f"there is no Python {version}")
    files = sorted((IN_SCRIPT / "traindeck_watch").rglob("[!_]*.py"))
    names = [".".join(file.relative_to(IN_SCRIPT).with_suffix("").parts) for file in files]
    script = tmp_path / "train.py"
    script.write_text(
        f"import importlib\nfor name in {names!r}: importlib.import_module(name)\n"
        "import wandb\nrun = wandb.init(project='p', config={'rate': 0.1})\n"
        "for step in range(3):\n"
        "    wandb.log({'accuracy': step / 4, 'h': wandb.Histogram([1.0, 2.0])}, step=step)\n"
        "print(run.config.rate)\n"
    )
    assert finished(listener.start(str(script), python=found)) == "0.1\n"
    listener.wait_for("points")  # the script may end before its last frame is read
    assert listener.series == {"accuracy": [(0, 0.0), (1, 0.25), (2, 0.5)]}
    assert len(listener.of_kind("histogram")) == 3
