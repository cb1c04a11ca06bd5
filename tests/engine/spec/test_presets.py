"""Presets are read as they were saved; a file that cannot be read is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.spec import presets
from engine.spec.catalog import recipe
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import write_spec
from tests.support.sentences import sentence

SPEC = RunSpec(
    recipe="digits",
    strategy="torch/ddp",
    devices=("cpu:0", "cpu:1"),
    learning_rate=3e-05,
    compile=True,
    settings={"width": 8, "activation": "gelu"},
)


def test_a_preset_comes_back_as_it_was_saved() -> None:
    assert presets.names() == []
    presets.save("small ones", SPEC)
    presets.save("Another", SPEC)
    assert presets.names() == ["Another", "small ones"]
    assert presets.read(presets.path_of("small ones")) == SPEC
    presets.delete("small ones")
    presets.delete("small ones")
    assert presets.names() == ["Another"]


def test_the_settings_of_any_run_are_a_preset(tmp_path: Path) -> None:
    write_spec(tmp_path, SPEC, recipe("digits"))
    assert presets.read(tmp_path / "spec.toml") == SPEC


def test_a_preset_from_before_a_field_changed_still_opens(tmp_path: Path) -> None:
    file = tmp_path / "old.toml"
    presets.write(file, SPEC)
    today, before = f'on_nan = "{SPEC.on_nan}"', "stop_on_nan = true"
    text = file.read_text()
    assert today in text
    file.write_text(text.replace(today, before))
    assert presets.read(file).on_nan == "stop"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"run = [", "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b"x = 1", "no table [run]"),
        (b"run = 3", "cannot be read"),
        (b"[run]\nrecipe = 'digits'", "strategy"),
        (
            b"[run]\nrecipe='digits'\nstrategy='torch/single'\ndevices=[]\nspeed=3",
            sentence("speed-which-this-version-of-traindeck"),
        ),
    ],
)
def test_a_preset_that_cannot_be_read_is_reported_with_its_file(
    tmp_path: Path, content: bytes, words: str
) -> None:
    file = tmp_path / "bad.toml"
    file.write_bytes(content)
    with pytest.raises(presets.UnreadablePreset) as refused:
        presets.read(file)
    assert words in str(refused.value)
    assert str(file) in str(refused.value)


def test_a_preset_that_is_gone_says_so(tmp_path: Path) -> None:
    with pytest.raises(presets.UnreadablePreset, match="No such file"):
        presets.read(tmp_path / "gone.toml")


@pytest.mark.parametrize("name", ["", " a", "../a", "a/b", "a\\b", ".a", "nul", "a\nb", "x" * 81])
def test_a_name_that_is_no_file_name_is_refused_in_words(name: str) -> None:
    with pytest.raises(ValueError, match=r"name"):
        presets.save(name, SPEC)
    assert presets.names() == []
