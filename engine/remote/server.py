"""The remote side of a connection: speaks on its standard streams with a Traindeck of elsewhere.

It lives as long as its standard input is open and not silent, keeps nothing running but trainings
and sweeps, and writes nothing but what it is asked for.
"""

from __future__ import annotations

import logging
import os
import platform
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any, assert_never

import msgspec

from engine.interface.encoding import (
    Method,
    UnfitArgument,
    decode_arguments,
    encode_answer,
    methods,
)
from engine.interface.failures import Refusal, refusal_of
from engine.interface.local_engine import LocalEngine
from engine.interface.value_encoding import encode
from engine.remote.frames import (
    MAJOR,
    MINOR,
    Answered,
    Call,
    Cancel,
    FrameHead,
    FromRemote,
    Hello,
    Next,
    Told,
    ToRemote,
    Yielded,
)
from engine.remote.wire import FrameReader, FrameTooLarge, FrameWriter, Garbled, banner
from engine.system.cancelled import Cancelled
from engine.system.program import answer_to, version

_log = logging.getLogger(__name__)

LONGEST_SILENCE = 60.0
"""Seconds without a message, after which the other side is gone: it asks every few seconds."""

LONGEST_END = 20.0
"""Seconds that what was begun, such as the start of a run, has to end after the connection has."""

MOST_CALLS = 32
"""Calls that are carried out at one time."""

MOST_STREAMS = 64
"""Calls at one time that yield what is new, which last."""

PROGRESS_SECONDS = 0.2
"""Between two messages about the progress of one call."""


def serve(nonce: str, *, silence: float = LONGEST_SILENCE) -> None:
    """Speak on the standard streams until the input ends, or is silent for so many seconds."""
    output = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not get into the protocol
    os.set_inheritable(output, False)
    try:
        serve_on(0, output, nonce, silence=silence)
    finally:
        os.close(output)


def serve_on(input: int, output: int, nonce: str, *, silence: float = LONGEST_SILENCE) -> None:
    """Speak on two descriptors, as `serve` does."""
    try:
        os.write(output, banner(nonce))
        _Server(input, output, silence).run()
    except BrokenPipeError:
        _log.info("the other side is gone")


