"""The engine of a command: it connects when it is asked, and closing it changes no result."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from engine.cli.engines import open_engine
from engine.interface.engine import Engine
from engine.remote import short_session
from engine.remote.remote_engine import remote_engine
from engine.system.machines import RemoteMachine


def test_it_connects_when_it_is_asked_something_and_ctrl_c_while_it_closes_comes_too_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []

    @contextmanager
    def open_session(machine: RemoteMachine) -> Iterator[tuple[Engine, None]]:
        told.append(f"connects to {machine.name}")
        yield remote_engine(machine.name, lambda method, _: told.append(method.name)), None
        os.kill(os.getpid(), signal.SIGINT)
        told.append("closes")

    monkeypatch.setattr(short_session, "open_session", open_session)
    before = signal.getsignal(signal.SIGINT)
    with open_engine("gpus"):
        pass
    assert told == []
    with open_engine("gpus") as engine:
        engine.ping()
        engine.ping()
    assert told == ["connects to gpus", "ping", "ping", "closes"]
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt), open_engine("gpus") as engine:
        os.kill(os.getpid(), signal.SIGINT)
