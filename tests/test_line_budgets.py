"""Each package has a budget of lines in `line_budgets.toml`: raising one needs a reason."""

from __future__ import annotations

import tomllib
from pathlib import Path

from engine.processes.process import PROJECT

BUDGETS: dict[str, int] = tomllib.loads(
    (PROJECT / "tests" / "line_budgets.toml").read_text("utf-8")
)


def packages() -> dict[str, list[Path]]:
    """Return the product's files by package: `engine/cli`, or `gui` for the modules in it."""
    found: dict[str, list[Path]] = {"main.py": [PROJECT / "main.py"]}
    for top in ("engine", "gui", "resources"):
        for file in sorted((PROJECT / top).rglob("*.py")):
            inner = file.relative_to(PROJECT / top).parts[:-1]
            found.setdefault("/".join([top, *inner[:1]]), []).append(file)
    return found


def test_no_package_is_larger_than_its_budget() -> None:
    """A change that needs more lines says in its commit why they are worth it."""
    sizes = {
        package: sum(len(file.read_text("utf-8").splitlines()) for file in files)
        for package, files in packages().items()
    }
    assert sizes.keys() == BUDGETS.keys(), "a new package has a budget, one that is gone has none"
    too_large = {name: size for name, size in sizes.items() if size > BUDGETS[name]}
    assert too_large == {}
