"""Pictures of the window with recorded runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from PySide6.QtGui import QColor, QImage

from engine import client
from engine.cli.output import Refused
from engine.runs.run_state import RunState
from engine.runs.store.store_reader import RunReader
from engine.sweeps.report import SweepReader
from engine.system import paths
from tests.support.runs import events
from tests.support.sentences import sentence
from tools.screenshots import fake_machine, pictures, step_states
from tools.screenshots.png_palette import with_palette
from tools.screenshots.recorded_sweep import load_sweep, replay_sweep
from tools.screenshots.recording import FOLDER, SUFFIX, load, record, save
from tools.screenshots.replayed_run import replay
from tools.screenshots.window_states import STATES

ROOT = Path(__file__).parent.parent.parent
MOST_BYTES = 1_500_000


@pytest.mark.usefixtures("processes")
@pytest.mark.nightly
def test_two_states_are_drawn_and_the_users_runs_are_left_alone(
    tmp_path: Path, traindeck_home: Path
) -> None:
    folder = tmp_path / "pictures"
    result = subprocess.run(
        [sys.executable, "-m", "tools.screenshots", str(folder), "--only", "f[ai][ir]*-1280x800"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    names = [f"{state}-{theme}-1280x800" for state in ("failed", "first-start")
             for theme in ("dark", "light")]  # fmt: skip
    assert result.stdout.split() == [str(folder / f"{name}.png") for name in names]
    pictures = {name: QImage(str(folder / f"{name}.png")) for name in names}
    assert {(each.width(), each.height()) for each in pictures.values()} == {(1280, 800)}
    for state in ("failed", "first-start"):
        dark, light = (pictures[f"{state}-{theme}-1280x800"] for theme in ("dark", "light"))
        assert dark.pixelColor(320, 200).lightness() < 60 < 200
        assert light.pixelColor(320, 200).lightness() > 200
    assert not traindeck_home.exists()


def test_every_state_has_its_pictures() -> None:
    names = [picture.name for picture in pictures.PICTURES]
    assert (
        len(set(names))
        == len(names)
        == 2
        * (
            (len(STATES) - len(pictures.OF_ONE_SIZE)) * len(pictures.SCALES)
            + len(pictures.OF_ONE_SIZE)
        )
    )
    fine = next(each for each in pictures.PICTURES if each.size == (3840, 2160))
    assert (fine.scale, fine.logical_size) == (2, (1920, 1080))
    laptop = next(each for each in pictures.PICTURES if each.size == (1920, 1200))
    assert (laptop.scale, laptop.logical_size) == (1.5, (1280, 800))


def test_a_pattern_that_fits_no_picture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=sentence("no-picture-is-called-sunset").pattern):
        pictures.save_pictures(tmp_path, "sunset")


def test_a_recording_becomes_a_run_that_is_over() -> None:
    recording = load("killed")
    info = client.get_run(replay(recording, ago=100.0).id)
    assert info.state is RunState.FAILED
    assert fake_machine.uuid(1) in info.reason
    assert "cpu:" not in info.reason
    assert info.spec.devices == tuple(map(fake_machine.uuid, range(3)))
    with RunReader(info.folder) as reader:
        names = set(reader.counts())
    assert {
        "train/loss",
        "rank/2/memory_allocated",
        f"device/{fake_machine.uuid(0)}/power",
    } <= names
    assert not {name for name in names if "resident" in name or name.startswith("device/cpu")}


def test_no_path_of_this_machine_is_in_the_overview() -> None:
    scene = STATES["overview"]()
    assert scene.run_id is not None
    assert str(ROOT) not in client.get_run(scene.run_id).spec.recipe


@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        ("queued", RunState.QUEUED),
        ("starting", RunState.STARTING),
        ("paused", RunState.PAUSED),
        ("stopping", RunState.STOPPING),
        ("hung", RunState.RUNNING),
        ("lost-gpu", RunState.FAILED),
    ],
)
def test_a_run_stays_in_its_state_while_it_is_drawn(
    state: pictures.State, wanted: RunState
) -> None:
    live = STATES[state]().live
    assert live is not None
    live.append_rest()
    before = client.get_run(live.id).status
    live.append_step()
    status = client.get_run(live.id).status
    assert status.state is wanted
    assert status.step == before.step
    assert bool(status.troubles) == (state == "hung")


def test_a_part_of_a_recording_becomes_an_active_run() -> None:
    played = replay(load("wide"), progress=0.5)
    before = len(events(client.get_run(played.id)))
    played.append_rest()
    info = client.get_run(played.id)
    assert info.state is RunState.RUNNING
    assert info.status.supervisor_pid == os.getpid()
    assert 0 < info.status.step < info.status.total_steps
    assert info.status.seconds_left > 0
    assert info.status.worker_pids == played.pids
    assert 0 < before < len(events(info))
    played.append_step()
    assert client.get_run(played.id).status.step == info.status.step + 1


def test_a_recording_comes_back_from_its_file_and_knows_no_place(tmp_path: Path) -> None:
    played = replay(load("narrow"))
    again = record(paths.run_folder(played.id))
    file = tmp_path / f"again{SUFFIX}"
    save(again, file)
    assert again.spec.recipe == "shifted_digits.py"
    assert str(paths.home()) not in repr(again)
    assert [type(each.event) for each in again.moments if each.after == 0]


def test_the_recordings_are_small_and_tell_nothing_of_their_machine() -> None:
    files = sorted(FOLDER.glob(f"*{SUFFIX}"))
    assert sum(file.stat().st_size for file in files) < MOST_BYTES
    printed_replay = repr(step_states.measured())
    names = [file.name.removesuffix(SUFFIX) for file in files]
    loaded = [repr(load_sweep(name) if name == "sweep" else load(name)) for name in names]
    for printed in (*loaded, printed_replay):
        assert "/root" not in printed
        assert "/home" not in printed
        assert "/tmp" not in printed


def test_a_recorded_sweep_becomes_a_sweep_that_is_over() -> None:
    recording = load_sweep("sweep")
    few = [each for each in recording.trials if each.number in (4, 5)]
    sweep = msgspec.structs.replace(recording.sweep, trials=2)
    folder, played = replay_sweep(msgspec.structs.replace(recording, sweep=sweep, trials=few))
    report = SweepReader(folder).read()
    assert report.summary.state == "finished"
    assert [each.settings for each in report.trials] == [each.settings for each in few]
    assert [each.value for each in report.trials] == [each.value for each in few]
    assert [each.run for each in report.trials] == [each.id for each in played]
    assert client.get_run(played[1].id).state is RunState.FINISHED


def test_a_palette_keeps_what_is_frequent_and_comes_close_elsewhere() -> None:
    image = QImage(90, 60, QImage.Format.Format_RGB32)
    for x in range(90):
        for y in range(60):
            image.setPixelColor(x, y, QColor(2 * x, 4 * y, 77) if x > 9 else QColor(13, 17, 23))
    small = with_palette(image)
    assert small.colorCount() <= 256
    assert small.pixelColor(3, 30) == QColor(13, 17, 23)
    for x, y in ((20, 5), (50, 30), (89, 59)):
        was, now = image.pixelColor(x, y).getRgb(), small.pixelColor(x, y).getRgb()
        assert max(abs(a - b) for a, b in zip(was, now, strict=True)) < 40  # type: ignore[arg-type]
