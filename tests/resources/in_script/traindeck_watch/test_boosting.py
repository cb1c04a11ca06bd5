"""XGBoost, LightGBM and CatBoost: by doubles of the same shape, and the real ones."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.script_listener import ScriptListener, finished, without_watch

pytestmark = pytest.mark.usefixtures("processes")

SCRIPTS = Path(__file__).parents[1] / "scripts"
LIBRARIES = os.environ.get("TRAINDECK_LIBRARIES", "")

XGBOOST = {
    "xgboost/__init__.py": """
from . import callback
from .core import Booster
from .training import train
__version__ = "3.2"
""",
    "xgboost/callback.py": """
class CallbackContainer:
    def __init__(self):
        self.history = {}
    def after_iteration(self, model, epoch, dtrain, evals):
        for name in evals:
            for metric in ("logloss", "ndcg@5"):
                of_set = self.history.setdefault(name, {})
                of_set.setdefault(metric, []).append(1 / (epoch + 1))
        return False
""",
    "xgboost/core.py": """
class Booster:
    rounds = 0
    def update(self, dtrain, iteration=0):
        self.boost(dtrain)
    def boost(self, dtrain):
        self.rounds += 1
    def eval_set(self, evals, iteration=0):
        return "\\t".join([f"[{iteration}]", *(f"{name}-auc:0.5" for name in evals)])
    def save_model(self, fname):
        open(fname, "w").close()
""",
    "xgboost/training.py": """
from .callback import CallbackContainer
from .core import Booster
def train(params, dtrain, num_boost_round=10, *, evals=()):
    booster, container = Booster(), CallbackContainer()
    for number in range(num_boost_round):
        booster.update(dtrain, number)
        if container.after_iteration(booster, number, dtrain, evals):
            break
    return booster
""",
    # What has taken the function before the package was watched as a whole.
    "xgboost/sklearn.py": """
from .training import train
def fit(rounds):
    return train({}, None, rounds, evals=["validation_0", "validation_1"])
""",
}
LIGHTGBM = {
    "lightgbm/__init__.py": """
from . import callback
from .basic import Booster
from .engine import train
__version__ = "4.7"
""",
    "lightgbm/callback.py": """
class EarlyStopException(Exception):
    def __init__(self, best_iteration, best_score):
        self.best_iteration, self.best_score = best_iteration, best_score
""",
    "lightgbm/basic.py": """
class Booster:
    rounds = 0
    def update(self):
        self.rounds += 1
    def eval_valid(self):
        return [("mine", "l2", 0.5, False)]
    def save_model(self, filename):
        open(filename, "w").close()
""",
    "lightgbm/engine.py": """
from types import SimpleNamespace as Env
from .basic import Booster
from .callback import EarlyStopException
def train(params, train_set, num_boost_round=100, valid_names=(), callbacks=None):
    booster = Booster()
    for number in range(num_boost_round):
        booster.update()
        found = [(name, "auc", 0.25, True) for name in valid_names]
        if "cv" in params:
            found = [("cv_agg", "train l2", 0.5, False, 0.1), ("cv_agg", "valid l2", 1, False, 0.1)]
        try:
            for callback in sorted(callbacks, key=lambda each: each.order):
                callback(Env(model=booster, iteration=number, evaluation_result_list=found))
        except EarlyStopException as early:
            booster.best_iteration = early.best_iteration + 1
            break
    return booster
""",
}
CATBOOST = {
    "catboost/__init__.py": """
from . import core
from .core import CatBoost
__version__ = "1.2"
""",
    "catboost/core.py": """
from types import SimpleNamespace as Info
class _CatBoostBase:
    def _train(self, train_pool, test_pool, params, allow_clear_pool, init_model):
        learn, validation = {"Logloss": []}, {"Logloss": [], "AUC": []}
        self.rounds = 0
        for number in range(params.get("iterations", 1000)):
            self.rounds += 1
            for values in (*learn.values(), *validation.values()):
                values.append(1 / self.rounds)
            info = Info(iteration=number + 1, metrics={"learn": learn, "validation_0": validation})
            if "callbacks" in params and not params["callbacks"].after_iteration(info):
                break
