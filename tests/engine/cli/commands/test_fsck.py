"""`fsck`: what it prints, its JSON and its exit codes."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import main
from engine.repair import run_check
from engine.runs.store.run_store import FILE_NAME as STORE
from tests.support.old_runs import NEWEST, restore_run
from tests.support.sentences import sentence


@pytest.fixture
def run() -> Path:
    return restore_run(NEWEST)


def test_without_runs_nothing_is_damaged(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["fsck"]) == 0
    assert capsys.readouterr().out == sentence("checked-runs-and-data-folder-nothing")


def test_damage_is_reported_then_mended_then_gone(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "recipe.py").write_text("")
    assert main.main(["fsck", "1"]) == 1
    assert capsys.readouterr().out == sentence("run-copy-of-recipe-is-empty-with-repair")
    assert main.main(["fsck", "--repair"]) == 0
    assert sentence("mended-it-is-restored-from-store") in capsys.readouterr().out
    assert main.main(["fsck"]) == 0
    assert capsys.readouterr().out.endswith(sentence("data-folder-nothing-is-damaged"))


def test_json_has_every_finding(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "recipe.py").write_text("")
    with closing(sqlite3.connect(run / STORE)) as connection, connection:
        connection.execute("UPDATE series SET count = 1 WHERE name = 'train/loss'")
    assert main.main(["fsck", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["runs"] == ["1"]
    assert [(each["run"], each["file"], each["outcome"]) for each in found["findings"]] == [
        ("1", "recipe.py", "can be mended"),
        ("1", STORE, "can be mended"),
    ]


def test_an_unknown_run_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for run_id in ("7", "../1"):
        assert main.main(["fsck", run_id]) == 2
        assert capsys.readouterr().err.startswith("There is no run ")


def test_one_run_that_cannot_be_checked_does_not_hide_the_others(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = restore_run(NEWEST)
    (other / "recipe.py").write_text("")

    def fail(folder: Path) -> str:
        if folder == run:
            raise OSError(5, "Input/output error")
        return ""

    monkeypatch.setattr(run_check, "_too_new", fail)
    assert main.main(["fsck"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(sentence("run-run-cannot-be-checked-error"))
    assert lines[1].startswith(sentence("run-copy-of-recipe-is-empty"))


def test_ctrl_c_ends_a_long_query(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite hides what a signal handler raises while it computes."""
    from engine.repair import store_check

    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"

    def interrupt() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(
        store_check,
        "_failed_integrity",
        lambda connection: (
            connection.set_progress_handler(interrupt, 1000),
            connection.execute(endless).fetchone(),
        ),
    )
    before = (run / STORE).read_bytes()
    assert main.main(["fsck", "--repair"]) == 130
    assert (run / STORE).read_bytes() == before
