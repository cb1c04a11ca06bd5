"""The loops of Lightning and Hugging Face: by doubles of the same shape, and the real ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.resources.in_script.traindeck_watch.loggers.test_hooks import write
from tests.support.script_listener import ScriptListener, finished

pytestmark = pytest.mark.usefixtures("processes")

SCRIPTS = Path(__file__).parents[1] / "scripts"
LIBRARIES = os.environ.get("TRAINDECK_LIBRARIES", "")

CONNECTOR = """
class _LoggerConnector:
    def __init__(self, trainer):
        self.trainer = trainer
    def log_metrics(self, metrics, step=None):
        print("logged", metrics, step)
"""
TRAINER = """
from .connectors.logger_connector.logger_connector import _LoggerConnector
class Loop:
    max_batches = 4
class Trainer:
    current_epoch = 0
    max_epochs = 3
    max_steps = -1
    fit_loop = Loop()
    sanity_checking = False
    is_global_zero = True
    def fit(self, model):
        self.connector = _LoggerConnector(self)
        self.connector.log_metrics({"acc": 0.5, "epoch": 0}, step=2)
        self.save_checkpoint("own.ckpt")
    def save_checkpoint(self, filepath, weights_only=False):
        open(filepath, "w").close()
"""
CALLBACKS = """
class CallbackHandler:
    def on_train_begin(self, args, state, control): return control
    def on_train_end(self, args, state, control): return control
    def on_step_end(self, args, state, control): return control
    def on_save(self, args, state, control): return control
    def on_prediction_step(self, args, state, control): return control
    def on_log(self, args, state, control, logs): return control
"""
SAFETENSORS = """
def save_file(tensors, filename):
    open(filename, "w").close()
"""
TRAINER_OF_HUGGING_FACE = """
from safetensors.torch import save_file
class Trainer:
    def _save_checkpoint(self):
        save_file({}, "out/checkpoint-4/model.safetensors")
        print("saved")
"""
HUGGING_FACE = """
from types import SimpleNamespace as Space
from transformers.trainer_callback import CallbackHandler
handler = CallbackHandler()
args, control = Space(output_dir="out", save_strategy="steps"), Space()
state = Space(num_train_epochs=2, max_steps=8, epoch=0.5, global_step=4)
import os; os.makedirs("out/checkpoint-4")
from safetensors.torch import save_file
from transformers.trainer import Trainer
handler.on_train_begin(args, state, control)
handler.on_step_end(args, state, control)
handler.on_log(args, state, control, {"loss": 1.0, "grad_norm": 2.0, "eval_f1": 0.5})
Trainer()._save_checkpoint()
handler.on_save(args, state, control)
save_file({}, "out/model.safetensors")
print(vars(control))
"""


@pytest.fixture
def listener(short_folder):
    with ScriptListener(short_folder) as listener:
        yield listener


def test_lightnings_figures_and_files(listener, tmp_path):
    base = "lightning__pytorch__trainer__"
    write(tmp_path, **{f"{base}trainer": TRAINER})
    write(tmp_path, **{f"{base}connectors__logger_connector__logger_connector": CONNECTOR})
    script = tmp_path / "train.py"
    script.write_text("from lightning.pytorch.trainer.trainer import Trainer\nTrainer().fit(0)\n")
    printed = finished(listener.start(str(script), folder=tmp_path))
    assert printed == "logged {'acc': 0.5, 'epoch': 0} 2\n"
    assert listener.series == {"acc": [(2, 0.5)]}
    assert [frame["path"] for frame in listener.of_kind("file")] == [str(tmp_path / "own.ckpt")]
    assert not listener.notices


def test_hugging_faces_figures_and_files(listener, tmp_path):
    write(tmp_path, transformers__trainer_callback=CALLBACKS)
    write(tmp_path, transformers__trainer=TRAINER_OF_HUGGING_FACE, safetensors__torch=SAFETENSORS)
    script = tmp_path / "train.py"
    script.write_text(HUGGING_FACE)
    assert finished(listener.start(str(script), folder=tmp_path)) == "saved\n{}\n"
    assert listener.series == {"train/grad_norm": [(4, 2.0)], "validation/f1": [(4, 0.5)]}
    files = [(frame["path"], frame["is_state"]) for frame in listener.of_kind("file")]
    out = tmp_path / "out"
    assert files == [(str(out / "checkpoint-4"), True), (str(out / "model.safetensors"), False)]
    plan = listener.of_kind("plan")[-1]
    assert (plan["epochs"], plan["total_steps"]) == (2, 8)
    assert not listener.notices


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["lightning_fit", "hugging_face"])
def test_the_real_trainers_end_by_their_own_way(name, listener):
    if not LIBRARIES:
        pytest.skip("TRAINDECK_LIBRARIES names no Python that has them")
    script = str(SCRIPTS / f"{name}.py")
    program = listener.start(script, "1000000", python=LIBRARIES)
    listener.wait_for_step(30)
    listener.act("stop", 1)
    printed = finished(program)
    stopped = listener.wait_for("stopping")["step"]
    assert f"ended after {stopped}" in printed
    assert listener.step == listener.wait_for("saved")["step"] == stopped
    assert [step for step, _ in listener.series["train/loss"]] == list(range(1, stopped + 1))
    assert listener.of_kind("file")
    assert listener.series["val_loss" if name == "lightning_fit" else "validation/loss"]
    assert not listener.notices
