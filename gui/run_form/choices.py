"""The combo boxes of the run form for the recipe and the strategy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QWidget

from engine.spec import catalog
from engine.spec.recipe_file import SCRIPT, RecipeInfo
from engine.spec.strategy import Strategy
from gui.bridge.files.recipes import builtin_recipes, read_recipe
from gui.bridge.files.script_files import read_script
from gui.run_form.script.command import name_of
from gui.widgets.entry_fields import Combo
from gui.widgets.plain_text import plain_tip, set_wrapped_tip

FIRST_RECIPE = "digits"
POPUP_MARGIN = 40
"""Pixels for frame and scroll bar of a drop-down list, beside its longest entry."""

_FRAMEWORKS = {"torch": "PyTorch", "tf": "TensorFlow"}


class RecipeChoice(Combo):
    """Lists the built-in recipes, the opened files, and an entry to open another file."""

    chosen = Signal()

    open_requested = Signal()
    """The user wants to choose a file."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Recipe")
        self._recipes = {recipe.reference: recipe for recipe in builtin_recipes()}
        for recipe in self._recipes.values():
            self._insert(recipe)
        self.insertSeparator(self.count())
        self.addItem("Open file…")
        self.setCurrentIndex(max(0, self.findData(FIRST_RECIPE)))
        self._last = self.currentIndex()
        self.activated.connect(self._activated)

    def recipe(self) -> RecipeInfo:
        """Return the chosen recipe; its `problem` says why it cannot be used."""
        return self._recipes[self.itemData(self._last)]

    def choose(self, reference: str, recipe: RecipeInfo | None = None) -> None:
        """Choose a built-in recipe by name or a file by path, and read the file again.

        `recipe`: what to show instead of the file, such as the copy of a run.
        """
        recipe = recipe or read_recipe(reference)
        self._recipes[recipe.reference] = recipe
        if self.findData(recipe.reference) < 0:
            self._insert(recipe)
        self._last = self.findData(recipe.reference)
        self.setCurrentIndex(self._last)
        self.chosen.emit()

    def read_again(self) -> RecipeInfo:
        """Read the file of the chosen recipe again, in the place of a copy; return it."""
        reference = self.itemData(self._last)
        self._recipes[reference] = read_recipe(reference)
        return self._recipes[reference]

    def forget(self, recipe: RecipeInfo) -> None:
        """List a recipe no more that is not chosen now."""
        row = self.findData(recipe.reference)
        if row >= 0 and row != self._last:
            self.removeItem(row)
            del self._recipes[recipe.reference]
            self._last = self.currentIndex()

    def remember(self, references: Iterable[str]) -> None:
        """List files that the user has opened before; each is read when it is chosen."""
        for reference in references:
            if self.findData(reference) < 0:
                name = Path(reference).stem
                self._insert(RecipeInfo(name=name, path=reference, builtin=False))

    def _insert(self, recipe: RecipeInfo) -> None:
        place = sum(self.itemData(row) is not None for row in range(self.count()))
        self.insertItem(place, recipe.name, recipe.reference)
        self.setItemData(place, plain_tip(recipe.doc or recipe.path), Qt.ItemDataRole.ToolTipRole)

    def _activated(self, index: int) -> None:
        reference = self.itemData(index)
        if reference is None:
            self.setCurrentIndex(self._last)
            self.open_requested.emit()
        else:
            self.choose(reference)


