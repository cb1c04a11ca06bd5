"""The expressions that filter the table of runs."""

from __future__ import annotations

from datetime import datetime

import pytest

from engine.runs.run_info import RunInfo
from engine.runs.run_state import RunState
from engine.runs.table.columns import columns_of
from engine.runs.table.filter import compile_filter
from engine.runs.table.grammar import LONGEST, FilterError
from tests.support.made_runs import BEGIN, made_run
from tests.support.sentences import sentence

DAY = 86_400.0
NOW = BEGIN + 10 * DAY

RUNS = [
    made_run(
        1,
        learning_rate=1e-4,
        metrics={"validation/accuracy": 0.95, "train/loss": 0.1},
        best={"validation/accuracy": 0.97},
        tags=("paper", "Best"),
        settings={"width": 64, "layer-norm": True},
        compile=True,
        created=NOW - DAY,
        seconds=5400.0,
    ),
    made_run(
        2,
        learning_rate=1e-2,
        metrics={"validation/accuracy": 0.85, "train/loss": 0.3},
        best={"validation/accuracy": 0.90},
        name="Wide one",
        settings={"width": "auto"},
        note="or else",
        created=NOW - 20 * DAY,
        host="node-7",
    ),
    made_run(
        3,
        learning_rate=1e-4,
        metrics={"train/loss": float("nan")},
        state=RunState.FAILED,
        created=NOW - 3 * DAY,
    ),
    made_run(
        4,
        recipe="/home/train.py",
        command=("train.py", "--lr", "0.5", "--depth=3", "opt.name=sgd", "--fast", "--api-key=x1"),
        state=RunState.RUNNING,
        created=NOW - 3600.0,
    ),
]


