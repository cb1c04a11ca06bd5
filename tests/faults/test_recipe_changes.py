"""What trains is what is recorded: the copy in the run folder, whatever becomes of the original."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from textwrap import dedent

import pytest

from engine import client
from engine.client import CannotStart, RecipeChanged, RunInfo
from engine.messages.commands import Stop
from engine.messages.events import Notice, RecipeChosen, RecipeVersion
from engine.repair.report import Outcome, Report
from engine.repair.run_check import check_run
from engine.runs.run_state import RunState
from engine.runs.store.run_store import FILE_NAME as STORE
from tests.support.runs import (
    events,
    failure_of,
    is_training,
    logs,
    spec,
    train,
    wait_for,
    wait_for_end,
    wait_until_gone,
)
from tests.support.sentences import sentence

pytestmark = pytest.mark.usefixtures("processes")

RECIPE = """
    import torch
    from pathlib import Path
    from nets import net

    HERE = Path(__file__).parent
    print("recipe one", (HERE / "data.txt").read_text(), flush=True)

    def model():
        return net()

    def datasets():
        return ((torch.ones(640, 4), torch.ones(640, 1)),) * 2
"""
MODULE = """
    import torch

    print("module one", flush=True)

    def net():
        return torch.nn.Linear(4, 1)
"""
NOW = RecipeVersion.AS_IT_IS_NOW
WAS = RecipeVersion.AS_IT_WAS


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A recipe with data and a module beside it; both print that they are the first version."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "data.txt").write_text("with data")
    (folder / "nets.py").write_text(dedent(MODULE))
    path = folder / "train_me.py"
    path.write_text(dedent(RECIPE))
    return path


def edit(recipe: Path) -> None:
    """Both files now print that they are the second version, and a line was added above."""
    for path in (recipe, recipe.with_name("nets.py")):
        path.write_text("# edited\n" + path.read_text().replace(" one", " two"))


def printed(info: RunInfo) -> list[str]:
    """What recipe and module printed, in order."""
    lines = (info.folder / "logs" / "rank0.log").read_text().splitlines()
    return [line for line in lines if line.startswith(("recipe ", "module "))]


FIRST = ["module one", "recipe one with data"]
SECOND = ["module two", "recipe two with data"]


def stopped_run(recipe: Path) -> RunInfo:
    run_id = client.start(spec(str(recipe), "torch/single", epochs=1_000_000))
    wait_for(run_id, is_training)
    client.send(run_id, Stop())
    info = wait_for_end(run_id)
    wait_until_gone(info)
    return info


def resume_and_stop(run_id: str, version: RecipeVersion | None = None) -> RunInfo:
    before = client.get_run(run_id).status
    client.resume(run_id, recipe=version)
    wait_for(run_id, lambda info: is_training(info) and info.status.step > before.step)
    client.send(run_id, Stop())
    info = wait_for_end(run_id)
    wait_until_gone(info)
    return info


@pytest.mark.nightly
def test_a_recipe_that_is_edited_while_its_run_is_queued(recipe: Path) -> None:
    first = client.start(spec("slow_phases", "torch/single", epochs=1_000_000, queue="always"))
    second = client.start(spec(str(recipe), "torch/single", queue="always"))
    wait_for(second, lambda info: info.state is RunState.QUEUED)
    edit(recipe)
    client.send(first, Stop(now=True))
    info = wait_for_end(second)
    assert info.state is RunState.FINISHED, logs(info)
    assert printed(info) == FIRST


@pytest.mark.nightly
@pytest.mark.skipif(os.name != "posix", reason="it kills with SIGKILL")
def test_a_recipe_that_is_edited_before_an_automatic_restart(recipe: Path) -> None:
    wanted = spec(
        str(recipe), "torch/single", epochs=1_000_000, max_restarts=1, checkpoint_steps=10
    )
    run_id = client.start(wanted)
    info = wait_for(run_id, lambda info: info.status.checkpoint_step >= 20)
    edit(recipe)
    os.kill(info.status.worker_pids[0], signal.SIGKILL)
    wait_for(run_id, lambda info: info.status.attempt == 2 and is_training(info))
    client.send(run_id, Stop())
    assert printed(wait_for_end(run_id)) == FIRST + FIRST


def test_a_copy_that_has_changed_trains_only_once_it_is_restored(recipe: Path) -> None:
    info = stopped_run(recipe)
    change_copy(info)
    for version in (None, WAS):
        with pytest.raises(CannotStart, match=r"modules/nets\.py.*fsck 1 --repair"):
            client.resume(info.id, recipe=version)
    assert not start_supervisor(info), "it checks the copy too"
    report = Report(repair=True)
    check_run(info.id, report)
    [found] = report.findings
    assert (found.file, found.outcome) == ("modules/nets.py", Outcome.MENDED)
    assert printed(resume_and_stop(info.id)) == FIRST + FIRST


@pytest.mark.nightly
def test_a_copy_that_has_changed_gives_way_to_the_recipe_as_it_is_now(recipe: Path) -> None:
    info = stopped_run(recipe)
    change_copy(info)
    edit(recipe)
    assert printed(resume_and_stop(info.id, NOW)) == FIRST + SECOND


def change_copy(info: RunInfo) -> None:
    module = info.folder / "modules" / "nets.py"
    module.write_text(module.read_text().replace(" one", " damaged"))


def start_supervisor(info: RunInfo) -> bool:
    arguments = [sys.executable, "-m", "engine.supervisor", str(info.folder)]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert "modules/nets.py" in ended.stderr
    return ended.returncode == 0


@pytest.mark.nightly
def test_on_resume_the_user_says_which_recipe_goes_on(recipe: Path) -> None:
    info = stopped_run(recipe)
    edit(recipe)
    with pytest.raises(RecipeChanged) as asked:
        client.resume(info.id)
    assert asked.value.changes == sentence("lines-changed-lines-changed")
    assert not list(info.folder.glob("*.before-*"))

    info = resume_and_stop(info.id, WAS)
    assert printed(info) == FIRST + FIRST
    info = resume_and_stop(info.id, NOW)
    assert printed(info) == FIRST + FIRST + SECOND
    assert "recipe two" in (info.folder / "recipe.py").read_text()
    assert "module two" in (info.folder / "modules" / "nets.py").read_text()
    assert "recipe one" in (info.folder / "recipe.before-3.py").read_text()
    assert "module one" in (info.folder / "modules.before-3" / "nets.py").read_text()
    info = resume_and_stop(info.id)  # the copy is the file: there is nothing to ask
    assert printed(info)[-2:] == SECOND
    chosen = [event for event in events(info) if isinstance(event, RecipeChosen)]
    assert chosen == [RecipeChosen(version, asked.value.changes) for version in (WAS, NOW)]


@pytest.mark.nightly
def test_a_run_goes_on_whose_recipe_was_deleted(recipe: Path) -> None:
    info = stopped_run(recipe)
    recipe.unlink()
    recipe.with_name("nets.py").unlink()
    assert printed(resume_and_stop(info.id)) == FIRST + FIRST
    again = wait_for(client.resume_as_new(info.id), is_training)
    client.send(again.id, Stop())
    assert printed(wait_for_end(again.id)) == FIRST
    assert (again.folder / "modules" / "nets.py").exists()


@pytest.mark.nightly
def test_a_run_goes_on_whose_recipe_has_become_nonsense(recipe: Path) -> None:
    info = stopped_run(recipe)
    recipe.write_text("no python (")
    with pytest.raises(client.CannotStart, match="syntax error"):
        client.resume(info.id, recipe=NOW)
    assert printed(resume_and_stop(info.id, WAS)) == FIRST + FIRST


@pytest.mark.nightly
def test_a_run_goes_on_whose_recipe_folder_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "nets.py").write_text(dedent(MODULE))
    recipe = folder / "train_me.py"
    recipe.write_text(dedent(RECIPE).replace('(HERE / "data.txt").read_text()', '"with data"'))
    info = stopped_run(recipe)
    shutil.rmtree(folder)
    info = resume_and_stop(info.id)
    assert printed(info) == FIRST + FIRST
    [notice] = [event for event in events(info) if isinstance(event, Notice)]
    assert f"The folder {folder} is gone" in notice.text


@pytest.mark.nightly
def test_an_older_run_without_modules_trains_its_recipe_and_takes_the_modules_as_they_are(
    recipe: Path,
) -> None:
    info = stopped_run(recipe)
    shutil.rmtree(info.folder / "modules")
    with closing(sqlite3.connect(info.folder / STORE)) as store, store:
        store.execute("DELETE FROM file")  # an older run has no copies in its store either
    module = recipe.with_name("nets.py")
    module.write_text(module.read_text().replace(" one", " two"))
    info = resume_and_stop(info.id)
    assert printed(info) == [*FIRST, "module two", FIRST[1]]
    [notice] = [event for event in events(info) if isinstance(event, Notice)]
    assert "no copy of nets.py:" in notice.text


@pytest.mark.nightly
def test_a_recipe_that_fails_as_it_is_now_is_taken_back(recipe: Path) -> None:
    info = stopped_run(recipe)
    recipe.write_text(recipe.read_text() + "raise ValueError('edited')\n")
    client.resume(info.id, recipe=NOW)
    info = wait_for_end(info.id)
    assert "edited" in info.reason
    assert sentence("previous-recipe-and-settings-were-restored") in info.reason
    assert "edited" not in (info.folder / "recipe.py").read_text()
    assert not list(info.folder.glob("*.before-*"))
    assert printed(resume_and_stop(info.id, WAS))[-2:] == FIRST


FAILS = """
    import inspect, threading, torch
    import linecache
    from nets import net

    def model():
        print("source:", inspect.getsource(datasets), flush=True)
        thread = threading.Thread(target=lambda: 1 / 0)  # in a thread
        thread.start()
        thread.join()
        return net()

    def datasets():
        raise RuntimeError("no data")  # as it was
