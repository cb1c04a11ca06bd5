"""Waits, after the loss of a machine, until there are enough machines for the next attempt."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence

from engine.cluster import membership
from engine.cluster.membership import ClusterError

_log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
ANSWER_SECONDS = 10.0


def answering() -> set[str]:
    """Return the other machines of the cluster that answer now. Raises ClusterError.

    Each is asked: Ray takes a node for a living one until some seconds after its end.
    """
    found = membership.members(ANSWER_SECONDS)
    return {each.name for each in found if each.alive and not each.problem and not each.is_here}


class MachineSearch(threading.Thread):
    """Asks the cluster in turn, as its own thread; `end` ends the search."""

    def __init__(
        self,
        machines: Sequence[str],
        fewest: int,
        ask: Callable[[], Collection[str]] = answering,
    ) -> None:
        """`machines` are the other machines of the run; `fewest` counts this one; 0: all."""
        super().__init__(daemon=True, name="machine-search")
        self.found: tuple[str, ...] | None = None
        """Those that take part, in their order; None: not known yet."""

        self.missing: tuple[str, ...] = ()
        """Those that did not answer the last time."""

        self._machines = machines
        self._fewest = fewest or len(machines) + 1
        self._ask = ask
        self._ending = threading.Event()
        self.start()

    def end(self) -> None:
        """End the search."""
        self._ending.set()

    def run(self) -> None:
        """Ask until enough machines answer."""
        while not self._ending.is_set():
            try:
                there = self._ask()
            except ClusterError as error:  # the head's own Ray node may begin anew
                _log.info("the cluster does not answer: %s", error)
                there = ()
            present = tuple(machine for machine in self._machines if machine in there)
            if 1 + len(present) >= self._fewest:
                self.found = present
                return
            self.missing = tuple(each for each in self._machines if each not in there)
            self._ending.wait(LOOK_SECONDS)
