"""Connects the welcome page with the engine: starts the first run on an unused device."""

from __future__ import annotations

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from engine.spec.validation import Problem
from engine.telemetry.snapshot import Snapshot
from gui.bridge.engine_client import EngineClient
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
        page.try_clicked.connect(lambda: client.start(first_spec(page.device)))
        client.started.connect(lambda _: page.show_starting(False))
        client.problems.connect(self._show_problems)
        client.failed.connect(page.show_failure)

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Offer the first unused GPU, or the CPU if there is none."""
        device = self._devices.first_unused()
        names = {each.id: f"GPU {each.label} ({each.name})" for each in snapshot.devices}
        self._page.set_device(device, names.get(device, "the CPU"))

    def _show_problems(self, found: list[Problem]) -> None:
        self._page.show_failure(" ".join(problem.text for problem in found))
