"""Loggers by doubles of the same shape; with the real ones where there are some."""

from __future__ import annotations

import os
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from traindeck_watch.loggers import hooks, wandb_logger

from tests.support.script_listener import ScriptListener, finished

pytestmark = pytest.mark.usefixtures("processes")

SCRIPTS = Path(__file__).parents[2] / "scripts"
LIBRARIES = os.environ.get("TRAINDECK_LIBRARIES", "")

WRITER = """
class SummaryWriter:
    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None):
        print("scalar", tag, scalar_value, global_step)
    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None):
        for tag, value in tag_scalar_dict.items():
            self.add_scalar(tag, value, global_step)
    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW"):
        print("image", tag)
    def add_histogram(self, tag, values, global_step=None, bins="auto"):
        print("histogram", tag)
"""
WANDB = """
import os
from .sdk.wandb_run import Run
def init(mode=None, **settings):
    global run
    print("mode", mode or os.environ.get("WANDB_MODE"))
    if (mode or os.environ.get("WANDB_MODE")) not in ("offline", "disabled"):
        raise RuntimeError("it asks for an account")
    run = Run()
    return run
def login(key=None):
    raise RuntimeError("it asks for an account")
def log(*args, **kwargs):
    run.log(*args, **kwargs)
"""
WANDB_RUN = """
class Run:
    def log(self, data, step=None, commit=None):
        print("wandb", sorted(data))
    def define_metric(self, name, step_metric=None):
        pass
"""
FLUENT = """
def log_metric(key, value, step=None):
    log_metrics({key: value}, step)
def log_metrics(metrics, step=None):
    print("mlflow", metrics, step)
"""
SCRIPT = """
from tensorboardX.writer import SummaryWriter
import wandb
from mlflow.tracking.fluent import log_metric
writer = SummaryWriter()
writer.add_scalar("acc", 0.5, 3)
writer.add_scalars("both", {"a": 1.0, "b": 2.0}, 4)
writer.add_histogram("h", [1.0, 2.0], global_step=5)
wandb.login()
run = wandb.init(mode="online")
run.define_metric("val/*", step_metric="epoch")
wandb.log({"loss": 0.25, "val/acc": 0.75, "epoch": 2, "note": "text", "more": {"x": 1}}, step=9)
log_metric("m", 7.0, step=1)
"""


def write(folder, **modules):
    for name, text in modules.items():
        path = folder.joinpath(*name.split("__"))
        path.parent.mkdir(parents=True, exist_ok=True)
        for parent in path.relative_to(folder).parents:
            if parent != Path():
                (folder / parent / "__init__.py").touch()
        (path / "__init__.py" if name.endswith("wandb") else path.with_suffix(".py")).write_text(
            text
        )


@pytest.fixture
def listener(short_folder):
    with ScriptListener(short_folder) as listener:
        yield listener


def test_what_a_script_logs_is_kept_once_and_goes_on_to_its_logger(listener, tmp_path):
    write(tmp_path, tensorboardX__writer=WRITER, wandb__sdk__wandb_run=WANDB_RUN)
    write(tmp_path, mlflow__tracking__fluent=FLUENT)
    (tmp_path / "wandb" / "__init__.py").write_text(WANDB)
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    variables = {"NETRC": str(tmp_path / "none"), "HOME": str(tmp_path)}
    printed = finished(listener.start(str(script), variables=variables)).splitlines()
    assert printed == [
        "scalar acc 0.5 3",
        "scalar a 1.0 4",
        "scalar b 2.0 4",
        "histogram h",
        "mode offline",
        "wandb ['epoch', 'loss', 'more', 'note', 'val/acc']",
        "mlflow {'m': 7.0} 1",
    ]
    assert listener.series == {
        "acc": [(3, 0.5)],
        "both/a": [(4, 1.0)],
        "both/b": [(4, 2.0)],
        "loss": [(9, 0.25)],
        "val/acc": [(2, 0.75)],
        "epoch": [(9, 2.0)],
        "more/x": [(9, 1.0)],
        "m": [(1, 7.0)],
    }
    [histogram] = listener.of_kind("histogram")
    assert (histogram["series"], histogram["step"], sum(histogram["counts"])) == ("h", 5, 2.0)
    [notice] = listener.notices
    assert "stays on this machine" in notice


STABLE_BASELINES = """
class TensorBoardOutputFormat: pass
class Logger:
    def __init__(self, *formats):
        self.output_formats = formats
        self.name_to_value = {"rollout/ep_rew_mean": 7.5, "time/fps": 9, "a": "text"}
    def dump(self, step=0):
        self.name_to_value.clear()
        return self.name_to_value
"""


class Watched:
    """The part of the watch that keeps figures."""

    by_calls, is_silent = (), False

    def __init__(self, step=0):
        self.sees_steps, self.present_step = step > 0, step
        self.points = []
        self.told = []

    def tell_error(self, error, what):
        self.told.append(f"{what}: {type(error).__name__}")

    def record(self, name, value, step):
        self.points.append((name, step, value))

    def steps(self, name):
        return [step for each, step, _ in self.points if each == name]


@pytest.fixture
def calls(monkeypatch):
    for name, empty in (("_calls", {}), ("_fractional", set())):
        monkeypatch.setattr(hooks, name, empty)
    for name, empty in (("_open_step", []), ("_step_metrics", {})):
        monkeypatch.setattr(wandb_logger, name, empty)


