"""One connection to a remote Traindeck, while it lasts: its process, calls and answers, news."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import queue
import re
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from engine.interface.encoding import Method, decode_answer, decode_told, encode_arguments, methods
from engine.interface.failures import error_of, named
from engine.interface.value_encoding import encode
from engine.interface.values import NoAnswer, NotConnected, Packed, TooMuch
from engine.processes import children
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
from engine.remote.wire import LARGEST_BODY, FrameReader, FrameWriter, Garbled
from engine.system.cancelled import Cancelled
from engine.system.program import program_words, version

_log = logging.getLogger(__name__)

MOST_ERRORS = 64 * 2**10
"""Bytes of the remote's standard error that are kept, the newest ones."""

END_SECONDS = 3.0
"""Seconds that the process has to end by itself, and again after it was asked to."""

LARGEST_ARGUMENTS = LARGEST_BODY - 2**16
"""Bytes of the arguments of one call."""

CLEAN_UP_SECONDS = 120.0
"""Longest wait for the end of what was cancelled and has to clean up."""

MOST_UNSENT = 1000
"""Messages that wait to be sent. More only come if the link is dead."""

MOST_AT_ONCE, PER_SECOND = 50, 100
"""Messages that the other side sends by itself: how many are taken without a pause, and how many a
second on the average. What is more waits on the link, and the other side with it."""

LARGEST_TOLD = 4 * 2**20
"""Bytes of such a message."""


class Broken(Exception):
    """The connection could not be made, or has ended."""

    def __init__(
        self,
        why: str,
        *,
        is_garbled: bool,
        is_too_much: bool = False,
        exit_code: int | None,
        errors: str,
        noise: str,
        greeted: bool,
    ) -> None:
        """`why`: a clause. `is_garbled`: what came is not the protocol. `is_too_much`: it was
        ended here because of a limit, which `why` names. `exit_code`: of the process; None: it was
        ended here. `errors`: its standard error. `noise`: what it printed before the protocol.
        `greeted`: whether the remote Traindeck has begun to speak."""
        super().__init__(why)
        self.is_garbled = is_garbled
        self.is_too_much = is_too_much
        self.exit_code = exit_code
        self.errors = errors
        self.noise = noise
        self.greeted = greeted


class OtherProtocol(Exception):
    """The remote Traindeck speaks another protocol."""

    def __init__(self, hello: Hello) -> None:
        super().__init__(f"{hello.major}.{hello.minor}")
        self.hello = hello


class Pending(threading.Event):
    """A call that waits for its answer; it is set when that is there."""

    def __init__(
        self,
        on_told: Callable[[str, Packed], None] = lambda name, values: None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_end` is called when the answer is there, or the connection breaks."""
        super().__init__()
        self.on_told = on_told
        self.on_end = on_end
        self.answered: Answered | None = None
        """None: the connection broke before."""

        self.yielded: queue.SimpleQueue[Packed | None] = queue.SimpleQueue()
        """What the call yields, of which one at a time comes; None wakes who waits for it."""

        self.is_owed = True
        """Whether the other side may send the next of what the call yields."""


class Pace:
    """Lets only so many messages pass in a time; for one thread."""

    def __init__(
        self,
        most_at_once: int,
        per_second: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._span = most_at_once / per_second
        self._each = 1 / per_second
        self._clock, self._sleep = clock, sleep
        self._free_at = 0.0
        """When the last of those that have passed would have done so at an even pace."""

    def wait(self, count: int = 1) -> None:
        """Wait until the next one may pass, which counts as so many."""
        now = self._clock()
        self._free_at = max(self._free_at, now) + self._each * count
        if (early := self._free_at - self._span - now) > 0:
            self._sleep(early)


def _excess(error: Exception) -> str:
    """Return by what `error` tells that a message is larger than it may be; empty: it does not."""
    if isinstance(error, TooMuch):
        return str(error)
    if found := re.search(r"of length <= (\d+)(?: - at `\$\.?(\w*))?", str(error)):
        what = f" ({found[2]})" if found[2] else ""
        return f"it sends a list of more than {int(found[1]):,}{what}"
    return ""


