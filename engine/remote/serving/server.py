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
from collections.abc import Callable
from typing import Any, assert_never

import msgspec

from engine.remote import requests
from engine.remote.requests import (
    MAJOR,
    MINOR,
    Acknowledge,
    Answered,
    Call,
    Cancel,
    Hello,
    Packed,
    Progress,
    Push,
    Refusal,
    Tagged,
    ToRemote,
)
from engine.remote.run_rows import encode
from engine.remote.serving.handlers import Handlers, Job, refusal_of
from engine.remote.serving.measuring import MeasureWatch
from engine.remote.serving.sweeps import SweepsWatch
from engine.remote.serving.watches import DevicesWatch, RunsWatch, RunWatch, Watch
from engine.remote.wire import FrameReader, FrameTooLarge, FrameWriter, Garbled, banner
from engine.system.program import answer_to, version

_log = logging.getLogger(__name__)

LONGEST_SILENCE = 60.0
"""Seconds without a message, after which the other side is gone: it asks every few seconds."""

LONGEST_END = 20.0
"""Seconds that what was begun, such as the start of a run, has to end after the connection has."""

MOST_CALLS = 32
"""Calls that are carried out at one time."""

MOST_WATCHES = 64


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
        self._handlers = Handlers()
        self._jobs: dict[int, Job] = {}
        self._threads: set[threading.Thread] = set()
        self._watches: dict[int, Watch] = {}

    def run(self) -> None:
        """Answer until the other side is gone."""
        self._send(Hello(MAJOR, MINOR, version(), platform.node()))
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
            if _decode_tag(body).type in _KINDS:
                raise
            return  # a kind of message that only a newer version has, and that wants no answer
        match message:
            case Hello():  # what does not fit, the side that shows it to a person says
                if message.machine:
                    answer_to(message.program, message.machine)
            case Call():
                self._call(message)
            case Cancel():
                if job := self._jobs.get(message.number):
                    job.cancelled.set()
            case Acknowledge():
                if watch := self._watches.get(message.watch):
                    watch.acknowledge()
            case _:
                assert_never(message)

    def _call(self, call: Call) -> None:
        number = call.number
        try:
            request: requests.AnyRequest = _decode_request(call.request)
        except msgspec.ValidationError as error:
            self._refuse(number, _unknown(call.request, error))
            return
        match request:
            case requests.WatchRuns():
                self._watch(number, lambda: RunsWatch(number, self._push, request.known))
            case requests.WatchDevices():
                self._watch(number, lambda: DevicesWatch(number, self._push))
            case requests.WatchSweeps():
                self._watch(number, lambda: SweepsWatch(number, self._push))
            case requests.Follow():
                self._watch(number, lambda: RunWatch(number, self._push, request))
            case requests.Measure():
                self._watch(number, lambda: MeasureWatch(number, self._push, request))
            case requests.StopMeasuring():
                if isinstance(watch := self._watches.get(request.watch), MeasureWatch):
                    watch.stop()
                self._send(Answered(number, encode(None)))
            case requests.Show():
                if isinstance(watch := self._watches.get(request.watch), RunWatch):
                    watch.show(request)
                self._send(Answered(number, encode(None)))
            case requests.ShowDevice():
                if isinstance(watch := self._watches.get(request.watch), DevicesWatch):
                    watch.show(request)
                self._send(Answered(number, encode(None)))
            case requests.Unwatch():
                if watch := self._watches.pop(request.watch, None):
                    watch.close()
                self._send(Answered(number, encode(None)))
            case _:
                self._begin(number, request)

    def _watch(self, number: int, make: Callable[[], Watch]) -> None:
        if len(self._watches) >= MOST_WATCHES or number in self._watches:
            self._refuse(number, Refusal(f"More than {MOST_WATCHES} things are watched there."))
            return
        try:
            watch = make()
            watch.prepare()
        except OSError as error:
            self._refuse(number, refusal_of(error))
            return
        self._watches[number] = watch
        self._send(Answered(number, encode(None)))
        watch.start()

    def _begin(self, number: int, request: requests.Question) -> None:
        """Carry out a request in a thread of its own: it may wait for a disk or a supervisor."""
        if len(self._jobs) >= MOST_CALLS or number in self._jobs:
            self._refuse(number, Refusal(f"More than {MOST_CALLS} requests wait there already."))
            return
        job = Job(
            lambda done, total: self._send(Progress(number, done, total)),
            lambda part: self._send(Progress(number, 0, 0, encode(part))),
        )

        def work() -> None:
            try:
                answered = Answered(number, encode(self._handlers.carry_out(request, job)))
            except Exception as error:  # whatever it is, the other side waits for an answer
                _log.info("request %s: %r", type(request).__name__, error)
                answered = Answered(number, refusal=refusal_of(error))
            self._jobs.pop(number, None)
            try:
                try:
                    self._send(answered)
                except FrameTooLarge as error:
                    self._refuse(number, Refusal(f"The answer is too large: {error}."))
            except OSError as error:
                _log.info("an answer does not arrive: %s", error)
            finally:
                self._threads.discard(thread)

        self._jobs[number] = job
        thread = threading.Thread(target=work, daemon=True, name=type(request).__name__)
        self._threads.add(thread)
        thread.start()

    def _refuse(self, number: int, refusal: Refusal) -> None:
        self._send(Answered(number, refusal=refusal))

    def _push(self, watch: int, news: Any) -> None:
        self._send(Push(watch, encode(news)))

    def _send(self, message: requests.FromRemote) -> None:
        """Raises OSError, FrameTooLarge."""
        with self._writing:
            self._writer.write(encode(message))

    def _end(self) -> None:
        for job in list(self._jobs.values()):
            job.cancelled.set()
        watches = list(self._watches.values())
        for watch in watches:
            watch.close()
        deadline = time.monotonic() + LONGEST_END
        for thread in list(self._threads):
            thread.join(max(0.0, deadline - time.monotonic()))
        for watch in watches:
            watch.join()
        self._handlers.close()


def _unknown(request: Packed, error: msgspec.ValidationError) -> Refusal:
    """Return why a request cannot be read: this version does not know it, or it is damaged."""
    try:
        kind = _decode_tag(request).type
    except (msgspec.DecodeError, RecursionError):
        return Refusal(f"The request cannot be read there: {error}.")
    text = f"The Traindeck there ({version()}) cannot do this ({kind}): update it on that machine."
    if kind in _REQUESTS:
        text = f"The Traindeck there ({version()}) does not understand this ({kind}): {error}."
    return Refusal(text, "unknown")


_decode = msgspec.msgpack.Decoder(ToRemote).decode
_decode_request: Any = msgspec.msgpack.Decoder(requests.AnyRequest).decode
_decode_tag = msgspec.msgpack.Decoder(Tagged).decode
_KINDS = frozenset(each.__struct_config__.tag for each in ToRemote.__args__)
_REQUESTS = frozenset(each.__struct_config__.tag for each in requests.AnyRequest.__args__)
