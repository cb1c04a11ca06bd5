"""Which processes load a framework, and what no source file may contain.

The import contracts between the packages are checked by lint-imports (see .ci/run).
"""

from __future__ import annotations

import ast
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
        "import engine.exports.tensorboard_live, engine.imports.log_reader",
        "import main",
    ],
)
def test_no_framework_is_loaded_outside_the_workers(code: str) -> None:
    assert loaded_by(code) == set()


@pytest.mark.usefixtures("processes")
def test_a_loaded_framework_is_noticed() -> None:
    assert loaded_by("import PySide6") == {"PySide6"}


@pytest.mark.usefixtures("processes")
def test_a_supervisor_asks_for_its_workers_before_it_loads_numpy() -> None:
    code = "import engine.supervisor.__main__, sys; print('numpy' in sys.modules)"
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"


@pytest.mark.usefixtures("processes")
def test_the_window_is_painted_before_numpy_and_pyqtgraph_are_loaded() -> None:
    code = (
        "import sys; from gui import app; from gui.style.theme import ThemeController; "
        "qt_app = app.application(['x']); "
        "app.AppController(ThemeController(qt_app), is_complete=False); "
        "print([name for name in ('numpy', 'pyqtgraph') if name in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


@pytest.mark.usefixtures("processes")
def test_libraries_that_are_slow_to_load_are_loaded_by_what_needs_them() -> None:
    code = (
        "import sys, gui.runs_table.controller, gui.exchange.controller, gui.shown_run; "
        "import engine.cli.commands.runs.exchange, engine.cli.commands.runs.run_query; "
        "print([name for name in ('tensorboard', 'jinja2', 'lark') if name in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


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


OUTSIDE_BRIDGE = [
    path for path in SOURCES if path.parts[0] == "gui" and path.parts[:2] != ("gui", "bridge")
]
METHODS = re.compile(
    r"(read|write)_(text|bytes)|mkdir|unlink|rmdir|rmtree|touch|rename|chmod|symlink_to|is_file"
    r"|is_dir|exists|stat|iterdir|r?glob|popen|startDetached"
)
"""Methods that touch files or processes, of whatever object."""

CLASSES = re.compile(
    r"Q(Save|Temporary)?File|QDir|QProcess|QSettings|Q(Tcp|Udp|Local)(Socket|Server)"
)
"""Classes of Qt that touch files, sockets or processes."""

DATA_OF_THE_ENGINE = {
    "engine.runs.checkpoints.checkpoint_files": {"CheckpointInfo"},
    "engine.runs.device_queue": {"exclusive_devices"},
    "engine.runs.run_info": {"RunInfo", "UnreadableRun"},
    "engine.runs.run_notes": {
        "SWEEP_TAG",
        "ChangedNotes",
        "RunNotes",
        "number_in",
        "ordered_tags",
        "tags_of",
    },
    "engine.runs.store.store_follower": {"CurveUpdate"},
    "engine.runs.store.store_reader": {"StoredEvent", "StoredPoints"},
    "engine.scripts.command": {"is_python"},
    "engine.scripts.options": {"Option", "Value", "resume_suggestion", "values_in", "words_of"},
    "engine.spec.recipe_file": {"RecipeInfo", "SCRIPT"},
    "engine.templates.protocol": {"TemplateState"},
}
"""What the window may import from modules that also read or write files: data, pure functions."""

FILES_OF_THE_ENGINE = {"catalog.recipe", "catalog.builtin_recipes"}
"""Functions that read files, in modules that the window may import as a whole."""

EXCEPTIONS = {
    # Style sheet, fonts and icons are resources.
    "gui/style/theme.py": {"read_text", "glob"},
    # The dialog asks before a file is replaced, as Qt's own dialog does.
    "gui/widgets/save_dialog.py": {"exists"},
}


def reached(tree: ast.Module) -> set[str]:
    """Return what in `tree` reaches files, sockets or processes."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="open")):
                found.add("open")
            case ast.Call(func=ast.Attribute(attr="open"), args=[ast.Constant(), *_]):
                found.add("open")
            case ast.Call(func=ast.Attribute(attr=name)) if METHODS.fullmatch(name):
                found.add(name)
            case ast.Call(func=ast.Name(id=name)) if CLASSES.fullmatch(name):
                found.add(name)
            case ast.Attribute(value=ast.Name(), attr=_):
                found |= {ast.unparse(node)} & FILES_OF_THE_ENGINE
            case ast.ImportFrom(module=str(module), names=names):
                allowed = DATA_OF_THE_ENGINE.get(module, {alias.name for alias in names})
                found |= {alias.name for alias in names} - allowed
            case _:
                pass
    return found


@pytest.mark.parametrize("path", OUTSIDE_BRIDGE, ids=str)
def test_only_the_bridge_reaches_files_sockets_and_processes(path: Path) -> None:
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    assert reached(tree) == EXCEPTIONS.get(path.as_posix(), set())


@pytest.mark.parametrize(
    "line",
    [
        "open(name)",
        "file.open('wb')",
        "folder.mkdir()",
        "QProcess(self)",
        "catalog.recipe('digits')",
        "from engine.runs.store.store_reader import RunReader",
    ],
)
def test_a_way_around_the_bridge_would_be_noticed(line: str) -> None:
    assert reached(ast.parse(line))
