"""The sweeps of other machines: they are followed while somebody looks, and commanded."""

from __future__ import annotations

from functools import partial

import msgspec
from PySide6.QtCore import QObject, Signal

from engine.remote.connection import Connection, LinkStatus
from engine.remote.watched import ListedSweeps
from engine.sweeps.report import SweepReport
from gui.bridge.machines.machines import Machines

NOT_CONNECTED = "elsewhere"
"""The state of a sweep, and of a trial, that was running when the connection to its machine broke:
only the window gives it."""


class RemoteSweeps(QObject):
    """Follows the sweeps of all machines to which there is a connection, also when it breaks."""

    changed = Signal()
    """`reports` or `missing` returns others than before."""

    def __init__(self, machines: Machines, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._machines = machines
        self._is_watching = False
        self._watches: dict[str, tuple[Connection, ListedSweeps]] = {}
        self._reports: dict[str, list[SweepReport]] = {}
        """The last known ones, by machine."""

        self._missing: dict[str, str] = {}
        """By machine: why its sweeps are not followed."""

        machines.status_changed.connect(self._take_status)

    def reports(self) -> list[SweepReport]:
        """Return the sweeps of all machines, each newest first, as they were known last."""
        names = [each.name for each in self._machines.machines]
        return [report for name in names for report in self._reports.get(name, ())]

    def awaited(self) -> list[str]:
        """Return the connected machines whose sweeps are not known yet."""
        return [
            name
            for name in self._watches
            if name not in self._reports and self._machines.is_connected(name)
        ]

    def missing(self) -> list[str]:
        """Return the sentences that say of which machines sweeps are missing, and why."""
        return [f"Sweeps of {name} are missing here. {why}" for name, why in self._missing.items()]

    def set_watching(self, watching: bool) -> None:
        """Follow the sweeps from now on, or no more."""
        self._is_watching = watching
        if not watching:
            for _, listed in self._watches.values():
                listed.close()
            self._watches.clear()
            return
        for machine in self._machines.machines:
            if (status := self._machines.status(machine.name)) is not None:
                self._take_status(machine.name, status)

    def _take_status(self, name: str, status: LinkStatus | None) -> None:
        if status is None:
            self._watches.pop(name, None)
            why = self._missing.pop(name, "")
            if self._reports.pop(name, None) or why:
                self.changed.emit()
            return
        if self._is_watching and name not in self._watches:
            self._watch(name)
        before = self._reports.get(name, [])
        if before and not self._machines.is_connected(name):
            self._reports[name] = lost = [_lost(name, each, status.sentence) for each in before]
            if lost != before:
                self.changed.emit()

    def _watch(self, name: str) -> None:
        connection = self._machines.connection(name)

        def tell(reports: list[SweepReport]) -> None:
            self._machines.give(partial(self._take, name, connection, reports))

        def refuse(text: str) -> None:
            self._machines.give(partial(self._take_refusal, name, connection, text))

        self._watches[name] = connection, connection.watch_sweeps(tell, refuse)

    def _take(
        self, name: str, connection: Connection, reports: list[SweepReport], why: str = ""
    ) -> None:
        watched = self._watches.get(name)
        if watched is not None and watched[0] is connection and self._machines.is_connected(name):
            self._reports[name] = reports
            self._missing.pop(name, None)
            self._missing |= {name: why} if why else {}
            self.changed.emit()

    def _take_refusal(self, name: str, connection: Connection, why: str) -> None:
        self._take(name, connection, self._reports.get(name, []), why)


def _lost(machine: str, report: SweepReport, why: str) -> SweepReport:
    """Return what is known of a sweep while its machine is not connected."""
    if report.summary.state not in ("running", NOT_CONNECTED):
        return report
    problem = f"There is no connection to {machine}. {why}".rstrip()
    trials = tuple(
        msgspec.structs.replace(each, state=NOT_CONNECTED) if each.state == "running" else each
        for each in report.trials
    )
    summary = msgspec.structs.replace(report.summary, state=NOT_CONNECTED, problem=problem)
    return msgspec.structs.replace(report, summary=summary, trials=trials)