class RemoteStream(Iterator[Any]):
    """What a method there yields, one by one as it is asked for; None while nothing is new.

    For one thread, but `wake`. Raises what the method raises, NotConnected, and NoAnswer for what
    cannot be read, after which the next may be asked for.
    """

    def __init__(self, session: Session, method: Method, number: int, pending: Pending) -> None:
        self._session, self._method = session, method
        self._number, self._pending = number, pending
        self._is_over = self._has_taken = False

    def __next__(self) -> Any:
        if self._is_over:
            raise StopIteration
        if self._has_taken:
            self._has_taken = False
            self._pending.is_owed = True
            self._session.ask_next(self._number)
        try:
            value = self._pending.yielded.get(timeout=IDLE_SECONDS)
        except queue.Empty:
            return None
        if value is not None:
            self._has_taken = True
            return self._session.decode_answer(self._method, value)
        if not self._pending.is_set():
            return None  # it was woken
        self._is_over = True
        self._session.result_of(self._pending, self._method, {})
        raise StopIteration

    def wake(self) -> None:
        """Let who waits for the next one get None at once."""
        self._pending.yielded.put(None)

    def give_up(self, why: str) -> None:
        """End the connection, because more comes than is taken; `why`: a clause with the limit."""
        self._session.give_up(why)

    def close(self) -> None:
        """Let the method there end."""
        if not self._is_over:
            self._is_over = True
            self._session.cancel(self._number)


