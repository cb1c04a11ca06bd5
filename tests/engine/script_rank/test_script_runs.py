"""Runs of scripts, with real processes: started, followed, commanded, ended and resumed.

The scripts import no framework: a double speaks for `traindeck_watch`.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import psutil
import pytest
from msgspec.structs import replace

import main
from engine import client
from engine.client import CannotStart, RunInfo
from engine.facts.run_facts import Layer, read_facts
from engine.messages.commands import EmptyCache, Pause, Resume, SaveCheckpoint, Stop
from engine.messages.events import (
    CacheEmptied,
    CheckpointFailed,
    CheckpointSaved,
    EpochEnded,
    HistogramLogged,
    ImageLogged,
    Notice,
    Paused,
    Resumed,
    Rewound,
    RunEnded,
)
from engine.runs.checkpoints import checkpoint_files
from engine.runs.run_state import RunState
from engine.spec.run_spec import RunSpec
from engine.spec.script_spec import script_spec
from tests.support import script_double
from tests.support.runs import (
    curve,
    events,
    wait_for,
    wait_for_end,
    wait_for_event,
    wait_until_gone,
)
from tests.support.sentences import sentence

pytestmark = pytest.mark.usefixtures("processes")

DOUBLE = f"import sys; sys.path.append({str(Path(script_double.__file__).parent)!r})\n"
ONE_PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
ENDLESS = """
    from script_double import Link
    link = Link()
    while True:
        link.train(loss=1 / (link.step + 1))
        link.obey()
"""


class Scripts:
    """Starts scripts of a folder, and ends those that still run after the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[str] = []

    def spec(
        self, source: str, *arguments: str, devices: int = 1, strategy: str = "", **changes: Any
    ) -> RunSpec:
        (self.folder / "train.py").write_text(DOUBLE + dedent(source))
        names = tuple(f"cpu:{number}" for number in range(devices))
        spec = script_spec(("train.py", *arguments), self.folder, names, strategy=strategy)
        return replace(spec, **{"stop_seconds": 6.0} | changes)

    def start(self, source: str, *arguments: str, **changes: Any) -> str:
        self.started.append(client.start(self.spec(source, *arguments, **changes)))
        return self.started[-1]

    def run(self, source: str, *arguments: str, **changes: Any) -> RunInfo:
        return wait_for_end(self.start(source, *arguments, **changes))


@pytest.fixture
def scripts(tmp_path: Path) -> Iterator[Scripts]:
    folder = tmp_path / "my scripts"
    folder.mkdir()
    found = Scripts(folder)
    yield found
    for run_id in found.started:
        if not client.get_run(run_id).state.is_over:
            client.send(run_id, Stop(now=True))
            wait_for_end(run_id)


def has_stepped(info: RunInfo) -> bool:
    return info.status.step >= 3


def log(info: RunInfo, rank: int = 0) -> str:
    return (info.folder / "logs" / f"rank{rank}.log").read_text()