def passing(text: str, runs: list[RunInfo] = RUNS) -> list[int]:
    test = compile_filter(text, columns_of(runs), lambda: NOW)
    return [int(info.id) for info in runs if test(info)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [1, 2, 3, 4]),
        ("lr<1e-3 and val/accuracy>0.9", [1]),
        ("learning_rate < 1E-3", [1, 3]),
        ("LR >= 1e-2", [2, 4]),
        ("1e-3 < lr < 0.1", [2]),
        ("0.1 >= lr > 1e-3", [2]),
        ("val/accuracy > 90%", [1]),
        ("accuracy > 0.9", [1]),
        ("best(val/accuracy) >= 0.9", [1, 2]),
        ("best(validation/accuracy) > validation/accuracy", [1, 2]),
        ("train/loss < 1", [1, 2]),
        ("not train/loss < 1", [3, 4]),
        ("val/accuracy", [1, 2]),
        ("not val/accuracy", [3, 4]),
        ('recipe == "DIGITS"', [1, 2, 3]),
        ("recipe != digits", [4]),
        ("tag:paper", [1]),
        ("tag:BEST", [1]),
        ("tags = paper", [1]),
        ('"paper" in tags', [1]),
        ('"paper" not in tags and state in [finished, "running"]', [2, 4]),
        ("id in (1, 3)", [1, 3]),
        ("created > -7d", [1, 3, 4]),
        ("created < -2w", [2]),
        ("-7d < created", [1, 3, 4]),
        ("created > yesterday", [4]),
        ("time > 1h", [1]),
        ("time == 1h30m", [1]),
        ("time <= 60", [2, 3, 4]),
        ("name ~ '^w.*ONE$'", [2]),
        ("tags ~ pap", [1]),
        ("name !~ wide", [1, 3, 4]),
        ("name:wide", [2]),
        ("host:node", [2]),
        ("not (lr<1e-3 or lr > 0.1)", [2]),
        ("lr<1e-3 and lr>1 or id=2", [2]),
        ("id=2 or lr<1e-3 and lr>1", [2]),
        ("lr<1e-3 state == failed", [3]),
        ("NOT state==failed AND NOT state==running AND !tag:paper", [2]),
        ("id==1 || id==2 && lr>1", [1]),
        ('"or else"', [2]),
        ("'wide'", [2]),
        ('note == ""', [1, 3, 4]),
        ('note != ""', [2]),
        ('note ~ "^$"', [1, 3, 4]),
        ('tags == ""', [2, 3, 4]),
        ('tags != ""', [1]),
        ('settings/width == ""', [3, 4]),
        (r'note == "a\\" or id == 2', [2]),
        ("compile", [1]),
        ("compile = no and lr < 1e-3", [3]),
        ("width > 10", [1]),
        ("width == auto", [2]),
        ("settings/width == 64", [1]),
        ("`settings/layer-norm` == true", [1]),
        ("layer_norm", [1]),
        ("lr == 0.5", [4]),
        ("option/depth >= 3", [4]),
        ("depth == 3 and fast", [4]),
        ("devices == cpu:0 id = 2", [2]),
        ("devices:cpu:0 devices in [cpu:0] and devices in (cpu:0, x)", [1, 2, 3, 4]),
        ("opt.name == sgd", [4]),
        ("command ~ 'depth=\\d'", [4]),
    ],
)
def test_an_expression_lets_the_right_runs_pass(text: str, expected: list[int]) -> None:
    assert passing(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("number = 3", ["3", "gpus:3", "node-7.lab:3"]),
        ("number = gpus:3", ["gpus:3"]),
        ("number == GPUS:3", ["gpus:3"]),
        ("id=node-7.lab:3", ["node-7.lab:3"]),
        ('number = "gpus:3"', ["gpus:3"]),
        ('"gpus:3" = number', ["gpus:3"]),
        ("number:gpus:3", ["gpus:3"]),
        ("number != gpus:3", ["2", "3", "gpus:4", "node-7.lab:3"]),
        ("number > gpus:3", ["gpus:4"]),
        ("3 < number <= gpus:4", ["gpus:4"]),
        ("number in [2, gpus:4, node-7.lab:3]", ["2", "gpus:4", "node-7.lab:3"]),
        ("number not in (gpus:3, gpus:4) and not number = 2", ["3", "node-7.lab:3"]),
        ("number = gpus:3 or number = gpus:4", ["gpus:3", "gpus:4"]),
        (f"number = gpus:{'9' * 3000}", []),
    ],
)
def test_a_number_may_be_that_of_a_run_of_one_machine(text: str, expected: list[str]) -> None:
    ids = ("2", "3", "gpus:3", "gpus:4", "node-7.lab:3")
    runs = [made_run(int(each.rpartition(":")[2]))._replace(id=each) for each in ids]
    columns = columns_of(runs)
    test = compile_filter(text, columns)
    assert [info.id for info in runs if test(info)] == expected


def test_this_machine_has_the_name_that_a_person_elsewhere_gives_it() -> None:
    columns = columns_of(RUNS)
    there = compile_filter("number = gpus:3", columns, here="gpus")
    assert [info.id for info in RUNS if there(info)] == ["3"]
    assert passing("number = gpus:3") == []


