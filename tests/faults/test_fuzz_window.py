"""Random input from outside, made by hypothesis: the window shows it, or says what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication

from engine import client
from engine.messages.events import Metrics, WorkerEvent
from engine.runs.run_state import RunState, RunStatus, fold
from engine.spec.catalog import BUILTIN_RECIPES
from engine.spec.field_info import Setting
from engine.spec.recipe_file import RecipeInfo, read_recipe
from engine.spec.run_spec import RunSpec
from engine.supervisor.message_validation import is_valid
from gui.bridge.files.settings_file import open_settings
from gui.log.event_text import event_text
from gui.run_form.run_form import RunForm
from gui.run_view.run_controls import RunControls
from gui.style.theme import DARK
from tests.support.generated_values import fifteen_examples, mutated, sixty_examples, values_of
from tests.support.runs import spec

WHOLE = ["from torch import nn", "def model(): ...", "def datasets(): ..."]


def _of_pieces(lines: list[str]) -> bytes:
    return "\n".join([*WHOLE, *lines]).encode("utf-8", "surrogatepass")


DIGITS = (BUILTIN_RECIPES / "digits.py").read_bytes()
PIECES = [
    "import torch", "import keras", "from torch import nn", "def model(): ...",
    "def datasets(): ...", "def model(width: int = 10**400): ...",
    "def model(*, width: int = 1" + "0" * 400 + ", kind: Literal['a', b] = 'c', **more): ...",
    "def datasets(x: Literal[{}] = [], y: float = 1e999, z: 'int' = -1, s: str = '\\udcff'): ...",
    "DEFAULTS = {'epochs': 1e999}", "DEFAULTS = {'epochs': 'x'}", "DEFAULTS: dict = [1]",
    "DEFAULTS = {'epochs': -5, 'batch_size': 1" + "0" * 400 + "}", "DEFAULTS = 5",
    "DEFAULTS = {'learning_rate': 1" + "0" * 400 + "}", "DEFAULTS = {[]: 1}",
    "def stages(model, count): ...", '"""A doc.\n\nMore."""', "x = " + "(" * 300, "x = '\\d'",
    "x = " + "-" * 3000 + "1", "\0", "\f", "\ufeff", "async def model(): ...", "class model: ...",
    "def model(a=1, a=2): ...", "def model(a: b'\\xff' = 1, c: Literal[()] = 1): ...",
]  # fmt: skip


@pytest.fixture(scope="module")
def form(qapp: QApplication) -> Iterator[RunForm]:
    made = RunForm()
    yield made
    made.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@fifteen_examples
@given(values_of(RunSpec))
def test_the_form_can_be_filled_with_any_spec(form: RunForm, wanted: RunSpec) -> None:
    form.load(wanted)


@sixty_examples
@given(
    st.one_of(
        st.binary(max_size=300),
        st.text(max_size=300).map(lambda text: text.encode("utf-8", "surrogatepass")),
        st.lists(st.sampled_from(PIECES), max_size=4).map(_of_pieces),
        mutated(DIGITS),
    )
)
def test_any_file_is_a_recipe_or_has_a_problem(tmp_path: Path, form: RunForm, data: bytes) -> None:
    path = tmp_path / "nonsense.py"
    path.write_bytes(data)
    info = read_recipe(path)
    assert isinstance(info, RecipeInfo)
    assert info.problem or info.framework in ("torch", "keras", "script")
    assert "\n" not in info.problem
    if not info.problem:
        assert all(isinstance(field.default, Setting) for field in info.fields)
        form.recipe.choose(str(path))


@pytest.fixture(scope="module")
def controls(qapp: QApplication) -> Iterator[RunControls]:
    made = RunControls(DARK)
    yield made
    made.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@sixty_examples
@given(st.lists(values_of(WorkerEvent), max_size=5))
def test_the_window_shows_every_event_of_a_worker(
    controls: RunControls, received: list[WorkerEvent]
) -> None:
    status = RunStatus(state=RunState.STARTING)
    for event in received:
        if is_valid(event, getattr(event, "rank", 0), 2**63):
            status = fold(status, event, 1.0)
            if not isinstance(event, Metrics):
                event_text(event)
    wanted = spec("probe_torch", "torch/single")
    info = client.RunInfo("1", Path(), wanted, status, status.state, status.reason)
    controls.show_info(info)


@sixty_examples
@given(st.one_of(st.binary(max_size=300), mutated(b"[General]\ntheme=dark\n[window]\nstate=1\n")))
def test_any_settings_of_the_window_are_read_or_set_aside(
    tmp_path: Path, qapp: QApplication, data: bytes
) -> None:
    path = tmp_path / "window.ini"
    path.write_bytes(data)
    found, trouble = open_settings(path)
    assert bool(trouble) == (tmp_path / "window.ini.bad").exists()
    found.value("theme"), found.value("window/geometry")
    found.setValue("theme", "dark")
    found.sync()
    (tmp_path / "window.ini.bad").unlink(missing_ok=True)
    assert open_settings(path)[0].value("theme") == "dark"
