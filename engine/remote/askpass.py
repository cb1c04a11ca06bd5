"""Lets `ssh` ask a person in the window: for a password, the passphrase of a key, a code.

`ssh` starts a small program of ours for each question (`askpass_program.py`). It passes that
on through a socket that only this user can open, and prints the answer. Nothing is kept or logged.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from engine.remote import askpass_program

_log = logging.getLogger(__name__)

Ask = Callable[[str], str | None]
"""Gets a question of `ssh`, and returns the answer; None: the person does not answer."""

LONGEST_QUESTION = 4096


class Askpass:
    """While it is open, `ssh` with its `environment` asks by `ask`."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._folder = Path()

    def __enter__(self) -> Self:
        """Raises OSError."""
        self._folder = Path(tempfile.mkdtemp(prefix="traindeck-ask-"))  # for this user only
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(str(self._folder / "socket"))
            self._socket.listen(1)
            script = self._folder / "ask"
            program = shlex.join([sys.executable, "-I", "-S", askpass_program.__file__])
            script.write_text(f'#!/bin/sh\nexec {program} "$@"\n')
            script.chmod(0o700)
        except BaseException:
            self.__exit__()
            raise
        threading.Thread(target=self._serve, daemon=True, name="askpass").start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # which wakes the thread
        self._socket.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def environment(self) -> dict[str, str]:
        """The environment for `ssh`."""
        return {
            "DISPLAY": "none",  # an older `ssh` asks so only if there is one
            **os.environ,
            "SSH_ASKPASS": str(self._folder / "ask"),
            "SSH_ASKPASS_REQUIRE": "force",
            askpass_program.SOCKET_VARIABLE: str(self._folder / "socket"),
        }

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return  # it was closed
            with connection:
                try:
                    question = connection.makefile("rb").readline(LONGEST_QUESTION)
                    answer = self._ask(question.decode(errors="replace").strip())
                    if answer is not None:
                        connection.sendall(b"+" + answer.encode())
                except OSError as error:
                    _log.info("a question of ssh was not answered: %s", error)
