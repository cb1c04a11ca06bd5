"""One connection to a remote Traindeck, while it lasts: its process, calls and answers, news."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import queue
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, assert_never

import msgspec

from engine import client
from engine.processes import children
from engine.remote import requests
from engine.remote.requests import (
    MAJOR,
    MINOR,
    Acknowledge,
    Answered,
    Call,
    Cancel,
    FromRemote,
    Hello,
    Packed,
    Progress,
    Push,
    Refusal,
    Request,
    Tagged,
)
from engine.remote.run_rows import encode
from engine.remote.wire import FrameReader, FrameWriter, Garbled
from engine.system.program import program_words, version

_log = logging.getLogger(__name__)

MOST_ERRORS = 64 * 2**10
"""Bytes of the remote's standard error that are kept, the newest ones."""

END_SECONDS = 3.0
"""Seconds that the process has to end by itself, and again after it was asked to."""

MOST_UNSENT = 1000
"""Messages that wait to be sent. More only come if the link is dead."""

A = TypeVar("A")


class RemoteError(Exception):
    """The other machine refused or could not do what was asked; the text is a sentence."""


class RefusedThere(RemoteError):
    """The other machine did not carry it out; the text is a sentence."""


class NotConnected(RemoteError):
    """There is no connection, or it broke before the answer; the text is a sentence."""


class CallCancelled(RemoteError):
    """The caller did not want the answer any more."""


class RemoteCheckpointUnusable(client.CheckpointUnusable):
    """`CheckpointUnusable` of another machine: `previous` has the name of a folder there."""

    def __init__(self, refusal: Refusal) -> None:
        client.CannotStart.__init__(self, refusal.problems)
        self.damaged = refusal.damaged
        self.previous = Path(refusal.previous) if refusal.previous else None


class Broken(Exception):
    """The connection could not be made, or has ended."""

    def __init__(
        self,
        why: str,
        *,
        is_garbled: bool,
        exit_code: int | None,
        errors: str,
        noise: str,
        greeted: bool,
    ) -> None:
        """`why`: a clause. `is_garbled`: what came is not the protocol. `exit_code`: of the
        process; None: it was ended here. `errors`: its standard error. `noise`: what it printed
        before the protocol. `greeted`: whether the remote Traindeck has begun to speak."""
        super().__init__(why)
        self.is_garbled = is_garbled
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
        request: Request[Any],
        progress: Callable[[int, int], None] | None,
        on_part: Callable[[Packed], None] | None,
        on_answer: Callable[[Answered], None] | None,
    ) -> None:
        super().__init__()
        self.request = request
        self.progress = progress
        self.on_part = on_part
        self.on_answer = on_answer
        self.answered: Answered | None = None
        """None: the connection broke before."""