class Session:
    """A process that speaks the protocol. May be used from any thread."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        machine: str = "",
        environment: Mapping[str, str] | None = None,
        own_session: bool = True,
    ) -> None:
        """Start `command`, in which NONCE stands for the word that the remote is to repeat.

        `machine`: what the other machine is called here.
        With `own_session`, the process has no terminal to ask on.
        Raises OSError.
        """
        self._nonce = secrets.token_hex(8)
        self._machine = machine
        self._process = children.start(
            [word.replace("NONCE", self._nonce) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=environment,
            start_new_session=own_session and os.name == "posix",
        )
        self.pid = self._process.pid
        self.heard_at = time.monotonic()
        """When the last message came."""

        self.offered: frozenset[str] = frozenset()
        """The methods of the engine there, once it has spoken."""

        self._numbers = itertools.count(1)
        self._pending: dict[int, Pending] = {}
        self._lock = threading.Lock()
        self._is_over = False
        self._killed_because = ""
        self._is_too_much = False
        self._pace = Pace(MOST_AT_ONCE, PER_SECOND)
        self._errors = bytearray()
        self._unsent: queue.Queue[ToRemote | None] = queue.Queue(MOST_UNSENT)
        self._reader = FrameReader(self._file(self._process.stdout))
        self._writer = FrameWriter(self._file(self._process.stdin))
        self._error_thread = self._thread(self._read_errors, "errors")
        self._write_thread = self._thread(self._write, "write")

    @property
    def traffic(self) -> tuple[int, int]:
        """The bytes that were sent and received."""
        return self._writer.sent, self._reader.received

    @property
    def said_before(self) -> str:
        """The end of what came before the remote Traindeck spoke, if it has not yet."""
        errors, printed = bytes(self._errors[-1000:]), self._reader.unread(1000)
        return (errors + b"\n" + printed).decode(errors="replace")

    def run(self, on_ready: Callable[[Hello], None]) -> None:
        """Read until the connection ends, which raises Broken or OtherProtocol.

        `on_ready` is called when the remote Traindeck has spoken.
        """
        noise, is_garbled, greeted = b"", False, False
        why = "it was closed"
        try:
            noise = self._reader.skip_to_banner(self._nonce)
            greeted = True
            self._put(
                Hello(
                    MAJOR,
                    MINOR,
                    version(),
                    program=" ".join(program_words()),
                    machine=self._machine,
                )
            )
            hello = self._decode(self._reader.read())
            if not isinstance(hello, Hello):
                raise Garbled("it does not say who it is")
            self.offered = frozenset(hello.methods) & methods().keys()
            if hello.major != MAJOR:
                raise OtherProtocol(hello)
            self.heard_at = time.monotonic()  # to log in, a person may have taken minutes
            on_ready(hello)
            while True:
                body = self._reader.read()
                self.heard_at = time.monotonic()
                self._take(body)
        except EOFError as error:
            if error.args and isinstance(error.args[0], bytes):
                noise = error.args[0]
        except (Garbled, msgspec.DecodeError, RecursionError) as error:
            is_garbled = True
            self.kill(str(error))
        except TooMuch as error:
            self.give_up(str(error))
        except OSError as error:
            why = str(error)
        finally:
            self._close()
        text = noise.decode(errors="replace")
        errors = bytes(self._errors).decode(errors="replace")
        raise Broken(
            self._killed_because or why,
            is_garbled=is_garbled,
            is_too_much=self._is_too_much,
            exit_code=None if self._killed_because else self._process.returncode,
            errors=errors,
            noise=text,
            greeted=greeted,
        )

    def post(
        self, method: str, on_answer: Callable[[], None] = lambda: None, **arguments: Any
    ) -> None:
        """Call a method, and wait for nothing. Raises NotConnected.

        `on_answer` is called in the thread that reads.
        """
        pending = Pending(on_end=lambda: None if pending.answered is None else on_answer())
        self._put(Call(self._expect(pending), method, self._encoded(arguments)))

    def call(self, method: Method, arguments: Mapping[str, Any]) -> Any:
        """Call a method of the engine there, and return what it returns, or a RemoteStream.

        Functions among the `arguments` are called in the thread that reads; what they raise ends
        the call, and is raised here. Raises what the engine of this machine raises for the same,
        NoAnswer, and NotConnected.
        """
        if method.name not in self.offered:
            text = f"The Traindeck there cannot do this ({method.name}): update it on that machine."
            raise NoAnswer(named(self._machine, text))
        values = {name: each for name, each in arguments.items() if name in method.values}
        cancelled = arguments.get(method.event) or threading.Event()
        raised: list[Exception] = []

        def tell(name: str, packed: Packed) -> None:
            if name not in method.functions or raised:
                return
            try:
                told = decode_told(method, name, packed)
            except (msgspec.DecodeError, ValueError, RecursionError) as error:
                text = f"What is told of this cannot be read: {error}."
                raised.append(NoAnswer(named(self._machine, text)))
                return
            try:
                arguments[name](*told)
            except Exception as error:  # it is raised in the thread that has called
                raised.append(error)

        packed = self._encoded(values)
        pending = Pending(tell)
        if method.yields:
            pending.on_end = lambda: pending.yielded.put(None)
        number = self._expect(pending)
        self._put(Call(number, method.name, packed))
        if method.yields:
            return RemoteStream(self, method, number, pending)
        try:
            self._wait(number, pending, method, lambda: bool(raised) or cancelled.is_set())
        except Cancelled:
            if raised:
                raise raised[0] from None
            raise
        if raised:  # as here, where the call would not have gone on
            raise raised[0]
        return self.result_of(pending, method, arguments)

    def result_of(self, pending: Pending, method: Method, arguments: Mapping[str, Any]) -> Any:
        """Return what a call that has ended returns. Raises as `call` does."""
        answered = pending.answered
        if answered is None:
            text = "The connection broke before the answer came"
            unknown = (
                ": whether it was done there is not known. Look before you do it again"
                if method.terms.acts
                else ""
            )
            raise NotConnected(named(self._machine, f"{text}{unknown}."))
        if answered.refusal is not None:
            raise error_of(answered.refusal, self._machine, arguments)
        return None if method.yields else self.decode_answer(method, answered.answer)

    def decode_answer(self, method: Method, packed: Packed) -> Any:
        """Return an answer, or what is yielded. Raises NoAnswer; what is larger than it may be ends
        the connection, too."""
        try:
            return decode_answer(method, packed, self._machine)
        except (TooMuch, msgspec.ValidationError) as error:
            text = _excess(error)
            if text:
                self.give_up(text)
            raise NoAnswer(named(self._machine, f"{text or error}.")) from error
        except (msgspec.DecodeError, ValueError, RecursionError, OverflowError) as error:
            text = f"The answer cannot be read: {error}."
            raise NoAnswer(named(self._machine, text)) from error

    def _encoded(self, values: Mapping[str, Any]) -> Packed:
        """Return arguments for a message. Raises NoAnswer if they cannot be sent."""
        try:
            packed = encode_arguments(values)
        except (UnicodeError, OverflowError, RecursionError) as error:
            text = f"This cannot be sent: {error}."
            raise NoAnswer(named(self._machine, text)) from error
        if len(packed) > LARGEST_ARGUMENTS:
            text = f"This is too large to be sent: {len(packed):,} bytes."
            raise NoAnswer(named(self._machine, text))
        return packed

    def _expect(self, pending: Pending) -> int:
        """Let `pending` get the answer to the number that is returned. Raises NotConnected."""
        number = next(self._numbers)
        with self._lock:
            if self._is_over:
                text = "There is no connection to this machine now."
                raise NotConnected(named(self._machine, text))
            self._pending[number] = pending
        return number

    def _wait(
        self, number: int, pending: Pending, method: Method, is_cancelled: Callable[[], bool]
    ) -> None:
        """Wait for an answer, or the end of the connection. Raises Cancelled, NoAnswer."""
        seconds, was_told = method.terms.seconds, False
        deadline = time.monotonic() + seconds
        while not pending.wait(min(_SLICE, max(0.0, deadline - time.monotonic()))):
            has_to_end = time.monotonic() > deadline
            if not has_to_end and (was_told or not is_cancelled()):
                continue
            self._put(Cancel(number))
            if method.terms.cleans_up and not has_to_end:
                was_told = True
                deadline = min(deadline, time.monotonic() + CLEAN_UP_SECONDS)
                continue
            self._pending.pop(number, None)
            if was_told:
                text = (
                    "It has not said that what was cancelled is over: something may be left there."
                )
                raise NoAnswer(named(self._machine, text))
            if has_to_end:
                text = f"It has not answered within {seconds:g} s."
                raise NoAnswer(named(self._machine, text))
            raise Cancelled("It was cancelled.")

    def ask_next(self, number: int) -> None:
        """Let the next of what a call yields come."""
        self._put(Next(number))

    def cancel(self, number: int) -> None:
        """Let a call end, whose answer is not wanted any more."""
        if self._pending.pop(number, None) is not None:
            self._put(Cancel(number))

    def stop(self) -> None:
        """Ask the remote Traindeck to end; `run` returns from its wait then, or after `kill`."""
        self._put(None)

    def terminate(self, why: str) -> None:
        """Let the process end, because of `why`: a clause."""
        self._killed_because = self._killed_because or why
        self._process.terminate()

    def give_up(self, why: str) -> None:
        """End the process, because more comes than is taken; `why`: a clause with the limit."""
        self._is_too_much = True
        self.kill(why)

    def kill(self, why: str) -> None:
        """End the process at once, because of `why`: a clause."""
        self._killed_because = self._killed_because or why
        self._process.kill()

    def _close(self) -> None:
        """End the process, and let every call fail."""
        with self._lock:
            self._is_over = True
            waiting = list(self._pending.values())
            self._pending.clear()
        for pending in waiting:
            pending.set()
            pending.on_end()
        self._put(None)
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill("its process did not end")
            self._process.wait()
        for thread in (self._write_thread, self._error_thread):
            thread.join(END_SECONDS)  # a grandchild may hold the other end of a pipe
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr]  # they are pipes

    def _take(self, body: bytes) -> None:
        message = self._decode(body)
        match message:
            case Answered() if pending := self._pending.pop(message.number, None):
                pending.answered = message
                pending.set()
                pending.on_end()
            case Yielded() if pending := self._pending.get(message.number):
                if not pending.is_owed:
                    raise Garbled("it sends answers to no request")
                pending.is_owed = False
                pending.yielded.put(message.value)
            case Told() if len(body) > LARGEST_TOLD:
                raise TooMuch(f"it tells more than {LARGEST_TOLD >> 20} MiB at once")
            case _:  # it was not asked for, as what is told, or not any more
                self._pace.wait(1 + len(body) // _WEIGHT)
                if isinstance(message, Told) and (pending := self._pending.get(message.number)):
                    pending.on_told(message.name, message.values)

    def _decode(self, body: bytes) -> FromRemote | None:
        """Return a message; None for one that only a newer version knows."""
        try:
            message: FromRemote = _decode(body)
        except msgspec.ValidationError:
            if _decode_head(body).type in _KINDS:
                raise
            return None
        return message

    def _put(self, message: ToRemote | None) -> None:
        """Let the thread that writes send `message`; None: close the input of the process."""
        try:
            self._unsent.put_nowait(message)
        except queue.Full:
            self.kill("it reads nothing")

    def _write(self) -> None:
        try:
            while (message := self._unsent.get()) is not None:
                self._writer.write(encode(message))
        except OSError as error:
            _log.info("nothing can be sent to process %d any more: %s", self.pid, error)
        finally:
            with contextlib.suppress(OSError):  # the end of its input tells the remote to end
                self._process.stdin.close()  # type: ignore[union-attr]

    def _read_errors(self) -> None:
        descriptor = self._file(self._process.stderr)
        with contextlib.suppress(OSError):
            while new := os.read(descriptor, 4096):
                self._errors += new
                del self._errors[:-MOST_ERRORS]

    @staticmethod
    def _file(stream: Any) -> int:
        return int(stream.fileno())

    def _thread(self, work: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=work, daemon=True, name=f"{name} {self.pid}")
        thread.start()
        return thread


IDLE_SECONDS = 0.5
"""Longest wait of a RemoteStream for something new, before it yields None."""

_WEIGHT = 2**18
"""Bytes of a message that count as one more."""

_SLICE = 0.1
"""Seconds after which a waiting call looks whether it was cancelled."""


_decode: Any = msgspec.msgpack.Decoder(FromRemote).decode
_decode_head = msgspec.msgpack.Decoder(FrameHead).decode
_KINDS = frozenset(each.__struct_config__.tag for each in FromRemote.__args__)
