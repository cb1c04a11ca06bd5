from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.environments import registry
from engine.environments.registry import CannotChange, Environment, Facts, UnreadableRegistry
from engine.system import paths


def test_environments_are_remembered_by_name() -> None:
    registry.add(Environment("b", "/b/bin/python", facts=Facts("3.12.1", {"torch": "2.13.0"})))
    registry.add(Environment("A b", "/a/bin/python"))
    assert [each.name for each in registry.environments()] == ["A b", "b"]
    found = registry.get("b")
    assert found.facts.versions == {"torch": "2.13.0"}
    assert registry.name_of("/b/bin/python") == "b"
    assert registry.name_of("/c/bin/python") == ""
    assert registry.remove("b") == found
    with pytest.raises(CannotChange, match="there are: A b"):
        registry.get("b")


def test_one_environment_is_the_default_of_a_framework() -> None:
    for name in ("a", "b"):
        registry.add(Environment(name, f"/{name}/bin/python"))
    registry.use("a", ("torch", "tensorflow"))
    registry.use("b", ("tensorflow",))
    assert registry.default_interpreter("torch") == "/a/bin/python"
    assert registry.default_interpreter("tensorflow") == "/b/bin/python"
    registry.use(registry.OWN, ("torch",))
    assert registry.default_interpreter("torch") == ""
    assert registry.default_interpreter("tensorflow") == "/b/bin/python"
    with pytest.raises(CannotChange):
        registry.use("c", ("torch",))


@pytest.mark.parametrize("name", ["", " a", "a/b", "-a", ".a", "x" * 61, "traindeck", "a\nb"])
def test_a_name_that_would_not_do_is_refused(name: str) -> None:
    with pytest.raises(CannotChange):
        registry.add(Environment(name, "/a/bin/python"))


def test_a_taken_name_is_refused() -> None:
    registry.add(Environment("a", "/a/bin/python"))
    with pytest.raises(CannotChange, match="already"):
        registry.add(Environment("a", "/b/bin/python"))


@pytest.mark.parametrize("content", ["{", "[]", '{"format": "1.0", "environments": 3}', "{}"])
def test_a_damaged_list_is_named_and_not_overwritten(content: str) -> None:
    file = paths.home() / registry.FILE_NAME
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    with pytest.raises(UnreadableRegistry, match=r"environments\.json"):
        registry.environments()
    with pytest.raises(UnreadableRegistry):
        registry.add(Environment("a", "/a/bin/python"))
    assert file.read_text() == content


def test_a_newer_format_is_not_read(tmp_path: Path) -> None:
    registry.add(Environment("a", "/a/bin/python"))
    file = paths.home() / registry.FILE_NAME
    document = json.loads(file.read_text())
    assert document["format"] == "1.0"
    file.write_text(json.dumps(document | {"format": "1.7", "more": 1}))
    assert [each.name for each in registry.environments()] == ["a"]
    file.write_text(json.dumps(document | {"format": "2.0"}))
    with pytest.raises(UnreadableRegistry, match="newer version"):
        registry.environments()
