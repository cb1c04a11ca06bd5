"""What a process holds, its peak, and a limit that lets allocations fail."""

import subprocess
import sys

import pytest

from engine.processes import own_memory
from engine.processes.process_tree import ON_LINUX

MIB = 2**20

pytestmark = pytest.mark.skipif(not ON_LINUX, reason="only Linux tells it")


def test_the_peak_outlives_what_was_released() -> None:
    own_memory.forget_peak()
    before = own_memory.peak_bytes()
    block = b"x" * (64 * MIB)
    assert own_memory.held_bytes() >= 64 * MIB
    del block
    assert own_memory.peak_bytes() >= before + 60 * MIB


def test_what_is_shared_is_a_part_of_what_is_held() -> None:
    assert 0 <= own_memory.shared_bytes() <= own_memory.held_bytes() + MIB


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(("size", "fails"), [(100, False), (2000, True)])
def test_more_than_the_limit_cannot_be_allocated(size: int, fails: bool) -> None:
    program = (
        "from engine.processes import own_memory\n"
        f"assert own_memory.limit_growth(200 * {MIB})\n"
        f"block = bytearray({size} * {MIB})\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (b"MemoryError" in done.stderr) is fails
