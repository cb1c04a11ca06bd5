"""What a script prints, with the step after which it did."""

from __future__ import annotations

import io
import sys

import pytest
from traindeck_watch.printed import Printed


class WatchDouble:
    def __init__(self):
        self.step, self.sends, self.is_silent, self.trains = 3, True, False, True
        self.present_step = 40
        self.frames = []
        self.recorder = self

    def put(self, frame):
        self.frames.append(frame)

    def lines(self, printed):
        self.frames.clear()
        printed.send()
        return [line for frame in self.frames for line in frame["lines"]]


@pytest.fixture
def watch():
    return WatchDouble()


@pytest.fixture
def streams(monkeypatch):
    """Makes the streams when the test runs: pytest has its own before."""

    def make(*, write_through=True):
        for name in ("stdout", "stderr"):
            stream = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=write_through)
            monkeypatch.setattr(sys, name, stream)
        return sys.stdout, sys.stderr

    return make


def test_lines_have_the_step_of_their_last_piece(watch, streams):
    printed, (out, err) = Printed(watch), streams()
    printed.follow()
    print("no figure of that kind: 5")
    print("val loss:", 0.5, "acc:", 0.75)
    watch.step = 4
    err.writelines(["epoch 1 "])
    assert watch.lines(printed) == [("val loss: 0.5 acc: 0.75", 3)]
    watch.step = 5
    print("test: 1\rval 2", end="")
    watch.step = 6
    print()
    print("val of no number")
    print("val " * 600 + "1")
    assert watch.lines(printed) == [("epoch 1 test: 1", 5), ("val 2", 5)]
    assert out.buffer.getvalue().startswith(b"no figure of that kind: 5\nval loss: 0.5 acc: 0.75\n")
    assert err.buffer.getvalue() == b"epoch 1 "


def test_streams_with_buffers_have_lines_of_their_own(watch, streams):
    streams(write_through=False)
    printed = Printed(watch)
    printed.follow()
    print("val 1", end="")
    sys.stderr.write("warning\n")
    print(" 2")
    assert watch.lines(printed) == [("val 1 2", 3)]


def test_the_script_sees_its_own_streams(watch, streams):
    out, _ = streams()
    kind, buffer, count = type(out), out.buffer, len("val 1\n")
    Printed(watch).follow()
    assert (sys.stdout is out, type(out), out.buffer) == (True, kind, buffer)
    assert out.write("val 1\n") == count
    assert out.write.__name__ == "write"
    with pytest.raises(TypeError, match="must be str"):
        out.write(b"val 1\n")


def test_what_is_not_sent_is_not_kept(watch, streams, monkeypatch):
    streams()
    printed = Printed(watch)
    printed.follow()
    watch.sends = False
    print("val 1")
    watch.sends, watch.is_silent = True, True
    print("val 2")
    assert watch.lines(printed) == []
    watch.is_silent = False
    print("val 3\nval 4", end="")
    printed.forget_after_fork()
    print("val 5")
    assert watch.lines(printed) == [("val 5", 3)]
    monkeypatch.setattr(sys, "stdout", None)
    printed.follow()
