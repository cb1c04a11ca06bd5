"""Resuming, up to the start of the supervisor: which checkpoint, and on what."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engine import client
from engine.client import CannotStart, CheckpointUnusable, RecipeChanged
from engine.messages.events import AttemptStarted, RecipeVersion, RunEnded
from engine.processes import process
from engine.runs.checkpoints import checkpoint_files
from engine.runs.checkpoints.checkpoint_files import MANIFEST, Position
from engine.runs.store.run_store import RunStore
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import read_spec
from tests.support.recorded_runs import new_run_folder
from tests.support.sentences import sentence

SPEC = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",))


def stopped_run(*steps: int, strategy: str = "torch/single", spec: RunSpec = SPEC) -> Path:
    """Run 1, stopped, with checkpoints at `steps` of one file each."""
    folder = new_run_folder(spec)
    store = RunStore(folder)
    for event in (AttemptStarted(1, 1, 1.0), RunEnded("stopped", "x")):
        store.append(event, 1.0)
    store.close()
    for step in steps:
        (checkpoint_files.begin(folder, step) / "weights").write_bytes(b"weights")
        checkpoint_files.publish(
            folder, Position(step=step), strategy=strategy, replicas=1, batch_size=8, parameters=1
        )
    return folder


def contents(folder: Path) -> dict[Path, bytes]:
    """Of every file, but what SQLite keeps for its readers."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files if "sqlite-" not in path.name}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What a supervisor would have been started with, and the spec that it would have read."""
    calls: list[tuple[Any, ...]] = []

    def start(folder: Path, *arguments: str, secrets: Mapping[str, str]) -> None:
        calls.append((*arguments, read_spec(folder)))

    monkeypatch.setattr(client, "_start_supervisor", start)
    return calls


def truncate(folder: Path) -> str:
    (folder / "weights").write_bytes(b"weigh")
    return "weights is missing or is not what was saved"


def flip(folder: Path) -> str:
    (folder / "weights").write_bytes(b"weightS")
    return "weights is missing or is not what was saved"


def lose(folder: Path) -> str:
    (folder / "weights").unlink()
    return "weights is missing or is not what was saved"


def spoil_manifest(folder: Path) -> str:
    (folder / MANIFEST).write_bytes((folder / MANIFEST).read_bytes()[:40])
    return f"it has no readable {MANIFEST}"


DAMAGES = pytest.mark.parametrize("damage", [truncate, flip, lose, spoil_manifest])


def test_by_default_it_is_the_newest(started: list[tuple[Any, ...]]) -> None:
    folder = stopped_run(3, 6)
    client.resume("1")
    client.resume("1", folder / "checkpoints" / "step-00000003")
    assert started == [
        ("--resume", "step-00000006", SPEC),
        ("--resume", "step-00000003", SPEC),
    ]


@DAMAGES
def test_a_damaged_one_is_named_and_the_previous_one_offered(
    damage: Callable[[Path], str], started: list[tuple[Any, ...]]
) -> None:
    three, six, nine = checkpoint_files.folders(stopped_run(3, 6, 9)).values()
    said = damage(nine)
    damage(six)
    with pytest.raises(CheckpointUnusable) as caught:
        client.resume("1")
    assert (caught.value.damaged, caught.value.previous) == (nine.name, three)
    assert str(caught.value) == sentence(
        "checkpoint-is-damaged-one-before", nine=nine.name, said=said, three=three.name
    )
    assert started == []
    client.resume("1", caught.value.previous)
    assert started[0][1] == three.name


@DAMAGES
def test_without_an_intact_one_there_is_none_to_offer(
    damage: Callable[[Path], str], started: list[tuple[Any, ...]]
) -> None:
    [only, newer] = checkpoint_files.folders(stopped_run(3, 6)).values()
    damage(only)
    with pytest.raises(
        CheckpointUnusable, match=sentence("no-older-checkpoint-is-intact").pattern
    ) as caught:
        client.resume("1", only)
    assert caught.value.previous is None, f"{newer.name} is newer, not older"
    assert started == []


def test_a_run_without_any_starts_from_the_beginning(started: list[tuple[Any, ...]]) -> None:
    stopped_run()
    changed = replace(SPEC, seed=8, strategy="torch/ddp", optimizer="sgd")
    with pytest.raises(CannotStart, match=sentence("has-no-checkpoint-that-new-run").pattern):
        client.resume_as_new("1")
    assert client.resume("1") == "beginning"
    with pytest.raises(CannotStart, match=sentence("start-new-run-for-another-seed").pattern):
        client.resume("1", None, changed)
    assert started == [("--resume", "beginning", SPEC)]


