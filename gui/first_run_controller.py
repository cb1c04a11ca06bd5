"""Connects the welcome page: it offers an empty device and starts the first run there."""

from __future__ import annotations

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from engine.spec.validation import Problem
from engine.telemetry.snapshot import Snapshot
from gui.bridge.engine_client import EngineClient
from gui.run_form.device_choice import DeviceChoice
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
        self._page, self._client, self._devices = page, client, devices
        page.try_clicked.connect(self._try)
        client.started.connect(lambda _: page.wait(False))
        client.problems.connect(self._show_problems)
        client.failed.connect(page.fail)

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Offer the first empty GPU, or the CPU if there is none."""
        device = self._devices.first_empty()
        gpu = self.tr("GPU {label} ({name})")
        names = {each.id: gpu.format(label=each.label, name=each.name) for each in snapshot.devices}
        self._page.set_device(device, names.get(device, self.tr("the CPU")))

    def _try(self) -> None:
        self._client.start(first_spec(self._page.device))

    def _show_problems(self, found: list[Problem]) -> None:
        self._page.fail(" ".join(problem.text for problem in found))
