"""`runs` with a filter, an order, chosen columns, and as CSV."""

from __future__ import annotations

import csv
import io
import json

import pytest

from engine.cli.commands.runs.run_query import RunQuery, select
from engine.runs.run_index import RunIndex
from engine.system import paths
from main import main
from tests.support.recorded_runs import record_epochs
from tests.support.sentences import sentence


@pytest.fixture(autouse=True)
def runs() -> None:
    for rate, loss in ((0.1, 0.5), (0.3, 0.2), (0.001, 0.4)):
        record_epochs("finished", (loss, loss + 0.1), learning_rate=rate)


def listed(capsys: pytest.CaptureFixture[str], *options: str) -> list[list[str]]:
    assert main(["runs", "--csv", *options]) == 0
    return list(csv.reader(io.StringIO(capsys.readouterr().out)))


def test_runs_are_filtered_sorted_and_printed_with_chosen_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    columns = ["--columns", "id,lr,best(val/loss),val/loss"]
    found = listed(capsys, *columns, "--filter", "best(loss) < 0.45", "--sort", "-lr")
    assert found == [
        ["id", "learning_rate", "best(validation/loss)", "validation/loss"],
        ["2", "0.3", "0.2", "0.30000000000000004"],
        ["3", "0.001", "0.4", "0.5"],
    ]
    assert main(["runs", "--filter", "lr > 0.2", "--columns", "id,state"]) == 0
    assert capsys.readouterr().out.split() == ["id", "state", "2", "finished"]
    assert main(["runs", "--filter", "lr > 0.2", "--json"]) == 0
    assert [run["id"] for run in json.loads(capsys.readouterr().out)] == ["2"]
    assert main(["runs", "--filter", "lr > 5"]) == 0
    assert capsys.readouterr().out == sentence("no-run-passes-filter")


def test_a_number_may_name_the_machine_as_the_person_calls_it() -> None:
    query, every = RunQuery(filter="number = gpus:2"), RunIndex().runs()
    assert select(every, query, "") == []
    assert [run.id for run in select(every, query, "gpus")] == ["2"]


def test_runs_that_cannot_be_read_are_named_because_no_filter_finds_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (paths.run_folder("2") / "spec.toml").write_bytes(b"noise")
    assert [row[0] for row in listed(capsys, "--columns", "id", "--filter", "lr > 0")] == [
        "id", "3", "1",
    ]  # fmt: skip
    assert main(["runs", "--filter", "lr > 0"]) == 0
    said = capsys.readouterr().err
    assert said.startswith(sentence("left-out-as-unreadable"))
    assert said.endswith("show 2` says why): 2.\n")


def test_a_wrong_filter_or_column_is_refused_with_the_nearest_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["runs", "--filter", "lrr<3"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said == [sentence("filter-cannot-be-read-no-run"), "lrr<3", "^^^"]
    assert main(["runs", "--columns", "id,lerning_rate"]) == 2
    assert "“learning_rate”" in capsys.readouterr().err
    assert main(["runs", "--sort", "nosuch"]) == 2
    assert capsys.readouterr().err == sentence("sort-no-run-has-nosuch")


def test_json_with_the_columns_of_another_form_is_refused_by_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["runs", "--csv", "--json"]) == 2
    assert sentence("csv-chooses-another-form-than-json") in capsys.readouterr().err
    assert main(["runs", "--columns", "id", "--json"]) == 2
    assert "--columns" in capsys.readouterr().err
