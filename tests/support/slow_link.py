"""A network with delay, rate and loss, to a namespace of its own: real TCP over two TUN devices.

    python -m tests.support.slow_link --delay 0.04 --rate 10e6 --loss 0

carries packets between this network and a new one until its input ends; it needs root. `SlowLink`
starts it. Unlike `tc netem`, it asks for no module of the kernel.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import os
import random
import select
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

from engine.processes.process import PROJECT

_TUNSETIFF = 0x400454CA
_TUN_WITHOUT_HEADER = 0x1001
_CLONE_NEWNET = 0x40000000
_MOST_WAITING = 200
"""Packets in the queue of one direction; more are dropped, as a router does."""


class SlowLink:
    """A namespace that is reached over a slow link. Use it with `with`."""

    def __init__(self, *, delay: float, rate: float, loss: float = 0.0) -> None:
        """`delay`: seconds in each direction; `rate`: bits per second; `loss`: a part of 1."""
        self._options = [f"--delay={delay}", f"--rate={rate}", f"--loss={loss}"]
        self.namespace = f"traindeck-{os.getpid()}"
        number = os.getpid() % 250 + 1
        self.near, self.far = f"10.201.{number}.1", f"10.201.{number}.2"
        self.device = f"td{os.getpid()}"

    @property
    def prefix(self) -> tuple[str, ...]:
        """The words before a command that is to run at the far end."""
        return ("ip", "netns", "exec", self.namespace)

    def __enter__(self) -> SlowLink:
        subprocess.run(["ip", "netns", "add", self.namespace], check=True)
        names = [self.namespace, self.device, self.near, self.far]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.slow_link", *self._options, *names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=PROJECT,
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"ready\n":
            self.__exit__()
            raise OSError("the link could not be made")
        return self

    def __exit__(self, *_: object) -> None:
        self.mend()
        self._process.communicate()
        subprocess.run(["ip", "netns", "delete", self.namespace], check=True)

    def cut(self) -> None:
        """Carry nothing any more, as if a cable was pulled, until `mend`."""
        self._process.send_signal(signal.SIGSTOP)

    def mend(self) -> None:
        """Carry packets again."""
        self._process.send_signal(signal.SIGCONT)

    def received(self) -> int:
        """Return the bytes that came from the far end, with all headers."""
        return int(Path(f"/sys/class/net/{self.device}/statistics/rx_bytes").read_text())


def missing() -> str:
    """Return why no link can be made here, in a sentence; empty: it can."""
    if sys.platform != "linux" or os.geteuid() or not shutil.which("ip"):
        return "a network of its own needs Linux, root and `ip` (Debian: iproute2)"
    try:
        os.close(_tun("tdprobe"))
    except OSError as error:
        return f"no TUN device can be made here: {error}"
    probe = f"traindeck-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, check=False)
    if made.returncode:
        return f"no network namespace can be made here: {made.stderr.decode().strip()}"
    subprocess.run(["ip", "netns", "delete", probe], check=True)
    return ""


def _tun(name: str) -> int:
    descriptor = os.open("/dev/net/tun", os.O_RDWR)
    try:
        request = struct.pack("16sH", name.encode(), _TUN_WITHOUT_HEADER)
        fcntl.ioctl(descriptor, _TUNSETIFF, request)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


class _Direction:
    """One direction of the link."""

    def __init__(self, source: int, target: int, delay: float, rate: float, loss: float) -> None:
        self.source = source
        self._target = target
        self._delay, self._rate, self._loss = delay, rate, loss
        self._free_at = 0.0
        self._waiting: deque[tuple[float, bytes]] = deque()

    def take(self, now: float) -> None:
        """Take one packet from its source."""
        packet = os.read(self.source, 65_536)
        if random.random() < self._loss or len(self._waiting) >= _MOST_WAITING:
            return
        self._free_at = max(now, self._free_at) + 8 * len(packet) / self._rate
        self._waiting.append((self._free_at + self._delay, packet))

    def deliver(self, now: float) -> float:
        """Deliver what is due; return when the next packet is."""
        while self._waiting and self._waiting[0][0] <= now:
            os.write(self._target, self._waiting.popleft()[1])
        return self._waiting[0][0] if self._waiting else now + 3600.0


def _main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--delay", "--rate", "--loss"):
        parser.add_argument(name, type=float, required=True)
    for name in ("namespace", "device", "near", "far"):
        parser.add_argument(name)
    options = parser.parse_args()
    near = _open(options.device, options.near, options.far)
    with open(f"/run/netns/{options.namespace}", "rb") as namespace:  # noqa: PTH123
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    far = _open(options.device, options.far, options.near)
    print("ready", flush=True)
    line = options.delay, options.rate, options.loss
    directions = _Direction(near, far, *line), _Direction(far, near, *line)
    while True:
        now = time.monotonic()
        due = min(each.deliver(now) for each in directions)
        ready, _, _ = select.select([near, far, 0], [], [], max(0.0, due - time.monotonic()))
        if 0 in ready and not os.read(0, 100):
            return
        for each in directions:
            if each.source in ready:
                each.take(time.monotonic())


def _open(device: str, own: str, other: str) -> int:
    descriptor = _tun(device)
    for words in (
        ["address", "add", own, "peer", other, "dev", device],
        ["link", "set", device, "up"],
    ):
        subprocess.run(["ip", *words], check=True)
    return descriptor


if __name__ == "__main__":
    _main()
