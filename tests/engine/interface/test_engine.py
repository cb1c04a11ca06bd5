"""One contract for every engine: that of this machine, and the same over a connection."""

from __future__ import annotations

import hashlib
import inspect
import os
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
import pytest

from engine import client
from engine.environments import registry
from engine.environments.registry import Environment
from engine.interface.encoding import decode_answer, methods
from engine.interface.engine import Engine
from engine.interface.failures import Refusal, error_of
from engine.interface.files.transfers import offered_file
from engine.interface.local_engine import LocalEngine
from engine.interface.value_encoding import encode, without_defaults
from engine.interface.values import PIECE, Code
from engine.messages.commands import SaveCheckpoint
from engine.messages.events import RunEnded
from engine.runs import trash
from engine.runs.checkpoints.checkpoint_files import CheckpointInfo
from engine.runs.run_notes import ChangedNotes, RunNotes, read_notes
from engine.runs.run_overview import read_diff, run_overview
from engine.runs.settings_history import SettingsHistory
from engine.runs.store.store_reader import RunReader
from engine.spec.spec_file import replaced_spec
from engine.system import paths
from tests.support.recorded_runs import SPEC, RecordedRun
from tests.support.remote_peer import Peer

RECIPE = b"from helper import f\n\ndef model():\n    ...\n\ndef datasets():\n    ...\n"


N = TypeVar("N")

REFUSED = (OSError, ValueError)
"""NoAnswer is an OSError; here, the error itself is raised."""


