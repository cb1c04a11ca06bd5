"""Backs the store of a run up in a thread: after checkpoints, and at the end of the run."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

from engine.runs.store.store_backup import GivenUp, back_up

_log = logging.getLogger(__name__)

SECONDS = 60.0
"""Shortest time from the end of one backup to the begin of the next: each is a whole store."""

LAST_SECONDS = 5.0
"""Longest time for the last backup: a resume of the run waits until its supervisor has ended."""


class StoreBackups:
    """Makes the backups of one store. Its methods are called from one thread, and none waits but
    `end`."""

    def __init__(self, folder: Path) -> None:
        """`folder` is that of the run."""
        self._folder = folder
        self._changed = threading.Condition()
        self._is_asked = self._is_ending = False
        self._thread: threading.Thread | None = None
        self._told = ""

    def ask(self) -> None:
        """Have a backup made: now, or once SECONDS have passed since the last one."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True, name="store backup")
            self._thread.start()
        with self._changed:
            self._is_asked = True
            self._changed.notify_all()

    def end(self, *, last: bool) -> None:
        """End the thread; with `last`, make one more backup, unless LAST_SECONDS do not suffice.

        The store must be open until this returns, and the run's last entries be committed.
        """
        deadline = time.monotonic() + LAST_SECONDS
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(LAST_SECONDS)
            if self._thread.is_alive():
                return  # it waits for the disk
        if last:
            self._back_up(lambda: time.monotonic() > deadline)

    def _run(self) -> None:
        due = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_asked or self._is_ending)
                self._changed.wait_for(lambda: self._is_ending, max(0.0, due - time.monotonic()))
                if self._is_ending:
                    return
                self._is_asked = False
            self._back_up(lambda: self._is_ending)
            due = time.monotonic() + SECONDS

    def _back_up(self, is_given_up: Callable[[], bool]) -> None:
        begun = time.monotonic()
        try:
            back_up(self._folder, is_given_up)
        except GivenUp:
            _log.info("a backup of the store was given up")
            return
        except (sqlite3.Error, OSError) as error:
            if str(error) != self._told:  # not once a minute
                self._told = str(error)
                _log.warning("The store was not backed up: %s.", error)
            return
        self._told = ""
        _log.info("the store was backed up in %.2f s", time.monotonic() - begun)
