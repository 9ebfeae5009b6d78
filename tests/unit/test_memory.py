"""Freed memory goes back to the system, whatever was freed before."""

from __future__ import annotations

import subprocess
import sys

import pytest

LARGE, BLOCKS, BLOCK = 24_000_000, 20, 1_000_000
PROGRAM = f"""
import ctypes, gc, sys
from wikid_daemon.memory import keep_little

class Use(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]

mallinfo = ctypes.CDLL(None).mallinfo2
mallinfo.restype = Use
if sys.argv[1] == "little":
    keep_little()
bytearray({LARGE})  # let go of at once
before = mallinfo().hblks
held = [bytearray({BLOCK}) for _ in range({BLOCKS})]
print(mallinfo().hblks - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's own")
@pytest.mark.parametrize(("kept", "of_their_own"), [("little", BLOCKS), ("all", 0)])
def test_a_large_block_is_the_systems_again_though_a_larger_one_was_freed(kept: str, of_their_own: int) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, kept], capture_output=True, text=True, check=False)
    if "mallinfo2" in done.stderr:
        pytest.skip("the C library is not glibc, or an old one")
    assert int(done.stdout) == of_their_own, done.stderr