@pytest.mark.usefixtures("calls")
def test_without_steps_of_a_training_each_call_of_wandb_is_the_next_one():
    watch = Watched()
    for _ in range(2):
        wandb_logger.keep_all(watch, {"a": 1, "b": 2}, None)
    wandb_logger.keep_all(watch, {"c": 1}, None, commit=False)
    wandb_logger.keep_all(watch, {"d": 1}, None)
    wandb_logger.keep_all(watch, {"a": 1}, 10)
    wandb_logger.keep_all(watch, {"a": 1}, None)
    assert (watch.steps("a"), watch.steps("b")) == ([0, 1, 10, 11], [0, 1])
    assert watch.steps("c") == watch.steps("d") == [2]
    trains = Watched(7)
    wandb_logger.keep_all(trains, {"a": 1}, None)
    assert trains.steps("a") == [7]


@pytest.mark.usefixtures("calls")
def test_steps_with_fractions_keep_their_points_apart():
    wandb_logger.define_metric("*", "epoch")
    watch = Watched(7)
    for number in range(6):
        wandb_logger.keep_all(watch, {"a": number, "b": 1, "epoch": number / 4}, None)
        hooks.keep(watch, "other", 1.0, number / 4)
        hooks.keep(watch, "large", 1.0, 3_000_000_000 * number)
        hooks.keep(watch, "exact", 1.0, 2**53 + number)
    assert watch.steps("a") == watch.steps("b") == watch.steps("other") == [0, 1, 2, 3, 4, 5]
    assert watch.steps("exact") == [2**53 + number for number in range(6)]
    assert watch.steps("large") == [3_000_000_000 * number for number in range(6)]


@pytest.mark.usefixtures("calls")
def test_a_value_that_is_no_point_is_told_and_the_others_of_its_call_are_kept():
    watch = Watched(7)
    values = {
        "a": 1,
        "large": 10**400,
        "d": Decimal("7.5"),
        "f": Fraction(17, 2),
        "c": 1j,
        "t": "x",
    }
    wandb_logger.keep_all(watch, values | {"inner": {"large": 10**400, "b": 2}}, None)
    assert watch.points == [("a", 7, 1.0), ("d", 7, 7.5), ("f", 7, 8.5), ("inner/b", 7, 2.0)]
    assert watch.told == [
        "what is logged as 'large': OverflowError",
        "what is logged as 'c': TypeError",
        "what is logged as 'inner/large': OverflowError",
    ]


@pytest.mark.parametrize("variable", ["WANDB_MODE", "WANDB_API_KEY"])
def test_wandb_that_the_user_has_turned_on_is_left_as_it_is(variable, listener, tmp_path):
    write(tmp_path, wandb__sdk__wandb_run=WANDB_RUN)
    (tmp_path / "wandb" / "__init__.py").write_text(WANDB)
    script = tmp_path / "train.py"
    script.write_text("import wandb\ntry: wandb.init()\nexcept RuntimeError as e: print(e)")
    variables = {variable: "online", "HOME": str(tmp_path)}
    printed = finished(listener.start(str(script), variables=variables))
    assert printed.splitlines()[-1] == "it asks for an account"
    assert not listener.notices


def test_a_logger_that_is_not_installed_is_doubled_only_where_the_script_would_fail(
    listener, tmp_path
):
    script = tmp_path / "train.py"
    script.write_text(
        "import importlib.util\n"
        "try:\n    import aim\nexcept ImportError:\n    aim = None\n"
        "print(aim, importlib.util.find_spec('trackio'))\n"
        "import wandb\n"
        "with wandb.init(config={'a': 1}) as run:\n"
        "    run.log({'x': 1.5}, step=2)\n"
        "    wandb.log({'picture': wandb.Image('missing.png')})\n"
        "    wandb.watch(None); run.log_artifact(wandb.Artifact('a', 'model'))\n"
        "    print(wandb.config.a)\n"
    )
    assert finished(listener.start(str(script))) == "None None\n1\n"
    assert listener.series == {"x": [(2, 1.5)]}
    assert listener.notices[0].startswith("wandb is not installed")
    assert "missing.png" in listener.notices[1]


def test_the_tables_of_stable_baselines_are_curves_unless_tensorboard_has_them(listener, tmp_path):
    write(tmp_path, stable_baselines3__common__logger=STABLE_BASELINES)
    script = tmp_path / "train.py"
    script.write_text(
        "from stable_baselines3.common.logger import Logger, TensorBoardOutputFormat\n"
        "print(Logger(object()).dump(256), Logger(TensorBoardOutputFormat()).dump(512))\n"
    )
    assert finished(listener.start(str(script))) == "{} {}\n"
    assert listener.series == {"rollout/ep_rew_mean": [(256, 7.5)]}


@pytest.mark.nightly
def test_the_real_loggers(listener):
    if not LIBRARIES:
        pytest.skip("TRAINDECK_LIBRARIES names no Python that has them")
    variables = {
        "NETRC": "/nonexistent",
        "WANDB_SILENT": "true",
        "TRACKIO_DIR": str(listener.folder),
    }
    script = str(SCRIPTS / "all_loggers.py")
    finished(listener.start(script, python=LIBRARIES, variables=variables))
    expected = [0.0, 0.5, 1.0]
    names = ["tb", "tbx", "wandb", "trackio", "mlflow", "train/aim", "both/a"]
    assert {name: listener.values(name) for name in names} == dict.fromkeys(names, expected)
    pictures = {frame["series"] for frame in listener.of_kind("image")}
    assert pictures == {"tb_image", "wandb_image", "trackio_image", "aim_image"}
    assert {frame["series"] for frame in listener.of_kind("histogram")} == {"tb_h", "wandb_h"}
