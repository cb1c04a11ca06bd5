"""The options of a script are read from its source, and written as the words of a command."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from engine.scripts.options import Option, read_options, resume_suggestion, values_in, words_of
from tests.support.sentences import sentence

HEAD = "import argparse\nraise SystemExit('it was run')\np = argparse.ArgumentParser()\n"


def options_of(folder: Path, source: str) -> dict[str, Option]:
    file = folder / "train.py"
    file.write_text(HEAD + dedent(source))
    return {option.name: option for option in read_options(file)}


def test_types_defaults_choices_and_help_are_read_and_nothing_is_run(tmp_path: Path) -> None:
    found = options_of(
        tmp_path,
        """
        RATE = 1e-3
        p.add_argument("--batch-size", "-b", type=int, default=64, help="size (%(default)s), 5 %%")
        p.add_argument("--lr", "--learning-rate", dest="rate", type=float, default=RATE)
        p.add_argument("--net", choices=["cnn", "mlp"], default="mlp")
        p.add_argument("--level", type=int, choices=range(3))
        p.add_argument("--data", required=True)
        p.add_argument("--jobs", type=int, default=os.cpu_count())
        p.add_argument("--amp", action="store_true", help="mixed "
                       "precision")
        p.add_argument("--no-cuda", dest="cuda", action="store_false")
        p.add_argument("--shuffle", action=argparse.BooleanOptionalAction, default=True)
        p.add_argument("--flip", type=str2bool, default=False)
        p.add_argument("--layers", nargs="+", type=int, default=[8, 16])
        p.add_argument("--tag", action="append")
        p.add_argument("--hidden", help=argparse.SUPPRESS)
        p.add_argument("--version", action="version", version="1")
        p.add_argument("folder")
        p.add_argument("out", nargs="?", default="x")
        """,
    )
    assert list(found) == [
        "batch_size", "rate", "net", "level", "data", "jobs", "amp", "no_cuda", "shuffle", "flip",
        "layers", "tag", "folder", "out",
    ]  # fmt: skip
    size = found["batch_size"]
    assert (size.flag, size.type, size.default) == ("--batch-size", "int", 64)
    assert size.doc == "size (64), 5 %"
    assert (found["rate"].type, found["rate"].default) == ("float", 1e-3)
    assert (found["rate"].title, found["amp"].doc) == ("learning-rate", "mixed precision")
    assert (found["net"].choices, found["net"].default) == (("cnn", "mlp"), "mlp")
    assert found["level"].choices == (0, 1, 2)
    assert found["data"].is_required
    assert (found["jobs"].default, found["jobs"].default_text) == (None, "os.cpu_count()")
    assert (found["no_cuda"].kind, found["no_cuda"].default) == ("switch", False)
    assert (found["shuffle"].kind, found["shuffle"].default) == ("on_off", True)
    assert (found["flip"].choices, found["flip"].default) == (("True", "False"), "False")
    assert (found["layers"].default, found["layers"].takes_several) == ("8 16", True)
    assert found["folder"].kind == "positional"
    assert found["folder"].is_required
    assert not found["out"].is_required


def test_groups_changed_defaults_and_commands(tmp_path: Path) -> None:
    found = options_of(
        tmp_path,
        """
        g = p.add_argument_group("Model")
        g.add_argument("--width", type=int, default=8)
        p.set_defaults(width=32)
        sub = p.add_subparsers()
        test = sub.add_parser("test")
        test.add_argument("--only-in-test")
        """,
    )
    assert list(found) == ["width"]
    assert (found["width"].group, found["width"].default) == ("Model", 32)


def test_modules_beside_the_script_are_read_too_but_not_their_own_programs(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "cli.py").write_text(
        "import argparse\ndef parser():\n    p = argparse.ArgumentParser()\n"
        "    p.add_argument('--depth', type=int, default=3)\n    return p\n"
        "if __name__ == '__main__':\n    parser().add_argument('--debug')\n"
    )
    assert list(options_of(tmp_path, "from own.cli import parser\n")) == ["depth"]


@pytest.mark.parametrize("source", ["def x(:", "\0", "print('no options')", "p.add_argument(x)"])
def test_what_cannot_be_read_has_no_options(tmp_path: Path, source: str) -> None:
    file = tmp_path / "train.py"
    file.write_text(source)
    assert read_options(file) == ()
    assert read_options(tmp_path / "gone.py") == ()


WRITTEN = """
p.add_argument("--lr", type=float, default=0.1)
p.add_argument("-n", "--name")
p.add_argument("--amp", action="store_true")
p.add_argument("--shuffle", action=argparse.BooleanOptionalAction, default=True)
p.add_argument("--layers", nargs="*", type=int)
p.add_argument("--tag", action="append")
p.add_argument("data")
"""


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, []),
        ({"lr": 0.1, "name": "", "amp": False, "shuffle": True}, []),
        ({"lr": 0.2, "name": "a b"}, ["--lr", "0.2", "--name", "a b"]),
        ({"name": "-x"}, ["--name=-x"]),
        ({"amp": True, "shuffle": False}, ["--amp", "--no-shuffle"]),
        ({"layers": "8 16", "data": "in"}, ["in", "--layers", "8", "16"]),
        ({"tag": "a 'b c'"}, ["--tag", "a", "--tag", "b c"]),
    ],
)
def test_values_become_words_and_words_become_values(
    tmp_path: Path, values: dict[str, bool | float | str], words: list[str]
) -> None:
    options = list(options_of(tmp_path, WRITTEN).values())
    assert words_of(options, values) == words
    found, rest = values_in(options, words)
    assert rest == []
    assert words_of(options, {"lr": 0.1, "shuffle": True, **found}) == words


def test_other_words_are_kept_in_their_order(tmp_path: Path) -> None:
    options = list(options_of(tmp_path, WRITTEN).values())
    words = ["--lr=3e-4", "in", "--unknown", "7", "--amp", "-q", "more", "--", "--lr", "1"]
    values, rest = values_in(options, words)
    assert values == {"lr": "3e-4", "data": "in", "amp": True}
    assert rest == ["--unknown", "7", "-q", "more", "--", "--lr", "1"]


def test_a_value_that_was_given_stays_although_it_is_the_default(tmp_path: Path) -> None:
    options = list(options_of(tmp_path, WRITTEN).values())
    assert words_of(options, {"lr": 0.1}, given=["lr"]) == ["--lr", "0.1"]


def test_a_quotation_mark_without_its_partner_is_said(tmp_path: Path) -> None:
    options = list(options_of(tmp_path, WRITTEN).values())
    with pytest.raises(ValueError, match=sentence("layers-has-quotation-mark").pattern):
        words_of(options, {"layers": "'8"})


def test_the_configuration_of_hydra_is_read(tmp_path: Path) -> None:
    (tmp_path / "conf" / "model").mkdir(parents=True)
    (tmp_path / "conf" / "config.yaml").write_text(
        "defaults:\n  - _self_\n  - model: small\n\n# a comment\nepochs: 10  # how often\n"
        "optimizer:\n  name: 'adam'\n  lr: 1e-3\n  nesterov: false\nseed: null\n"
        "hydra:\n  run:\n    dir: out\n"
    )
    for name, width in (("small", 8), ("large", 64)):
        (tmp_path / "conf" / "model" / f"{name}.yaml").write_text(f"width: {width}\n")
    found = options_of(
        tmp_path,
        """
        import hydra
        @hydra.main(version_base=None, config_path="conf", config_name="config")
        def main(cfg): ...
        """,
    )
    assert {name: option.default for name, option in found.items()} == {
        "model": "small", "model.width": 8, "epochs": 10, "optimizer.name": "adam",
        "optimizer.lr": 1e-3, "optimizer.nesterov": "false", "seed": None,
    }  # fmt: skip
    assert found["model"].choices == ("large", "small")
    assert found["optimizer.lr"].group == "optimizer"
    options = list(found.values())
    words = ["model=large", "optimizer.lr=0.1", "+new=3"]
    values, rest = values_in(options, words)
    assert (values, rest) == ({"model": "large", "optimizer.lr": "0.1"}, ["+new=3"])
    assert words_of(options, values) == words[:2]


@pytest.mark.parametrize(
    ("source", "suggested"),
    [
        ('p.add_argument("--resume", "-r")', "--resume {latest}"),
        ('p.add_argument("--resume", action="store_true")', "--resume"),
        ('p.add_argument("--ckpt-path", default=None)', "--ckpt-path {latest}"),
        ('p.add_argument("--resume", choices=["yes", "no"])', ""),
        ('p.add_argument("--lr")', ""),
    ],
)
def test_how_a_script_resumes_is_suggested(tmp_path: Path, source: str, suggested: str) -> None:
    assert resume_suggestion(list(options_of(tmp_path, source).values())) == suggested
