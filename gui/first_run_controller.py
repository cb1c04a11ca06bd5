"""Connects the welcome page with the engine: starts the first run on an unused device."""

from __future__ import annotations

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from engine.spec import catalog
from engine.spec.validation import Problem
from engine.telemetry.snapshot import Snapshot
from gui.bridge.engine_client import EngineClient
from gui.bridge.files.gpu_builds import build_problems
from gui.run_form.devices.device_choice import DeviceChoice
from gui.run_view.welcome_page import WelcomePage, first_spec


class FirstRunController(QObject):
    """Starts the first run when the button of the welcome page is clicked."""

    def __init__(
        self,
        page: WelcomePage,
        client: EngineClient,
        devices: DeviceChoice,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._page, self._devices = page, devices
        self._problems: dict[str, str] = {}
        page.try_clicked.connect(lambda: client.start(first_spec(page.device)))
        client.started.connect(lambda _: page.show_starting(False))
        client.problems.connect(self._show_problems)
        client.failed.connect(page.show_failure)

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Offer the first unused GPU; the CPU if there is none, or PyTorch cannot use it."""
        device = self._devices.first_unused()
        names = {each.id: f"GPU {each.label} ({each.name})" for each in snapshot.devices}
        if why := self._problem_of(device):
            reason = why.partition(". ")[0]
            self._page.set_device("cpu:0", f"the CPU, because {reason}")
        else:
            self._page.set_device(device, names.get(device, "the CPU"))

    def _problem_of(self, device: str) -> str:
        """Return why PyTorch cannot use `device`; it reads files once for each."""
        if device not in self._problems:
            spec = first_spec(device)
            strategy = catalog.strategy(spec.strategy)
            self._problems[device] = " ".join(x.text for x in build_problems(spec, strategy, []))
        return self._problems[device]

    def _show_problems(self, found: list[Problem]) -> None:
        self._page.show_failure(" ".join(problem.text for problem in found))
