"""What another machine sends for an export is checked against what was asked for."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import cast

import pytest

from engine.exports.export_runs import Format, export, file_problem
from engine.interface.engine import Engine
from engine.interface.exchange import chosen_runs, export_to
from engine.interface.files.transfers import DownloadFailed
from engine.interface.values import Exported, NoAnswer, OfferedFile
from engine.runs.run_info import RunInfo, get_run
from tests.support.recorded_runs import record_epochs


class Other:
    """The engine of another machine, which offers a file of a name that it has chosen."""

    machine = "gpus"

    def __init__(self, name: str, info: RunInfo) -> None:
        self.name, self.info, self.is_discarded = name, info, False

    def get_run(self, run: str) -> RunInfo:
        """As that of an engine."""
        return self.info

    def export_runs(self, *_: object) -> Exported:
        """As that of an engine."""
        return Exported(1, [OfferedFile(self.name, 0, "")])

    def discard_folder(self, number: int) -> None:
        """As that of an engine."""
        self.is_discarded = True


@pytest.mark.parametrize("name", ["argparse.py", "1-x/sitecustomize.py", "2/events.out.tfevents.1"])
@pytest.mark.parametrize("format", [each for each in Format if not each.is_file])
def test_a_name_of_another_machine_is_no_name_here(
    name: str, format: Format, tmp_path: Path
) -> None:
    record_epochs("finished", (0.5,))
    other = Other(name, get_run("1"))
    target = tmp_path / "out"
    with pytest.raises(DownloadFailed, match="not asked for"):
        export_to(
            cast(Engine, other),
            [other.info],
            format,
            target,
            lambda done, total: None,
            threading.Event(),
        )
    assert other.is_discarded
    assert not target.exists()


@pytest.mark.parametrize("format", [each for each in Format if not each.is_file])
def test_what_an_export_writes_is_what_is_expected(format: Format, tmp_path: Path) -> None:
    if format is Format.PARQUET:
        pytest.importorskip("pyarrow")
    record_epochs("finished", (0.5,), name="../x y")
    target = tmp_path / "out"
    export([get_run("1")], format, target)
    names = [str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()]
    assert names
    assert not any(file_problem(name, format, ["1"]) for name in names)


def test_a_run_that_was_not_asked_for_is_refused() -> None:
    record_epochs("finished", (0.5,))
    other = Other("", get_run("1")._replace(id="../../argparse"))
    with pytest.raises(NoAnswer, match="was asked for run 1"):
        chosen_runs(cast(Engine, other), ["1"])
