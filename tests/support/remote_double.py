"""A program that behaves as the remote side of a connection should not, or as a newer one does.

python remote_double.py HOW NONCE
"""

from __future__ import annotations

import os
import sys
import time

from engine.interface.encoding import methods
from engine.interface.value_encoding import encode
from engine.remote.frames import MAJOR, MINOR, Answered, Call, Hello, ToRemote, Yielded
from engine.remote.wire import FrameReader, FrameWriter, banner


def main(how: str, nonce: str) -> None:
    """Behave as `how` says."""
    match how:
        case "noise":
            while True:
                os.write(1, b"y\n" * 1000)
        case "chatty":
            os.write(1, b"Welcome to this machine!\n" * 100)
            _speak(nonce, MAJOR, MINOR)
        case "newer":
            _speak(nonce, MAJOR, MINOR + 7)
        case "other":
            _speak(nonce, MAJOR + 1, 0)
        case "mute":
            time.sleep(3600)
        case "garbled":
            os.write(1, banner(nonce) + os.urandom(1000))
            time.sleep(3600)
        case "cut":
            os.write(1, banner(nonce) + b"\0\0\0\x09\0\0\0\x10abc")
        case "full":
            sys.exit("OSError: [Errno 28] No space left on device: '/home/me'")
        case "deaf":
            _speak(nonce, MAJOR, MINOR, halts_after=0)
        case "halts":
            _speak(nonce, MAJOR, MINOR, halts_after=2)
        case _:
            raise AssertionError(how)


def _speak(nonce: str, major: int, minor: int, halts_after: int = -1) -> None:
    import msgspec

    os.write(1, banner(nonce))
    writer, reader = FrameWriter(1), FrameReader(0)
    writer.write(encode(Hello(major, minor, "9.9.9", "double", list(methods())) if major else None))
    if halts_after:  # who is deaf says nothing more: a late word would be a sign of life
        writer.write(msgspec.msgpack.encode({"type": "of a newer version", "what": 1}))
    while halts_after:
        try:
            message = msgspec.msgpack.decode(reader.read(), type=ToRemote)
        except EOFError:
            return
        if isinstance(message, Call):
            halts_after -= 1
            writer.write(encode(Yielded(message.number, b"\xc1nonsense")))
            writer.write(encode(Answered(message.number, encode(None))))
    time.sleep(3600)


if __name__ == "__main__":
    main(*sys.argv[1:])
