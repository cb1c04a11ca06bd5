"""The devices in the run form: some GPUs, or a number of CPU workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QPushButton, QWidget

from engine.spec.device_names import is_logical_cpu, machine_of
from engine.telemetry.given_gpus import GivenGpus, given_gpus
from engine.telemetry.gpu_makers import gpu_maker
from engine.telemetry.gpu_topology import best_set
from engine.telemetry.memory_attribution import MemoryUse
from engine.telemetry.snapshot import Snapshot
from gui.bridge.cluster_devices import ClusterDevice
from gui.devices.link_matrix import LinksDialog
from gui.run_form.devices.device_chip import HEIGHT, DeviceChip
from gui.run_form.devices.device_note import DeviceNote
from gui.run_form.devices.worker_spinbox import WorkerSpinBox
from gui.style.device_labels import device_labels
from gui.widgets.boxes import STRETCH, column_of, row_of
from gui.widgets.entry_fields import FieldNote, show_fault
from gui.widgets.icon_button import IconButton
from gui.widgets.layouts.flow_layout import FlowLayout
from gui.widgets.plain_text import Label, set_wrapped_tip

_CAPTION_HEIGHT = 17
"""Logical pixels: two lines beside the chips."""


class DeviceChoice(QWidget):
    """One chip for each GPU, one for the CPU with a number of workers, and a note below."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.chips: dict[str, DeviceChip] = {}
        """The chips of GPUs and MIG slices, by UUID."""

        self.known_gpus: frozenset[str] = frozenset()
        """UUIDs of the GPUs and MIG slices that can be used now."""

        self.given = GivenGpus(())
        """The same, and why others may not be used."""

        self.is_in_cluster = False
        """Whether this machine is in a cluster, whose devices can join those here."""

        self._offered: frozenset[str] = frozenset()
        """The devices of other machines that can be used now."""

        self._whole_gpus: tuple[str, ...] = ()
        self._snapshot = Snapshot(time=0.0, devices=())
        self._uses: Mapping[str, MemoryUse] = {}
        self._is_user_choice = False
        self._wanted: tuple[str, ...] = ()
        self._overlap = ""
        self._suggestion = ""
        self.cpu = DeviceChip("cpu", "CPU")
        self.cpu.setChecked(True)
        self.cpu.setToolTip("Train without a GPU, on this many workers.")
        self.cpu.clicked.connect(self._cpu_clicked)
        self._workers = WorkerSpinBox()
        self._workers.valueChanged.connect(self._workers_changed)
        self.cpu.toggled.connect(self._workers.setVisible)
        self.suggest_button = QPushButton("Suggest")
        self.suggest_button.setObjectName("link")
        self.suggest_button.setFixedHeight(_CAPTION_HEIGHT)
        self.suggest_button.setAccessibleName("Suggest GPUs")
        set_wrapped_tip(
            self.suggest_button,
            (
                "Tick the unused GPUs with the best links: as many as are ticked now, or all "
                "unused ones."
            ),
        )
        self.suggest_button.clicked.connect(self.suggest)
        self.links_button = IconButton(
            "link", "Links between the GPUs", "How the GPUs are joined: NVLink, PCIe, CPU."
        )
        self.links_button.clicked.connect(self._show_links)
        self.label = Label("De&vices")
        self.line = DeviceNote()
        self.problem_note = FieldNote()
        self.warning = ""
        """The warnings about the choice, or empty; the run can be started anyway."""

        self._lay_out()

    def devices(self) -> tuple[str, ...]:
        """Return the chosen devices in the form of `RunSpec.devices`."""
        ticked = [id for id, each in self.chips.items() if each.isChecked()]
        far = [id for id in ticked if machine_of(id)]
        if self.cpu.isChecked():
            return (*(f"cpu:{number}" for number in range(self._workers.value())), *far)
        return (*(id for id in ticked if id not in far), *far)

    def set_devices(self, devices: tuple[str, ...]) -> None:
        """Choose `devices`; show a GPU that is not on this machine by its UUID."""
        self._is_user_choice = True
        cpus = [each for each in devices if is_logical_cpu(each) and not machine_of(each)]
        self.cpu.setChecked(bool(cpus))
        self._workers.setValue(len(cpus) or 1)
        for id in devices:
            if id in self.chips or id in cpus:
                continue
            missing = f"{id} (not on this machine)"
            if machine_of(id):
                missing = f"{id} (not in the cluster now)"
            self._add_chip(id, missing)
        self._tick(devices)

    def forget(self) -> None:
        """Offer no device, until the next snapshot: that of another machine."""
        for chip in self.chips.values():
            chip.setParent(None)
            chip.deleteLater()
        self.chips.clear()
        self.known_gpus, self.given = frozenset(), GivenGpus(())
        self._whole_gpus, self._uses = (), {}
        self._snapshot = Snapshot(time=0.0, devices=())
        self._is_user_choice = False
        self.cpu.setChecked(True)
        self._show_helpers(False)
        self._report_change()

    def lost_machines(self) -> list[str]:
        """Return the machines of chosen devices that are not in the cluster now."""
        lost = [id for id in self.devices() if machine_of(id) and id not in self._offered]
        return list(dict.fromkeys(map(machine_of, lost))) if self.is_in_cluster else []

    def show_cluster(self, devices: Sequence[ClusterDevice], *, is_member: bool) -> None:
        """Offer the devices of other machines of the cluster, beside those of this one."""
        self.is_in_cluster = is_member
        offered = self._offered = frozenset(each.id for each in devices)
        for id in [id for id in self.chips if machine_of(id) and id not in offered]:
            if not self.chips[id].isChecked():
                chip = self.chips.pop(id)
                chip.setParent(None)
                chip.deleteLater()
        for each in devices:
            self._chip(each.id).show_far(each.machine, each.device)
        self._report_change()

    def want(self, devices: tuple[str, ...]) -> None:
        """Choose these GPUs as soon as a snapshot has them all, unless the user chooses before."""
        self._wanted = devices

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Offer the GPUs of `snapshot`; tick the first one unless the user has chosen."""
        self._snapshot = snapshot
        gpus = [device for device in snapshot.devices if device.kind == "gpu"]
        labels = device_labels(snapshot)
        self.given = given_gpus(snapshot)
        for gpu in gpus:
            colour = labels[gpu.id].colour_index
            self._chip(gpu.id).show_gpu(gpu, colour, self.given.refusal(gpu.id))
            for slice in gpu.slices:
                why_not = self.given.refusal(slice.uuid)
                self._chip(slice.uuid).show_slice(gpu, slice, colour, why_not)
        self.cpu.model = next((each.name for each in snapshot.devices if each.kind == "cpu"), "")
        self.cpu.colour_index = None if gpus else 0
        known = frozenset(self.given.uuids)
        whole = {gpu.id for gpu in gpus}
        self._whole_gpus = tuple(id for id in self.given.uuids if id in whole)
        several = len(gpus) > 1
        self._show_helpers(several)
        if known == self.known_gpus:
            self._show_warnings()
            return
        self.known_gpus = known
        if known.issuperset(self._wanted) and self._wanted and not self._is_user_choice:
            self.set_devices(self._wanted)
        elif self._whole_gpus and not self._is_user_choice:
            self._is_user_choice = True
            self.cpu.setChecked(False)
            self.chips[(self._unused_gpus() or self._whole_gpus)[0]].setChecked(True)
        self._report_change()

    def show_uses(self, uses: Mapping[str, MemoryUse]) -> None:
        """Show which processes use each GPU; `uses` are by UUID."""
        self._uses = uses
        for id, each in self.chips.items():
            each.show_use(uses.get(id))
        self._show_warnings()

    def suggest(self) -> None:
        """Tick the unused GPUs with the best links: as many as are ticked now, or all unused
        ones."""
        ticked = sum(self.chips[id].isChecked() for id in self.known_gpus)
        unused = self._of_one_maker(self._unused_gpus())
        chosen = best_set(self._snapshot.links, unused, ticked or len(unused))
        if not chosen:
            self._set_suggestion_note("Every GPU is in use: none can be suggested.")
            return
        self._is_user_choice = True
        self.cpu.setChecked(False)
        few = f"Only {len(chosen)} of the {ticked} GPUs are unused." if len(chosen) < ticked else ""
        self._set_suggestion_note(few)
        self._tick(chosen)

    def first_unused(self) -> str:
        """Return the first unused whole GPU, or the CPU, in the form of `RunSpec.devices`."""
        return (*self._unused_gpus(), "cpu:0")[0]

    def display_name(self, device: str) -> str:
        """Return the name of `device` for display: `GPU 0`, `cpu:0`."""
        return self.chips[device].name if device in self.chips else device

    def set_overlap(self, text: str) -> None:
        """Show `text` about other runs on the chosen devices; empty: there are none."""
        if text != self._overlap:
            self._overlap = text
            self._show_warnings()

    def set_problem(self, text: str) -> None:
        """Show the problem of the choice; empty: there is none."""
        self.problem_note.set_problem(text)
        show_fault(self._choice, text)

    def _unused_gpus(self) -> list[str]:
        """Return the whole GPUs that no process is known to use."""
        return [id for id in self._whole_gpus if id not in self._uses or self._uses[id].is_empty]

    def _of_one_maker(self, gpus: list[str]) -> list[str]:
        """Return those of `gpus` that can train together: of the maker whose GPU is ticked, or of
        whom there are the most."""
        ticked = [gpu_maker(id) for id in self._whole_gpus if self.chips[id].isChecked()]
        makers = ticked or [gpu_maker(id) for id in gpus]
        return [id for id in gpus if gpu_maker(id) == max(makers, key=makers.count)]

    def _tick(self, devices: tuple[str, ...]) -> None:
        for id, each in self.chips.items():
            each.setChecked(id in devices)
        self._report_change()

    def _chip(self, id: str) -> DeviceChip:
        if id not in self.chips:
            self._add_chip(id, id)
        return self.chips[id]

    def _add_chip(self, id: str, text: str) -> None:
        made = DeviceChip(id, text)
        made.show_use(self._uses.get(id))
        made.clicked.connect(self._far_cpu_clicked if is_logical_cpu(id) else self._gpu_clicked)
        before = list(self.chips.values())
        here = sum(not machine_of(each.id) for each in before)
        if machine_of(id):
            self._flow.addWidget(made)
        else:
            self._flow.insert(here, made)
        self.setTabOrder(before[-1] if before else self, made)
        self.chips[id] = made

    def _gpu_clicked(self) -> None:
        self._is_user_choice = True
        self.cpu.setChecked(False)
        self._untick(is_logical_cpu)
        self._set_suggestion_note("")
        self._report_change()

    def _cpu_clicked(self) -> None:
        self._is_user_choice = True
        self._set_suggestion_note("")
        self._untick(lambda id: not is_logical_cpu(id))
        self._report_change()

    def _far_cpu_clicked(self) -> None:
        """Train on the CPU of another machine too: GPUs and CPUs do not train together."""
        self.cpu.setChecked(True)
        self._cpu_clicked()

    def _untick(self, is_meant: Callable[[str], bool]) -> None:
        for id, each in self.chips.items():
            if is_meant(id):
                each.setChecked(False)

    def _workers_changed(self) -> None:
        if self.cpu.isChecked():
            self._is_user_choice = True
            self._report_change()

    def _report_change(self) -> None:
        self._show_warnings()
        self.changed.emit()

    def _set_suggestion_note(self, text: str) -> None:
        self._suggestion = text
        self._show_warnings()

    def _show_warnings(self) -> None:
        """Show the warnings about the ticked devices."""
        chosen = [each for each in self.chips.values() if each.isChecked()]
        found = [warning for each in chosen if (warning := each.warning())]
        slices = {slice.uuid for gpu in self._snapshot.devices for slice in gpu.slices}
        if sum(each.id in slices for each in chosen) > 1:
            found.append("CUDA gives a process one slice only.")
        if found:
            found.append("The run may be slow or run out of memory.")
        warning = "⚠ " + " ".join(found) if found else ""
        self.warning = "\n".join(filter(None, (warning, self._overlap)))
        shown = [self.cpu] if self.cpu.isChecked() else chosen
        self.line.show_note(shown, self._suggestion, self._overlap, self.warning)

    def _show_links(self) -> None:
        dialog = LinksDialog(self._snapshot, self)
        dialog.show()

    def _lay_out(self) -> None:
        self.label.setBuddy(self)
        self.caption = QWidget()
        """The label, and below it Suggest: beside the chips they need no line of their own."""

        column_of(
            self.label,
            (self.suggest_button, 0, Qt.AlignmentFlag.AlignLeft),
            STRETCH,
            parent=self.caption,
            margins=0,
            spacing=0,
        )
        self._choice = QFrame()
        self._choice.setObjectName("choice")
        self._flow = FlowLayout(self._choice, gap=3)
        self._flow.addWidget(self.cpu)
        self._flow.addWidget(self._workers)
        row = row_of(
            (self._choice, 1), (self.links_button, 0, Qt.AlignmentFlag.AlignTop), spacing=4
        )
        self._show_helpers(False)
        column_of(row, self.problem_note, self.line, STRETCH, parent=self, margins=0, spacing=1)

    def _show_helpers(self, shown: bool) -> None:
        self.label.setFixedHeight(_CAPTION_HEIGHT if shown else HEIGHT)
        self.suggest_button.setVisible(shown)
        self.links_button.setVisible(shown)