@pytest.fixture(params=["here", "there"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """The engine of this machine, in process and over a connection."""
    if request.param == "here":
        with closing(LocalEngine()) as engine:
            yield engine
    else:
        with closing(Peer()) as peer:
            yield peer.engine


@pytest.fixture
def run() -> Iterator[RecordedRun]:
    run = RecordedRun()
    with closing(run.store):
        run.begin()
        yield run


def first_of(watch: Iterator[N | None]) -> N:
    """Return the first news of a watch."""
    return next(each for each in watch if each is not None)


def test_every_method_says_what_it_does_and_is_offered() -> None:
    """A method without terms would be missing on another machine."""
    for name, function in vars(Engine).items():
        if inspect.isfunction(function) and not name.startswith("_"):
            assert name in methods(), name
            assert function.__doc__, name


def test_a_spec_is_checked(engine: Engine) -> None:
    assert engine.check(SPEC) == []
    (problem,) = engine.check(msgspec.structs.replace(SPEC, recipe="nowhere"))
    assert problem.field == "recipe"


def test_the_curves_are_those_of_the_store(engine: Engine, run: RecordedRun) -> None:
    run.add_points("train/loss", range(5000))
    with RunReader(run.folder) as reader:
        window = reader.window("train/loss", 10, 3000, 100)
    found = engine.read_window(run.id, "train/loss", 10, 3000, 100)
    np.testing.assert_array_equal(found.step, window.step)
    np.testing.assert_array_equal(found.value, window.value)
    history = engine.read_history(run.id, "train/loss", 6000)
    assert list(history.step) == list(range(5000))


def test_a_run_is_followed_from_where_the_last_news_ended(engine: Engine, run: RecordedRun) -> None:
    run.add_points("train/loss", range(3))
    run.add_points("train/lr", range(3))
    news = first_of(engine.follow(run.id, ["train/loss"]))
    assert [(each.series, each.replaces) for each in news.curves] == [("train/loss", True)]
    assert news.info is not None
    assert (news.info.id, news.info.spec) == (run.id, SPEC)
    assert news.series is not None
    assert list(news.series) == ["train/loss", "train/lr"]
    run.add_points("train/loss", [3])
    later = first_of(engine.follow(run.id, ["train/loss"], cursor=news.cursor))
    (curve,) = later.curves
    assert (list(curve.points.step), curve.replaces) == ([3], False)
    assert not later.story


def test_curves_that_are_compared_are_read_from_where_they_were_read_to(
    engine: Engine, run: RecordedRun
) -> None:
    run.add_points("validation/loss", [1, 2])
    run.add_points("device/cpu:0/load", [1])
    found = engine.read_curves(run.id, 100)
    assert [(each.series, each.replaces) for each in found.curves] == [("validation/loss", True)]
    assert found.best is not None
    assert found.best.keys() == {"validation/loss"}
    assert found.events
    run.add_points("validation/loss", [3])
    later = engine.read_curves(run.id, 100, found.cursor)
    (curve,) = later.curves
    assert (list(curve.points.step), curve.replaces, list(later.events)) == ([3], False, [])
    again = engine.read_curves(run.id, 100, b"of another version")
    assert len(again.curves[0].points.step) == 3


def test_the_runs_of_the_list_come_once_and_again_when_they_change(
    engine: Engine, run: RecordedRun
) -> None:
    with closing(engine.watch_runs({})) as watch:
        news = first_of(watch)
        assert (news.ids, [each.id for each in news.changed]) == ([run.id], [run.id])
        run.add(RunEnded("finished", ""))
        later = first_of(watch)
    assert [each.state for each in later.changed] == ["finished"]
    known = news.digests | later.digests
    trash.delete(run.id)
    gone = first_of(engine.watch_runs(known))
    assert (gone.ids, [*gone.changed], gone.trashed) == ([], [], [run.id])


def test_no_question_for_points_is_endless(run: RecordedRun) -> None:
    run.add_points("train/loss", range(50))
    with RunReader(run.folder) as reader:
        assert len(reader.history("train/loss", -5).step) < 50
        assert len(reader.window("train/loss", 0, 40, 0).step) < 50


def test_what_another_machine_says_has_a_longest_length() -> None:
    error = error_of(Refusal("x" * 10**6, "NoSuchRun"), "gpus", {})
    assert len(str(error)) < 6000


def test_all_points_of_a_series_come_in_parts(engine: Engine, run: RecordedRun) -> None:
    run.add_points("train/loss", range(5000))
    assert engine.count_points(run.id) == {"train/loss": 5000}
    found: list[int] = []
    while len(found) < 5000:
        points = engine.read_points(run.id, "train/loss", len(found), 1999)
        assert points.statistics is None
        found += points.step.astype(int).tolist()
        assert points.count == len(found)
    assert found == list(range(5000))
    assert not len(engine.read_points(run.id, "train/loss", 5000).step)


def test_the_settings_that_a_run_has_had_come_by_attempt(engine: Engine, run: RecordedRun) -> None:
    later = msgspec.structs.replace(SPEC, epochs=9)
    with replaced_spec(run.folder, later, 2):
        pass
    with replaced_spec(run.folder, SPEC, 3):
        (run.folder / "spec.before-3.toml").write_text("nonsense")
    assert engine.read_settings(run.id) == SettingsHistory(SPEC, {2: SPEC, 3: None})
    newer = encode({"now": without_defaults(later) | {"warp_factor": 9}})
    assert decode_answer(methods()["read_settings"], newer) == SettingsHistory(later, {})


def test_the_code_of_a_run_is_its_copy_and_that_of_a_script_is_its_file(
    engine: Engine, tmp_path: Path
) -> None:
    recipe, module = tmp_path / "mine.py", tmp_path / "helper.py"
    recipe.write_bytes(RECIPE)
    module.write_bytes(b"f = 1\n")
    spec = msgspec.structs.replace(SPEC, recipe=str(recipe))
    script = msgspec.structs.replace(spec, strategy="script/single", command=("mine.py",))
    of_recipe, of_script = RecordedRun(spec), RecordedRun(script)
    module.write_bytes(b"f = 2\n")
    before = engine.read_code(of_recipe.id)
    assert before == Code("mine.py", RECIPE, {"helper.py": b"f = 1\n"})
    now = engine.read_code(of_script.id)
    assert now == Code("mine.py", RECIPE, {"helper.py": b"f = 2\n"})
    recipe.unlink()
    assert engine.read_code(of_recipe.id) == before
    with pytest.raises(REFUSED, match=re.escape(str(recipe))):
        engine.read_code(of_script.id)
    for run in (of_recipe, of_script):
        run.store.close()


def test_older_lines_of_a_log_come_on_demand(engine: Engine, run: RecordedRun) -> None:
    lines = [f"line {number}" for number in range(60_000)]
    run.write_log(0, "\n".join(lines) + "\n")
    found, begin = [], -1
    while begin:
        part = engine.read_log(run.id, 0, begin)
        found, begin = part.lines + found, part.begin
    assert found == lines


def test_a_run_that_is_not_there_is_refused_as_the_engine_does(engine: Engine) -> None:
    for ask in (
        lambda: engine.list_checkpoints("7"),
        lambda: engine.list_checkpoints("../1"),
        lambda: engine.send("7", SaveCheckpoint()),
        lambda: engine.read_log("7", 0),
        lambda: engine.read_window("7", "a", 0, 1, 100),
        lambda: engine.write_notes("7", ChangedNotes(RunNotes(), RunNotes())),
    ):
        with pytest.raises((client.NoSuchRun, client.CommandFailed)):
            ask()


def test_the_refusals_of_a_resume_keep_what_they_say(
    engine: Engine, run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resume(run_id: str, *_: object) -> str:
        raise client.RecipeChanged(run_id, "mine.py: 3 lines changed")

    monkeypatch.setattr(client, "resume", resume)
    with pytest.raises(client.RecipeChanged) as refused:
        engine.resume(run.id, "", None, None, lambda *_: None, as_new=False)
    assert refused.value.changes == "mine.py: 3 lines changed"


def test_notes_are_written_and_runs_deleted_and_restored(engine: Engine, run: RecordedRun) -> None:
    change = ChangedNotes(RunNotes(), RunNotes(name="mine", tags=("a",)))
    engine.write_notes(run.id, change)
    assert read_notes(run.folder).name == "mine"
    with pytest.raises(trash.CannotDelete, match="stop it before"):
        engine.delete_run(run.id)
    other = RecordedRun()
    other.store.close()
    for file in other.folder.glob("run.sqlite*"):
        file.unlink()
    os.utime(other.folder, (0, 0))
    os.utime(other.folder / "spec.toml", (0, 0))
    engine.delete_run(other.id)
    assert trash.trashed() == [other.id]
    engine.restore_run(other.id)
    assert trash.trashed() == []


def test_the_environments_are_those_of_the_machine(engine: Engine) -> None:
    registry.add(Environment("cuda12", "/opt/env/bin/python"))
    assert engine.list_environments() == registry.environments()


def test_a_recipe_is_kept_with_its_modules_in_a_folder_of_its_content(engine: Engine) -> None:
    code = Code("mine.py", RECIPE, {"helper.py": b"f = 1\n", "nets/a.py": b""})
    path = Path(engine.keep_code(code))
    assert path.read_bytes() == RECIPE
    assert (path.parent / "nets" / "a.py").read_bytes() == b""
    assert path.is_relative_to(paths.home() / "received")
    assert engine.keep_code(code) == str(path)
    path.write_bytes(b"changed by hand")
    assert engine.keep_code(code) == str(path)
    assert path.read_bytes() == RECIPE
    other = Code("mine.py", RECIPE, {"helper.py": b"f = 2\n"})
    assert engine.keep_code(other) != str(path)


def test_the_overview_is_that_of_the_machine(engine: Engine, run: RecordedRun) -> None:
    assert engine.read_overview(run.id, {}) == run_overview(client.get_run(run.id))
    assert engine.read_recipe(run.id) == (run.folder / "recipe.py").read_text()
    assert engine.read_diff(run.id, 3) == read_diff(run.folder, 3)


@pytest.mark.parametrize(
    "name", ["../a.py", "/a.py", "a/../../b.py", "a\\b.py", "a.sh", "", "c:a.py", "a\x00.py", "."]
)
def test_a_module_never_leaves_its_folder(engine: Engine, name: str) -> None:
    for code in (Code("mine.py", b"", {name: b""}), Code(name, b"")):
        with pytest.raises(REFUSED, match="was not kept"):
            engine.keep_code(code)


def checkpoint_of(run: RecordedRun, content: bytes) -> CheckpointInfo:
    """Write a checkpoint with one file."""
    from engine.runs.checkpoints import checkpoint_files
    from engine.runs.checkpoints.checkpoint_files import Position

    folder = checkpoint_files.begin(run.folder, 10)
    (folder / "model.safetensors").write_bytes(content)
    position = Position(1, 0, 10)
    return checkpoint_files.publish(
        run.folder, position, strategy="s", replicas=1, batch_size=1, parameters=1
    )


def test_a_checkpoint_is_read_in_pieces(engine: Engine, run: RecordedRun) -> None:
    content = os.urandom(PIECE + 100)
    saved = checkpoint_of(run, content)
    name = saved.folder.name
    (listed,) = engine.list_checkpoints(run.id)
    assert (listed.folder.name, listed.manifest) == (name, saved.manifest)
    written = offered_file(saved.folder / "manifest.json", saved.folder)
    assert engine.offer_checkpoint(run.id, name)[1:] == [written]
    first, rest, nothing = (
        engine.read_checkpoint(run.id, name, "model.safetensors", offset)
        for offset in (0, PIECE, len(content))
    )
    sha256 = saved.manifest.files["model.safetensors"].sha256
    assert hashlib.sha256(first + rest).hexdigest() == sha256
    assert nothing == b""


@pytest.mark.parametrize("file", ["../../spec.toml", "/etc/passwd", "link", "folder/passwd", ""])
def test_no_other_file_can_be_read(engine: Engine, run: RecordedRun, file: str) -> None:
    saved = checkpoint_of(run, b"x")
    folder = saved.folder
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "folder").symlink_to("/etc")
    for checkpoint, name in ((folder.name, file), ("../..", "spec.toml")):
        with pytest.raises(REFUSED):
            engine.read_checkpoint(run.id, checkpoint, name, 0)
    media = run.folder / "media"
    media.mkdir()
    (media / "link").symlink_to("/etc/passwd")
    (media / "folder").symlink_to("/etc")
    with pytest.raises(REFUSED):
        engine.read_media(run.id, f"media/{file}")


@pytest.mark.parametrize(
    "kind", ["CannotStart", "CheckpointUnusable", "NoSuchRun", "of a newer one"]
)
def test_a_refusal_never_loses_its_sentence(kind: str) -> None:
    assert "It is full." in str(error_of(Refusal("It is full.", kind), "gpus", {}))
