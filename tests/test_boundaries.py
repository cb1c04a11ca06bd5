"""Which processes load a framework, and what no source file may contain.

The import contracts between the packages are checked by lint-imports (see .ci/run).
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FRAMEWORKS = ("torch", "tensorflow", "keras", "PySide6")
SOURCES = sorted(
    path.relative_to(ROOT)
    for where in ("main.py", "engine", "gui", "tests", "benchmarks", "resources")
    for path in ([ROOT / where] if where.endswith(".py") else (ROOT / where).rglob("*.py"))
)
FORBIDDEN = {
    "pickle": re.compile(r"^\s*(import|from)\s+" + "pickle" + r"\b", re.MULTILINE),
    "a shell": re.compile(r"shell\s*=\s*" + "True"),
    "a note to do it later": re.compile(r"\b(" + "TO" + "DO|FIX" + r"ME)\b"),
}


def loaded_by(code: str) -> set[str]:
    """Which frameworks a fresh interpreter has loaded after `code`."""
    script = f"{code}\nimport sys; print([n for n in {FRAMEWORKS!r} if n in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {name for name in FRAMEWORKS if repr(name) in result.stdout}


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "code",
    [
        "import engine.client",
        "from engine.spec import catalog as c; assert c.strategies() and c.builtin_recipes()",
        "import engine.supervisor.supervisor, engine.supervisor.__main__",
        "import engine.worker.__main__",
        "import engine.telemetry.helper.__main__",
        "import main",
    ],
)
def test_no_framework_is_loaded_outside_the_workers(code: str) -> None:
    assert loaded_by(code) == set()


@pytest.mark.usefixtures("processes")
def test_a_loaded_framework_is_noticed() -> None:
    assert loaded_by("import PySide6") == {"PySide6"}


def test_every_source_is_searched() -> None:
    assert {Path("main.py"), Path("engine/client.py"), Path("tests/test_boundaries.py")} <= set(
        SOURCES
    )


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_source_contains_what_is_forbidden(what: str) -> None:
    found = [
        str(path) for path in SOURCES if FORBIDDEN[what].search((ROOT / path).read_text("utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("pickle", "    from " + "pickle import loads"),
        ("a shell", "run(x, shell=" + "True)"),
        ("a note to do it later", "# TO" + "DO: later"),
    ],
)
def test_a_forbidden_line_is_found(what: str, line: str) -> None:
    assert FORBIDDEN[what].search(line)
