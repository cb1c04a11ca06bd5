"""Texts name the files that were sent as the person calls them who asks from another machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.cli.sent_names import as_asked
from engine.planning.results import Finding, Preflight
from engine.system import program
from tests.support.planning_program import SPEC


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a recipe that was sent with a module; the person calls it `work/nets.py`."""
    folder = tmp_path / "received" / "0a1b"
    folder.mkdir(parents=True)
    (folder / "nets.py").write_text("import helper\n")
    (folder / "helper.py").write_text("WIDTH = 3\n")
    monkeypatch.setattr(program, "_sent", ("work/nets.py", str(folder / "nets.py")))
    return folder


def test_what_was_measured_names_the_files_as_they_were_given(there: Path) -> None:
    text = f"It did not train ({there}/nets.py:7, {there}/helper.py:1, {there}/data.bin)."
    finding = Finding(name="steps", level="error", text=text)
    found = Preflight(
        spec=replace(SPEC, recipe=f"{there}/nets.py"), findings=(finding,), figures={"a": 1.5}
    )
    here = f"It did not train (work/nets.py:7, work/helper.py:1, {there}/data.bin)."
    assert as_asked(text) == here
    assert as_asked(found) == Preflight(
        spec=replace(SPEC, recipe="work/nets.py"),
        findings=(replace(finding, text=here),),
        figures={"a": 1.5},
    )


def test_without_a_recipe_that_was_sent_nothing_changes() -> None:
    found = Preflight(spec=SPEC)
    assert as_asked(found) is found