class Session:
    """A process that speaks the protocol. May be used from any thread."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        machine: str = "",
        environment: Mapping[str, str] | None = None,
        on_push: Callable[[int, Packed], None] = lambda watch, news: None,
        own_session: bool = True,
    ) -> None:
        """Start `command`, in which NONCE stands for the word that the remote is to repeat.

        `machine`: what the other machine is called here.
        `on_push` gets the number of a watch and its news, in the thread that reads; the next ones
        come when it has returned. With `own_session`, the process has no terminal to ask on.
        Raises OSError.
        """
        self._nonce = secrets.token_hex(8)
        self._machine = machine
        self._on_push = on_push
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

        self._numbers = itertools.count(1)
        self._pending: dict[int, Pending] = {}
        self._lock = threading.Lock()
        self._is_over = False
        self._killed_because = ""
        self._errors = bytearray()
        self._unsent: queue.Queue[requests.ToRemote | None] = queue.Queue(MOST_UNSENT)
        self._reader = FrameReader(self._file(self._process.stdout))
        self._writer = FrameWriter(self._file(self._process.stdin))
        self._error_thread = self._thread(self._read_errors, "errors")
        self._write_thread = self._thread(self._write, "write")

    @property
    def traffic(self) -> tuple[int, int]:
        """The bytes that were sent and received."""
        return self._writer.sent, self._reader.received

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
        except OSError as error:
            why = str(error)
        finally:
            self._close()
        text = noise.decode(errors="replace")
        errors = bytes(self._errors).decode(errors="replace")
        raise Broken(
            self._killed_because or why,
            is_garbled=is_garbled,
            exit_code=None if self._killed_because else self._process.returncode,
            errors=errors,
            noise=text,
            greeted=greeted,
        )

    def post(
        self,
        request: Request[Any],
        progress: Callable[[int, int], None] | None = None,
        on_answer: Callable[[Answered], None] | None = None,
        on_part: Callable[[Packed], None] | None = None,
    ) -> tuple[int, Pending]:
        """Send a request, and wait for nothing; return its number. Raises NotConnected.

        `on_answer` and `on_part` are called in the thread that reads.
        """
        pending = Pending(request, progress, on_part, on_answer)
        number = next(self._numbers)
        with self._lock:
            if self._is_over:
                raise NotConnected("There is no connection to this machine now.")
            self._pending[number] = pending
        self._put(Call(number, encode(request)))
        return number, pending

    def _wait(
        self,
        number: int,
        pending: Pending,
        timeout: float,
        cancelled: threading.Event | None = None,
    ) -> Any:
        """Wait for an answer, and return it. Raises as `call` does."""
        deadline = time.monotonic() + timeout
        while not pending.wait(min(_SLICE, max(0.0, deadline - time.monotonic()))):
            has_to_end = time.monotonic() > deadline
            if has_to_end or (cancelled is not None and cancelled.is_set()):
                self._put(Cancel(number))
                if pending.request.cleans_up and not has_to_end:
                    cancelled = None  # it was told
                    continue
                self._pending.pop(number, None)
                if has_to_end:
                    text = f"This machine has not answered within {timeout:g} s."
                    raise RemoteError(text)
                raise CallCancelled("It was cancelled.")
        answered = pending.answered
        if answered is None:
            text = "The connection broke before the answer came"
            unknown = (
                ": whether it was done there is not known. Look before you do it again"
                if pending.request.acts
                else ""
            )
            raise NotConnected(f"{text}{unknown}.")
        if answered.refusal is not None:
            raise _error(pending.request, answered.refusal)
        return _decode_answer(pending.request, answered.answer)

    def call(
        self,
        request: Request[A],
        timeout: float = 20.0,
        *,
        progress: Callable[[int, int], None] | None = None,
        on_part: Callable[[Packed], None] | None = None,
        cancelled: threading.Event | None = None,
    ) -> A:
        """Send `request`, wait for the answer and return it.

        `progress` gets what is done and the total, and `on_part` the parts of a request that has
        some, in the thread that reads. Raises what `engine.client` raises for the same, and
        RemoteError: NotConnected, CallCancelled.
        """
        posted = self.post(request, progress, on_part=on_part)
        answer: A = self._wait(*posted, timeout, cancelled)
        return answer

    def begin(self, request: Request[A]) -> Callable[[float], A]:
        """Send `request`, and return a function that waits for the answer so many seconds.

        Raises NotConnected; the function raises as `call` does.
        """
        number, pending = self.post(request)

        def end(timeout: float) -> A:
            answer: A = self._wait(number, pending, timeout)
            return answer

        return end

    def acknowledge(self, watch: int) -> None:
        """Let the next news of a watch come."""
        self._put(Acknowledge(watch))

    def stop(self) -> None:
        """Ask the remote Traindeck to end; `run` returns from its wait then, or after `kill`."""
        self._put(None)

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
            case None | Hello():
                return
            case Answered():
                if pending := self._pending.pop(message.number, None):
                    pending.answered = message
                    pending.set()
                    if pending.on_answer is not None:
                        pending.on_answer(message)
            case Progress():
                pending = self._pending.get(message.number)
                if pending is None:
                    return
                if message.part and pending.on_part is not None:
                    pending.on_part(message.part)
                elif pending.progress is not None:
                    pending.progress(message.done, message.total)
            case Push():
                self._on_push(message.watch, message.news)
            case _:
                assert_never(message)

    def _decode(self, body: bytes) -> FromRemote | None:
        """Return a message; None for one that only a newer version knows."""
        try:
            message: FromRemote = _decode(body)
        except msgspec.ValidationError:
            if _decode_tag(body).type in _KINDS:
                raise
            return None
        return message

    def _put(self, message: requests.ToRemote | None) -> None:
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


_SLICE = 0.1
"""Seconds after which a waiting call looks whether it was cancelled."""


def _error(request: Request[Any], refusal: Refusal) -> Exception:
    """Return the exception that `engine.client` would have raised here."""
    match refusal.kind:
        case "recipe_changed":
            return client.RecipeChanged(str(getattr(request, "run", "")), refusal.changes)
        case "checkpoint_unusable":
            return RemoteCheckpointUnusable(refusal)
        case "cannot_start":
            return client.CannotStart(refusal.problems)
        case "no_such_run":
            return client.NoSuchRun(refusal.text)
        case "command_failed":
            return client.CommandFailed(refusal.text)
        case "cancelled":
            return CallCancelled(refusal.text)
        case _:
            return RefusedThere(refusal.text)


def _decode_answer(request: Request[Any], answer: Packed) -> Any:
    try:
        return msgspec.msgpack.decode(answer, type=request.answer)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RemoteError(f"The answer of this machine cannot be read: {error}.") from error


_decode: Any = msgspec.msgpack.Decoder(FromRemote).decode
_decode_tag = msgspec.msgpack.Decoder(Tagged).decode
_KINDS = frozenset(each.__struct_config__.tag for each in FromRemote.__args__)
