"""The two combo boxes of the run form that choose by name: the recipe and the strategy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QStandardItemModel
from PySide6.QtWidgets import QComboBox, QFileDialog, QWidget

from engine import catalog
from engine.recipe_file import RecipeInfo
from engine.strategy import Strategy
from gui.fields import let_shrink

OPEN_FILE = "Open file…"
FIRST_RECIPE = "digits"
FIRST_STRATEGY = "single"
POPUP_MARGIN = 40
"""Pixels beside the longest entry of a list that drops down, for its frame and scroll bar."""


class RecipeChoice(QComboBox):
    """The built-in recipes, the user's own files, and a way to open one more."""

    chosen = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        let_shrink(self)
        self._recipes = {recipe.reference: recipe for recipe in catalog.builtin_recipes()}
        for recipe in self._recipes.values():
            self._insert(recipe)
        self.insertSeparator(self.count())
        self.addItem(OPEN_FILE)
        self.setCurrentIndex(max(0, self.findData(FIRST_RECIPE)))
        self._last = self.currentIndex()
        self.activated.connect(self._activated)

    def recipe(self) -> RecipeInfo:
        """The chosen recipe; what is wrong with it stands in its `problem`."""
        return self._recipes[self.itemData(self._last)]

    def choose(self, reference: str) -> None:
        """Choose a built-in recipe by name or the user's file by path, reading the file again."""
        try:
            recipe = catalog.recipe(reference)
        except catalog.UnknownName as error:
            recipe = RecipeInfo(name=reference, path=reference, builtin=False, problem=str(error))
        self._recipes[recipe.reference] = recipe
        if self.findData(recipe.reference) < 0:
            self._insert(recipe)
        self._last = self.findData(recipe.reference)
        self.setCurrentIndex(self._last)
        self.chosen.emit()

    def open_file(self) -> None:
        """Let the user choose a recipe file."""
        start = str(Path.home())
        path, _ = QFileDialog.getOpenFileName(self, "Open a recipe", start, "Python files (*.py)")
        if path:
            self.choose(path)

    def _insert(self, recipe: RecipeInfo) -> None:
        place = sum(self.itemData(row) is not None for row in range(self.count()))
        self.insertItem(place, recipe.name, recipe.reference)
        self.setItemData(place, recipe.doc or recipe.path, Qt.ItemDataRole.ToolTipRole)

    def _activated(self, index: int) -> None:
        reference = self.itemData(index)
        if reference is None:
            self.setCurrentIndex(self._last)
            self.open_file()
        else:
            self.choose(reference)


class StrategyChoice(QComboBox):
    """The strategies for a recipe; one that cannot run now stays visible, with the reason."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        let_shrink(self)

    def offer(self, recipe: RecipeInfo, devices: Sequence[str]) -> None:
        """List the strategies that train `recipe`, disabled where they cannot run on `devices`."""
        offered = catalog.strategies_for(recipe)
        if [strategy.name for strategy in offered] != self.names():
            self._fill(offered)
        model = self.model()
        assert isinstance(model, QStandardItemModel)
        for row, strategy in enumerate(offered):
            reasons = strategy.problems(devices) if devices else []
            model.item(row).setEnabled(not reasons)
            model.item(row).setToolTip("\n".join(reasons) or strategy.summary)
        self.setToolTip(self.itemData(self.currentIndex(), Qt.ItemDataRole.ToolTipRole) or "")

    def names(self) -> list[str]:
        """Full names of the strategies on offer, in their order."""
        return [self.itemData(row) for row in range(self.count())]

    def name(self) -> str:
        """Full name of the chosen strategy; empty where there is none."""
        return self.currentData() or ""

    def choose(self, name: str) -> None:
        """Choose the strategy with the full name `name`, if it is on offer."""
        row = self.findData(name)
        if row >= 0:
            self.setCurrentIndex(row)

    def _fill(self, offered: Sequence[Strategy]) -> None:
        before = self.name()
        short_names = [strategy.short_name for strategy in offered]
        self.blockSignals(True)
        self.clear()
        for strategy in offered:
            self.addItem(strategy.title, strategy.name)
        self.view().setMinimumWidth(self.view().sizeHintForColumn(0) + POPUP_MARGIN)
        first = short_names.index(FIRST_STRATEGY) if FIRST_STRATEGY in short_names else 0
        kept = self.findData(before)
        self.setCurrentIndex(kept if kept >= 0 else first)
        self.blockSignals(False)
