"""States with other machines: their cards, their page, and the dialog that adds one."""

from __future__ import annotations

import time
from functools import partial

from PySide6.QtWidgets import QWidget

from engine.remote.connection import LinkState, LinkStatus
from engine.remote.frames import MAJOR, MINOR, Hello
from engine.system.machines import RemoteMachine
from gui.app import AppController
from gui.bridge.cluster_devices import ClusterMember, ClusterStatus
from tools.screenshots import fake_machine
from tools.screenshots.scene import Scene, in_the_middle, replay_older

_MACHINES = (
    RemoteMachine(name="lab-server", destination="ada@lab-server"),
    RemoteMachine(name="gpu-box-2", destination="gpu-box-2"),
    RemoteMachine(name="old-node", destination="ada@10.0.4.17"),
)
_HELLO = Hello(MAJOR, MINOR, "0.1.0", "lab-server")
_SECONDS = 600


def machines() -> Scene:
    """Three other machines: connected, waiting, and not connected."""

    def show(app: AppController) -> QWidget:
        busy = partial(fake_machine.workstation, since=time.time() - 240.0, pids=(7001, 7002))
        app.machines.listed.emit(list(_MACHINES))
        tell = app.machines.status_changed.emit
        tell("lab-server", LinkStatus(LinkState.CONNECTED, round_trip=0.018, hello=_HELLO))
        why = "There is no way to gpu-box-2: the network is gone, or the host is off."
        tell("gpu-box-2", LinkStatus(LinkState.WAITING, why, time.time() + 12.0))
        now = time.time()
        for second in range(_SECONDS, -1, -2):
            app.rooms.machines.page.show_snapshot("lab-server", busy(now - second))
        app.machine_cards.show_snapshot("lab-server", busy(now))
        app.window.show_page("machines")
        return app.window

    replay_older("killed")
    scene = in_the_middle("wide", fake_machine.workstation, 0.6)
    return scene._replace(subject=show)


def cluster() -> Scene:
    """A cluster of three machines, one of which is lost."""

    def member(name: str, number: int, *, alive: bool = True) -> ClusterMember:
        devices = fake_machine.workstation(time.time()).devices if alive else ()
        problem = "" if alive else f"{name} is lost: the head has not heard of it for 9 s."
        is_here = number == 1
        return ClusterMember(
            name, f"10.0.0.{number}", alive, is_here, is_here, problem, devices, ()
        )

    def show(app: AppController) -> QWidget:
        members = (member("desk", 1), member("gpus", 2), member("node-3", 3, alive=False))
        app.cluster_devices.told.emit(ClusterStatus("", members, time.time()))
        app.window.show_page("machines")
        return app.window

    replay_older("killed")
    scene = in_the_middle("wide", fake_machine.workstation, 0.6)
    return scene._replace(subject=show)


def machine_added() -> Scene:
    """The dialog that adds a machine."""

    def open_dialog(app: AppController) -> QWidget:
        dialog = app.rooms.machines.add()
        dialog.destination.setText("ada@lab-server.example.org")
        dialog.name.setText("lab server")
        return dialog

    return Scene(fake_machine.workstation, subject=open_dialog)
