"""A few bytes of machine code as callbacks for Unicorn, where a Python callback is too slow.

Only x86-64 Linux and macOS (System V calling convention); elsewhere, and where the system
forbids memory that is writable and executable, `OSError` says so and Python callbacks serve.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys

# Block callback (uc, address rsi, size edx, table rcx): the table points to where the 16-byte
# slot (count u64, size u32, conflicts u32) of address 0 would be; slots are 8 bytes an address.
COUNT_BLOCK = bytes.fromhex(
    "488d04f1"  # lea  rax, [rcx + rsi*8]      the block's slot
    "48ff00"  # inc  qword [rax]             count += 1
    "395008"  # cmp  [rax + 8], edx          same size as before?
    "7501"  # jne  other
    "c3"  # ret
    "83780800"  # other: cmp dword [rax + 8], 0
    "7504"  # jne  conflict
    "895008"  # mov  [rax + 8], edx          first time: keep the size
    "c3"  # ret
    "ff400c"  # conflict: inc dword [rax + 12]
    "c3"  # ret
)
# Memory callback (uc, kind, address rdx, size ecx, value, callback r9): passes accesses of a
# word or more at an address that is no multiple of four on to the callback in its user data.
PASS_UNALIGNED = bytes.fromhex(
    "f6c203"  # test dl, 3
    "7501"  # jnz  odd
    "c3"  # ret
    "83f904"  # odd: cmp ecx, 4
    "7301"  # jae  pass
    "c3"  # ret
    "41ffe1"  # pass: jmp r9
)

_pages: list[mmap.mmap] = []  # machine code must outlive every Unicorn engine


def load(code: bytes) -> int:
    """Return the address of executable machine code. Raises OSError where that cannot be."""
    if platform.machine() not in ("x86_64", "AMD64") or sys.platform not in ("linux", "darwin"):
        raise OSError("no machine code for this machine")
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    _pages.append(page)
    return ctypes.addressof(ctypes.c_char.from_buffer(page))
