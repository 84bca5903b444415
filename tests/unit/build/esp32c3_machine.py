"""An ESP32-C3 as far as the port uses it, in Unicorn; a process of its own (Unicorn is GPL).

    python esp32c3_machine.py FLASH PORT     connects its UART0 to that TCP port of this computer

FLASH is what esptool would write from address 0. The boot ROM's part is done here: the magic
words are compared, flash is mapped for instructions and for data, and the core starts after
the magic. What the chip would not do ends the process with a message: a load over the
instruction bus, an access that is not aligned, a store to flash, an unknown register, a watchdog
that nobody stopped.
"""

from __future__ import annotations

import select
import socket
import sys
from pathlib import Path
from typing import Any

import unicorn
from unicorn import riscv_const as riscv

MAGIC = bytes.fromhex("1d04dbae") * 2
FLASH_BYTES = 4 << 20
DATA_BUS, INSTRUCTION_BUS, SRAM, SRAM_BYTES = 0x3C00_0000, 0x4200_0000, 0x3FC8_0000, 384 << 10
PAGE = 0x1000
UART, RTC, GROUP_0, SYSTIMER = 0x6000_0000, 0x6000_8000, 0x6001_F000, 0x6002_3000
SYSTEM, INTERRUPTS = 0x600C_0000, 0x600C_2000
WATCHDOGS = (RTC + 0x90, GROUP_0 + 0x48)
STEPS = 20_000  # instructions between two looks at the UART
MIE, MPIE = 1 << 3, 1 << 7


class Wrong(Exception):
    """The program did what the chip would not do."""


