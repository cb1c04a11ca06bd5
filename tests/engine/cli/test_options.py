"""The options of a run on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

import pytest

from engine import client
from engine.cli.options import add_options, given_options
from engine.facts.settings import RECIPE_DEFAULTS
from engine.spec.field_info import FieldInfo
from engine.spec.run_spec import FIELDS, RunSpec
from engine.spec.spec_fields import GROUPS
from main import main

EXAMPLES: dict[str, tuple[str, Any]] = {"int": ("3", 3), "float": ("0.5", 0.5), "str": ("x", "x")}


def parse(*arguments: str) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return given_options(vars(parser.parse_args(arguments)))


def test_a_flag_that_is_not_given_has_no_value() -> None:
    assert parse() == {}


@pytest.mark.parametrize("info", FIELDS.values(), ids=lambda info: info.name)
def test_every_option_has_a_flag(info: FieldInfo) -> None:
    flag = "--" + info.name.replace("_", "-")
    if info.type == "bool":
        assert parse(flag) == {info.name: True}
        assert parse(flag.replace("--", "--no-")) == {info.name: False}
        return
    last = info.choices[-1:]
    text, value = (str(*last), *last) if last else EXAMPLES[info.type]
    assert parse(flag, text) == {info.name: value}


def test_help_has_every_group_and_every_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = capsys.readouterr().out
    assert all(f"\n{group}:\n" in text for group in GROUPS)
    assert text.count("(default:") >= len(FIELDS) - 2, "but where a line is broken"
    assert "30 % of the steps" in " ".join(text.split())


def test_given_flags_reach_the_spec(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[RunSpec] = []

    def start(spec: RunSpec, tags: Iterable[str] = (), planning: object = None) -> str:
        started.append(spec)
        raise client.CannotStart([])

    monkeypatch.setattr(client, "start", start)
    flags = "--precision bf16 --clip-norm 1 --compile --checkpoint-best loss --epochs 7"
    main(["train", "--devices", "cpu:0", *flags.split()])
    [spec] = started
    assert (spec.precision, spec.clip_norm, spec.compile) == ("bf16", 1.0, True)
    assert (spec.checkpoint_best, spec.epochs, spec.seed) == ("loss", 7, 0)


def test_the_recipes_own_defaults_are_of_fields_there_are() -> None:
    assert set(RECIPE_DEFAULTS) < set(FIELDS)