class Pool:
    def __init__(self, rows):
        self.rows = rows
    def num_row(self):
        return self.rows
    def num_col(self):
        return 10**6
class CatBoost(_CatBoostBase):
    def fit(self, rounds, rows=10**9, callbacks=None, **params):
        params["iterations"] = rounds
        if callbacks:
            params["callbacks"] = callbacks
        self._train(Pool(rows), None, params, True, None)
        return self
    def save_model(self, fname, format="cbm"):
        open(fname, "w").close()
""",
}
LIBRARY = {"xgboost": XGBOOST, "lightgbm": LIGHTGBM, "catboost": CATBOOST}
LONG = {
    "xgboost": "model = xgboost.train({}, None, num_boost_round=10**9, evals=['eval'])",
    "lightgbm": "model = lightgbm.train({}, None, 10**9, ['eval'])",
    "catboost": "model = catboost.CatBoost().fit(10**9)",
}


@pytest.fixture
def listener(short_folder):
    with ScriptListener(short_folder) as listener:
        yield listener


def start(listener, folder, library, text):
    for name, source in LIBRARY[library].items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(source)
    script = folder / "train.py"
    script.write_text(f"import {library}\n{text}\n")
    return listener.start(str(script), folder=folder)


def test_rounds_of_xgboost_are_steps(listener, tmp_path):
    text = """
from xgboost.sklearn import fit
print(xgboost.train({}, None, 2, evals=["dtrain", "eval", "val", "mine"]).rounds, fit(1).rounds)
booster = xgboost.Booster()
for number in range(2):
    booster.update(None, number)
    booster.eval_set(["test"], number)
booster.save_model("own.json")
"""
    assert finished(start(listener, tmp_path, "xgboost", text)) == "2 1\n"
    assert listener.series == {
        "train/logloss": [(1, 1.0), (2, 0.5)],
        "train/ndcg@5": [(1, 1.0), (2, 0.5)],
        "validation/logloss": [(1, 1.0), (2, 0.5), (3, 1.0)],
        "validation/ndcg@5": [(1, 1.0), (2, 0.5), (3, 1.0)],
        "validation/val_logloss": [(1, 1.0), (2, 0.5)],
        "validation/val_ndcg@5": [(1, 1.0), (2, 0.5)],
        "validation/mine_logloss": [(1, 1.0), (2, 0.5)],
        "validation/mine_ndcg@5": [(1, 1.0), (2, 0.5)],
        "validation/logloss_1": [(3, 1.0)],
        "validation/ndcg@5_1": [(3, 1.0)],
        "test/auc": [(4, 0.5), (5, 0.5)],
    }
    assert listener.step == 5
    assert listener.of_kind("plan")[0]["total_steps"] == 2
    files = [(frame["path"], frame["step"]) for frame in listener.of_kind("file")]
    assert files == [(str(tmp_path / "own.json"), 5)]
    assert listener.of_kind("versions")[0]["versions"] == {"xgboost": "3.2"}
    assert not listener.notices


def test_rounds_of_lightgbm_are_steps(listener, tmp_path):
    text = """
def mine(env):
    if env.iteration == 2:
        raise lightgbm.callback.EarlyStopException(0, [])
mine.order = 30
print(lightgbm.train({}, None, 9, ["training", "valid_1"], callbacks=[mine]).best_iteration)
lightgbm.train({"cv": 1}, None, 1)
booster = lightgbm.Booster()
booster.update()
booster.eval_valid()
"""
    assert finished(start(listener, tmp_path, "lightgbm", text)) == "1\n"
    assert listener.series == {
        "train/auc": [(1, 0.25), (2, 0.25), (3, 0.25)],
        "validation/auc_1": [(1, 0.25), (2, 0.25), (3, 0.25)],
        "train/l2": [(4, 0.5)],
        "validation/l2": [(4, 1.0)],
        "validation/mine_l2": [(5, 0.5)],
    }
    assert not listener.notices


def test_rounds_of_catboost_are_steps_where_it_tells_them_in_time(listener, tmp_path):
    text = """
