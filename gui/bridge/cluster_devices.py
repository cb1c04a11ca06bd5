"""The devices of the other machines of the cluster, asked of a process: Ray takes a second."""

from __future__ import annotations

import sys

import msgspec
from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, QTimer, Signal

from engine.cluster.membership import FILE_NAME
from engine.processes.process import PROJECT, module_environment
from engine.spec.device_names import on_machine
from engine.system import paths
from engine.telemetry.snapshot import DeviceSnapshot

LOOK_SECONDS = 60
"""Time between two looks, while the window is seen and this machine is in a cluster."""


class ClusterDevice(msgspec.Struct, frozen=True):
    """A device that a run can use on another machine."""

    id: str
    """As a spec names it: `gpus/GPU-...`, `gpus/cpu:0`."""

    machine: str
    device: DeviceSnapshot


class _Machine(msgspec.Struct):
    name: str
    alive: bool
    is_here: bool
    devices: tuple[DeviceSnapshot, ...]
    given: tuple[str, ...]


class _Status(msgspec.Struct):
    machines: tuple[_Machine, ...]


class ClusterDevices(QObject):
    """Looks now and then; a machine in no cluster costs a look at one file."""

    changed = Signal(tuple)
    """tuple[ClusterDevice, ...]: those that can be used now; none without a cluster."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._shown: tuple[ClusterDevice, ...] = ()
        self._process = QProcess(self)
        self._process.finished.connect(self._read)
        self._timer = QTimer(self, interval=1000 * LOOK_SECONDS)
        self._timer.timeout.connect(self.look)

    def set_visible(self, is_visible: bool) -> None:
        """Look on while the window is seen."""
        if is_visible and not self._timer.isActive():
            self._timer.start()
            self.look()
        elif not is_visible:
            self._timer.stop()

    def look(self) -> None:
        """Ask the cluster now, unless it is being asked."""
        if self._process.state() != QProcess.ProcessState.NotRunning:
            return
        if not (paths.home() / FILE_NAME).exists():
            self._show(())
            return
        environment = QProcessEnvironment()
        system = QProcessEnvironment.systemEnvironment()
        variables = {name: system.value(name) for name in system.keys()}  # noqa: SIM118
        for name, value in module_environment(variables).items():
            environment.insert(name, value)
        self._process.setProcessEnvironment(environment)
        self._process.setStandardErrorFile(QProcess.nullDevice())
        program = [str(PROJECT / "main.py"), "cluster", "status", "--json"]
        self._process.start(sys.executable, program)

    def close(self) -> None:
        """End a question that waits for its answer."""
        self._timer.stop()
        self._process.kill()
        self._process.waitForFinished(1000)

    def _read(self) -> None:
        try:
            output = bytes(self._process.readAllStandardOutput().data())
            status = msgspec.json.decode(output, type=_Status)
        except msgspec.DecodeError:
            self._show(())  # it has left, or the head does not answer
            return
        self._show(
            tuple(
                ClusterDevice(on_machine(each.name, id), each.name, device)
                for each in status.machines
                if each.alive and not each.is_here
                for device in each.devices
                for id in _usable(each, device)
            )
        )

    def _show(self, devices: tuple[ClusterDevice, ...]) -> None:
        if [each.id for each in devices] != [each.id for each in self._shown]:
            self._shown = devices
            self.changed.emit(devices)


def _usable(machine: _Machine, device: DeviceSnapshot) -> tuple[str, ...]:
    """Return what a spec can name of a device: nothing, itself, or its slices."""
    if device.kind == "cpu":
        return ("cpu:0",)
    parts = tuple(part.uuid for part in device.slices) or (device.id,)
    return tuple(each for each in parts if each in machine.given)
