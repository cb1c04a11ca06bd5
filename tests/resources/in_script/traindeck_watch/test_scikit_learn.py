"""`partial_fit` of scikit-learn: by a double of the same shape, and the real one."""

from __future__ import annotations

import os
import sys

import joblib
import pytest

from tests.support.script_listener import ScriptListener, finished

pytestmark = pytest.mark.usefixtures("processes")

LIBRARIES = os.environ.get("TRAINDECK_LIBRARIES", "")
SOURCES = {
    "sklearn/__init__.py": "__version__ = '1.9'\n",
    "sklearn/base.py": """
class Requests:
    def __init_subclass__(cls, **kwargs):
        cls.is_known = True
        super().__init_subclass__(**kwargs)
class BaseEstimator(Requests):
    pass
""",
    "sklearn/linear_model.py": """
from .base import BaseEstimator
class If:
    def __init__(self, fn):
        self.fn = fn
    def __get__(self, found, owner=None):
        return self.fn.__get__(found)
class SGD(BaseEstimator):
    count = 0
    def partial_fit(self, X, classes=None):
        "Train on a batch."
        self.count += 1
        return self
class MLP(SGD):
    @If
    def partial_fit(self, X):
        self.loss_ = 1 / X
        return self
class Both(BaseEstimator):
    def __init__(self):
        self.parts = [SGD(), SGD()]
    def partial_fit(self, X):
        for part in self.parts:
            part.partial_fit(X)
""",
    "sklearn/preprocessing.py": """
from .base import BaseEstimator
class Scaler(BaseEstimator):
    def partial_fit(self, X):
        return self
""",
}
LOOP = """
from sklearn.linear_model import MLP, SGD, Both
from sklearn.preprocessing import Scaler
class Mine(SGD):
    def partial_fit(self, X):
        return super().partial_fit(X)
assert SGD.is_known and SGD.partial_fit.__doc__ == "Train on a batch."
Scaler().partial_fit(1)
first_model, models = Mine(), {"small": MLP(), "large": MLP()}
for number in (1, 2, 4):
    first_model.partial_fit(number)
    for each in models.values():
        each.partial_fit(number)
"""
ALONE = """
from sklearn.linear_model import Both
both = Both()
for number in range(4):
    both.partial_fit(number)
print(both.parts[0].count)
"""
ENDLESS = """
from sklearn.linear_model import SGD
mine = SGD()
while True:
    mine.partial_fit(1)
"""


@pytest.fixture
def listener(short_folder):
    with ScriptListener(short_folder) as listener:
        yield listener


def start(listener, folder, text):
    for name, source in SOURCES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(source)
    script = folder / "train.py"
    script.write_text(text)
    return listener.start(str(script), folder=folder)


def test_models_that_take_turns_make_a_step_together(listener, tmp_path):
    finished(start(listener, tmp_path, LOOP))
    assert listener.step == 3
    assert listener.series == {
        "train/loss_small": [(1, 1.0), (2, 0.5), (3, 0.25)],
        "train/loss_large": [(1, 1.0), (2, 0.5), (3, 0.25)],
    }
    assert [each["versions"] for each in listener.of_kind("versions")] == [{"scikit-learn": "1.9"}]
    assert not listener.notices


def test_a_model_of_models_makes_one_step(listener, tmp_path):
    assert finished(start(listener, tmp_path, ALONE)) == "4\n"
    assert listener.step == 4


def test_a_stop_saves_the_models_by_their_names(listener, tmp_path, monkeypatch):
    program = start(listener, tmp_path, ENDLESS)
    listener.wait_for_step(3)
    listener.act("stop", 1)
    step = listener.wait_for("saved")["step"]
    assert "Stopped by Traindeck" in program.communicate()[0]
    assert program.returncode == 1
    (file,) = (listener.folder / "run").rglob("rank0.joblib")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, name)  # the real one, which another test has loaded
    found = joblib.load(file)
    assert found["mine"].count == step == listener.step


@pytest.mark.nightly
def test_the_real_library_counts_batches(listener, tmp_path):
    if not LIBRARIES:
        pytest.skip("TRAINDECK_LIBRARIES names no Python that has it")
    script = tmp_path / "train.py"
    script.write_text(
        """
import copy
import numpy
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
random = numpy.random.default_rng(0)
inputs = StandardScaler().fit_transform(random.normal(size=(100, 4)))
targets = (inputs[:, 0] > 0).astype(int)
mlp = MLPClassifier(random_state=0)
models = [mlp, MultiOutputClassifier(SGDClassifier(random_state=0))]
for number in range(6):
    models[0].partial_fit(inputs, targets, classes=[0, 1])
    models[1].partial_fit(inputs, numpy.c_[targets, targets], classes=[[0, 1]] * 2)
clone(copy.deepcopy(mlp))
assert not hasattr(MLPClassifier(solver="lbfgs"), "partial_fit")
"""
    )
    finished(listener.start(str(script), python=LIBRARIES, folder=tmp_path))
    assert listener.step == 6
    assert [step for step, _ in listener.series["train/loss_mlp"]] == [2, 3, 4, 5, 6]
    assert not listener.notices
