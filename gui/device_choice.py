"""The part of the run form where devices are chosen: GPUs by UUID, or CPU workers."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Signal
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QPushButton, QSpinBox, QVBoxLayout, QWidget

from engine.attribution import MemoryUse
from engine.device_names import MOST_LOGICAL_CPUS, is_logical_cpu
from engine.telemetry.snapshot import Snapshot
from engine.topology import best_set
from gui.device_box import DeviceBox
from gui.device_matrix import LinksDialog
from gui.fields import Below

TEXT_MARGIN = 7
"""Logical pixels: the number begins where the text of the fields above begins."""


class DeviceChoice(QWidget):
    """A box to tick per GPU, or a number of CPU workers: one kind at a time."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._boxes: dict[str, DeviceBox] = {}
        self._known: frozenset[str] = frozenset()
        self._whole: tuple[str, ...] = ()
        self._snapshot = Snapshot(time=0.0, devices=())
        self._uses: Mapping[str, MemoryUse] = {}
        self._touched = False
        self._overlap = ""
        self.cpu = QCheckBox("CPU")
        self.cpu.setChecked(True)
        self.cpu.setToolTip("Train without a GPU, on this many workers.")
        self.cpu.clicked.connect(self._cpu_clicked)
        self._workers = _Count()
        self._workers.setRange(1, MOST_LOGICAL_CPUS)
        self._workers.setSuffix(" worker")
        self._workers.setAccessibleName("CPU workers")
        self._workers.valueChanged.connect(self._workers_changed)
        self.suggest_button = QPushButton("Suggest")
        self.suggest_button.setToolTip(
            "Tick the GPUs that nobody uses and that are linked best: as many as are ticked now, "
            "or all that are empty."
        )
        self.suggest_button.clicked.connect(self.suggest)
        self.links_button = QPushButton("Links…")
        self.links_button.setToolTip("How the GPUs are joined: NVLink, PCIe, CPU.")
        self.links_button.clicked.connect(self._show_links)
        self._below = Below()
        self._warning = Below()
        self._warning.setProperty("tone", "warning")
        self._lay_out()

    @property
    def known_gpus(self) -> frozenset[str]:
        """UUIDs of the GPUs and slices that can be trained on now."""
        return self._known

    def devices(self) -> tuple[str, ...]:
        """What is chosen, as `RunSpec.devices` holds it."""
        if self.cpu.isChecked():
            return tuple(f"cpu:{number}" for number in range(self._workers.value()))
        return tuple(id for id, each in self._boxes.items() if each.box.isChecked())

    def set_devices(self, devices: tuple[str, ...]) -> None:
        """Choose `devices`; a GPU that is not on this machine is listed by its UUID."""
        self._touched = True
        cpus = [device for device in devices if is_logical_cpu(device)]
        self.cpu.setChecked(bool(cpus))
        self._workers.setValue(len(cpus) or 1)
        for id in devices:
            if not is_logical_cpu(id) and id not in self._boxes:
                self._add_box(id, f"{id} (not on this machine)")
        self._tick(devices)

    def box(self, id: str) -> QCheckBox:
        """The box of the GPU or slice `id`."""
        return self._boxes[id].box

    def note(self, id: str) -> str:
        """What is said below that box: who works there already."""
        return self._boxes[id].note

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Offer the GPUs of `snapshot`; the first one is chosen until the user chooses."""
        self._snapshot = snapshot
        gpus = [device for device in snapshot.devices if device.kind == "gpu"]
        for gpu in gpus:
            self._box_of(gpu.id).show_gpu(gpu)
            for slice in gpu.slices:
                self._box_of(slice.uuid).show_slice(gpu, slice)
        answering = [gpu for gpu in gpus if gpu.lost is None]
        self._whole = tuple(gpu.id for gpu in answering if not gpu.slices)
        known = frozenset(
            [*self._whole, *(slice.uuid for gpu in answering for slice in gpu.slices)]
        )
        several = len(gpus) > 1
        self.suggest_button.setVisible(several)
        self.links_button.setVisible(several)
        if known == self._known:
            return
        self._known = known
        if self._whole and not self._touched:
            self._touched = True
            self.cpu.setChecked(False)
            self.box((self._empty() or self._whole)[0]).setChecked(True)
        self._tell()

    def show_uses(self, uses: Mapping[str, MemoryUse]) -> None:
        """Say beside each GPU who works there, by UUID."""
        self._uses = uses
        for id, each in self._boxes.items():
            each.show_use(uses.get(id))
        self._warn()

    def suggest(self) -> None:
        """Tick the GPUs that nobody uses and that are linked best: as many as are ticked, or all
        that are empty."""
        ticked = sum(self.box(id).isChecked() for id in self._known)
        empty = self._empty()
        chosen = best_set(self._snapshot.links, empty, ticked or len(empty))
        if not chosen:
            self._below.set_note("Every GPU is in use: none can be suggested.")
            return
        self._touched = True
        self.cpu.setChecked(False)
        self._tick(chosen)
        few = len(chosen) < ticked
        self._below.set_note(f"Only {len(chosen)} of {ticked} wanted are empty." if few else "")

    def first_empty(self) -> str:
        """The first whole GPU that nobody uses, else the CPU, as a spec names it."""
        return (*self._empty(), "cpu:0")[0]

    def spoken(self, device: str) -> str:
        """What people call `device`: `GPU 0`, `cpu:0`."""
        return self._boxes[device].name if device in self._boxes else device

    def set_overlap(self, text: str) -> None:
        """Say which runs use the chosen devices; empty when none does."""
        if text != self._overlap:
            self._overlap = text
            self._warn()

    def set_problem(self, text: str) -> None:
        """Show what is wrong with the choice, in words; empty when nothing is."""
        self._below.set_problem(text)

    @property
    def problem(self) -> str:
        """The problem on display, or empty."""
        return self._below.problem

    @property
    def suggestion_note(self) -> str:
        """Why a suggestion is not what was asked for, or empty."""
        return self._below.text() if not self._below.problem else ""

    @property
    def warning(self) -> str:
        """What speaks against the choice without forbidding it, or empty."""
        return self._warning.text()

    def _empty(self) -> list[str]:
        """The whole GPUs that nobody uses, as far as can be known."""
        return [id for id in self._whole if id not in self._uses or self._uses[id].is_empty]

    def _tick(self, devices: tuple[str, ...]) -> None:
        for id, each in self._boxes.items():
            each.box.setChecked(id in devices)
        self._tell()

    def _box_of(self, id: str) -> DeviceBox:
        if id not in self._boxes:
            self._add_box(id, id)
        return self._boxes[id]

    def _add_box(self, id: str, text: str) -> None:
        made = DeviceBox(id, text)
        made.show_use(self._uses.get(id))
        made.box.clicked.connect(self._gpu_clicked)
        self._boxes[id] = made
        self._column.addWidget(made)

    def _gpu_clicked(self) -> None:
        self._touched = True
        self.cpu.setChecked(False)
        self._below.set_note("")
        self._tell()

    def _cpu_clicked(self) -> None:
        self._touched = True
        self._below.set_note("")
        self._tick(())

    def _workers_changed(self, count: int) -> None:
        self._workers.setSuffix(" worker" if count == 1 else " workers")
        if self.cpu.isChecked():
            self._touched = True
            self._tell()

    def _tell(self) -> None:
        self._warn()
        self.changed.emit()

    def _warn(self) -> None:
        """Say what speaks against the ticked cards; the run may be started all the same."""
        chosen = [each for each in self._boxes.values() if each.box.isChecked()]
        found = [warning for each in chosen if (warning := each.warning())]
        slices = {slice.uuid for gpu in self._snapshot.devices for slice in gpu.slices}
        if sum(each.id in slices for each in chosen) > 1:
            found.append("CUDA gives a process one slice only.")
        if found:
            found.append("The run may be slow or run out of memory.")
        warning = "⚠ " + " ".join(found) if found else ""
        self._warning.set_note("\n".join(filter(None, (warning, self._overlap))))

    def _show_links(self) -> None:
        dialog = LinksDialog(self._snapshot, self)
        dialog.show()

    def _lay_out(self) -> None:
        self._column = QVBoxLayout()
        self._column.setSpacing(4)
        cpu = QHBoxLayout()
        cpu.addWidget(self.cpu)
        cpu.addWidget(self._workers, 1)
        buttons = QHBoxLayout()
        for button in (self.suggest_button, self.links_button):
            button.setVisible(False)
            buttons.addWidget(button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addLayout(self._column)
        layout.addLayout(buttons)
        layout.addLayout(cpu)
        layout.addWidget(self._below)
        layout.addWidget(self._warning)


class _Count(QSpinBox):
    """A number in a panel that scrolls: the wheel is left to the panel."""

    def __init__(self) -> None:
        super().__init__()
        # A style sheet's padding does not reach the text of a spin box (Qt 6.11).
        self.lineEdit().setTextMargins(TEXT_MARGIN, 0, 0, 0)

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()
