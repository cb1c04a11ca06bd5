"""Frames: what is written is read, and nothing of a frame is believed."""

from __future__ import annotations

import contextlib
import os
import struct
import threading
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.remote.wire import (
    LARGEST_BODY,
    LARGEST_NOISE,
    FrameReader,
    FrameTooLarge,
    FrameWriter,
    Garbled,
    banner,
)
from tests.support.generated_values import sixty_examples


class Pipe:
    """Two ends of one pipe, with a reader and a writer of frames."""

    def __init__(self) -> None:
        self.out, self.into = os.pipe()
        self._filling: threading.Thread | None = None
        self.reader, self.writer = FrameReader(self.out), FrameWriter(self.into)

    def fill(self, *contents: bytes) -> None:
        """Write raw bytes from a thread, which a pipe may keep waiting, and close the end."""

        def write() -> None:
            for content in contents:
                left = memoryview(content)
                with contextlib.suppress(BrokenPipeError):  # nobody reads any more
                    while left:
                        left = left[os.write(self.into, left) :]
            self.end()

        self._filling = threading.Thread(target=write, daemon=True)
        self._filling.start()

    def end(self) -> None:
        """Close the end that writes."""
        os.close(self.into)
        self.into = -1

    def close(self) -> None:
        """Close both ends."""
        os.close(self.out)
        if self._filling is not None:
            self._filling.join()
        if self.into >= 0:
            os.close(self.into)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


def test_frames_arrive_as_they_were_sent(pipe: Pipe) -> None:
    bodies = [b"", b"one", bytes(range(256)) * 10, b"one"]
    for body in bodies:
        pipe.writer.write(body)
    assert [pipe.reader.read() for _ in bodies] == bodies
    assert pipe.reader.received == pipe.writer.sent


def test_what_was_sent_before_costs_next_to_nothing(pipe: Pipe) -> None:
    body = os.urandom(2000)
    pipe.writer.write(body)
    first = pipe.writer.sent
    pipe.writer.write(body)
    assert pipe.writer.sent - first < 60


def test_what_a_login_prints_before_the_banner_is_left_out(pipe: Pipe) -> None:
    os.write(pipe.into, b"Welcome!\nTRAINDECK other\n" + banner("abc"))
    pipe.writer.write(b"first")
    assert pipe.reader.skip_to_banner("abc") == b"Welcome!\nTRAINDECK other\n"
    assert pipe.reader.read() == b"first"


def test_endless_noise_is_given_up(pipe: Pipe) -> None:
    pipe.fill(b"y\n" * LARGEST_NOISE)
    with pytest.raises(Garbled, match="more than 1 MiB"):
        pipe.reader.skip_to_banner("abc")


def test_an_end_before_the_banner_tells_what_was_printed(pipe: Pipe) -> None:
    pipe.fill(b"account expired\n")
    with pytest.raises(EOFError) as caught:
        pipe.reader.skip_to_banner("abc")
    assert caught.value.args == (b"account expired\n",)


@pytest.mark.parametrize("kept", [3, 8, 12])
def test_a_cut_in_the_middle_of_a_frame_is_an_end(pipe: Pipe, kept: int) -> None:
    packed = zlib.compress(os.urandom(100))
    pipe.fill((struct.pack(">II", len(packed), 100) + packed)[:kept])
    with pytest.raises(EOFError):
        pipe.reader.read()


@pytest.mark.parametrize(
    ("packed_size", "size"), [(10, LARGEST_BODY + 1), (2**31, 5), (2**32 - 1, 2**32 - 1)]
)
def test_a_huge_frame_is_refused_before_it_is_read(pipe: Pipe, packed_size: int, size: int) -> None:
    os.write(pipe.into, struct.pack(">II", packed_size, size))
    with pytest.raises(Garbled):
        pipe.reader.read()


def test_a_body_that_inflates_to_more_than_it_says_is_refused(pipe: Pipe) -> None:
    packed = zlib.compress(bytes(10 * 2**20))
    pipe.fill(struct.pack(">II", len(packed), 1000 + len(packed)) + packed)
    with pytest.raises(Garbled, match="wrong length"):
        pipe.reader.read()


def test_a_message_that_is_too_large_is_not_sent(pipe: Pipe) -> None:
    with pytest.raises(FrameTooLarge):
        pipe.writer.write(bytes(LARGEST_BODY + 1))
    assert pipe.writer.sent == 0


def test_silence_ends_the_wait() -> None:
    out, into = os.pipe()
    try:
        with pytest.raises(TimeoutError):
            FrameReader(out, silence=0.01).read()
    finally:
        os.close(out)
        os.close(into)


def read_all(pipe: Pipe) -> None:
    while True:
        pipe.reader.read()


@sixty_examples
@given(st.binary(max_size=200))
def test_nonsense_is_no_frame_and_no_other_error(nonsense: bytes) -> None:
    pipe = Pipe()
    try:
        os.write(pipe.into, nonsense)
        pipe.end()
        with pytest.raises((EOFError, Garbled)):
            read_all(pipe)
    finally:
        pipe.close()
