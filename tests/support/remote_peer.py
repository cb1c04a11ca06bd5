"""The other side of a remote Traindeck in this process: speaks frames with a server in a thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from engine.interface.encoding import Method, decode_answer, encode_arguments, methods
from engine.interface.engine import Engine
from engine.interface.failures import error_of
from engine.interface.value_encoding import encode
from engine.remote import frames
from engine.remote.frames import Answered, Call, Cancel, FromRemote, Hello, Next, Yielded
from engine.remote.remote_engine import remote_engine
from engine.remote.server import LONGEST_SILENCE, serve_on
from engine.remote.wire import FrameReader, FrameWriter
from engine.system.cancelled import Cancelled

NONCE = "abc"
END_SECONDS = 60.0
"""Longest wait; only a test that fails waits so long."""


class Peer:
    """Sends and reads frames; nothing is read while nobody asks."""

    def __init__(self, silence: float = LONGEST_SILENCE) -> None:
        self._for_server, self.into = os.pipe()
        self.out, self._of_server = os.pipe()
        self.reader, self.writer = FrameReader(self.out, END_SECONDS), FrameWriter(self.into)
        self._server = threading.Thread(target=self._serve, args=(silence,), daemon=True)
        self._server.start()
        self.noise = self.reader.skip_to_banner(NONCE)
        self.hello = self.read()
        self._number = 0
        self._called: dict[int, str] = {}
        self.yielded: list[Yielded] = []

    def _serve(self, silence: float) -> None:
        try:
            serve_on(self._for_server, self._of_server, NONCE, silence=silence)
        finally:
            os.close(self._of_server)

    def read(self) -> FromRemote:
        """Wait for the next message."""
        message: FromRemote = msgspec.msgpack.decode(self.reader.read(), type=FromRemote)
        return message

    def send(self, message: Any) -> None:
        """Send a message, of whatever kind."""
        self.writer.write(encode(message))

    @property
    def engine(self) -> Engine:
        """The engine of the server; functions among the arguments are told nothing."""
        return remote_engine("gpus", self._call)

    def _call(self, method: Method, arguments: Mapping[str, Any]) -> Any:
        number = self.begin(method.name, **arguments)
        if method.yields:
            return self._all(number, method)
        answered = self.answer(number)
        if answered.refusal is not None:
            raise error_of(answered.refusal, "gpus", arguments)
        return decode_answer(method, answered.answer)

    def _all(self, number: int, method: Method) -> Iterator[Any]:
        try:
            while isinstance(message := self.read(), Yielded):
                yield decode_answer(method, message.value, "gpus")
                self.send(Next(number))
            assert isinstance(message, Answered)
            if message.refusal is not None:
                raise error_of(message.refusal, "gpus", {})
        finally:
            if self.into >= 0:
                self.send(Cancel(number))
                self.answer(number)

    def begin(self, name: str, /, **arguments: Any) -> int:
        """Send a call of a method, and return its number."""
        values = methods()[name].values if name in methods() else arguments
        given = {each: value for each, value in arguments.items() if each in values}
        self._number += 1
        self._called[self._number] = name
        self.send(Call(self._number, name, encode_arguments(given)))
        return self._number

    def answer(self, number: int) -> Answered:
        """Return the answer of this number; what is yielded before is kept in `yielded`."""
        while True:
            message = self.read()
            if isinstance(message, Yielded):
                self.yielded.append(message)
            elif isinstance(message, Answered) and message.number == number:
                return message

    def is_cancelled(self, number: int) -> bool:
        """Wait for the answer of a call, and return whether it is that it was cancelled."""
        found = self.answer(number).refusal
        return found is not None and found.kind == Cancelled.__name__

    def news(self, *, asks_next: bool = True) -> Any:
        """Return the next of what a call yields."""
        while not self.yielded:
            message = self.read()
            if isinstance(message, Yielded):
                self.yielded.append(message)
        found = self.yielded.pop(0)
        if asks_next:
            self.send(Next(found.number))
        return decode_answer(methods()[self._called[found.number]], found.value, "gpus")

    def close_input(self) -> None:
        """The connection ends: nothing more comes to the server."""
        if self.into >= 0:
            os.close(self.into)
            self.into = -1

    def wait(self) -> bool:
        """Wait for the end of the server, and return whether it has ended."""
        self._server.join(END_SECONDS)
        return not self._server.is_alive()

    def close(self) -> None:
        """End both sides."""
        self.close_input()
        while self._server.is_alive():
            try:
                self.read()
            except (EOFError, OSError, msgspec.DecodeError):
                break
        assert self.wait()
        os.close(self.out)
        os.close(self._for_server)


def hello(major: int = frames.MAJOR, minor: int = frames.MINOR) -> Hello:
    """Return the first message of a Traindeck with another protocol."""
    return Hello(major, minor, "9.9.9")
