"""The remote side: what it answers and pushes, and that no nonsense hurts it."""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import client
from engine.doctor import finding as doctor
from engine.doctor.examination import Examination
from engine.environments import registry
from engine.environments.creation import CreationFailed
from engine.environments.registry import Environment
from engine.exports.export_runs import CannotExport
from engine.interface import local_watches
from engine.interface.encoding import decode_answer, decode_told, methods
from engine.interface.value_encoding import encode, without_defaults
from engine.interface.values import Code, CreationPart, ExaminationPart, NoAnswer
from engine.messages.commands import SaveCheckpoint
from engine.messages.events import Notice
from engine.remote import frames
from engine.remote.frames import Hello
from engine.runs import trash
from engine.runs.run_follower import Output
from engine.runs.run_index import RunIndex
from engine.runs.run_info import RunInfo, get_run
from engine.spec.run_spec import RunSpec
from engine.system import paths
from engine.system.cancelled import Cancelled
from tests.support.full_disk import small_disk
from tests.support.generated_values import fifteen_examples
from tests.support.recorded_runs import SPEC, RecordedRun, record_epochs, save_checkpoint
from tests.support.remote_peer import Peer
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
    assert (peer.hello.major, peer.hello.minor) == (frames.MAJOR, frames.MINOR)


def test_it_ends_with_its_input(peer: Peer) -> None:
    peer.close_input()
    assert peer.wait()


def test_it_ends_when_nobody_speaks_any_more() -> None:
    with closing(Peer(silence=0.05)) as peer:
        assert peer.wait()


class Later(msgspec.Struct, tag="later"):
    """A message of a newer minor version."""

    what: int = 1


def test_a_newer_minor_version_is_understood_or_refused_by_name(peer: Peer) -> None:
    peer.send(Later())
    found = peer.answer(peer.begin("later")).refusal
    assert found is not None
    assert "cannot do this (later): update it" in found.text
    found = peer.answer(peer.begin("ping", urgently=True)).refusal
    assert found is None, "`begin` sends the arguments that the method has"


def test_a_setting_of_a_newer_version_is_refused_by_name(peer: Peer) -> None:
    spec = without_defaults(SPEC) | {"warp_factor": 9}
    for method in ("check", "start"):
        refusal = peer.answer(peer.begin(method, spec=spec)).refusal
        assert refusal is not None
        (problem,) = refusal.problems
        assert "setting warp_factor" in problem.text


def test_a_setting_that_no_spec_can_have_is_refused_with_its_field(peer: Peer) -> None:
    with pytest.raises(client.CannotStart) as refused:
        peer.engine.check(msgspec.structs.replace(SPEC, epochs=-1))
    assert [problem.field for problem in refused.value.problems] == ["epochs"]