def test_a_script_without_a_change(scripts: Scripts, capsys: pytest.CaptureFixture[str]) -> None:
    """Arguments, folder and `__main__` are as in a terminal; figures are read from its lines."""
    info = scripts.run(
        """
        import os
        if __name__ == "__main__":
            print(sys.argv, os.getcwd(), os.environ.get("RANK"), os.environ["MINE"])
            for step in range(1, 4):
                print(f"\\rstep {step} loss: {1 / step}", end="")
            print("\\nbytes \\xff", file=sys.stderr)
            print("step 4 loss: 0.25", end="")
        """,
        *("--lr", "0.1", "a b"),
        variables={"MINE": "yes"},
    )
    assert (info.state, info.status.step) == (RunState.FINISHED, 4)
    assert info.reason == sentence("command-has-ended-by-itself")
    first = f"['train.py', '--lr', '0.1', 'a b'] {scripts.folder} None yes\n"
    assert log(info).startswith(first)
    assert "bytes ÿ" in log(info)
    assert curve(info, "train/loss") == ([1, 2, 3, 4], [1.0, 0.5, pytest.approx(1 / 3), 0.25])
    assert main.main(["show", info.id, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["metrics"] == {"train/loss": 0.25}
    assert shown["command"] == ["train.py", "--lr", "0.1", "a b"]
    assert "from the beginning" in shown["resume"]
    assert main.main(["show", info.id]) == 0
    assert "train.py --lr 0.1 'a b'" in capsys.readouterr().out
    with pytest.raises(CannotStart, match=sentence("has-ended-by-itself-start").pattern):
        client.resume(info.id)


def test_figures_of_lines_can_be_switched_off(scripts: Scripts) -> None:
    """An early stopping by them then says that it could not end the run."""
    info = scripts.run('print("step 1 loss: 0.5")', output_figures=False, early_stopping="loss")
    assert info.state is RunState.FINISHED
    assert curve(info, "train/loss") == ([], [])
    assert info.reason.endswith(sentence("early-stopping-had-no-effect"))


def test_a_line_of_a_validation_has_the_step_of_its_note(scripts: Scripts) -> None:
    """The script is many steps further when the line and its note arrive."""
    info = scripts.run(
        """
        from script_double import Link
        link = Link()
        for _ in range(4):
            link.train(loss=1.0)
        print("val loss: 0.5\\nval loss: 0.25\\nTest set: loss= 7.5", flush=True)
        lines = [["val loss: 0.5", 2], ["val loss: 0.25", 3], ["Test set: loss= 7.5", 3]]
        link.send("printed", lines=lines)
        """
    )
    assert curve(info, "validation/loss") == ([2, 3], [0.5, 0.25])
    assert curve(info, "test/loss") == ([3], [7.5])


def test_what_a_script_reports_is_in_the_store(
    scripts: Scripts, capsys: pytest.CaptureFixture[str]
) -> None:
    info = scripts.run(
        f"""
        from script_double import Link
        link = Link()
        link.send("versions", versions={{"torch": "2.0"}})
        link.send("plan", epochs=2, total_steps=4, parameters=9)
        print("step 1 loss: 99")
        link.train(loss=2.0, epoch=1, samples_per_second=64.0)
        link.send("points", points=[["train/loss", [2], [float("nan")], []],
                                    ["val/acc", [2], [0.5], []]], step=2)
        link.send("epoch", epoch=1, step=2, metrics={{"validation/loss": 0.25}})
        link.send("image", series="fake/1", step=2, png={ONE_PIXEL!r}, width=1, height=1,
                  caption="a caption")
        link.send("image", series="../../x", step=2, png="AAAA")
        link.send("histogram", series="weights", step=2, edges=[0, 1, 2], counts=[3, 4])
        link.send("histogram", series="weights", step=2, edges=[0, 1], counts=[3, 4])
        link.send("outline", rows=[["", 0, "Net", 9, 9, 36, False, "", False]],
                  versions={{"torch": "2.0"}})
        link.send("outline", rows=[["nonsense"]])
        link.send("notice", text="Something.")
        link.send("notice", text="Something.")
        link.send("memory", allocated=5, reserved=6)
        link.send("nonsense")
        link.send("points", points="nonsense", step=-3)
        link.train(loss=1.0, epoch=2)
        """
    )
    status = info.status
    assert (info.state, status.step, status.epoch, status.total_steps) == (
        *(RunState.FINISHED, 2, 2, 4),
    )
    assert (status.parameters, status.samples_per_second) == (9, 64.0)
    steps, losses = curve(info, "train/loss")
    assert (steps, losses[0], losses[2], math.isnan(losses[1])) == ([1, 2, 2], 2.0, 1.0, True)
    assert curve(info, "val/acc") == ([2], [0.5])
    assert curve(info, "rank/0/memory_allocated")[1] == [5.0]
    steps, seconds = curve(info, "train/step_seconds")
    assert steps[0] == 1, "and then every second"
    assert seconds == pytest.approx([0.01] * len(seconds))
    assert set(curve(info, "train/samples_per_second")[1]) == {64.0}
    happened = events(info)
    assert EpochEnded(1, 2, {"validation/loss": 0.25}) in happened
    assert HistogramLogged("weights", 2, [0, 1, 2], [3, 4]) in happened
    model = read_facts(info.folder).model
    assert model is not None
    assert (model.layers, model.versions) == (
        (Layer("", 0, "Net", 9, 9, 36),),
        {"torch": "2.0"},
    )
    [image] = [event for event in happened if isinstance(event, ImageLogged)]
    assert (image.series, image.step, image.caption) == ("fake/1", 2, "a caption")
    assert (info.folder / image.file).read_bytes().startswith(b"\x89PNG")
    assert (info.folder / image.file).parent == info.folder / "media"
    said = [event.text for event in happened if isinstance(event, Notice)]
    assert said == [sentence("loss-is-not-finite-number", step=2), "Something."]
    assert main.main(["show", info.id, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"] == {"train/loss": 1.0, "val/acc": 0.5}


def test_ranks_get_what_torchrun_gives(scripts: Scripts) -> None:
    info = scripts.run(
        """
        import json, os
        from pathlib import Path
        from script_double import Link
        link = Link()
        names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
                 "MASTER_PORT", "GROUP_RANK", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES",
                 "TF_CONFIG")
        Path(f"seen-{link.rank}").write_text(json.dumps({n: os.environ.get(n) for n in names}))
        link.train(loss=float(link.rank))
        """,
        devices=2,
        strategy="script/torchrun",
    )
    assert info.state is RunState.FINISHED, info.reason
    zero, one = (json.loads((scripts.folder / f"seen-{rank}").read_text()) for rank in (0, 1))
    threads = os.environ.get("OMP_NUM_THREADS", "1")
    assert zero == {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": one["MASTER_PORT"],
        "GROUP_RANK": "0",
        "OMP_NUM_THREADS": threads,
        "CUDA_VISIBLE_DEVICES": "",
        "TF_CONFIG": None,
    }
    assert one == zero | {"RANK": "1", "LOCAL_RANK": "1"}
    assert curve(info, "train/loss") == ([1], [0.0]), "only rank 0 reports the training"


def test_workers_of_tensorflow_get_tf_config(scripts: Scripts) -> None:
    info = scripts.run(
        "import os; print(os.environ['TF_CONFIG'], os.environ.get('RANK'))",
        devices=2,
        strategy="script/tf_config",
    )
    assert info.state is RunState.FINISHED, info.reason
    found = [json.loads(log(info, rank).rpartition(" ")[0]) for rank in (0, 1)]
    assert [each["task"] for each in found] == [{"type": "worker", "index": k} for k in (0, 1)]
    assert found[0]["cluster"] == found[1]["cluster"]
    assert len(set(found[0]["cluster"]["worker"])) == 2


@pytest.mark.parametrize(
    ("source", "words", "where", "code", "name"),
    [
        pytest.param("sys.exit('no data')", "exit code 1", "", 1, "", marks=pytest.mark.nightly),
        ("raise ValueError('no')", "ValueError: no", "train.py:2", 1, ""),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
            "SIGSEGV",
            "",
            -11,
            "SIGSEGV",
        ),
        pytest.param(
            "import subprocess; sys.exit(subprocess.call(['bash', '-c', 'echo deep; exit 7']))",
            "exit code 7",
            "",
            7,
            "",
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_how_a_script_has_failed(
    scripts: Scripts, source: str, words: str, where: str, code: int, name: str
) -> None:
    info = scripts.run(source)
    assert info.state is RunState.FAILED
    assert words in info.reason
    failure = next(e.failure for e in events(info) if isinstance(e, RunEnded))
    assert failure is not None
    assert (failure.rank, failure.exit_code, failure.signal) == (0, code, name)
    assert failure.where == (f"{scripts.folder}/{where}" if where else "")


def test_a_process_that_ends_before_it_has_sent_everything_is_named(scripts: Scripts) -> None:
    info = scripts.run(
        """
        import os
        from script_double import Link
        link = Link(1)  # the watch of this process says goodbye
        link.train(loss=0.5)
        if os.fork() == 0:
            os._exit(0)  # it has said nothing, and reports nothing
        os.wait()
        os._exit(0)
        """
    )
    assert info.state is RunState.FINISHED
    [notice] = [each for each in events(info) if isinstance(each, Notice)]
    assert "step 1 " in notice.text


def test_an_exception_that_a_watched_python_reports(scripts: Scripts) -> None:
    info = scripts.run(
        """
        from script_double import Link
        Link().send("failed", message="RuntimeError: CUDA error", where="/x/net.py:5",
                    traceback="Traceback")
        import os; os._exit(1)
        """
    )
    failure = next(e.failure for e in events(info) if isinstance(e, RunEnded))
    assert failure is not None
    assert (failure.where, info.state) == ("/x/net.py:5", RunState.FAILED)
    assert "RuntimeError: CUDA error" in info.reason


def test_the_rank_that_failed_first_is_named(scripts: Scripts) -> None:
    info = scripts.run(
        """
        import os, time
        if os.environ["RANK"] == "1":
            sys.exit(4)
        time.sleep(60)
        """,
        devices=2,
        strategy="script/torchrun",
    )
    failure = next(e.failure for e in events(info) if isinstance(e, RunEnded))
    assert failure is not None
    assert (failure.rank, failure.exit_code) == (1, 4)


def test_commands_at_a_step(scripts: Scripts) -> None:
    run_id = scripts.start(ENDLESS)
    wait_for(run_id, has_stepped)
    seq = client.send(run_id, SaveCheckpoint())
    saved = wait_for_event(run_id, CheckpointSaved, after=seq)
    assert checkpoint_files.verify(Path(saved.path)).kinds == ("request",)
    seq = client.send(run_id, Pause())
    assert wait_for_event(run_id, Paused, after=seq).step >= saved.step
    wait_for(run_id, lambda info: info.state is RunState.PAUSED)
    seq = client.send(run_id, EmptyCache())
    assert wait_for_event(run_id, CacheEmptied, after=seq).freed_bytes == 7
    seq = client.send(run_id, Resume())
    wait_for_event(run_id, Resumed, after=seq)
    client.send(run_id, Stop())
    info = wait_for_end(run_id)
    step = info.status.step
    assert info.reason == sentence("stopped-after-step-with-weights-saved", step=step)
    [last] = [each for each in client.run_checkpoints(run_id) if "last" in each.manifest.kinds]
    assert last.manifest.position.step == step
    assert (last.folder / "rank0.pt").read_text() == f"weights of step {step}"


VALIDATES = """
    from script_double import Link
    link = Link()
    losses = [0.5, 0.4, 0.45]
    while True:
        link.train(loss=1.0)
        loss = losses.pop(0) if losses else 0.42
        link.send("points", points=[["val/loss", [link.step], [loss], []]], step=link.step)
        link.obey()
"""


def test_a_script_ends_early_by_what_it_logs_and_when_it_goes_on_its_time_is_limited(
    scripts: Scripts,
) -> None:
    info = scripts.run(VALIDATES, early_stopping="val/loss", patience=4)
    assert info.state is RunState.FINISHED
    early = (
        "Early stopping: val/loss has not improved for 4 evaluations, the last after step 6. "
        "The best was 0.4 after step 2"
    )
    assert info.reason.startswith(early)
    step = info.status.step
    assert info.reason.endswith(sentence("ended-after-step-with-weights-saved", step=step))
    assert Notice(info.reason.partition(" Ended")[0]) in events(info)

    minutes = (info.status.seconds(info.status.updated) + 3.0) / 60
    client.resume(info.id, spec=replace(info.spec, time_limit_minutes=minutes, patience=10**6))
    info = wait_for_end(info.id)
    assert info.state is RunState.FINISHED
    assert info.reason.startswith(sentence("time-limit-of-script-is-reached", limit=f"{minutes:g}"))


def test_a_script_that_ends_before_it_can_be_stopped_early_was_not_stopped(
    scripts: Scripts,
) -> None:
    info = scripts.run(
        """
        import time
        from script_double import Link
        link = Link()
        for loss in (0.5, 0.6, 0.7, 0.4):
            link.train(loss=1.0)
            link.send("points", points=[["val/loss", [link.step], [loss], []]], step=link.step)
        while not any(act["what"] == "stop" for act in link.acts()):
            time.sleep(0.01)
        """,
        early_stopping="val/loss",
        patience=2,
        stop_seconds=60.0,
    )
    assert info.state is RunState.FINISHED
    assert info.reason == sentence("early-stopping-has-not-improved")


def test_a_checkpoint_needs_the_parts_of_all_ranks(scripts: Scripts) -> None:
    run_id = scripts.start(
        """
        import time
        from script_double import Link
        link = Link()
        while link.step < 5:
            link.train(loss=1.0)
        asked = []
        while not asked and link.rank == 0:
            asked = link.acts()
            time.sleep(0.01)
        if link.rank == 0:
            link.save(asked[0]["number"])
        else:
            while not list(link.run.glob("checkpoints/*.tmp/rank0.pt")):
                time.sleep(0.01)
            link.save()
        while True:
            time.sleep(0.1)
        """,
        devices=2,
        strategy="script/torchrun",
    )
    wait_for(run_id, has_stepped)
    seq = client.send(run_id, SaveCheckpoint())
    saved = wait_for_event(run_id, CheckpointSaved, after=seq)
    manifest = checkpoint_files.verify(Path(saved.path))
    assert (sorted(manifest.files), manifest.replicas) == (["rank0.pt", "rank1.pt"], 2)
    client.send(run_id, Stop(now=True))
    wait_for_end(run_id)


def test_weights_that_cannot_be_saved_end_nothing_and_stop_now_kills(scripts: Scripts) -> None:
    run_id = scripts.start(
        """
        from script_double import Link
        link = Link()
        while True:
            link.train(loss=1.0)
            for act in link.acts():
                link.send("not_saved", number=act["number"], step=link.step, text="No room.")
        """
    )
    wait_for(run_id, has_stepped)
    seq = client.send(run_id, SaveCheckpoint())
    assert wait_for_event(run_id, CheckpointFailed, after=seq).text == "No room."
    info = client.get_run(run_id)
    assert info.state is RunState.RUNNING
    assert not list((info.folder / "checkpoints").iterdir())
    client.send(run_id, Stop(now=True))
    assert wait_for_end(run_id).state is RunState.STOPPED
    wait_until_gone(info)


def test_a_script_that_saves_at_ctrl_c_or_sigterm_gets_its_chance(scripts: Scripts) -> None:
    run_id = scripts.start(
        """
        import signal, time
        from pathlib import Path
        from script_double import Link
        link = Link()
        link.send("versions", versions={})
        def save(number, frame):
            Path("saved").open("a").write("by SIGTERM")
            sys.exit(0)
        signal.signal(signal.SIGTERM, save)
        print("busy", flush=True)
        while True:
            try:
                time.sleep(0.05)
            except KeyboardInterrupt:
                Path("saved").write_text("by Ctrl-C, ")
        """,
        stop_seconds=4.0,
    )
    wait_for(run_id, lambda info: info.state is RunState.RUNNING and "busy" in log(info))
    client.send(run_id, Stop())
    info = wait_for_end(run_id)
    assert (info.state, info.reason) == (RunState.STOPPED, sentence("stopped-before-step-was-seen"))
    assert (scripts.folder / "saved").read_text() == "by Ctrl-C, by SIGTERM"


def test_a_script_that_ignores_everything_is_killed_with_its_children(scripts: Scripts) -> None:
    """The weights that it has saved before are named."""
    run_id = scripts.start(
        """
        import signal, subprocess
        from script_double import Link
        link = Link()
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        print("child", child.pid, flush=True)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        while True:
            link.train(loss=1.0)
            try:
                link.obey()
            except BaseException:
                signal.sigwait([signal.SIGUSR1])
        """,
        stop_seconds=4.0,
    )
    info = wait_for(run_id, has_stepped)
    process = psutil.Process(int(log(info).split()[1]))
    client.send(run_id, Stop())
    info = wait_for_end(run_id)
    step = info.status.checkpoint_step
    assert info.state is RunState.STOPPED
    assert info.reason == sentence("stopped-at-once-with-weights-saved", step=step)
    wait_until_gone(info)
    assert not process.is_running()


def test_without_a_supervisor_the_weights_are_saved_and_the_script_ends(scripts: Scripts) -> None:
    run_id = scripts.start(ENDLESS, orphan_seconds=10.0)
    info = wait_for(run_id, has_stepped)
    [child] = psutil.Process(info.status.worker_pids[0]).children()
    exchange = Path(child.environ()["TRAINDECK_EXCHANGE"])
    os.kill(info.status.supervisor_pid, signal.SIGKILL)
    wait_until_gone(info)
    assert not child.is_running()
    assert not exchange.exists(), "nothing stays in the folder for temporary files"
    [saved] = client.run_checkpoints(run_id)
    assert saved.manifest.kinds == ("last",)
    assert saved.manifest.position.step >= info.status.step
    client.resume(run_id)
    scripts.started.append(run_id)
    wait_for(run_id, has_stepped)


RESUMES = """
    import argparse
    from pathlib import Path
    from script_double import Link
    parser = argparse.ArgumentParser()
    parser.add_argument("--resume", default="")
    arguments = parser.parse_args()
    link = Link()
    print("resume", arguments.resume or "nothing", "first", link.step, flush=True)
    while True:
        link.train(loss=float(link.step))
        if link.step % 5 == 0:
            file = Path(f"own {link.step}.pt").absolute()
            file.write_text("x")
            link.send("file", path=str(file), step=link.step)
        link.obey()
"""


def test_a_script_goes_on_by_its_own_option(
    scripts: Scripts, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = scripts.start(RESUMES, resume_arguments="--resume {latest}")
    wait_for(run_id, lambda info: info.status.step >= 7)
    client.send(run_id, Stop())
    before = wait_for_end(run_id)
    newest = 5 * (before.status.step // 5)
    own = scripts.folder / f"own {newest}.pt"
    assert str(own) in client.resume_meaning(before)
    assert client.resume(run_id) == checkpoint_files.OWN
    info = wait_for(run_id, lambda info: info.status.step > before.status.step + 2)
    assert f"resume {own} first {newest}\n" in log(info)
    assert Rewound(newest, "", 0, {}, str(own)) in events(info)
    client.send(run_id, Stop())
    info = wait_for_end(run_id)
    steps, losses = curve(info, "train/loss")
    assert steps == list(range(1, info.status.step + 1)), "its curve goes on where the file is"
    assert losses == [step - 1.0 for step in steps]


def test_without_an_option_it_starts_from_the_beginning(scripts: Scripts) -> None:
    run_id = scripts.start(RESUMES)
    wait_for(run_id, has_stepped)
    client.send(run_id, Stop())
    before = wait_for_end(run_id)
    assert sentence("because-it-is-not-known-how") in client.resume_meaning(before)
    [saved] = client.run_checkpoints(run_id)
    with pytest.raises(CannotStart, match=sentence("only-script-knows-how-to-load").pattern):
        client.resume(run_id, saved.folder)
    client.resume(run_id)
    wait_for(run_id, has_stepped)
    client.send(run_id, Stop())
    info = wait_for_end(run_id)
    assert Rewound(0, "", 0) in events(info)
    assert curve(info, "train/loss")[0] == list(range(1, info.status.step + 1))


def test_secrets_reach_the_script_and_no_file(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "import os; print(len(os.environ['MY_TOKEN'])); sys.exit(2)"
    info = scripts.run(source, variables={"MY_TOKEN": "hush-hush"})
    assert log(info).startswith("9\n")
    assert info.spec.secret_variables == ("MY_TOKEN",)
    wait_until_gone(info)  # its supervisor removes files of its own
    found = [path for path in info.folder.rglob("*") if path.is_file()]
    assert not [path.name for path in found if b"hush-hush" in path.read_bytes()]
    with pytest.raises(CannotStart, match=sentence("script-needs-the-variables").pattern):
        client.resume(info.id)
    again = replace(info.spec, variables={"MY_TOKEN": "hush"})
    client.resume(info.id, spec=again)
    assert log(wait_for_end(info.id)).count("4\n") == 1
    monkeypatch.setenv("MY_TOKEN", "from here")
    client.resume(info.id)
    assert log(wait_for_end(info.id)).endswith("9\n")


def test_a_restart_that_fails_before_its_first_step_adds_no_figures_of_lines(
    scripts: Scripts,
) -> None:
    info = scripts.run(
        """
        from pathlib import Path
        from script_double import Link
        print("Epoch 0 - loss: 0.0000", flush=True)
        if Path("tried").exists():
            sys.exit(6)
        Path("tried").touch()
        link = Link()
        (scripts := Path("own.pt")).touch()
        link.send("file", path=str(scripts.absolute()), step=3)
        for _ in range(3):
            link.train(loss=1.0)
        sys.exit(5)
        """,
        max_restarts=1,
        resume_arguments="--resume {latest}",
    )
    assert (info.state, info.status.attempt, info.status.step) == (RunState.FAILED, 2, 3)
    assert curve(info, "train/loss") == ([1, 2, 3], [1.0, 1.0, 1.0])


def test_a_loss_that_is_not_finite_stops_the_run_if_asked(scripts: Scripts) -> None:
    info = scripts.run(
        """
        import time
        from script_double import Link
        link = Link()
        link.train(loss=1.0)
        link.train(loss=float("inf"))
        time.sleep(60)
        """,
        on_nan="stop",
    )
    assert info.state is RunState.FAILED
    assert sentence("loss-is-inf-since-step") in info.reason


def test_another_python_and_other_programs(scripts: Scripts) -> None:
    folder = scripts.folder
    alone = f"exec {sys.executable} -I -c \"print('alone')\""
    (folder / "run.sh").write_text(f'#!/bin/sh\necho "shell $1"; {alone}\n')
    (folder / "tool").mkdir()
    (folder / "tool" / "__init__.py").touch()
    (folder / "tool" / "__main__.py").write_text("import sys; print('module', sys.argv[1:])")
    for command, words in (
        (("./run.sh", "x"), "shell x\nalone"),
        (("-m", "tool", "--y"), "module ['--y']"),
    ):
        spec = script_spec(command, folder, ("cpu:0",), interpreter=sys.executable)
        info = wait_for_end(client.start(spec))
        assert info.state is RunState.FINISHED, info.reason
        assert words in log(info)
        assert main.main(["fsck", info.id]) == 0, "no copy of a program is asked for"


def test_one_shell_script_may_run_several_pythons(scripts: Scripts) -> None:
    """The one that trains leads; what the others report of steps does not count."""
    (scripts.folder / "prepare.py").write_text(
        DOUBLE + "from script_double import Link\nLink().send('points', points=[], step=0)\n"
    )
    (scripts.folder / "fit.py").write_text(
        DOUBLE
        + "import pathlib, time\nfrom script_double import Link\nlink = Link()\nother = Link(1)\n"
        + "for _ in range(3): link.train(loss=1.0)\n"
        + "def wait(name):\n    while not pathlib.Path(name).exists(): time.sleep(0.01)\n"
        + "wait('leads')\nother.step = 50\nother.train(loss=9.0)\n"
        + "other.send('cache_emptied', device='cpu:0', freed=7)\nwait('is_heard')\n"
    )
    (scripts.folder / "all.sh").write_text(
        f"{sys.executable} prepare.py && {sys.executable} fit.py\n"
    )
    run_id = client.start(script_spec(("all.sh",), scripts.folder, ("cpu:0",)))
    wait_for(run_id, lambda info: info.status.step == 3)
    (scripts.folder / "leads").touch()
    wait_for_event(run_id, CacheEmptied)  # the step of the other one was before it
    (scripts.folder / "is_heard").touch()
    info = wait_for_end(run_id)
    assert (info.state, info.status.step) == (RunState.FINISHED, 3), info.reason
    assert curve(info, "train/loss") == ([1, 2, 3], [1.0, 1.0, 1.0])


STARTS_ANOTHER = {
    "shell": "for name in first second; do {python} fit.py $name; echo left $?; done\n",
    "python": """
        import subprocess, sys
        try:
            for name in ("first", "second"):
                print("left", subprocess.call([{python!r}, "fit.py", name]))
        except KeyboardInterrupt:
            print("interrupted")
        """,
}


@pytest.mark.parametrize("kind", [pytest.param("shell", marks=pytest.mark.nightly), "python"])
def test_a_command_that_goes_on_after_its_training_has_stopped_gets_ctrl_c(
    scripts: Scripts, kind: str
) -> None:
    (scripts.folder / "fit.py").write_text(
        DOUBLE + "import time\nif sys.argv[1] == 'second': time.sleep(600)\n" + dedent(ENDLESS)
    )
    (scripts.folder / "all").write_text(dedent(STARTS_ANOTHER[kind]).format(python=sys.executable))
    words = ("bash" if kind == "shell" else sys.executable, "all")
    info = client.get_run(client.start(script_spec(words, scripts.folder, ("cpu:0",))))
    scripts.started.append(info.id)
    wait_for(info.id, has_stepped)
    client.send(info.id, Stop())
    info = wait_for_end(info.id)
    assert info.reason.startswith("Stopped after step"), info.reason
    assert ("interrupted" in log(info)) == (kind == "python")
    assert "left" in log(info)


def test_the_schedule_reaches_a_script_with_calls(scripts: Scripts) -> None:
    info = scripts.run(
        """
        import json, time
        from script_double import Link
        if False:
            from traindeck import keep
        link = Link()
        link.send("calls")
        while not link.schedule:
            link.acts()
            time.sleep(0.01)
        print(json.dumps(link.schedule), flush=True)
        link.train(loss=1.0)
        link.save(kinds=["best"], metrics={"validation/loss": 0.5}, epoch=1, batch=0)
        """,
        checkpoint_steps=7,
        checkpoint_best="loss",
    )
    assert json.loads(log(info).splitlines()[0]) == {
        "kind": "save_every",
        "steps": 7,
        "epochs": 0,
        "best": "loss",
        "lower_is_better": True,
        "best_so_far": None,
    }
    [saved] = client.run_checkpoints(info.id)
    assert saved.manifest.kinds == ("best",)
    assert saved.manifest.metrics == {"validation/loss": 0.5}
    assert saved.manifest.position == checkpoint_files.Position(1, 0, 1)


def test_a_command_that_cannot_be_started_says_why(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = scripts.spec("print(1)")
    checks: Callable[..., list[Any]] = lambda *_: []  # noqa: E731
    monkeypatch.setattr(client, "check", checks)
    program = scripts.folder / "no-program"
    program.write_text("#!/nowhere/at-all\n")
    program.chmod(0o755)
    info = wait_for_end(client.start(replace(spec, command=("./no-program",))))
    assert info.state is RunState.FAILED
    assert sentence("command-could-not-be-started") in info.reason
