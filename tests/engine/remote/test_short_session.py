"""A short session lives as long as its errand: it speaks while it waits, and notices silence."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from engine.interface.values import NoAnswer, NotConnected
from engine.remote import short_session, ssh
from engine.system.machines import RemoteMachine


class Session:
    """Ends after three calls."""

    def __init__(self) -> None:
        self.heard_at = time.monotonic()
        self.posted: list[str] = []
        self.killed = ""

    def post(self, method: str) -> None:
        """As that of a session."""
        self.posted.append(method)
        if len(self.posted) == 3:
            raise NotConnected("It is over.")

    def kill(self, why: str) -> None:
        """As that of a session."""
        self.killed = why


def test_it_pings_until_the_connection_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_session, "PING_SECONDS", 0.001)
    session = Session()
    short_session._keep_alive(session, threading.Event())  # type: ignore[arg-type]
    assert session.posted == ["ping"] * 3
    assert not session.killed


def test_a_machine_that_is_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_session, "PING_SECONDS", 0.001)
    monkeypatch.setattr(short_session, "LONGEST_SILENCE", -1.0)
    session = Session()
    short_session._keep_alive(session, threading.Event())  # type: ignore[arg-type]
    assert "nothing came from there" in session.killed


def test_it_ends_with_the_errand() -> None:
    over = threading.Event()
    over.set()
    session = Session()
    short_session._keep_alive(session, over)  # type: ignore[arg-type]
    assert session.posted == []


@pytest.mark.usefixtures("processes")
def test_the_question_of_a_login_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "ssh"
    program.write_text("#!/bin/sh\nprintf 'Which environment? '\nread answer\n")
    program.chmod(0o700)
    monkeypatch.setenv(ssh.PROGRAM_VARIABLE, str(program))
    monkeypatch.setattr(short_session, "LONGEST_CONNECT", 2.0)
    machine = RemoteMachine(name="gpus", destination="gpus.lab")
    with (
        pytest.raises(NoAnswer, match="Which environment"),
        short_session.open_session(machine),
    ):
        pass