def test_the_checks_of_the_doctor_come_one_by_one(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = doctor.Finding("driver", "ok", "It works.")

    def checks(examination: Examination, *, on_gpus: bool) -> Iterator[doctor.Finding]:
        examination._progress(f"driver {on_gpus}")
        yield good
        while not examination._is_cancelled():
            time.sleep(0.01)
        raise Cancelled

    monkeypatch.setattr(Examination, "checks", checks)
    number = peer.begin("examine", depth="thorough", environment="")
    parts = []
    for _ in range(2):
        told = peer.read()
        assert isinstance(told, frames.Told)
        parts += decode_told(methods()["examine"], told.name, told.values)
    assert parts == [ExaminationPart(doing="driver True"), ExaminationPart(good)]
    peer.send(frames.Cancel(number))
    assert peer.is_cancelled(number)
    assert "ok       driver: It works." in peer.engine.report_checks([ExaminationPart(good)])


def test_a_follower_gets_all_once_and_the_next_news_only_after_these_have_arrived(
    peer: Peer, run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_watches, "LIVE_SECONDS", 0.001)
    run.add_points("train/loss", range(3))
    run.add_points("train/lr", range(3))
    run.write_log(0, "hello\n")
    number = peer.begin("follow", run=run.id, series=["train/loss"])
    first = peer.news(asks_next=False)
    assert [curve.series for curve in first.curves] == ["train/loss"]
    assert first.series == ["train/loss", "train/lr"]
    assert first.info.spec == get_run(run.id).spec
    assert [part.lines for part in first.story if isinstance(part, Output)] == [["hello"]]
    for step in range(3, 9):
        run.add_points("train/loss", [step])
        peer.engine.ping()
    assert not peer.yielded, "nothing grows while the first news have not arrived"
    peer.send(frames.Next(number))
    (curve,) = peer.news().curves
    assert list(curve.points.step) == list(range(3, 9))
    assert not curve.replaces


def test_what_is_cancelled_yields_no_more_and_another_curve_is_read(
    peer: Peer, run: RecordedRun
) -> None:
    for series in ("train/loss", "train/lr"):
        run.add_points(series, range(3))
    number = peer.begin("follow", run=run.id, series=[])
    assert peer.news(asks_next=False).curves == []
    peer.send(frames.Cancel(number))
    assert peer.answer(number).refusal is None
    peer.begin("follow", run=run.id, series=["train/lr"])
    assert [curve.series for curve in peer.news().curves] == ["train/lr"]


def test_who_comes_back_with_a_cursor_gets_the_rest(run: RecordedRun) -> None:
    run.add_points("train/loss", range(3))
    with closing(Peer()) as peer:
        peer.begin("follow", run=run.id, series=["train/loss"])
        cursor = peer.news().cursor
    run.add_points("train/loss", [3])
    run.add(Notice("later"))
    with closing(Peer()) as peer:
        peer.begin("follow", run=run.id, series=["train/loss"], cursor=cursor)
        news = peer.news()
    (curve,) = news.curves
    assert (list(curve.points.step), curve.replaces) == ([3], False)
    assert [len(part) for part in news.story] == [1]


@pytest.mark.parametrize("cursor", [b"\xc1", encode("nonsense"), encode([[1, 2], {}, 3, 4])])
def test_a_cursor_of_another_version_begins_anew(
    peer: Peer, run: RecordedRun, cursor: bytes
) -> None:
    run.add_points("train/loss", range(3))
    peer.begin("follow", run=run.id, series=["train/loss"], cursor=cursor)
    assert peer.news().curves[0].replaces


def test_a_run_that_is_gone_is_said_in_a_sentence(peer: Peer) -> None:
    peer.begin("follow", run="77", series=[])
    assert "Run 77 was deleted" in peer.news().trouble


def test_only_runs_that_the_other_side_has_not_are_sent(peer: Peer, run: RecordedRun) -> None:
    other = RecordedRun()
    with closing(other.store):
        other.begin()
    peer.begin("watch_runs", known={})
    news = peer.news()
    assert news.ids == [other.id, run.id]
    assert [each.spec for each in news.changed] == [SPEC, SPEC]
    known = news.digests
    del known[other.id]
    with closing(Peer()) as again:
        again.begin("watch_runs", known=known)
        assert [each.id for each in again.news().changed] == [other.id]


def test_commands_in_its_sentences_are_those_of_the_asking_person(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.system.program._asked_from", None)
    peer.send(Hello(1, 1, "1", program="traindeck", machine="gpus"))
    with pytest.raises(client.NoSuchRun, match="`traindeck runs --on gpus`"):
        peer.engine.export_runs(("7",), "csv", lambda *_: None, threading.Event())


def test_a_disk_that_is_away_for_a_while_ends_no_watch(
    peer: Peer, run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_watches, "LIST_SECONDS", 0.001)
    refresh, failures = RunIndex.refresh, [OSError("stale file handle")] * 3

    def fail_first(index: RunIndex) -> list[RunInfo]:
        if failures:
            raise failures.pop()
        return refresh(index)

    monkeypatch.setattr(RunIndex, "refresh", fail_first)
    peer.begin("watch_runs", known={})
    assert peer.news().ids == [run.id]


@pytest.mark.usefixtures("processes")
def test_the_devices_come_from_the_telemetry_helper(peer: Peer) -> None:
    peer.begin("watch_devices")
    assert peer.news().devices[-1].kind == "cpu"
    peer.engine.show_traffic("GPU-7")
    assert peer.news().devices[-1].kind == "cpu"


def test_a_helper_that_cannot_be_started_is_told(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise OSError("no process can be started")

    monkeypatch.setattr(local_watches, "TelemetryStream", fail)
    refusal = peer.answer(peer.begin("watch_devices")).refusal
    assert refusal is not None
    assert "no process can be started" in refusal.text


def test_a_verification_tells_its_progress_and_can_be_cancelled(
    peer: Peer, run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resume(run_id: str, checkpoint: Any, spec: Any, watch: Any, recipe: Any) -> str:
        done = 0
        while True:
            done += 1
            watch(done, 10**9)

    monkeypatch.setattr(client, "resume", resume)
    monkeypatch.setattr("engine.remote.server.PROGRESS_SECONDS", 0.0)
    arguments = {"checkpoint": "", "spec": None, "recipe": None, "as_new": False}
    number = peer.begin("resume", run=run.id, **arguments)
    assert isinstance(peer.read(), frames.Told)
    peer.send(frames.Cancel(number))
    assert peer.is_cancelled(number)


def test_of_the_trash_only_the_named_runs_are_deleted_for_good(peer: Peer) -> None:
    for _ in range(3):
        trash.delete(record_epochs("finished").name)
    peer.begin("watch_runs", known={})
    assert peer.news().trashed == ["3", "2", "1"]
    assert peer.engine.empty_trash(("1", "3", "../runs")) == 2
    assert trash.trashed() == ["2"]


@pytest.fixture
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: None) -> UvDouble:
    uv = UvDouble(tmp_path / "uv")
    monkeypatch.setenv("PATH", uv.path)
    return uv


def begin_making(peer: Peer) -> int:
    arguments = {"requirements": ["torch==2.13.0"], "default_for": "torch"}
    return peer.begin("make_environment", name="mine", **arguments)


def make(peer: Peer, name: str = "mine", requirement: str = "torch==2.13.0") -> Environment:
    told, cancelled = [].append, threading.Event()
    return peer.engine.make_environment(name, [requirement], "torch", told, cancelled)


def parts_until(peer: Peer, number: int, output: str = "") -> list[CreationPart]:
    """Return the parts that come until the answer, or until this output."""
    parts: list[CreationPart] = []
    while not output or output not in "".join(each.output for each in parts):
        message = peer.read()
        if isinstance(message, frames.Answered):
            assert not output, message
            return parts
        assert isinstance(message, frames.Told)
        assert message.number == number
        parts += decode_told(methods()["make_environment"], message.name, message.values)
    return parts


def files_of_environments() -> list[str]:
    return [each.name for each in registry.folder().iterdir()]


def test_an_environment_is_made_there_with_news_on_the_way(peer: Peer, uv: UvDouble) -> None:
    uv.does("print('x' * 20_000 + 'Installing torch', flush=True)")
    number = begin_making(peer)
    parts = parts_until(peer, number)
    assert parts[0].doing == "Making a virtual environment"
    assert parts[-1].doing == "Checking the environment"
    assert "".join(each.output for each in parts).endswith("xxxInstalling torch\n")
    assert max(len(each.output) for each in parts) <= 8192
    (made,) = registry.environments()
    assert (made.name, made.facts.problems, made.default_for) == ("mine", (), ("torch",))
    with pytest.raises(registry.CannotChange, match="There is an environment 'mine' already"):
        make(peer)
    assert make(peer, "other").facts.python == "3.12.4"


def test_why_an_environment_is_not_made_there_is_said_with_the_last_words(
    peer: Peer, uv: UvDouble
) -> None:
    uv.does("print('error: No space left on device (os error 28)'); sys.exit(2)")
    number = begin_making(peer)
    assert "No space left" in "".join(each.output for each in parts_until(peer, number))
    text = f"could not be installed: the disk of {registry.folder()} is full."
    with pytest.raises(CreationFailed, match=re.escape(text)):
        make(peer)
    assert files_of_environments() == ["mine.log"]
    with pytest.raises(registry.CannotChange, match="no requirement"):
        make(peer, "a", "-r x")


def test_a_creation_that_is_cancelled_is_answered_when_nothing_is_left_there(
    peer: Peer, uv: UvDouble
) -> None:
    uv.does("Path('half').touch(); print('half', os.getppid(), flush=True); time.sleep(3600)")
    number = begin_making(peer)
    parts_until(peer, number, output="half")
    peer.send(frames.Cancel(number))
    assert peer.is_cancelled(number)
    assert files_of_environments() == []


def test_a_creation_ends_with_the_connection_and_nothing_is_left_there(uv: UvDouble) -> None:
    uv.does("Path('half').touch(); print('half', flush=True); time.sleep(3600)")
    with closing(Peer()) as peer:
        parts_until(peer, begin_making(peer), output="half")
    assert files_of_environments() == []


def test_an_export_waits_for_its_download_and_goes_with_the_connection(run: RecordedRun) -> None:
    run.add_points("train/loss", range(3))
    with closing(Peer()) as peer:
        engine, told = peer.engine, (lambda *_: None, threading.Event())
        done = engine.export_runs((run.id,), "csv", *told)
        for file in done.files:
            content = engine.read_piece(done.number, file.path, 0)
            assert hashlib.sha256(content).hexdigest() == file.sha256
        with pytest.raises(NoAnswer):
            engine.read_piece(done.number, "../../x", 0)
        page = engine.export_runs((run.id,), "html", *told)
        assert engine.read_piece(page.number, page.files[0].path, 0)
        engine.discard_folder(page.number)
        with pytest.raises(NoAnswer, match="begin again"):
            engine.read_piece(page.number, "page.html", 0)
        with pytest.raises(CannotExport, match="does not write"):
            engine.export_runs((run.id,), "punchcards", *told)


@pytest.mark.parametrize("number", ["../1", "1/../../x", "-1", "12:3", "", "0", "1\n"])
def test_what_is_no_number_of_a_run_is_no_answer(number: str) -> None:
    """It would become part of a name here."""
    for name in ("start", "resume", "start_sweep"):
        with pytest.raises(msgspec.ValidationError):
            decode_answer(methods()[name], encode(number))


@pytest.mark.parametrize("saved", [float("nan"), float("inf"), -1.0, 1e300])
def test_a_time_that_there_is_not_is_no_answer(run: RecordedRun, saved: float) -> None:
    """It could not be shown."""
    manifest = msgspec.structs.replace(save_checkpoint(run.folder, 1, 1).manifest, saved=saved)
    with pytest.raises(ValueError, match="at no time"):
        decode_answer(methods()["list_checkpoints"], encode([("step-1", manifest)]))


@pytest.mark.parametrize("most", [0, -3, 50_001])
def test_no_question_asks_for_any_number_of_points(peer: Peer, run: RecordedRun, most: int) -> None:
    run.add_points("train/loss", range(3))
    with pytest.raises(client.CannotStart, match="most does not fit"):
        peer.engine.read_history(run.id, "train/loss", most)


def test_an_answer_that_is_too_large_is_refused_and_the_connection_goes_on(
    peer: Peer, run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run.folder / "media").mkdir()
    (run.folder / "media" / "a.png").write_bytes(bytes(5000))
    monkeypatch.setattr("engine.remote.wire.LARGEST_BODY", 4000)
    with pytest.raises(NoAnswer, match="too large"):
        peer.engine.read_media(run.id, "media/a.png")
    peer.engine.ping()


@pytest.mark.usefixtures("processes")
def test_a_full_disk_there_is_a_sentence_and_the_connection_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "full", "256k"), closing(Peer()) as peer:
        monkeypatch.setenv("TRAINDECK_HOME", str(tmp_path / "full"))
        code = Code("mine.py", os.urandom(2**20))
        with pytest.raises(NoAnswer, match=r": No space left on device\.$"):  # without a number
            peer.engine.keep_code(code)
        peer.engine.ping()
        received = paths.home() / "received"
        assert list(received.iterdir()) == [], "what was begun is removed"


def test_too_many_calls_at_once_are_refused(
    peer: Peer, run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end = threading.Event()
    monkeypatch.setattr("engine.remote.server.MOST_CALLS", 2)
    monkeypatch.setattr(client, "send", lambda *_: may_end.wait() and 1)
    for _ in range(2):
        peer.begin("send", run=run.id, command=SaveCheckpoint())
    with pytest.raises(NoAnswer, match="Too much is asked"):
        peer.engine.send(run.id, SaveCheckpoint())
    may_end.set()


@fifteen_examples
@given(st.lists(st.one_of(st.binary(max_size=40), st.just(encode(frames.Next(7)))), max_size=5))
def test_no_nonsense_keeps_it_from_ending(bodies: list[bytes]) -> None:
    with closing(Peer()) as peer:
        try:
            for body in bodies:
                peer.writer.write(body)
                peer.send(frames.Call(7, "start", body))
        except BrokenPipeError:
            pass  # it has ended already


def test_a_spec_without_a_change_is_the_same_there() -> None:
    spec = RunSpec(recipe="digits", strategy="torch/ddp", devices=("cpu:0", "cpu:1"), epochs=7)
    assert set(without_defaults(spec)) == {"recipe", "strategy", "devices", "epochs"}