class Mine:
    def after_iteration(self, info):
        return info.iteration < 2
print(catboost.CatBoost().fit(9, callbacks=Mine()).rounds)
catboost.CatBoost().fit(3, task_type="GPU")
catboost.CatBoost().fit(2001, rows=2)
"""
    assert finished(start(listener, tmp_path, "catboost", text)) == "2\n"
    assert listener.series == {
        "train/Logloss": [(1, 1.0), (2, 0.5)],
        "validation/Logloss": [(1, 1.0), (2, 0.5)],
        "validation/AUC": [(1, 1.0), (2, 0.5)],
    }
    on_gpu, on_little_data = listener.notices
    assert "no callbacks on a GPU" in on_gpu
    assert "2001 rounds on so little data" in on_little_data


@pytest.mark.parametrize("library", LIBRARY)
def test_a_stop_ends_the_training_and_the_script_goes_on(library, listener, tmp_path):
    text = f"{LONG[library]}\nmodel.save_model('own')\nprint(model.rounds)"
    program = start(listener, tmp_path, library, text)
    listener.wait_for_step(3)
    listener.act("stop", 1)
    rounds = int(finished(program))
    assert listener.wait_for("stopping")["step"] == rounds == listener.step
    if library == "catboost":
        text = listener.wait_for("not_saved")["text"]
        assert text.endswith("saved: CatBoost has no model until its training ends.")
    else:
        assert listener.wait_for("saved")["step"] == rounds
        assert list((listener.folder / "run").rglob("rank0.*"))
    assert [frame["step"] for frame in listener.of_kind("file")] == [rounds]  # the script's alone


def test_a_model_beside_a_network_makes_no_steps(listener, tmp_path):
    text = """
import traindeck_watch
watch = traindeck_watch.current()
watch.count_step()  # of a network
xgboost.train({}, None, 3, evals=["eval"])
watch.count_step()
"""
    finished(start(listener, tmp_path, "xgboost", text))
    assert listener.step == 2
    assert not listener.series


@pytest.mark.parametrize("library", LIBRARY)
def test_another_version_is_told_and_trains(library, listener, tmp_path):
    (tmp_path / f"{library}.py").write_text("def train():\n    return 3\n")
    script = tmp_path / "train.py"
    script.write_text(f"import {library}\nprint({library}.train())\n")
    assert finished(listener.start(str(script), folder=tmp_path)) == "3\n"
    (notice,) = listener.notices
    assert notice.startswith(f"{library} could not be watched: AttributeError")


@pytest.mark.nightly
def test_the_real_libraries_train_as_without_a_watch(listener):
    if not LIBRARIES:
        pytest.skip("TRAINDECK_LIBRARIES names no Python that has them")
    script = str(SCRIPTS / "boosting.py")
    alone = subprocess.run(
        [LIBRARIES, script], env=without_watch(), capture_output=True, text=True, check=True
    )
    assert (
        finished(listener.start(script, python=LIBRARIES)).splitlines()[:3]
        == (alone.stdout.splitlines()[:3])
    )
    steps = {name: [step for step, _ in points] for name, points in listener.series.items()}
    assert steps["validation/auc"] == [*range(1, 21), *range(35, 39)]
    assert steps["validation/AUC"] == steps["train/Logloss"][:10] == [*range(21, 31)]
    assert steps["test/auc"] == [*range(31, 35), *range(48, 58)]
    assert listener.step == 57
    assert not listener.notices


@pytest.mark.nightly
@pytest.mark.parametrize("library", LIBRARY)
def test_the_real_libraries_end_by_their_own_way(library, listener):
    if not LIBRARIES:
        pytest.skip("TRAINDECK_LIBRARIES names no Python that has them")
    program = listener.start(str(SCRIPTS / "boosting.py"), library, python=LIBRARIES)
    listener.wait_for_step(20)
    listener.act("stop", 1)
    rounds = int(finished(program).splitlines()[-1])
    assert listener.wait_for("stopping")["step"] == rounds
    assert listener.of_kind("not_saved" if library == "catboost" else "saved")
