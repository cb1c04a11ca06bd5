from __future__ import annotations

import re
import signal
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from traindeck_watch.pytorch import TorchHooks

from tests.support.script_listener import ScriptListener, finished
from tests.support.sentences import sentence

pytestmark = pytest.mark.usefixtures("processes")

SCRIPTS = Path(__file__).parents[1] / "scripts"
GAN = str(SCRIPTS / "gan.py")


@pytest.fixture
def listener(short_folder):
    with ScriptListener(short_folder) as listener:
        yield listener


@pytest.mark.nightly
def test_a_gan_is_watched_paused_saved_and_stopped(listener):
    """One run of the script for all of it: the import of PyTorch takes seconds."""
    program = listener.start(GAN, "1000000")
    listener.wait_for_step(50)
    listener.act("pause", 1)
    paused = listener.wait_for("paused")["step"]
    listener.act("checkpoint", 2, kinds=["request"])
    saved = listener.wait_for("saved")
    assert (saved["step"], saved["number"], saved["kinds"]) == (paused, 2, ["request"])
    listener.act("resume", 3)
    listener.wait_for("resumed")
    listener.wait_for_step(paused + 50)
    listener.act("stop", 4)
    printed = finished(program)
    stopping = listener.wait_for("stopping")
    assert "interrupted" in printed
    assert listener.step == stopping["step"] == listener.wait_for("saved", 2)["step"]

    shown = re.findall(r"D (\S+) G (\S+)", printed)
    assert listener.values("train/loss_D")[:40] == [float(d) for d, _ in shown]
    assert listener.values("train/loss_G")[:40] == [float(g) for _, g in shown]
    assert set(listener.values("train/learning_rate_G")) == {2e-3}
    steps = [step for step, _ in listener.series["train/loss_D"]]
    assert steps == list(range(1, stopping["step"] + 1))
    plan = listener.of_kind("plan")[-1]
    assert (plan["parameters"], plan["total_steps"]) == (4 * 5 + 5 * 8 + 9, 1000000)
    assert listener.wait_for("versions")["versions"].keys() == {"torch"}
    assert not listener.notices
    check_weights(listener.folder / f"run/checkpoints/step-{paused:08d}.tmp/rank0.pt", paused)


def check_weights(path, step):
    import torch

    state = torch.load(path, weights_only=True)
    assert state["step"] == step
    assert {name: list(weights) for name, weights in state["models"].items()} == {
        "netG": ["weight", "bias"],
        "netD": ["0.weight", "0.bias", "2.weight", "2.bias"],
    }
    assert state["optimizers"].keys() == {"D", "G"}
    assert state["optimizers"]["D"]["state"][0]["step"] == step


@pytest.mark.nightly
def test_unusual_ways_to_train(listener):
    """All but one are forked children, which are silent until they train."""
    names = ["lbfgs", "scaled", "sparse", "extended", "raising", "attacked", "vector", "weighted"]
    names += ["checkpointed", "thrown_away", "in_backward"]
    program = listener.start(str(SCRIPTS / "shapes.py"), *names)
    for number in range(len(names)):
        listener.wait_for("hello", number + 1)
    # All but the first train in turn; then each backward of the last one counts as a step.
    listener.wait_for("notice", len(names))
    listener.act("stop", 1)
    saved = listener.wait_for("saved")
    printed = finished(program)
    lines = dict(line.split(" ", 1) for line in printed.splitlines())
    assert listener.connections == 1 + len(names)
    for number, name in enumerate(names, start=1):
        found = [value for _, value in listener.series_of(number)["train/loss"]]
        assert found == [float(word) for word in lines[name].split()], name
    step, last = listener.series_of(0)["train/loss"][-1]
    printed_last, printed_free = map(float, lines["by_hand"].split())
    assert last == printed_last
    import torch

    state = torch.load(
        listener.folder / f"run/checkpoints/step-{saved['step']:08d}.tmp/rank0.pt",
        weights_only=True,
    )
    assert (state["step"], list(state["models"]["Linear"])) == (step, ["weight", "bias"])
    assert state["parameters"]["0"].item() == printed_free
    assert saved["parameters"] == 0
    assert listener.of_kind("file")[0]["path"].endswith("/own.pt")
    *in_turn, notice, last_in_turn = listener.notices
    assert notice.startswith(sentence("script-has-no-optimizer-of-pytorch"))
    assert {*in_turn, last_in_turn} == {last_in_turn}
    assert sentence("in-one-process-after-another") in last_in_turn


