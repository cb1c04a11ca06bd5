"""The part of the run form where devices are chosen: GPUs by UUID, or CPU workers."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QSpinBox, QVBoxLayout, QWidget

from engine.device_names import MOST_LOGICAL_CPUS, is_logical_cpu
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from gui.fields import Below


class DeviceChoice(QWidget):
    """A box to tick per GPU, or a number of CPU workers: one kind at a time."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._gpus: dict[str, QCheckBox] = {}
        self._known: frozenset[str] = frozenset()
        self._touched = False
        self.cpu = QCheckBox("CPU")
        self.cpu.setChecked(True)
        self.cpu.setToolTip("Train without a GPU, on this many workers.")
        self.cpu.clicked.connect(self._cpu_clicked)
        self._workers = _Count()
        self._workers.setRange(1, MOST_LOGICAL_CPUS)
        self._workers.setSuffix(" worker")
        self._workers.setAccessibleName("CPU workers")
        self._workers.valueChanged.connect(self._workers_changed)
        self._below = Below()
        self._boxes = QVBoxLayout()
        self._boxes.setSpacing(4)
        cpu = QHBoxLayout()
        cpu.addWidget(self.cpu)
        cpu.addWidget(self._workers, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addLayout(self._boxes)
        layout.addLayout(cpu)
        layout.addWidget(self._below)

    @property
    def known_gpus(self) -> frozenset[str]:
        """UUIDs of the GPUs that answer now."""
        return self._known

    def devices(self) -> tuple[str, ...]:
        """What is chosen, as `RunSpec.devices` holds it."""
        if self.cpu.isChecked():
            return tuple(f"cpu:{number}" for number in range(self._workers.value()))
        return tuple(id for id, box in self._gpus.items() if box.isChecked())

    def set_devices(self, devices: tuple[str, ...]) -> None:
        """Choose `devices`; a GPU that is not on this machine is listed by its UUID."""
        self._touched = True
        cpus = [device for device in devices if is_logical_cpu(device)]
        self.cpu.setChecked(bool(cpus))
        self._workers.setValue(len(cpus) or 1)
        for id in devices:
            if not is_logical_cpu(id) and id not in self._gpus:
                self._add_box(id, f"{id} (not on this machine)")
        for id, box in self._gpus.items():
            box.setChecked(id in devices)
        self.changed.emit()

    def box(self, id: str) -> QCheckBox:
        """The box of the GPU `id`."""
        return self._gpus[id]

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Offer the GPUs of `snapshot`; the first one is chosen until the user chooses."""
        gpus = [device for device in snapshot.devices if device.kind == "gpu"]
        known = frozenset(device.id for device in gpus if device.lost is None)
        if known == self._known:
            return
        self._known = known
        for gpu in gpus:
            if gpu.id in self._gpus:
                self._gpus[gpu.id].setText(_spoken(gpu))
            else:
                self._add_box(gpu.id, _spoken(gpu))
        if gpus and not self._touched:
            self._touched = True
            self.cpu.setChecked(False)
            self._gpus[gpus[0].id].setChecked(True)
        self.changed.emit()

    def set_problem(self, text: str) -> None:
        """Show what is wrong with the choice, in words; empty when nothing is."""
        self._below.set_problem(text)

    @property
    def problem(self) -> str:
        """The problem on display, or empty."""
        return self._below.problem

    def _add_box(self, id: str, text: str) -> None:
        box = QCheckBox(text)
        box.setToolTip(id)
        box.clicked.connect(self._gpu_clicked)
        self._gpus[id] = box
        self._boxes.addWidget(box)

    def _gpu_clicked(self) -> None:
        self._touched = True
        self.cpu.setChecked(False)
        self.changed.emit()

    def _cpu_clicked(self) -> None:
        self._touched = True
        for box in self._gpus.values():
            box.setChecked(False)
        self.changed.emit()

    def _workers_changed(self, count: int) -> None:
        self._workers.setSuffix(" worker" if count == 1 else " workers")
        if self.cpu.isChecked():
            self._touched = True
            self.changed.emit()


class _Count(QSpinBox):
    """A number in a panel that scrolls: the wheel is left to the panel."""

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()


def _spoken(gpu: DeviceSnapshot) -> str:
    return f"GPU {gpu.label}  {gpu.name}" + (" (lost)" if gpu.lost else "")
