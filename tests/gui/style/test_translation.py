"""The window in another language: every sentence is translated, and lupdate finds all of them."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PySide6.QtCore import QCoreApplication, QLocale, QTranslator
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QComboBox,
    QDockWidget,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QTableView,
    QTabWidget,
    QWidget,
)

from engine.runs.run_state import RunState
from engine.spec import catalog
from engine.spec.run_spec import FIELDS
from gui.app import AppController
from gui.style.theme import RESOURCES
from gui.style.translation import install_translation, translate
from gui.window.shortcuts import ShortcutsDialog
from tests.gui.window_states import called, plain, settle, visible_widgets, window_in_state

ROOT = RESOURCES.parent
TOOLS = Path(sysconfig.get_path("scripts"))
INNERMOST = re.compile("⟦[^⟦⟧]*⟧")
WORD = re.compile(r"[^\W\d_]{2,}")

NAMES = re.compile(
    r"Traindeck|TOML|CPU|GPU|VRAM|PCIe|NVLink|GiB|MiB|ms|Ctrl|Shift|Alt|F\d+|Esc|"
    r"NVIDIA|H100|HBM3|AMD|EPYC|80GB|8xH100|"
    r"shifted_digits|digits|torch|single|ddp|"  # what the recorded runs trained, and how
    r"loss|accuracy|Accuracy|LOSS|ACCURACY|"  # the names of metrics come from their recipe
    r"SIGKILL|INFO|WARN|ERROR|OUT"  # the levels, as log files have them
)
"""Names of things, units and keys: the same in every language."""


class Bracketed(QTranslator):
    """A language that puts every sentence it knows in brackets."""

    def __init__(self, known: set[tuple[str, str]]) -> None:
        super().__init__()
        self._known = known

    def isEmpty(self) -> bool:
        """It can do something."""
        return False

    def translate(
        self, context: str, text: str, disambiguation: str | None = None, n: int = -1
    ) -> str | None:
        """Called by Qt."""
        return f"⟦{text}⟧" if (context, text) in self._known else None


@pytest.fixture(scope="module")
def known(processes: None, tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, str]]:
    """Contexts and sentences as pyside6-lupdate collects them for the translators."""
    file = tmp_path_factory.mktemp("ts") / "traindeck.ts"
    sources = [str(path) for path in sorted((ROOT / "gui").rglob("*.py"))]
    command = [str(TOOLS / "pyside6-lupdate"), *sources, "-ts", str(file)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return {
        (context.findtext("name", ""), message.findtext("source", ""))
        for context in ElementTree.parse(file).iter("context")
        for message in context.iter("message")
    }


@pytest.fixture
def bracketed(qapp: QApplication, known: set[tuple[str, str]]) -> Iterator[None]:
    translator = Bracketed(known)
    qapp.installTranslator(translator)
    yield
    qapp.removeTranslator(translator)


@pytest.mark.usefixtures("bracketed")
def test_every_word_of_the_window_is_translated(qapp: QApplication) -> None:
    with window_in_state("first-start", qapp) as app:
        all_is_translated(app)
    with window_in_state("running", qapp) as app:
        all_is_translated(app)
        runs = app.run_list_panel.runs()
        app.open(next(info.id for info in runs if info.state is RunState.FAILED))
        settle(app)
        assert app.banner.isVisible()
        all_is_translated(app)
        app.chosen.choose([info.id for info in runs])
        app.chosen.pin(runs[0].id)
        app.run_list_panel.compare.setChecked(True)
        settle(app)
        assert app.comparison.isVisible()
        all_is_translated(app)


def all_is_translated(app: AppController) -> None:
    said = list(texts(app.window))
    assert sum("⟦" in text for _, text in said) > 150
    engine = engines_words(app)
    strange = {f"{at}: {rest}" for at, text in said if (rest := untranslated(text, engine))}
    dialog = ShortcutsDialog(app.window, app.window.menus)
    strange |= {rest for _, text in texts(dialog) if (rest := untranslated(text, engine))}
    assert not strange, "\n".join(sorted(strange))


def untranslated(text: str, engine: re.Pattern[str]) -> str:
    """The text outside the brackets, without numbers, names and sentences of the engine."""
    text = re.sub(r"/\S*/runs/\S*", "", engine.sub("", text))
    while INNERMOST.search(text):
        text = INNERMOST.sub(" ", text)
    text = re.sub(r"(?<!\w)(?:" + NAMES.pattern + r")(?!\w)", "", text)
    return text.strip() if WORD.search(text) else ""


def texts(window: QWidget) -> Iterator[tuple[str, str]]:
    """Everything that can be read or heard in `window`, and where."""
    for widget in (window, *visible_widgets(window)):
        if widget.objectName() == "lastline":
            continue  # a line of the log, which is what the engine and the user say
        for text in (widget.toolTip(), widget.accessibleName(), widget.accessibleDescription()):
            yield called(widget), plain(text)
        match widget:
            case QLabel() | QAbstractButton():
                yield called(widget), plain(widget.text())
            case QLineEdit() | QPlainTextEdit():
                yield called(widget), widget.placeholderText()
            case QComboBox():
                for row in range(widget.count()):
                    yield called(widget), widget.itemText(row)
            case QTabWidget():
                for row in range(widget.count()):
                    yield called(widget), widget.tabText(row)
            case QTableView():
                model, header = widget.model(), widget.horizontalHeader()
                for column in range(model.columnCount()):
                    said = model.headerData(column, header.orientation())
                    yield called(widget), str(said or "")
            case QDockWidget():
                yield called(widget), widget.windowTitle()
    for action in window.findChildren(QAction):
        if type(action.parent()).__name__ == "GraphicsScene":
            continue  # entries of pyqtgraph's menu, which is not shown
        for text in (action.text(), plain(action.toolTip())):
            yield f"action of {type(action.parent()).__name__}", text


def engines_words(app: AppController) -> re.Pattern[str]:
    """Texts of the engine or the user, which are not translated."""
    said: set[str] = set()
    for field in FIELDS.values():
        said |= {field.title, *field.help(in_form=True).split("\n"), field.group, field.zero}
        said |= {*map(str, field.choices), *field.texts, *field.meanings}
    for strategy in catalog.strategies():
        said |= {strategy.title, strategy.summary, strategy.needs, strategy.name}
    for info in app.run_list_panel.runs():
        said |= {info.name, app.banner.with_device_names(info.reason)}
    longest_first = sorted((text for text in said if text), key=len, reverse=True)
    return re.compile(r"(?<!\w)(?:" + "|".join(map(re.escape, longest_first)) + r")(?!\w)")


def test_a_file_of_the_locale_is_taken_at_the_start(
    tmp_path: Path, qapp: QApplication, known: set[tuple[str, str]]
) -> None:
    source = tmp_path / "traindeck_de.ts"
    source.write_text(
        '<?xml version="1.0" encoding="utf-8"?><!DOCTYPE TS><TS version="2.1" language="de">'
        "<context><name>SortOrder</name><message><source>Newest</source>"
        "<translation>Neueste</translation></message></context></TS>",
        encoding="utf-8",
    )
    assert ("SortOrder", "Newest") in known
    command = [str(TOOLS / "pyside6-lrelease"), str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    assert not install_translation(qapp, QLocale("fi"), tmp_path)
    assert install_translation(qapp, QLocale("de_CH"), tmp_path)
    try:
        assert translate("SortOrder", "Newest") == "Neueste"
        assert translate("SortOrder", "Longest") == "Longest"
    finally:
        for translator in qapp.findChildren(QTranslator):
            QCoreApplication.removeTranslator(translator)