STOPS = """
import signal, sys, time
import traindeck_watch
import traindeck_watch.watch
watch = traindeck_watch.current()

def handler(number, frame):
    print("handler", number, flush=True)
    if sys.argv[2] == "raises":
        raise ValueError("of the handler")

signal.signal(getattr(signal, sys.argv[1]), handler)
watch.begin_training()
watch.guard(lambda: watch._stop(1, traindeck_watch.watch.Act("stop", 1, {"save": False})), "x")()
print("goes on", flush=True)
"""


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_the_scripts_own_handler_of_a_signal_ends_it(number, listener, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(STOPS)
    value = int(getattr(signal, number))
    printed = finished(listener.start(str(script), number, "returns"))
    assert printed == f"handler {value}\ngoes on\n"
    program = listener.start(str(script), number, "raises")
    output, _ = program.communicate(timeout=120)
    assert program.returncode == 1
    assert output.startswith(f"handler {value}\nTraceback")
    assert output.endswith("ValueError: of the handler\n")


def test_a_script_that_catches_ctrl_c_gets_that_before_a_sigterm(listener, tmp_path):
    script = tmp_path / "train.py"
    begin, end = STOPS.split("watch.guard")
    call = "watch.guard" + end.splitlines()[0]
    script.write_text(f"{begin}try:\n    {call}\nexcept KeyboardInterrupt:\n    print('caught')\n")
    assert finished(listener.start(str(script), "SIGTERM", "returns")) == "caught\n"


COUNTS = """
import sys
import traindeck_watch
watch = traindeck_watch.current()
if "calls" in sys.argv:
    watch.take_calls(print, print)
for _ in range(3):
    watch.count_step()
    watch.record("train/loss", float(watch.step))
"""


def test_the_steps_of_trainings_in_turn_are_counted_on(listener, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(COUNTS)
    for _ in range(2):
        finished(listener.start(str(script)))
    assert listener.series == {"train/loss": [(step, float(step)) for step in range(1, 7)]}
    [notice] = listener.notices
    assert sentence("several-times-in-one-process") in notice
    finished(listener.start(str(script), "calls"))
    assert sentence("steps-of-each-begin-anew") in listener.notices[-1]


AT_ONCE = """
import os, time
import traindeck_watch
watch = traindeck_watch.current()
watch.start_thread()
inner, outer = os.pipe(), os.pipe()
for wait, tell in ((inner[0], outer[1]), (outer[0], inner[1])):
    if os.fork() == 0:
        watch.count_step()
        os.write(tell, b"x")
        os.read(wait, 1)  # both train now
        os._exit(0)
for _ in range(2):
    os.wait()
watch.record("late", 1.0)
print("Test loss: 0.5")
"""


def test_two_that_train_at_once_are_named_and_their_parent_knows_their_steps(listener, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(AT_ONCE)
    finished(listener.start(str(script)))
    [notice] = listener.notices
    assert "at the same time" in notice
    assert listener.values("late") == [1.0]
    assert listener.series["late"] == [(1, 1.0)]
    assert listener.of_kind("printed")[-1]["lines"] == [["Test loss: 0.5", 1]]


def test_values_of_a_gpu_are_fetched_on_one_stream_of_its_own():
    """PyTorch has 32 streams, which it gives in turn: a new one would be the script's some day."""
    made, used = [], []

    def stream(device):
        made.append(device)
        return SimpleNamespace(synchronize=lambda: used.append(device), wait_stream=None)

    hooks = TorchHooks.__new__(TorchHooks)
    hooks._streams, hooks._copy_streams = {}, {}
    cuda = SimpleNamespace(Stream=stream, device=nullcontext, stream=nullcontext)
    values = SimpleNamespace(to=lambda place: SimpleNamespace(tolist=lambda: [1.0]))
    hooks._torch = SimpleNamespace(cuda=cuda, stack=lambda tensors: values)
    for device in ("cuda:0", "cuda:1", "cuda:0", "cuda:0"):
        assert hooks._fetch_from_gpu(device, [None]) == [1.0]
    assert made == ["cuda:0", "cuda:1"]
    assert used == ["cuda:0", "cuda:1", "cuda:0", "cuda:0"]
