"""The script's side of the link: it waits for a halted listener, and connects anew."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading

import pytest
from traindeck_watch import link as module
from traindeck_watch.link import Link


class Listener:
    def __init__(self, path):
        self._server = socket.socket(socket.AF_UNIX)
        self._server.settimeout(60)
        self._server.bind(path)
        self._server.listen()
        self._accepted = []

    def close(self):
        for each in (self._server, *self._accepted):
            each.close()

    def accept(self):
        connection, _ = self._server.accept()
        self._accepted.append(connection)
        connection.settimeout(60)
        assert self.read(connection)["kind"] == "hello"
        return connection

    @staticmethod
    def read(connection):
        (length,) = struct.unpack(">I", connection.recv(4, socket.MSG_WAITALL))
        body = bytearray()
        while len(body) < length:
            body += connection.recv(length - len(body))
        return json.loads(body)


@pytest.fixture
def listener(short_folder, monkeypatch):
    path = str(short_folder / "l")
    monkeypatch.setenv("TRAINDECK_LINK", path)
    listener = Listener(path)
    yield listener
    listener.close()


def test_a_listener_that_is_halted_gets_everything_once_it_goes_on(listener, monkeypatch):
    monkeypatch.setattr(module, "_CONNECT_SECONDS", 0.2)
    link = Link()
    assert link.connect()
    sent = []
    frame = {"kind": "points", "text": "x" * 2**22}
    sender = threading.Thread(target=lambda: sent.append(link.send(frame)))
    sender.start()
    sender.join(1)
    assert link.waits
    assert sender.is_alive()
    assert listener.read(listener.accept()) == frame
    sender.join(60)
    assert sent == [True]
    link.close()


def test_a_broken_connection_is_made_again_and_the_frame_arrives(listener):
    link = Link()
    assert link.connect()
    listener.accept().close()
    assert link.send({"kind": "notice", "text": "first"})
    second = listener.accept()
    assert listener.read(second)["text"] == "first"
    second.close()
    assert link.receive(60) == []
    third = listener.accept()
    third.sendall(struct.pack(">I", 2) + b"{}")
    assert link.receive(60) == [{}]
    link.close()


def test_without_a_listener_the_link_is_closed(listener):
    link = Link()
    assert link.connect()
    connection = listener.accept()
    os.unlink(os.environ["TRAINDECK_LINK"])  # noqa: PTH108
    connection.close()
    assert not link.send({"kind": "notice"})
    assert not link.is_open
