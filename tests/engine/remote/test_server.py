"""The remote side: what it answers and pushes, and that no nonsense hurts it."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import client
from engine.doctor import check as doctor
from engine.doctor import probing
from engine.doctor.examination import Examination
from engine.environments import registry
from engine.environments.registry import Environment
from engine.messages.commands import SaveCheckpoint
from engine.messages.events import Notice
from engine.planning.recipe_check import CheckResult
from engine.remote import packed_points, requests
from engine.remote.downloads import offered_file
from engine.remote.requests import FollowNews, Hello, RunsNews
from engine.remote.run_rows import digest_of, encode, packed_spec, run_info, unpacked_history
from engine.remote.serving import handlers, watches
from engine.runs import trash
from engine.runs.run_index import RunIndex
from engine.runs.run_info import RunInfo, get_run
from engine.runs.run_notes import RunNotes, read_notes
from engine.runs.run_overview import read_diff, run_overview
from engine.runs.settings_history import SettingsHistory
from engine.runs.store.store_reader import RunReader
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import replaced_spec
from engine.system import paths
from tests.support.full_disk import small_disk
from tests.support.generated_values import fifteen_examples
from tests.support.recorded_runs import SPEC, RecordedRun, record_epochs
from tests.support.remote_peer import Peer
from tests.support.sentences import sentence
from tests.support.uv_double import UvDouble

RECIPE = b"from helper import f\n\ndef model():\n    ...\n\ndef datasets():\n    ...\n"


@pytest.fixture
def peer() -> Iterator[Peer]:
    with closing(Peer()) as peer:
        yield peer


@pytest.fixture
def run() -> Iterator[RecordedRun]:
    run = RecordedRun()
    with closing(run.store):
        run.begin()
        yield run


def test_it_says_first_who_it_is(peer: Peer) -> None:
    assert isinstance(peer.hello, Hello)
    assert (peer.hello.major, peer.hello.minor) == (requests.MAJOR, requests.MINOR)


def test_it_ends_with_its_input(peer: Peer) -> None:
    peer.close_input()
    assert peer.wait()


def test_it_ends_when_nobody_speaks_any_more() -> None:
    with closing(Peer(silence=0.05)) as peer:
        assert peer.wait()


class Later(msgspec.Struct, tag="later"):
    """A message of a newer minor version."""

    what: int = 1


class NewerPing(msgspec.Struct, tag="ping"):
    """A request with a field that this version does not know."""

    urgently: bool = True


def test_a_newer_minor_version_is_understood_or_refused_by_name(peer: Peer) -> None:
    peer.send(Later())
    refusal = peer.refusal(Later())
    assert refusal.kind == "unknown"
    assert sentence("cannot-do-this-later-update") in refusal.text
    assert peer.answered(NewerPing()).refusal is None


def test_a_setting_of_a_newer_version_is_refused_by_name(peer: Peer) -> None:
    spec = packed_spec(SPEC) | {"warp_factor": 9}
    (problem,) = peer.ask(requests.Check(spec))
    assert "setting warp_factor" in problem.text
    assert peer.refusal(requests.Start(spec)).problems == [problem]


def test_a_spec_is_checked_there(peer: Peer) -> None:
    assert peer.ask(requests.Check(packed_spec(SPEC))) == []
    (problem,) = peer.ask(requests.Check(packed_spec(SPEC) | {"epochs": -1}))
    assert problem.field == "epochs"


def test_twins_are_refused_as_the_engine_does(peer: Peer) -> None:
    refusal = peer.refusal(requests.StartTwins(packed_spec(SPEC)))
    assert (refusal.kind, "write it for Keras" in refusal.text) == ("", True)
    keras = packed_spec(SPEC) | {"recipe": "digits_keras", "batch_size": 0}
    refusal = peer.refusal(requests.StartTwins(keras))
    assert refusal.kind == "cannot_start"
    assert [problem.field for problem in refusal.problems] == ["batch_size"]
    assert paths.run_ids() == []


def test_twins_train_the_recipe_that_was_sent(
    peer: Peer, traindeck_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[tuple[RunSpec, str, tuple[str, ...]]] = []

    def start(spec: RunSpec, recipe: RecipeInfo, tags: tuple[str, ...]) -> str:
        began.append((spec, recipe.path, tags))
        return "12"

    monkeypatch.setattr(handlers, "start_twins", start)
    settings = packed_spec(SPEC) | {"interpreter": "/env/bin/python"}
    code = requests.Code("mine.py", RECIPE, {"helper.py": b"f = 1\n"})
    assert peer.ask(requests.StartTwins(settings, ("a",), code)) == "12"
    ((spec, path, tags),) = began
    assert Path(spec.recipe).is_relative_to(traindeck_home / "received")
    assert (path, spec.interpreter, tags) == (spec.recipe, "/env/bin/python", ("a",))


def test_a_check_of_a_recipe_ends_when_it_is_cancelled(
    peer: Peer, traindeck_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[RunSpec] = []
    begun = threading.Event()

    def try_recipe(spec: RunSpec, cancelled: threading.Event) -> CheckResult:
        tried.append(spec)
        begun.set()
        cancelled.wait(60.0)
        return CheckResult(spec.recipe, problem="It was interrupted.")

    monkeypatch.setattr(handlers, "try_recipe", try_recipe)
    number = peer.begin(requests.TryRecipe(packed_spec(SPEC), requests.Code("mine.py", RECIPE)))
    assert begun.wait(60.0)
    peer.send(requests.Cancel(number))
    message = peer.read()
    assert isinstance(message, requests.Answered)
    found = msgspec.msgpack.decode(message.answer, type=CheckResult)
    assert found.recipe == tried[0].recipe
    assert Path(found.recipe).is_relative_to(traindeck_home / "received")


def test_the_checks_of_the_doctor_come_one_by_one(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = doctor.Check("driver", True, "It works.")

    def checks(examination: Examination, *, on_gpus: bool) -> Iterator[doctor.Check]:
        examination._progress(f"driver {on_gpus}")
        yield good
        while not examination._is_cancelled():
            time.sleep(0.01)
        raise probing.Cancelled

    monkeypatch.setattr(Examination, "checks", checks)
    number = peer.begin(requests.Examine(on_gpus=True))
    parts = []
    for _ in range(2):
        progress = peer.read()
        assert isinstance(progress, requests.Progress)
        parts.append(msgspec.msgpack.decode(progress.part, type=requests.ExaminationPart))
    assert parts == [
        requests.ExaminationPart(doing="driver True"),
        requests.ExaminationPart(good),
    ]
    peer.send(requests.Cancel(number))
    message = peer.read()
    assert isinstance(message, requests.Answered)
    assert message.refusal is not None
    assert message.refusal.kind == "cancelled"
    report = peer.ask(requests.ReportChecks([good]))
    assert "ok       driver: It works." in report


def test_the_curves_are_those_of_the_store(peer: Peer, run: RecordedRun) -> None:
    run.add_points("train/loss", range(5000))
    with RunReader(run.folder) as reader:
        window = reader.window("train/loss", 10, 3000, 100)
    asked = requests.Window(run.id, "train/loss", 10, 3000, 100)
    found = packed_points.unpack(peer.ask(asked))
    np.testing.assert_array_equal(found.step, window.step)
    np.testing.assert_array_equal(found.value, window.value)
    history = packed_points.unpack(peer.ask(requests.History(run.id, "train/loss", 6000)))
    assert list(history.step) == list(range(5000))


def test_all_points_of_a_series_come_in_parts(peer: Peer, run: RecordedRun) -> None:
    run.add_points("train/loss", range(5000))
    assert peer.ask(requests.CountPoints(run.id)) == {"train/loss": 5000}
    found: list[int] = []
    while len(found) < 5000:
        asked = requests.Points(run.id, "train/loss", len(found), 1999)
        points = packed_points.unpack(peer.ask(asked))
        assert points.statistics is None
        found += points.step.astype(int).tolist()
        assert points.count == len(found)
    assert found == list(range(5000))
    rest = peer.ask(requests.Points(run.id, "train/loss", 5000))
    assert not len(packed_points.unpack(rest).step)


def test_the_settings_that_a_run_has_had_come_by_attempt(peer: Peer, run: RecordedRun) -> None:
    later = msgspec.structs.replace(SPEC, epochs=9)
    with replaced_spec(run.folder, later, 2):
        pass
    with replaced_spec(run.folder, SPEC, 3):
        (run.folder / "spec.before-3.toml").write_text("nonsense")
    answer = peer.ask(requests.ReadSettings(run.id))
    assert unpacked_history(answer) == SettingsHistory(SPEC, {2: SPEC, 3: None})
    newer = requests.StoredSettings({**packed_spec(later), "warp_factor": 9})
    assert unpacked_history(newer) == SettingsHistory(later, {})


def test_the_code_of_a_run_is_its_copy_and_that_of_a_script_is_its_file(
    peer: Peer, tmp_path: Path
) -> None:
    recipe, module = tmp_path / "mine.py", tmp_path / "helper.py"
    recipe.write_bytes(RECIPE)
    module.write_bytes(b"f = 1\n")
    spec = msgspec.structs.replace(SPEC, recipe=str(recipe))
    script = msgspec.structs.replace(spec, strategy="script/single", command=("mine.py",))
    of_recipe, of_script = RecordedRun(spec), RecordedRun(script)
    module.write_bytes(b"f = 2\n")
    before = peer.ask(requests.ReadCode(of_recipe.id))
    assert before == requests.Code("mine.py", RECIPE, {"helper.py": b"f = 1\n"})
    now = peer.ask(requests.ReadCode(of_script.id))
    assert now == requests.Code("mine.py", RECIPE, {"helper.py": b"f = 2\n"})
    recipe.unlink()
    assert peer.ask(requests.ReadCode(of_recipe.id)) == before
    assert str(recipe) in peer.refusal(requests.ReadCode(of_script.id)).text
    for run in (of_recipe, of_script):
        run.store.close()


def test_older_lines_of_a_log_come_on_demand(peer: Peer, run: RecordedRun) -> None:
    lines = [f"line {number}" for number in range(60_000)]
    run.write_log(0, "\n".join(lines) + "\n")
    found, begin = [], -1
    while begin:
        part = peer.ask(requests.Lines(run.id, 0, begin))
        found, begin = part.lines + found, part.begin
    assert found == lines


def test_a_follower_gets_all_once_and_the_next_news_only_after_these_have_arrived(
    peer: Peer, run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "LIVE_SECONDS", 0.001)
    run.add_points("train/loss", range(3))
    run.add_points("train/lr", range(3))
    run.write_log(0, "hello\n")
    peer.ask(requests.Follow(run.id, ("train/loss",)))
    first = peer.news(FollowNews, acknowledge=False)
    assert [curve.series for curve in first.curves] == ["train/loss"]
    assert first.series == ["train/loss", "train/lr"]
    assert run_info(first.run) == get_run(run.id)
    assert [part.lines for part in first.story if part.lines] == [["hello"]]
    for step in range(3, 9):
        run.add_points("train/loss", [step])
        peer.ask(requests.Ping())
    assert not peer.pushes, "nothing grows while the first news have not arrived"
    peer.send(requests.Acknowledge(1))
    (curve,) = peer.news(FollowNews).curves
    assert list(packed_points.unpack(curve.points).step) == list(range(3, 9))
    assert not curve.replaces


def test_another_curve_is_read_when_it_is_shown(peer: Peer, run: RecordedRun) -> None:
    for series in ("train/loss", "train/lr"):
        run.add_points(series, range(3))
    peer.ask(requests.Follow(run.id))
    assert peer.news(FollowNews).curves == []
    peer.ask(requests.Show(1, ("train/lr",)))
    assert [curve.series for curve in peer.news(FollowNews).curves] == ["train/lr"]


def test_who_comes_back_with_a_cursor_gets_the_rest(run: RecordedRun) -> None:
    run.add_points("train/loss", range(3))
    with closing(Peer()) as peer:
        peer.ask(requests.Follow(run.id, ("train/loss",)))
        cursor = peer.news(FollowNews).cursor
    run.add_points("train/loss", [3])
    run.add(Notice("later"))
    with closing(Peer()) as peer:
        peer.ask(requests.Follow(run.id, ("train/loss",), cursor=cursor))
        news = peer.news(FollowNews)
    (curve,) = news.curves
    assert (list(packed_points.unpack(curve.points).step), curve.replaces) == ([3], False)
    assert len([event for part in news.story for event in part.events]) == 1


@pytest.mark.parametrize("cursor", [b"\xc1", encode("nonsense"), encode([[1, 2], {}, 3, 4])])
def test_a_cursor_of_another_version_begins_anew(
    peer: Peer, run: RecordedRun, cursor: bytes
) -> None:
    run.add_points("train/loss", range(3))
    peer.ask(requests.Follow(run.id, ("train/loss",), cursor=cursor))
    assert peer.news(FollowNews).curves[0].replaces


def test_a_run_that_is_gone_is_said_in_a_sentence(peer: Peer) -> None:
    peer.ask(requests.Follow("77"))
    assert "Run 77 was deleted" in peer.news(FollowNews).trouble


def test_only_runs_that_the_other_side_has_not_are_sent(peer: Peer, run: RecordedRun) -> None:
    other = RecordedRun()
    with closing(other.store):
        other.begin()
    peer.ask(requests.WatchRuns())
    news = peer.news(RunsNews)
    assert news.ids == [other.id, run.id]
    assert run_info(news.changed[run.id]).spec == SPEC
    known = {run_id: digest_of(row) for run_id, row in news.changed.items()}
    del known[other.id]
    with closing(Peer()) as again:
        again.ask(requests.WatchRuns(known))
        assert set(again.news(RunsNews).changed) == {other.id}


def test_commands_in_its_sentences_are_those_of_the_asking_person(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.system.program._asked_from", None)
    peer.send(Hello(1, 1, "1", program="traindeck", machine="gpus"))
    refusal = peer.refusal(requests.Export(("7",), "csv"))
    assert sentence("traindeck-runs-on-gpus") in refusal.text


def test_a_disk_that_is_away_for_a_while_ends_no_watch(
    peer: Peer, run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "RUNS_SECONDS", 0.001)
    refresh, failures = RunIndex.refresh, [OSError("stale file handle")] * 3

    def fail_first(index: RunIndex) -> list[RunInfo]:
        if failures:
            raise failures.pop()
        return refresh(index)

    monkeypatch.setattr(RunIndex, "refresh", fail_first)
    peer.ask(requests.WatchRuns())
    assert peer.news(RunsNews).ids == [run.id]


@pytest.mark.usefixtures("processes")
def test_the_devices_come_from_the_telemetry_helper(peer: Peer) -> None:
    peer.ask(requests.WatchDevices())
    assert peer.news(requests.DevicesNews).snapshot.devices[-1].kind == "cpu"
    peer.ask(requests.ShowDevice(1, "GPU-7"))
    assert peer.news(requests.DevicesNews).snapshot.devices[-1].kind == "cpu"


def test_a_helper_that_cannot_be_started_is_told(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise OSError("no process can be started")

    monkeypatch.setattr(watches, "TelemetryStream", fail)
    assert "no process can be started" in peer.refusal(requests.WatchDevices()).text


def test_a_run_that_is_not_there_is_refused_as_the_engine_does(peer: Peer) -> None:
    for request in (
        requests.Checkpoints("7"),
        requests.Checkpoints("../1"),
        requests.Send("7", SaveCheckpoint()),
        requests.Lines("7", 0),
        requests.Window("7", "a", 0, 1),
        requests.WriteNotes("7", RunNotes()),
    ):
        assert peer.refusal(request).kind in ("no_such_run", "command_failed")


def test_the_refusals_of_a_resume_keep_what_they_say(
    peer: Peer, run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resume(run_id: str, *_: object) -> str:
        raise client.RecipeChanged(run_id, "mine.py: 3 lines changed")

    monkeypatch.setattr(client, "resume", resume)
    refusal = peer.refusal(requests.Resume(run.id))
    assert (refusal.kind, refusal.changes) == ("recipe_changed", "mine.py: 3 lines changed")


def test_a_verification_tells_its_progress_and_can_be_cancelled(
    peer: Peer, run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resume(run_id: str, checkpoint: Any, spec: Any, watch: Any, recipe: Any) -> str:
        done = 0
        while True:
            done += 1
            watch(done, 10**9)

    monkeypatch.setattr(client, "resume", resume)
    monkeypatch.setattr("engine.remote.serving.handlers.PROGRESS_SECONDS", 0.0)
    number = peer.begin(requests.Resume(run.id))
    assert isinstance(peer.read(), requests.Progress)
    peer.send(requests.Cancel(number))
    while isinstance(message := peer.read(), requests.Progress):
        pass
    assert isinstance(message, requests.Answered)
    assert message.refusal is not None
    assert message.refusal.kind == "cancelled"


def test_notes_are_written_and_runs_deleted_and_restored(peer: Peer, run: RecordedRun) -> None:
    peer.ask(requests.WriteNotes(run.id, RunNotes(name="mine", tags=("a",))))
    assert read_notes(run.folder).name == "mine"
    assert "stop it before" in peer.refusal(requests.Delete(run.id)).text
    other = RecordedRun()
    other.store.close()
    for file in other.folder.glob("run.sqlite*"):
        file.unlink()
    os.utime(other.folder, (0, 0))
    os.utime(other.folder / "spec.toml", (0, 0))
    peer.ask(requests.Delete(other.id))
    assert trash.trashed() == [other.id]
    peer.ask(requests.Restore(other.id))
    assert trash.trashed() == []


def test_of_the_trash_only_the_named_runs_are_deleted_for_good(peer: Peer) -> None:
    for _ in range(3):
        trash.delete(record_epochs("finished").name)
    peer.ask(requests.WatchRuns())
    assert peer.news(RunsNews).trashed == ["3", "2", "1"]
    assert peer.ask(requests.EmptyTrash(("1", "3", "../runs"))) == 2
    assert trash.trashed() == ["2"]


def test_the_environments_are_those_of_the_machine(peer: Peer) -> None:
    registry.add(Environment("cuda12", "/opt/env/bin/python"))
    assert peer.ask(requests.Environments()) == registry.environments()


@pytest.fixture
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: None) -> UvDouble:
    uv = UvDouble(tmp_path / "uv")
    monkeypatch.setenv("PATH", uv.path)
    return uv


MAKE = requests.MakeEnvironment("mine", ["torch==2.13.0"], "torch")


def parts_until(peer: Peer, number: int, output: str = "") -> list[requests.CreationPart]:
    """Return the parts that come until the answer, or until this output."""
    parts: list[requests.CreationPart] = []
    while not output or output not in "".join(each.output for each in parts):
        message = peer.read()
        if isinstance(message, requests.Answered):
            assert not output, message
            return parts
        assert isinstance(message, requests.Progress)
        assert message.number == number
        parts.append(msgspec.msgpack.decode(message.part, type=requests.CreationPart))
    return parts


def files_of_environments() -> list[str]:
    return [each.name for each in registry.folder().iterdir()]


def test_an_environment_is_made_there_with_news_on_the_way(peer: Peer, uv: UvDouble) -> None:
    uv.does("print('x' * 20_000 + 'Installing torch', flush=True)")
    number = peer.begin(MAKE)
    parts = parts_until(peer, number)
    assert parts[0].doing == sentence("making-virtual-environment")
    assert parts[-1].doing == "Checking the environment"
    assert "".join(each.output for each in parts).endswith("xxxInstalling torch\n")
    assert max(len(each.output) for each in parts) <= 8192
    (made,) = registry.environments()
    assert (made.name, made.facts.problems, made.default_for) == ("mine", (), ("torch",))
    assert peer.refusal(MAKE).text.startswith(sentence("there-is-environment-mine-already"))
    assert peer.ask(msgspec.structs.replace(MAKE, name="other")).facts.python == "3.12.4"


def test_why_an_environment_is_not_made_there_is_said_with_the_last_words(
    peer: Peer, uv: UvDouble
) -> None:
    uv.does("print('error: No space left on device (os error 28)'); sys.exit(2)")
    number = peer.begin(MAKE)
    assert "No space left" in "".join(each.output for each in parts_until(peer, number))
    refusal = peer.refusal(MAKE)
    assert sentence("could-not-be-installed-disk", folder=registry.folder()) in refusal.text
    assert files_of_environments() == ["mine.log"]
    assert "no requirement" in peer.refusal(requests.MakeEnvironment("a", ["-r x"])).text


def test_a_creation_that_is_cancelled_is_answered_when_nothing_is_left_there(
    peer: Peer, uv: UvDouble
) -> None:
    uv.does("Path('half').touch(); print('half', os.getppid(), flush=True); time.sleep(3600)")
    number = peer.begin(MAKE)
    parts_until(peer, number, output="half")
    peer.send(requests.Cancel(number))
    while not isinstance(message := peer.read(), requests.Answered):
        pass
    assert message.refusal is not None
    assert message.refusal.kind == "cancelled"
    assert files_of_environments() == []


def test_a_creation_ends_with_the_connection_and_nothing_is_left_there(uv: UvDouble) -> None:
    uv.does("Path('half').touch(); print('half', flush=True); time.sleep(3600)")
    with closing(Peer()) as peer:
        parts_until(peer, peer.begin(MAKE), output="half")
    assert files_of_environments() == []


def test_a_recipe_is_kept_with_its_modules_in_a_folder_of_its_content(peer: Peer) -> None:
    code = requests.Code("mine.py", RECIPE, {"helper.py": b"f = 1\n", "nets/a.py": b""})
    path = Path(peer.ask(requests.Keep(code)))
    assert path.read_bytes() == RECIPE
    assert (path.parent / "nets" / "a.py").read_bytes() == b""
    assert path.is_relative_to(paths.home() / "received")
    assert peer.ask(requests.Keep(code)) == str(path)
    path.write_bytes(b"changed by hand")
    assert peer.ask(requests.Keep(code)) == str(path)
    assert path.read_bytes() == RECIPE
    other = requests.Code("mine.py", RECIPE, {"helper.py": b"f = 2\n"})
    assert peer.ask(requests.Keep(other)) != str(path)


def test_the_overview_is_that_of_the_machine(peer: Peer, run: RecordedRun) -> None:
    assert peer.ask(requests.Overview(run.id)) == run_overview(client.get_run(run.id))
    recipe = peer.ask(requests.ReadText(run.id, "recipe"))
    assert recipe == (run.folder / "recipe.py").read_text()
    assert peer.ask(requests.ReadText(run.id, "diff", 3)) == read_diff(run.folder, 3)


@pytest.mark.parametrize(
    "name", ["../a.py", "/a.py", "a/../../b.py", "a\\b.py", "a.sh", "", "c:a.py", "a\x00.py", "."]
)
def test_a_module_never_leaves_its_folder(peer: Peer, name: str) -> None:
    refusal = peer.refusal(requests.Keep(requests.Code("mine.py", b"", {name: b""})))
    assert "was not kept" in refusal.text
    assert "was not kept" in peer.refusal(requests.Keep(requests.Code(name, b""))).text


def checkpoint_of(run: RecordedRun, content: bytes) -> requests.Checkpoint:
    """Write a checkpoint with one file, and return what the list of checkpoints says of it."""
    from engine.runs import checkpoint_files
    from engine.runs.checkpoint_files import Position

    folder = checkpoint_files.begin(run.folder, 10)
    (folder / "model.safetensors").write_bytes(content)
    position = Position(1, 0, 10)
    saved = checkpoint_files.publish(
        run.folder, position, strategy="s", replicas=1, batch_size=1, parameters=1
    )
    written = offered_file(saved.folder / "manifest.json", saved.folder)
    return requests.Checkpoint(saved.folder.name, saved.manifest, written)


def test_a_checkpoint_is_read_in_pieces(peer: Peer, run: RecordedRun) -> None:
    content = os.urandom(requests.PIECE + 100)
    saved = checkpoint_of(run, content)
    assert peer.ask(requests.Checkpoints(run.id)) == [saved]
    ask = requests.ReadCheckpoint(run.id, saved.name, "model.safetensors", 0)
    read = peer.ask(ask) + peer.ask(msgspec.structs.replace(ask, offset=requests.PIECE))
    assert hashlib.sha256(read).hexdigest() == saved.manifest.files["model.safetensors"].sha256
    assert peer.ask(msgspec.structs.replace(ask, offset=len(content))) == b""


@pytest.mark.parametrize("file", ["../../spec.toml", "/etc/passwd", "link", "folder/passwd", ""])
def test_no_other_file_can_be_read(peer: Peer, run: RecordedRun, file: str) -> None:
    saved = checkpoint_of(run, b"x")
    folder = run.folder / "checkpoints" / saved.name
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "folder").symlink_to("/etc")
    assert peer.refusal(requests.ReadCheckpoint(run.id, saved.name, file, 0)).text
    assert peer.refusal(requests.ReadCheckpoint(run.id, "../..", "spec.toml", 0)).text
    media = run.folder / "media"
    media.mkdir()
    (media / "link").symlink_to("/etc/passwd")
    (media / "folder").symlink_to("/etc")
    assert peer.refusal(requests.Media(run.id, f"media/{file}")).text


def test_an_export_waits_for_its_download_and_goes_with_the_connection(run: RecordedRun) -> None:
    run.add_points("train/loss", range(3))
    with closing(Peer()) as peer:
        done = peer.ask(requests.Export((run.id,), "csv"))
        assert not done.is_file
        for file in done.files:
            content = peer.ask(requests.ReadExport(done.number, file.path, 0))
            assert hashlib.sha256(content).hexdigest() == file.sha256
        assert peer.refusal(requests.ReadExport(done.number, "../../x", 0)).text
        page = peer.ask(requests.Export((run.id,), "html"))
        assert page.is_file
        assert peer.ask(requests.ReadExport(page.number, page.files[0].path, 0))
        peer.ask(requests.Discard(page.number))
        assert "begin again" in peer.refusal(requests.ReadExport(page.number, page.name, 0)).text
        assert "does not write" in peer.refusal(requests.Export((run.id,), "punchcards")).text


def test_an_answer_that_is_too_large_is_refused_and_the_connection_goes_on(
    peer: Peer, run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run.folder / "media").mkdir()
    (run.folder / "media" / "a.png").write_bytes(bytes(5000))
    monkeypatch.setattr("engine.remote.wire.LARGEST_BODY", 4000)
    assert "too large" in peer.refusal(requests.Media(run.id, "media/a.png")).text
    assert peer.answered(requests.Ping()).refusal is None


@pytest.mark.usefixtures("processes")
def test_a_full_disk_there_is_a_sentence_and_the_connection_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "full", "256k"), closing(Peer()) as peer:
        monkeypatch.setenv("TRAINDECK_HOME", str(tmp_path / "full"))
        code = requests.Code("mine.py", os.urandom(2**20))
        refusal = peer.refusal(requests.Start(packed_spec(SPEC), code=code))
        assert refusal.text.endswith(sentence("no-space-left-on-device")), "without a number"
        assert peer.answered(requests.Ping()).refusal is None
        received = paths.home() / "received"
        assert list(received.iterdir()) == [], "what was begun is removed"


def test_too_many_calls_at_once_are_refused(
    peer: Peer, run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end = threading.Event()
    monkeypatch.setattr("engine.remote.serving.server.MOST_CALLS", 2)
    monkeypatch.setattr(client, "send", lambda *_: may_end.wait() and 1)
    for _ in range(2):
        peer.begin(requests.Send(run.id, SaveCheckpoint()))
    assert "wait there already" in peer.refusal(requests.Send(run.id, SaveCheckpoint())).text
    may_end.set()


@fifteen_examples
@given(st.lists(st.one_of(st.binary(max_size=40), st.just(encode(requests.Ping()))), max_size=5))
def test_no_nonsense_keeps_it_from_ending(bodies: list[bytes]) -> None:
    with closing(Peer()) as peer:
        try:
            for body in bodies:
                peer.writer.write(body)
                peer.send(requests.Call(7, body))
        except BrokenPipeError:
            pass  # it has ended already


def test_a_spec_without_a_change_is_the_same_there() -> None:
    spec = RunSpec(recipe="digits", strategy="torch/ddp", devices=("cpu:0", "cpu:1"), epochs=7)
    assert set(packed_spec(spec)) == {"recipe", "strategy", "devices", "epochs"}
