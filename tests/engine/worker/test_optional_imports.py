"""scikit-learn is hidden while Keras is imported, unless the recipe mentions it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from engine.worker.optional_imports import without_scikit_learn


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of that name; the real one need not be there, and takes a second."""
    (tmp_path / "sklearn.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "sklearn", raising=False)


def recipe(folder: Path, text: str) -> Path:
    path = folder / "recipe.py"
    path.write_text(text)
    return path


def test_scikit_learn_is_hidden_from_keras_and_not_from_the_recipe(tmp_path: Path) -> None:
    with (
        without_scikit_learn(recipe(tmp_path, "import keras\n")),
        pytest.raises(ImportError),
    ):
        importlib.import_module("sklearn")
    assert importlib.import_module("sklearn") is sys.modules["sklearn"]


@pytest.mark.parametrize(
    "text", ["from sklearn.datasets import load_iris", "keras.wrappers.SKLearnClassifier(model)"]
)
def test_nothing_is_hidden_if_the_recipe_mentions_scikit_learn(text: str, tmp_path: Path) -> None:
    with without_scikit_learn(recipe(tmp_path, text)):
        assert importlib.import_module("sklearn")


def test_what_is_imported_already_stays(tmp_path: Path) -> None:
    here = importlib.import_module("sklearn")
    with without_scikit_learn(recipe(tmp_path, "")):
        assert importlib.import_module("sklearn") is here
    assert sys.modules["sklearn"] is here