class Machine:
    def __init__(self, flash: bytes, line: socket.socket) -> None:
        if flash[:8] != MAGIC:
            raise Wrong("the boot ROM finds no magic words")
        self.line = line
        self.received = bytearray()
        self.registers: dict[int, int] = {
            RTC + 0x90: 0xF000_0000, GROUP_0 + 0x48: 0x8000_0000,  # running watchdogs
            RTC + 0xAC: 0, SYSTIMER: 0, RTC: 0, INTERRUPTS + 0x108: 0xFFFF_FFFF,
            UART + 0x80: 1 << 30,
        }  # fmt: skip
        self.time = 0
        self.problem = ""
        self.is_reset = False
        self.uc = uc = unicorn.Uc(unicorn.UC_ARCH_RISCV, unicorn.UC_MODE_RISCV32)
        contents = flash.ljust(FLASH_BYTES, b"\xff")
        uc.mem_map(INSTRUCTION_BUS, FLASH_BYTES, unicorn.UC_PROT_READ | unicorn.UC_PROT_EXEC)
        uc.mem_map(DATA_BUS, FLASH_BYTES, unicorn.UC_PROT_READ)
        for base in (INSTRUCTION_BUS, DATA_BUS):
            uc.mem_write(base, contents)
        uc.mem_map(SRAM, SRAM_BYTES, unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE)
        uc.mem_write(SRAM, b"\xcc" * SRAM_BYTES)
        for base in (UART, RTC, GROUP_0, SYSTIMER, SYSTEM, INTERRUPTS):
            uc.mmio_map(base, PAGE, self.read, base, self.write, base)
        hooks = unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE
        uc.hook_add(hooks, self.check, begin=0, end=0x5FFF_FFFF)

    def check(self, uc: Any, access: int, address: int, size: int, value: int, _: Any) -> None:
        if address % size:
            self.stop(f"access of {size} bytes at 0x{address:08x}, which is not aligned")
        if INSTRUCTION_BUS <= address < INSTRUCTION_BUS + FLASH_BYTES:
            self.stop(f"data at 0x{address:08x} over the instruction bus")

    def stop(self, problem: str) -> None:
        self.problem = self.problem or problem
        self.uc.emu_stop()

    def read(self, uc: Any, offset: int, size: int, base: int) -> int:
        address = base + offset
        if address == UART:
            return self.received.pop(0) if self.received else 0
        if address == UART + 0x04:
            return 0
        if address == UART + 0x1C:
            return len(self.received)
        if address == SYSTIMER + 0x04:
            return 1 << 29
        if address in (SYSTIMER + 0x40, SYSTIMER + 0x44):
            return self.time >> 32 if address == SYSTIMER + 0x40 else self.time & 0xFFFF_FFFF
        if address not in self.registers:
            self.stop(f"read of register 0x{address:08x}, which nobody wrote")
        return self.registers.get(address, 0)

    def write(self, uc: Any, offset: int, size: int, value: int, base: int) -> None:
        address = base + offset
        if size != 4:
            self.stop(f"register 0x{address:08x} written by {size} bytes")
        if address == UART:
            self.line.sendall(bytes([value & 0xFF]))
        elif address == SYSTIMER + 0x04:
            self.time += 160  # ten microseconds for every look at the clock
        elif address == RTC and value >> 31:
            self.is_reset = True
            uc.emu_stop()
        else:
            self.registers[address] = value & ~(1 << 31) if address == UART + 0x80 else value

    def is_due(self) -> bool:
        """Whether the UART asks for an interrupt that is wanted, masked or not."""
        line = self.registers.get(INTERRUPTS + 0x54, 0)
        is_enabled = self.registers.get(INTERRUPTS + 0x104, 0) >> line & 1
        priority = self.registers.get(INTERRUPTS + 0x114 + 4 * line, 0)
        threshold = self.registers.get(INTERRUPTS + 0x194, 0)
        asks = bool(self.received) and self.registers.get(UART + 0x0C, 0) & 0x101
        return bool(asks and line and is_enabled and priority >= threshold)

    def interrupt(self, pc: int) -> int:
        """Take an interrupt that is due unless it is masked; return where the core goes on."""
        line = self.registers[INTERRUPTS + 0x54]
        status = self.uc.reg_read(riscv.UC_RISCV_REG_MSTATUS)
        if not status & MIE:
            return pc
        self.uc.reg_write(riscv.UC_RISCV_REG_MEPC, pc)
        self.uc.reg_write(riscv.UC_RISCV_REG_MCAUSE, 0x8000_0000 | line)
        self.uc.reg_write(riscv.UC_RISCV_REG_MSTATUS, status & ~MIE | MPIE | 3 << 11)
        table = self.uc.reg_read(riscv.UC_RISCV_REG_MTVEC)
        if table & 0xFF != 1:
            raise Wrong(f"mtvec is 0x{table:08x}, not an aligned table in vectored mode")
        return table - 1 + 4 * line

    def run(self) -> None:
        pc = INSTRUCTION_BUS + len(MAGIC)
        while not self.is_reset:
            try:
                # Masked, an interrupt waits for the very next instruction that lets it in.
                self.uc.emu_start(pc, 0, count=1 if self.is_due() else STEPS)
            except unicorn.UcError as error:
                at = self.uc.reg_read(riscv.UC_RISCV_REG_PC)
                raise Wrong(f"{error} at 0x{at:08x}; {self.problem}") from error
            if self.problem:
                raise Wrong(self.problem)
            pc = self.uc.reg_read(riscv.UC_RISCV_REG_PC)
            if select.select([self.line], [], [], 0)[0]:
                data = self.line.recv(100)  # less than the FIFO holds
                if not data:
                    break
                self.received += data
            if self.is_due():
                pc = self.interrupt(pc)
        running = [f"0x{address:08x}" for address in WATCHDOGS if self.registers[address]]
        if running:
            raise Wrong(f"nobody stopped the watchdog at {', '.join(running)}")


def main() -> None:
    with socket.create_connection(("127.0.0.1", int(sys.argv[2]))) as line:
        try:
            while True:
                machine = Machine(Path(sys.argv[1]).read_bytes(), line)
                machine.run()
                if not machine.is_reset:
                    return
        except (Wrong, OSError) as error:
            sys.exit(str(error))


main()
