"""The machines of the cluster and their devices, asked of a process: Ray takes a second."""

from __future__ import annotations

import sys
import time

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


class ClusterMember(msgspec.Struct, frozen=True):
    """A machine of the cluster, as `cluster status` tells of it."""

    name: str
    ip: str
    alive: bool
    """Whether the head hears of it now."""

    is_here: bool
    is_head: bool
    problem: str
    """Why its devices are not known, in a sentence; empty: they are."""

    devices: tuple[DeviceSnapshot, ...]
    given: tuple[str, ...]
    """The GPUs that a run can use there."""


class ClusterStatus(msgspec.Struct, frozen=True):
    """What was answered the last time."""

    problem: str = ""
    """Why nothing is known of the cluster, in a sentence; empty: it is known."""

    machines: tuple[ClusterMember, ...] = ()
    time: float = 0.0
    """Seconds since the epoch; 0: this machine is in no cluster."""


class ClusterDevices(QObject):
    """Looks now and then; a machine in no cluster costs a look at one file."""

    changed = Signal(tuple)
    """tuple[ClusterDevice, ...]: those that can be used now; none without a cluster."""

    told = Signal(ClusterStatus)
    """The cluster has answered, or this machine is in none any more."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.status = ClusterStatus()
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
            self._tell(ClusterStatus())
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
            status = msgspec.json.decode(output, type=ClusterStatus)
        except msgspec.DecodeError:  # it has left meanwhile
            status = ClusterStatus("The cluster does not answer.")
        self._tell(msgspec.structs.replace(status, time=time.time()))

    def _tell(self, status: ClusterStatus) -> None:
        if self.status.time or status.time:
            self.status = status
            self.told.emit(status)
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


def _usable(machine: ClusterMember, device: DeviceSnapshot) -> tuple[str, ...]:
    """Return what a spec can name of a device: nothing, itself, or its slices."""
    if device.kind == "cpu":
        return ("cpu:0",)
    parts = tuple(part.uuid for part in device.slices) or (device.id,)
    return tuple(each for each in parts if each in machine.given)
