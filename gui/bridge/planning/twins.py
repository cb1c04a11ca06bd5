"""Starts twin runs in the background: a Keras recipe under PyTorch and under TensorFlow."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from engine.client import CannotStart
from engine.planning.twin import NoTwins, start_twins, told, twin_tag
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from gui.bridge.background import Background
from gui.bridge.machines.machines import id_of

__all__ = ["Twins", "told", "twin_tag"]


class Twins(QObject):
    """A process that outlives the window starts the second run, and notes what comes of both."""

    started = Signal(str)
    """Id of the first run, such as `12`, or `gpus:12`."""

    refused = Signal(str)
    """Sentences: why there is no twin run."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self._is_starting = False

    def start(
        self, spec: RunSpec, recipe: RecipeInfo, tags: tuple[str, ...] = (), machine: str = ""
    ) -> None:
        """Start twin runs, both with `tags`, on this machine or on the one with this name, to which
        the recipe is sent. Emits `started` or `refused`."""
        if self._is_starting:
            return  # the user has clicked twice
        self._is_starting = True

        def work() -> str:
            from engine.interface.recipes import send_recipe

            engine = self._background.machines.engine(machine)
            if not machine:
                return start_twins(spec, recipe, tags)
            return id_of(machine, engine.start_twins(send_recipe(engine, spec)[0], tags))

        self._background.run(work, self._report, self._refuse)

    def _report(self, run_id: str) -> None:
        self._is_starting = False
        self.started.emit(run_id)

    def _refuse(self, error: Exception) -> None:
        self._is_starting = False
        if not isinstance(error, NoTwins | CannotStart | OSError):
            raise error
        self.refused.emit(" ".join(str(error).splitlines()))