def test_a_day_lasts_to_its_end() -> None:
    text = datetime.fromtimestamp(NOW).strftime("%Y-%m-%d")
    start = datetime.strptime(text, "%Y-%m-%d").timestamp()
    runs = [made_run(n, created=start + at) for n, at in enumerate((-1, 0, DAY - 1, DAY))]
    assert passing(f"created == {text}", runs) == [1, 2]
    assert passing(f"created > {text}", runs) == [3]
    assert passing(f"created >= {text}", runs) == [1, 2, 3]
    assert passing(f"created < {text}", runs) == [0]
    assert passing(f"created <= {text}", runs) == [0, 1, 2]
    assert passing(f"created != {text}", runs) == [0, 3]


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("lrr<3", "lrr", "Did you mean “lr”?"),
        ("id=1 and val/acuracy > 0.9", "val/acuracy", "“val/accuracy”"),
        ("zzz", "zzz", "put it in quotes"),
        ("lr <", "", sentence("name-or-value-is-expected")),
        ("lr < and", "and", sentence("name-or-value-is-expected")),
        ('lr < "x"', '"x"', "“learning_rate” is a number"),
        ("(lr<1", "(", "never closed"),
        ("lr<1)", ")", "not expected"),
        ("created > 7d", "7d", "-7d"),
        ("created > 2026-02-31", "2026-02-31", "no date"),
        ("time > soon", "soon", "No run has"),
        ('name == "x', '"x', "closing quote"),
        ("`lr < 1", "`lr < 1", "closing backquote"),
        ("lr # 3", "#", "no meaning"),
        ("tag:🦊", "🦊", "put a text in quotes"),
        ("lr < 1e", "1e", "no number"),
        ("lr < 1 & id=2", "&", "“and” or “or”"),
        ("1 < 2", "1", "must be a column"),
        ("tags > 3", "3", "a list"),
        ("compile > yes", "yes", "yes or no"),
        ('"x" in lr', "lr", "nothing can be in it"),
        ("lr = [1, 2]", "[", "follows “in”"),
        ("name in [a, b", "[", "This list is never closed"),
        ("name in (a,", "(", "This list is never closed"),
        ("name in [a b]", "b", "“,” or “]” is expected"),
        ("[a, b] in tags", "[", sentence("name-or-value-is-expected")),
        ("name ~ '('", "'('", "no regular expression"),
        ("name ~ '(a+)+$'", "'(a+)+$'", "may take for ever"),
        ("best(train/loss) < 1", "train/loss", sentence("only-of-validation-metrics")),
        ("best(3) < 1", "3", "name of a metric"),
        ("lr < name", "name", sentence("is-number-and-name-is-text")),
        ("number = gpus:x", "gpus:x", "No run has “gpus:x”"),
        ('number = "gpus:x"', '"gpus:x"', "“id” is a number"),
        ("epoch = gpus:1", "gpus:1", "No run has “gpus:1”"),
    ],
)
def test_what_is_wrong_is_said_at_its_place(text: str, place: str, words: str) -> None:
    with pytest.raises(FilterError) as raised:
        passing(text)
    assert words in str(raised.value)
    found = text[raised.value.begin : raised.value.end]
    assert found == place
    line, marks = raised.value.pointing(text).splitlines()
    assert line == text
    assert marks.index("^") == raised.value.begin


def test_neither_depth_nor_length_breaks_it() -> None:
    deep = ("!" * (LONGEST - 2) + "id", "(id or " * 500 + "id" + ")" * 500)
    for text in ("(" * 5000 + "id", "not " * 500 + "id", "x" * (LONGEST + 1), *deep):
        with pytest.raises(FilterError):
            passing(text)


def test_a_secret_of_a_command_is_no_column() -> None:
    assert "option/depth" in columns_of(RUNS)
    assert not [name for name in columns_of(RUNS) if "api" in name]
    command = columns_of(RUNS)["command"].read(RUNS[3])
    assert command == "train.py --lr 0.5 --depth=3 opt.name=sgd --fast --api-key=***"


def test_a_long_filter_is_shown_around_the_place_alone() -> None:
    text = f"epochs = 1 and {'x' * 3000} ) {'y' * 500}"
    with pytest.raises(FilterError) as raised:
        passing(text)
    line, marks = raised.value.pointing(text).splitlines()
    assert line[marks.index("^")] == ")"
    assert max(len(line), len(str(raised.value))) < 400


@pytest.mark.parametrize("date", ["9999-12-31", "0001-01-01", "2026-02-30"])
def test_a_date_that_no_calendar_has_is_refused(date: str) -> None:
    with pytest.raises(FilterError, match="is no date"):
        passing(f"started > {date}")