class _Server:
    def __init__(self, input: int, output: int, silence: float) -> None:
        self._reader = FrameReader(input, silence)
        self._writer = FrameWriter(output)
        self._writing = threading.Lock()
        self._engine = LocalEngine()
        self._cancelled: dict[int, threading.Event] = {}
        """By the number of each call that is being carried out; set: it has no reader any more."""

        self._threads: set[threading.Thread] = set()
        self._streams: dict[int, threading.Event] = {}
        """By the number of each call that yields; set: the next may follow."""

    def run(self) -> None:
        """Answer until the other side is gone."""
        self._send(Hello(MAJOR, MINOR, version(), platform.node(), sorted(methods())))
        try:
            while True:
                self._take(self._reader.read())
        except (EOFError, OSError) as error:
            _log.info("the connection has ended: %s", error)
        except (Garbled, msgspec.DecodeError, RecursionError) as error:
            _log.info("the other side sends what cannot be read: %s", error)
        finally:
            self._end()

    def _take(self, body: bytes) -> None:
        try:
            message: ToRemote = _decode(body)
        except msgspec.ValidationError:
            if _decode_head(body).type in _KINDS:
                raise
            return  # a kind of message that only a newer version has, and that wants no answer
        match message:
            case Hello():  # what does not fit, the side that shows it to a person says
                if message.machine:
                    answer_to(message.program, message.machine)
            case Call():
                self._call(message)
            case Cancel():
                self._cancel(message.number)
            case Next():
                if may_follow := self._streams.get(message.number):
                    may_follow.set()
            case _:
                assert_never(message)

    def _call(self, call: Call) -> None:
        """Carry out a call in a thread of its own: it may wait for a disk or a supervisor."""
        number, method = call.number, methods().get(call.method)
        if method is None:
            self._refuse(number, _unknown_method(call.method))
            return
        if number in self._cancelled or self._has_too_many(method):
            self._refuse(number, Refusal("Too much is asked of it at one time."))
            return
        try:
            arguments = decode_arguments(method, call.arguments)
        except (UnfitArgument, msgspec.DecodeError, RecursionError) as error:
            self._refuse(number, refusal_of(error))
            return
        cancelled = self._cancelled[number] = threading.Event()
        for name in method.functions:
            arguments[name] = self._function(number, method, name, cancelled)
        if method.event:
            arguments[method.event] = cancelled
        if method.yields:
            self._streams[number] = threading.Event()

        def work() -> None:
            answered = self._carry_out(number, method, arguments)
            self._cancelled.pop(number, None)
            self._streams.pop(number, None)
            try:
                try:
                    self._send(answered)
                except FrameTooLarge as error:
                    self._refuse(number, Refusal(f"The answer is too large: {error}."))
            except OSError as error:
                _log.info("an answer does not arrive: %s", error)
            finally:
                self._threads.discard(thread)

        thread = threading.Thread(target=work, daemon=True, name=method.name)
        self._threads.add(thread)
        thread.start()

    def _carry_out(self, number: int, method: Method, arguments: dict[str, Any]) -> Answered:
        try:
            answer = getattr(self._engine, method.name)(**arguments)
            if method.yields:
                self._yield_all(number, method, answer)
                return Answered(number)
            return Answered(number, encode_answer(method, answer))
        except FrameTooLarge as error:
            return Answered(number, refusal=Refusal(f"The answer is too large: {error}."))
        except Exception as error:  # whatever it is, the other side waits for an answer
            _log.info("call %s: %r", method.name, error)
            return Answered(number, refusal=refusal_of(error))

    def _yield_all(self, number: int, method: Method, found: Generator[Any]) -> None:
        """Send what a method yields, each after the one before has arrived, until it is cancelled.

        Raises what the method raises, OSError, FrameTooLarge.
        """
        cancelled, may_follow = self._cancelled[number], self._streams[number]
        with closing(found):
            for each in found:
                if cancelled.is_set():
                    return
                if each is not None:
                    may_follow.clear()
                    self._send(Yielded(number, encode_answer(method, each)))
                    if not cancelled.is_set():
                        may_follow.wait()

    def _cancel(self, number: int) -> None:
        if cancelled := self._cancelled.get(number):
            cancelled.set()
        if may_follow := self._streams.get(number):
            may_follow.set()

    def _has_too_many(self, method: Method) -> bool:
        streams = len(self._streams)
        if method.yields:
            return streams >= MOST_STREAMS
        return len(self._cancelled) - streams >= MOST_CALLS

    def _function(
        self, number: int, method: Method, name: str, cancelled: threading.Event
    ) -> Callable[..., None]:
        """Return what tells the other side with what the function `name` is to be called."""
        told_at = time.monotonic()

        def tell(*values: Any) -> None:
            nonlocal told_at
            if cancelled.is_set() and not method.terms.cleans_up:
                raise Cancelled
            if name == "progress":
                if not values[-1] or time.monotonic() < told_at + PROGRESS_SECONDS:
                    return
                told_at = time.monotonic()
            self._send(Told(number, name, encode(values)))

        return tell

    def _refuse(self, number: int, refusal: Refusal) -> None:
        self._send(Answered(number, refusal=refusal))

    def _send(self, message: FromRemote) -> None:
        """Raises OSError, FrameTooLarge."""
        with self._writing:
            self._writer.write(encode(message))

    def _end(self) -> None:
        for number in list(self._cancelled):
            self._cancel(number)
        deadline = time.monotonic() + LONGEST_END
        for thread in list(self._threads):
            thread.join(max(0.0, deadline - time.monotonic()))
        self._engine.close()


def _unknown_method(name: str) -> Refusal:
    text = f"The Traindeck there ({version()}) cannot do this ({name}): update it on that machine."
    return Refusal(text, "unknown")


_decode = msgspec.msgpack.Decoder(ToRemote).decode
_decode_head = msgspec.msgpack.Decoder(FrameHead).decode
_KINDS = frozenset(each.__struct_config__.tag for each in ToRemote.__args__)