"""


def test_a_traceback_shows_what_was_executed(tmp_path: Path) -> None:
    recipe, module = tmp_path / "fails.py", tmp_path / "nets.py"
    recipe.write_text(dedent(FAILS))
    module.write_text(dedent(MODULE))
    first = client.start(spec("slow_phases", "torch/single", epochs=1_000_000, queue="always"))
    second = client.start(spec(str(recipe), "torch/single", queue="always"))
    wait_for(second, lambda info: info.state is RunState.QUEUED)
    recipe.write_text("# something\n# else\n" + "x = 1\n" * 50)
    module.write_text("raise RuntimeError('edited')\n")
    client.send(first, Stop(now=True))
    info = wait_for_end(second)
    failure = failure_of(info)
    assert failure.where == f"{recipe}:14"
    log = logs(info)
    assert f'File "{recipe}", line 14, in datasets\n    raise RuntimeError("no data")' in log
    assert 'source: def datasets():\n    raise RuntimeError("no data")  # as it was' in log
    assert "thread = threading.Thread(target=lambda: 1 / 0)  # in a thread" in log
    assert "x = 1" not in log
    assert printed(info) == FIRST[:1], "the module is that of the run as well"


OTHERS = """
    import importlib, sys, torch
    from pathlib import Path
    sys.path.append(str(Path(__file__).parent / "more"))

    def model():
        importlib.import_module("plug" + "in")
        import tool
        return torch.nn.Linear(4, 1)

    def datasets():
        return ((torch.ones(640, 4), torch.ones(640, 1)),) * 2
