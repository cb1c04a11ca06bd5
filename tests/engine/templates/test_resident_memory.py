"""The memory of libraries that is given back."""

from __future__ import annotations

import ctypes
import sys

import pytest

from engine.templates import resident_memory
from engine.templates.resident_memory import own_memory, release_memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="of Linux")

SMAPS = """\
1000-2000 r-xp 00000000 fe:00 1 /lib/code.so
Anonymous:             0 kB
Swap:                  0 kB
2000-3000 r--p 00000000 fe:00 1 /lib/tables that were written.so
Anonymous:             4 kB
Swap:                  0 kB
3000-4000 r--p 00000000 fe:00 1 /lib/tables that were swapped out.so
Anonymous:             0 kB
Swap:                  8 kB
4000-5000 rw-p 00000000 fe:00 1 /lib/data.so
Anonymous:             0 kB
Swap:                  0 kB
5000-6000 r--p 00000000 00:00 0
Anonymous:             0 kB
6000-7000 r--s 00000000 fe:00 1 /shared
Anonymous:             0 kB
7000-8000 r--p 00000000 fe:00 1 /lib/a name.so
Anonymous:             0 kB
Swap:                  0 kB
"""


def test_only_pages_that_equal_their_file_are_given_back() -> None:
    assert resident_memory._unwritten_mappings(SMAPS) == [(0x1000, 0x2000), (0x7000, 0x8000)]


def test_a_process_works_on_after_it_gave_its_pages_back() -> None:
    release_memory()
    assert ctypes.CDLL(None).getpid() > 0
    assert own_memory() > 2**20
