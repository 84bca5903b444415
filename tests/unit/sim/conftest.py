"""Small bare-metal programs for the simulator's tests, by gcc or by the clang of ziglang."""

import hashlib
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgec.targets.core import find_core

GCC, RISCV_GCC = "arm-none-eabi-gcc", "riscv64-unknown-elf-gcc"
_GCC_FLAGS = {
    "cortex-m0": [],
    "cortex-m3": [],
    "cortex-m4": ["-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"],
    "cortex-m7": ["-mfloat-abi=hard", "-mfpu=fpv5-d16"],
    "cortex-m33": ["-mfloat-abi=hard", "-mfpu=fpv5-sp-d16"],
}
# ziglang's CPU names; the FPU is a feature of its own there.
_CLANG_CPU = {
    "cortex-m0": ("eabi", "cortex_m0"),
    "cortex-m3": ("eabi", "cortex_m3"),
    "cortex-m4": ("eabihf", "cortex_m4+vfp4d16sp"),
    "cortex-m7": ("eabihf", "cortex_m7+fp_armv8d16"),
    "cortex-m33": ("eabihf", "cortex_m33+fp_armv8d16sp"),
}
# Data is loaded after the code and lives in RAM, as on a board.
LINKER_SCRIPT = """
ENTRY(Reset_Handler)
SECTIONS
{
  . = CODE;
  .text : { KEEP(*(.vectors)) KEEP(*firmware.o(.text* .rodata* .srodata*)) *(.text*) *(.rodata*)
            . = ALIGN(4); }
  load_address = .;
  .data DATA : AT(load_address) { data_start = .; KEEP(*firmware.o(.data* .sdata*)) *(.data*)
          . = ALIGN(4); data_end = .; }
  .bss : { __bss_start__ = .; KEEP(*firmware.o(.bss* .sbss*)) *(.bss*) *(COMMON)
         . = ALIGN(4); __bss_end__ = .; }
  __stack_limit = DATA + 0x2000;
  __stack_top = DATA + 0x4000;
  /DISCARD/ : { *(.comment) *(.ARM.attributes) *(.ARM.exidx*) *(.ARM.extab*) }
}
"""
PRELUDE = """
#include <stdint.h>
#ifdef __arm__
__asm__(".syntax unified");
#endif
#define NOINLINE __attribute__((noinline, used))
__attribute__((used)) void Reset_Handler(void);
"""


def _command(core: str, compiler: str) -> tuple[list[str], list[str]]:
    """The compiler with its options for a core, and the libraries."""
    if compiler == "gcc" and core in _GCC_FLAGS:
        return [GCC, f"-mcpu={core}", "-mthumb", *_GCC_FLAGS[core], "-nostdlib"], ["-lgcc"]
    if compiler == "gcc":
        return [RISCV_GCC, *find_core(core).gcc_flags, "-nostdlib"], ["-lgcc"]
    clang = [sys.executable, "-m", "ziglang", "cc"]
    if core not in _CLANG_CPU:
        return [*clang, *find_core(core).clang_flags], []
    abi, cpu = _CLANG_CPU[core]
    return [*clang, f"--target=thumb-freestanding-{abi}", f"-mcpu={cpu}"], []


class Firmware:
    """Builds programs once a session; `build(source, core)` returns the ELF's path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def compilers(self, core: str = "cortex-m4") -> list[str]:
        found = ["gcc"] if shutil.which(RISCV_GCC if core == "rv32imc" else GCC) else []
        return found + (["clang"] if importlib.util.find_spec("ziglang") else [])

    def build(
        self,
        source: str,
        core: str = "cortex-m4",
        *,
        compiler: str | None = None,
        optimize: str = "-O2",
        flags: tuple[str, ...] = (),
        link_flags: tuple[str, ...] = (),
        start: bool = True,
        origins: tuple[int, int] = (0, 0x2000_0000),
    ) -> Path:
        available = self.compilers(core)
        compiler = compiler or (available[0] if available else "none")
        if compiler not in available:
            pytest.skip(f"no compiler: {compiler}")
        text = PRELUDE + source
        if start:
            text += "\nvoid Reset_Handler(void) { for (;;) { } }\n"
        script = LINKER_SCRIPT.replace("CODE", hex(origins[0])).replace("DATA", hex(origins[1]))
        key = repr((text, core, compiler, optimize, flags, link_flags, script))
        folder = self.folder / hashlib.sha256(key.encode()).hexdigest()[:16]
        elf = folder / "firmware.elf"
        if elf.exists():
            return elf
        folder.mkdir(parents=True)
        (folder / "firmware.c").write_text(text)
        (folder / "firmware.ld").write_text(script)
        command, libraries = _command(core, compiler)
        objects = folder / "firmware.o"
        self._run(
            [
                *command,
                optimize,
                "-g0",
                "-ffreestanding",
                "-fno-builtin",
                *flags,
                "-c",
                str(folder / "firmware.c"),
                "-o",
                str(objects),
            ]
        )
        self._run(
            [
                *command,
                "-Wl,-e,Reset_Handler",
                "-Wl,--gc-sections",
                *link_flags,
                "-T",
                str(folder / "firmware.ld"),
                str(objects),
                "-o",
                str(elf),
                *libraries,
            ]
        )
        return elf

    @staticmethod
    def _run(command: list[str]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def firmware(tmp_path_factory: pytest.TempPathFactory) -> Firmware:
    return Firmware(tmp_path_factory.mktemp("firmware"))