def test_a_run_with_damaged_ones_starts_from_the_beginning_if_asked(
    started: list[tuple[Any, ...]],
) -> None:
    folder = stopped_run(3)
    truncate(folder / "checkpoints" / "step-00000003")
    again = "`python main.py resume 1 --checkpoint beginning`"
    with pytest.raises(CheckpointUnusable, match=again):
        client.resume("1")
    client.resume("1", folder / "checkpoints" / "beginning")
    assert started == [("--resume", "beginning", SPEC)]


def test_a_missing_checkpoint_is_reported() -> None:
    folder = stopped_run(3)
    with pytest.raises(CannotStart, match=sentence("run-has-no-checkpoint-step").pattern):
        client.resume("1", folder / "checkpoints" / "step-00000004")


def test_a_run_goes_on_elsewhere_and_the_old_spec_is_kept(
    started: list[tuple[Any, ...]],
) -> None:
    folder = stopped_run(3)
    old = (folder / "spec.toml").read_text()
    elsewhere = replace(SPEC, strategy="torch/ddp", devices=("cpu:0", "cpu:1"))
    client.resume("1", spec=elsewhere)
    assert started == [("--resume", "step-00000003", elsewhere)]
    assert client.get_run("1").spec == elsewhere
    assert (folder / "spec.before-2.toml").read_text() == old
    assert "[environment]" in (folder / "spec.toml").read_text()


def test_the_same_settings_change_nothing(started: list[tuple[Any, ...]]) -> None:
    folder = stopped_run(3)
    client.resume("1", spec=SPEC)
    assert len(started) == 1
    assert not list(folder.glob("spec.before-*"))


@pytest.mark.parametrize("how", ["goes on", "went on and is over"])
def test_a_run_that_another_window_resumes_meanwhile_is_left_to_it(
    monkeypatch: pytest.MonkeyPatch, started: list[tuple[Any, ...]], how: str
) -> None:
    """To compare the checksums takes minutes."""
    folder = stopped_run(3)
    verify = checkpoint_files.verify

    def slow(chosen: Path, _: object) -> checkpoint_files.Manifest:
        with closing(RunStore(folder)) as store:
            store.append(AttemptStarted(2, os.getpid(), process.start_time(os.getpid())), 1.0)
            if how != "goes on":
                store.append(RunEnded("stopped", "x"), 1.0)
        return verify(chosen)

    monkeypatch.setattr(checkpoint_files, "verify", slow)
    with pytest.raises(
        CannotStart, match=sentence("by-another-window-or-command-meanwhile").pattern
    ):
        client.resume("1", spec=replace(SPEC, epochs=9))
    assert started == []
    assert client.get_run("1").spec == SPEC


def test_what_does_not_start_leaves_the_spec_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: Path, *arguments: str, secrets: Mapping[str, str]) -> None:
        raise CannotStart([])

    monkeypatch.setattr(client, "_start_supervisor", fail)
    folder = stopped_run(3)
    with pytest.raises(CannotStart):
        client.resume("1", spec=replace(SPEC, strategy="torch/ddp"))
    assert client.get_run("1").spec == SPEC
    assert not list(folder.glob("spec.before-*"))


@pytest.mark.parametrize(
    ("elsewhere", "said"),
    [
        ({"strategy": "nope"}, sentence("there-is-no-strategy", strategy="nope").pattern),
        ({"strategy": "tf/single"}, sentence("trains-keras-recipes").pattern),
        ({"devices": ("cpu:0", "cpu:1")}, "trains on 1 device"),
        pytest.param(
            {"devices": ("GPU-0",)},
            sentence("gpu-0-is-not-on-this-machine").pattern,
            marks=pytest.mark.processes,
        ),
    ],
)
def test_a_reason_that_prevents_resuming_is_reported(
    elsewhere: dict[str, Any], said: str, started: list[tuple[Any, ...]]
) -> None:
    stopped_run(3)
    with pytest.raises(CannotStart, match=said):
        client.resume("1", spec=replace(SPEC, **elsewhere))
    assert client.get_run("1").spec == SPEC
    assert started == []


def test_another_framework_cannot_read_a_checkpoint(started: list[tuple[Any, ...]]) -> None:
    keras = replace(SPEC, recipe="digits_keras", strategy="tf/single")
    stopped_run(3, strategy="tf/single", spec=keras)
    with pytest.raises(CannotStart, match=sentence("cannot-read-checkpoint-of-choose-tf").pattern):
        client.resume("1", spec=replace(keras, strategy="torch/keras_ddp"))
    mirrored = replace(keras, strategy="tf/mirrored", devices=("cpu:0", "cpu:1"))
    client.resume("1", spec=mirrored)
    assert [spec.strategy for *_, spec in started] == ["tf/mirrored"]