"""


def test_modules_that_the_run_has_no_copy_of_are_named(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "tool.py").touch()
    (tmp_path / "plugin.py").touch()
    recipe = tmp_path / "imports.py"
    recipe.write_text(dedent(OTHERS))
    info = train(spec(str(recipe), "torch/single"))
    assert info.state is RunState.FINISHED, logs(info)
    [notice] = [event for event in events(info) if isinstance(event, Notice)]
    assert sentence("run-keeps-no-copy") in notice.text


GRAPH = """
    import keras, numpy as np, tensorflow as tf

    def model():
        return keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])

    def datasets():
        return ((np.ones((640, 4), "float32"), np.ones((640, 1), "float32")),) * 2

    def loss(outputs, targets):
        error = tf.reduce_mean((outputs - targets) ** 2)
        if error > 0:  # only AutoGraph can do this, and it needs the source
            return error
        return 2 * error
"""


@pytest.mark.nightly
def test_autograph_reads_what_is_executed(tmp_path: Path) -> None:
    recipe = tmp_path / "graph.py"
    recipe.write_text(dedent(GRAPH))
    first = client.start(spec("slow_phases", "torch/single", epochs=1_000_000, queue="always"))
    second = client.start(spec(str(recipe), "tf/single", queue="always"))
    wait_for(second, lambda info: info.state is RunState.QUEUED)
    recipe.write_text("\n" * 9 + "nothing here is code:\n" * 30)
    client.send(first, Stop(now=True))
    info = wait_for_end(second)
    assert info.state is RunState.FINISHED, f"{info.reason}{logs(info)}"


SPAWNED = """
    import multiprocessing, torch
    from nets import net
    multiprocessing.set_start_method("spawn", force=True)

    class Ones(torch.utils.data.Dataset):
        def __len__(self):
            return 640

        def __getitem__(self, index):
            return torch.ones(4), torch.ones(1)

    def model():
        return net()

    def datasets():
        return Ones(), Ones()
"""


@pytest.mark.nightly
def test_spawned_data_loaders_import_the_copy_too(tmp_path: Path, recipe: Path) -> None:
    recipe.write_text(dedent(SPAWNED))
    first = client.start(spec("slow_phases", "torch/single", epochs=1_000_000, queue="always"))
    second = client.start(spec(str(recipe), "torch/single", queue="always", loader_workers=1))
    wait_for(second, lambda info: info.state is RunState.QUEUED)
    edit(recipe)
    recipe.write_text("raise RuntimeError('edited')")
    client.send(first, Stop(now=True))
    info = wait_for_end(second)
    assert info.state is RunState.FINISHED, f"{info.reason}{logs(info)}"
    assert set(printed(info)) == {"module one"}
    assert len(printed(info)) > 1, "the loaders have imported it as well"
