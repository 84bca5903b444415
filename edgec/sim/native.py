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
# Instruction callback (uc rdi, address rsi, size, record rcx): passes instructions whose base
# register holds no multiple of four on to another callback. The record has 64-bit fields:
# uc_reg_read, the other callback, a table with one byte a halfword of code (Unicorn's number of
# the base register, 0 for any other instruction), address and bytes of that code, the value read.
PASS_UNALIGNED = bytes.fromhex(
    "4889f0"  # mov   rax, rsi
    "482b4118"  # sub   rax, [rcx + 24]     offset in the code
    "483b4120 732f"  # cmp   rax, [rcx + 32];  jae done
    "48d1e8"  # shr   rax, 1
    "48034110"  # add   rax, [rcx + 16]
    "0fb600"  # movzx eax, byte [rax]
    "85c0 7421"  # test  eax, eax;  je done
    "57 56 52 51"  # push  rdi, rsi, rdx, rcx
    "4883ec08"  # sub   rsp, 8              aligned to 16, as calls want it
    "89c6"  # mov   esi, eax
    "488d5128"  # lea   rdx, [rcx + 40]
    "ff11"  # call  [rcx]               uc_reg_read(uc, register, &record.value)
    "4883c408"  # add   rsp, 8
    "59 5a 5e 5f"  # pop   rcx, rdx, rsi, rdi
    "f6412803 7403"  # test  byte [rcx + 40], 3;  je done
    "ff6108"  # jmp   [rcx + 8]
    "c3"  # done: ret
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