class ScriptChoice(Combo):
    """Lists the scripts that were opened, the newest first, and an entry to open another one."""

    chosen = Signal()

    open_requested = Signal()
    """The user wants to choose a file."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Script")
        self._script = self._nothing()
        self.addItem("No script yet", None)
        self.addItem("Open file…", "")
        self.activated.connect(self._activated)

    def recipe(self) -> RecipeInfo:
        """Return the chosen script; its `problem` says why it cannot be used."""
        return self._script

    def choose(self, path: str, script: RecipeInfo | None = None) -> None:
        """Choose a script by its path, and read it again. `script`: what to show instead of it."""
        if self.findData(path) < 0:
            self._insert(0, path)
        self._forget_nothing()
        self.setCurrentIndex(self.findData(path))
        self._script = script or read_script(path)
        self.chosen.emit()

    def read_again(self) -> RecipeInfo:
        """Read the chosen script again; return it."""
        if self._script.path:
            self._script = read_script(self._script.path)
        return self._script

    def forget(self, script: RecipeInfo) -> None:
        """List a script no more that is not chosen now."""
        row = self.findData(script.path)
        if row >= 0 and row != self.currentIndex():
            self.removeItem(row)

    def remember(self, paths: Iterable[str]) -> None:
        """List scripts that the user has opened before, the newest first; each is read when it is
        chosen."""
        for path in paths:
            if self.findData(path) < 0:
                self._insert(self.count() - 1, path)

    def paths(self) -> list[str]:
        """Return the listed scripts."""
        return [data for row in range(self.count()) if (data := self.itemData(row))]

    def _insert(self, row: int, path: str) -> None:
        self.insertItem(row, name_of(path), path)
        self.setItemData(row, plain_tip(path), Qt.ItemDataRole.ToolTipRole)

    def _forget_nothing(self) -> None:
        if (row := self.findText("No script yet")) >= 0 and self.itemData(row) is None:
            self.removeItem(row)

    def _nothing(self) -> RecipeInfo:
        problem = "Choose a script: Open file…"
        return RecipeInfo(name="", path="", builtin=False, framework=SCRIPT, problem=problem)

    def _activated(self, row: int) -> None:
        path = self.itemData(row)
        if path:
            self.choose(path)
            return
        self.setCurrentIndex(max(0, self.findData(self._script.path or None)))
        if path == "":
            self.open_requested.emit()


class StrategyChoice(Combo):
    """Lists all strategies; an unusable strategy is disabled and shows the reason."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Strategy")
        self._strategies = catalog.recipe_strategies()
        self._before = ""
        """The strategy that was chosen when those of scripts, or of recipes, were listed last."""

        self._fill(list(self._strategies), [])

    def offer(self, recipe: RecipeInfo, devices: Sequence[str], *, is_script: bool = False) -> None:
        """List the strategies that can train `recipe` on `devices`, then the others, disabled.

        The choice changes, to the usual one for these devices, only if the chosen strategy cannot
        train this recipe. `is_script`: list the strategies of scripts, and not those of recipes.
        """
        offered = catalog.strategies_for(recipe) if is_script else catalog.recipe_strategies()
        if offered != self._strategies:
            before = self._before
            self._strategies, self._before = offered, self.strategy().name
            self._fill(offered, [])
            usual = catalog.usual_strategy(offered, len(devices)).name if offered else ""
            self._choose_silently(before or usual)
        reasons = {
            strategy.name: _reasons_against(strategy, recipe, devices)
            for strategy in self._strategies
        }
        usable = [strategy for strategy in self._strategies if not reasons[strategy.name]]
        others = [strategy for strategy in self._strategies if reasons[strategy.name]]
        if [strategy.name for strategy in usable + others] != self.names() or (
            len(usable) != self._usable_count
        ):
            self._fill(usable, others)
        for strategy in self._strategies:
            row = self.findData(strategy.name)
            self.set_entry(row, reason=reasons[strategy.name], tip=self._description(strategy))
        if _recipe_problem(self.strategy(), recipe):
            fitting = usable or [s for s in self._strategies if not _recipe_problem(s, recipe)]
            if fitting:
                self._choose_silently(catalog.usual_strategy(fitting, len(devices)).name)
        set_wrapped_tip(self, self._description(self.strategy()))

    def names(self) -> list[str]:
        """Return the full names of the strategies, in the order of the list."""
        return [name for row in range(self.count()) if (name := self.itemData(row))]

    def all_names(self) -> list[str]:
        """Return the full names of all strategies, also of those that are not listed now."""
        return [strategy.name for strategy in catalog.strategies()]

    def strategy(self) -> Strategy:
        """Return the chosen strategy."""
        return catalog.strategy(self.currentData())

    def choose(self, name: str) -> None:
        """Choose the strategy with the full name `name`; ignore an unknown name."""
        row = self.findData(name)
        if row >= 0:
            self.setCurrentIndex(row)

    def shown_text(self, width: int) -> str:
        """Return the title and framework if they fit into `width` pixels, else the elided title."""
        metrics, strategy = self.fontMetrics(), self.strategy()
        text = full_title(strategy)
        if metrics.horizontalAdvance(text) <= width:
            return text
        return metrics.elidedText(strategy.title, Qt.TextElideMode.ElideMiddle, width)

    def _description(self, strategy: Strategy) -> str:
        needs = f"Needs {strategy.needs}."
        return f"{full_title(strategy)}\n{strategy.summary}\n{needs}"

    def _choose_silently(self, name: str) -> None:
        self.blockSignals(True)
        self.choose(name)
        self.blockSignals(False)

    def _fill(self, usable: Sequence[Strategy], others: Sequence[Strategy]) -> None:
        before = self.currentData()
        self.blockSignals(True)
        self.clear()
        for strategy in (*usable, *others):
            self.addItem(full_title(strategy), strategy.name)
        if usable and others:
            self.insertSeparator(len(usable))
        self._usable_count = len(usable)
        self.view().setMinimumWidth(self.view().sizeHintForColumn(0) + POPUP_MARGIN)
        self.setMaxVisibleItems(self.count())
        self.blockSignals(False)
        self._choose_silently(before)


def full_title(strategy: Strategy) -> str:
    """Return title and framework: `Single device · PyTorch`; of a script the title alone."""
    if strategy.framework == SCRIPT:
        return strategy.title
    return f"{strategy.title} · {_FRAMEWORKS.get(strategy.framework, strategy.framework)}"


def _recipe_problem(strategy: Strategy, recipe: RecipeInfo) -> str:
    """Return why `strategy` cannot train `recipe`; empty if it can, or if `recipe` is unusable."""
    return "" if recipe.problem else strategy.recipe_problem(recipe)


def _reasons_against(strategy: Strategy, recipe: RecipeInfo, devices: Sequence[str]) -> str:
    """Return sentences why `strategy` cannot train `recipe` on `devices`; empty if it can."""
    unfit = _recipe_problem(strategy, recipe)
    reasons = ([unfit] if unfit else []) + (strategy.problems(devices) if devices else [])
    return "\n".join(reasons)