def test_the_wait_for_the_workers_of_a_killed_supervisor_can_be_ended(
    monkeypatch: pytest.MonkeyPatch, started: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    """They save for half a minute."""
    stopped_run(3)
    orphaned = type("Orphaned", (), {"has_orphans": True, "spec": SPEC, "folder": tmp_path})
    monkeypatch.setattr(client, "get_run", lambda _: orphaned)
    called: list[tuple[int, int]] = []

    def watch(done: int, total: int) -> None:
        called.append((done, total))
        raise InterruptedError

    with pytest.raises(InterruptedError):
        client.resume("1", watch=watch)
    assert called == [(0, 0)]
    assert started == []


MINE = "import torch\ndef model(width: int = 8): ...\ndef datasets(): ...\n"
WAS, NOW = RecipeVersion


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def test_a_changed_recipe_is_a_question_and_its_answer_is_passed_on(
    recipe: Path, started: list[tuple[Any, ...]]
) -> None:
    folder = stopped_run(3, spec=replace(SPEC, recipe=str(recipe)))
    recipe.write_text(MINE.replace("width", "depth"))
    spec = client.get_run("1").spec
    with pytest.raises(RecipeChanged) as asked:
        client.resume("1")
    assert asked.value.changes == "mine.py: 1 line changed"
    deeper = replace(spec, settings={"depth": 9})
    with pytest.raises(CannotStart, match="has no setting 'depth'"):
        client.resume("1", spec=deeper, recipe=WAS)
    client.resume("1", recipe=WAS)
    assert not list(folder.glob("*before*"))
    client.resume("1", spec=deeper, recipe=NOW)
    answers = [("--recipe", version, "--changes", asked.value.changes) for version in (WAS, NOW)]
    assert started == [
        ("--resume", "step-00000003", *answers[0], spec),
        ("--resume", "step-00000003", *answers[1], deeper),
    ]
    assert (folder / "recipe.before-2.py").read_text() == MINE
    assert (folder / "spec.before-2.toml").exists()


def test_a_resume_takes_no_new_setting_with_a_secret_and_goes_on_with_an_old_one(
    recipe: Path, started: list[tuple[Any, ...]]
) -> None:
    recipe.write_text(MINE.replace("width", "api_key"))
    own = replace(SPEC, recipe=str(recipe), settings={"api_key": 4711})
    stopped_run(3, spec=own)
    with pytest.raises(CannotStart, match="api_key seems to hold a password"):
        client.resume("1", spec=replace(own, settings={"api_key": 4712}))
    client.resume("1")
    assert len(started) == 1


def test_a_supervisor_that_does_not_start_leaves_the_recipe_as_it_was(
    recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = stopped_run(3, spec=replace(SPEC, recipe=str(recipe)))
    before = contents(folder)
    recipe.write_text(MINE + "# changed\n")

    def fail(folder: Path, *arguments: str, secrets: Mapping[str, str]) -> None:
        assert (folder / "recipe.py").read_text() == recipe.read_text()
        raise CannotStart([])

    monkeypatch.setattr(client, "_start_supervisor", fail)
    with pytest.raises(CannotStart):
        client.resume("1", recipe=NOW)
    assert contents(folder) == before | {folder / "resume.lock": b""}


def test_a_recipe_that_is_gone_cannot_be_taken_as_it_is_now(
    recipe: Path, started: list[tuple[Any, ...]]
) -> None:
    stopped_run(3, spec=replace(SPEC, recipe=str(recipe)))
    recipe.unlink()
    with pytest.raises(CannotStart, match="There is no recipe file"):
        client.resume("1", recipe=NOW)
    assert started == []
    client.resume("1")
    assert started == [("--resume", "step-00000003", client.get_run("1").spec)]


def test_a_lost_copy_is_made_again_and_that_is_recorded(
    recipe: Path, started: list[tuple[Any, ...]]
) -> None:
    folder = stopped_run(3, spec=replace(SPEC, recipe=str(recipe)))
    (folder / "recipe.py").write_text("")
    client.resume("1")
    [(_, _, *answer, _)] = started
    assert answer == ["--recipe", NOW, "--changes", sentence("runs-own-copy-was-lost")]
    assert (folder / "recipe.py").read_text() == MINE


def test_what_a_killed_window_has_half_replaced_is_taken_back(
    recipe: Path, started: list[tuple[Any, ...]]
) -> None:
    """It was killed before the supervisor of attempt 2 had started."""
    folder = stopped_run(3, spec=replace(SPEC, recipe=str(recipe)))
    (folder / "recipe.before-2.py").write_text(MINE)
    (folder / "recipe.py").write_text(MINE + "# half\n")
    client.resume("1", recipe=WAS)
    assert (folder / "recipe.py").read_text() == MINE
    assert len(started) == 1
