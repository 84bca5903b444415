"""Compilers: find one for a core, and call it.

For a microcontroller: `gcc` is a cross compiler such as arm-none-eabi-gcc (the core's table names
them), `clang` is the clang inside the `ziglang` package. For the host: `gcc` is gcc, `clang` is
clang if installed, else ziglang's again; and `cc` is the system's compiler. For another computer's
Linux: the cross compiler by its usual name, or ziglang's. Facts about zig that this file knows
(measured with ziglang 0.17): ENTRY of a linker script is ignored, so the entry is an option;
`-nostdlib` would drop compiler-rt, which the M0 needs for 64-bit arithmetic, and there is no libc
on a freestanding target to drop; UBSan is on by default.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from edgec.errors import ToolMissing
from edgec.targets.core import Core, is_this_computer

Family = Literal["gcc", "clang"]

WARNING_FLAGS = (
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wconversion",
    "-Wshadow",
    "-Wundef",
    "-Wmissing-prototypes",
    "-Werror",
)
"""The warnings that everything edgec ships must pass."""

#: Lets compilers make one instruction of a product and a sum.
FREE_SUMS = ("-ffp-contract=fast",)
LANGUAGE_FLAGS = ("-std=c99", "-ffp-contract=off", "-fno-math-errno")
"""C99, and floating point that gives the same bits everywhere."""

EMBEDDED_FLAGS = (
    "-ffreestanding",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-common",
    "-fno-unwind-tables",
    "-fno-asynchronous-unwind-tables",
    "-fomit-frame-pointer",
)
"""Flags of firmware: no libc, and sections that the linker can drop one by one."""

#: gcc 12.2 for Arm can miss a store at -O2 and -O3: it may write the store's address as an offset
#: from a constant's. Then it takes the function for pure and drops calls of it. These two passes
#: conclude that; each flag stands with the first version of gcc that knows it. What they find of
#: functions that are pure, EC_PURE of `ec_kernel.h` says. Files of FIRMWARE_FOLDERS have no structs
#: of constants, and other cores have no clones of steps (EC_STEP of `templates/runtime.h.j2`), for
#: which it was seen at -O2. EC_STORES_ARE_KEPT leaves out the pragma of that template, which does
#: the same in the builds of users.
_STORES_ARE_KEPT = ((4, "-fno-ipa-pure-const"), (11, "-fno-ipa-modref"))
FIRMWARE_FOLDERS = ("link", "port")
ARM = ("thumb", "arm")


@dataclass(frozen=True)
class Toolchain:
    """A compiler for one core.

    `name` is the user's word for it ("gcc", "clang"); `command` starts the compiler; `version` is
    the first line of its version output; `is_zig`: it is the clang inside ziglang; `file_cores` has
    the names of files for other cores than `core`.
    """

    name: str
    family: Family
    core: Core
    command: tuple[str, ...]
    version: str
    is_zig: bool
    file_cores: tuple[tuple[str, Core], ...] = ()

    @property
    def core_flags(self) -> tuple[str, ...]:
        """The flags that select the core."""
        return self._flags_of(self.core)

    def _stores_are_kept(self, source: Path, flags: Sequence[str]) -> list[str]:
        has_clones = self.core.isa in ARM and source.parent.name not in FIRMWARE_FOLDERS
        found = re.search(r" (\d+)\.\d+\.\d+", self.version)
        if found is None or "clang" in self.version:  # macOS calls its clang gcc, too
            return []
        is_seen = has_clones or "-O3" in flags
        flags = [flag for since, flag in _STORES_ARE_KEPT if is_seen and int(found[1]) >= since]
        return ["-DEC_STORES_ARE_KEPT", *flags]

    def _flags_of(self, core: Core) -> tuple[str, ...]:
        return core.clang_flags if self.is_zig else core.gcc_flags

    def compile_command(
        self,
        source: Path,
        output: Path,
        *,
        flags: Sequence[str],
        include_dirs: Sequence[Path] = (),
        defines: Sequence[str] = (),
    ) -> list[str]:
        """Return the arguments that compile one C file to one object file."""
        core = dict(self.file_cores).get(source.name, self.core)
        command = [*self.command, *self._flags_of(core), *LANGUAGE_FLAGS]
        if self.core.is_embedded:
            command += EMBEDDED_FLAGS
            command.append("-fstack-size-section" if self.family == "clang" else "-fstack-usage")
        if self.is_zig and not any(flag.startswith("-fsanitize") for flag in flags):
            command.append("-fno-sanitize=all")
        if self.is_zig and not any(flag.startswith("-g") for flag in flags):
            command.append("-g0")  # its default names the folder that it runs in
        command += [*flags, *self._stores_are_kept(source, flags)]
        command += [f"-D{define}" for define in defines]
        command += [f"-I{folder}" for folder in include_dirs]
        return [*command, "-c", str(source), "-o", str(output)]

    def link_command(
        self, objects: Sequence[Path], script: Path, output: Path, *, flags: Sequence[str] = ()
    ) -> list[str]:
        """Return the arguments that link objects to firmware by a linker script."""
        command = [*self.command, *self.core_flags, *flags]
        command += [str(item) for item in objects]
        command += ["-T", str(script), "-Wl,--gc-sections", "-Wl,-e,Reset_Handler"]
        if not self.is_zig:
            command += ["-nostdlib", "-nostartfiles", "-Wl,--fatal-warnings", "-lgcc"]
        return [*command, "-o", str(output)]

    def run(self, command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
        """Run a compiler command in `folder` and return its status and output as text.

        Its temporary files are there too: who removes the folder removes them.
        """
        places = dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(folder))
        return subprocess.run(
            command, cwd=folder, env={**os.environ, **places}, capture_output=True, text=True,
            errors="replace", check=False,
        )  # fmt: skip


@cache
def _first_line(command: tuple[str, ...]) -> str:
    """Return the first line of `command --version`, or "" if it does not run."""
    try:
        done = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.splitlines()[0].strip() if done.returncode == 0 and done.stdout else ""


def zig_program() -> Path | None:
    """Return the zig program of the `ziglang` package, or None; imports nothing."""
    found = importlib.util.find_spec("ziglang")
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent
    for name in ("zig", "zig.exe"):
        if (folder / name).is_file():
            return folder / name
    return None


def _candidates(core: Core) -> list[tuple[str, Family, tuple[str, ...], bool]]:
    """Return (name, family, command, is_zig) of the compilers that support `core`, best first."""
    found: list[tuple[str, Family, tuple[str, ...], bool]] = []
    is_foreign = not core.is_embedded and not is_this_computer(core)
    if core.is_embedded:
        programs: tuple[tuple[str, Family], ...] = tuple((p, "gcc") for p in core.gcc_programs)
    elif is_foreign:
        programs = ((f"{core.isa}-linux-gnu-gcc", "gcc"),)
    else:
        programs = (("gcc", "gcc"), ("clang", "clang"))
    for program, family in programs:
        path = shutil.which(program)
        if path is not None:
            found.append((family, family, (path,), False))
    zig = _zig_for(core)
    if zig is not None:
        target = (f"--target={core.isa}-linux-gnu",) if is_foreign else ()
        found.append(("clang", "clang", (str(zig), "cc", *target), True))
    # Only clang makes the vectors of RISC-V.
    return sorted(found, key=lambda each: (each[1] == "gcc") * core.has("rv32v"))


def _has_zig(core: Core) -> bool:
    """Whether zig's clang makes code for it: of all isas here it has no Xtensa."""
    return core.isa != "xtensa"


def _zig_for(core: Core) -> Path | None:
    return zig_program() if _has_zig(core) else None


def available_toolchains(core: Core) -> tuple[Toolchain, ...]:
    """Return every compiler on this computer that can build for `core`, best first."""
    return tuple(
        Toolchain(name, family, core, command, _first_line(command), is_zig)
        for name, family, command, is_zig in _candidates(core)
    )


def find_toolchain(core: Core, prefer: str | None = None) -> Toolchain:
    """Return the compiler to build for `core` with.

    `prefer` is "gcc", "clang" or "zig" (the clang of the ziglang package, even where another
    clang is installed); None takes the first that is installed. Raises ToolMissing saying what
    to install.
    """
    if prefer not in (None, "gcc", "clang", "zig"):
        raise ToolMissing(
            f"there is no toolchain '{prefer}'", hint="choose one of: gcc, clang, zig"
        )
    for name, family, command, is_zig in _candidates(core):
        if prefer in (None, name) or (prefer == "zig" and is_zig):
            return Toolchain(name, family, core, command, _first_line(command), is_zig)
    raise _missing(core, prefer)


def _missing(core: Core, prefer: str | None) -> ToolMissing:
    gcc = core.gcc_programs[0] if core.is_embedded else "gcc"
    if not core.is_embedded and not is_this_computer(core):
        gcc = f"{core.isa}-linux-gnu-gcc"
    message = (
        f"no C compiler for {core.name} is installed"
        if prefer is None
        else f"the toolchain '{prefer}' for {core.name} is not installed"
    )
    if not _has_zig(core):
        return ToolMissing(
            message,
            details=(f"looked for {gcc} on PATH; no clang knows this core",),
            hint=f"install {gcc} (Debian: apt install gcc-{gcc.removesuffix('-elf-gcc')})",
        )
    return ToolMissing(
        message,
        details=(f"looked for {gcc} on PATH, and for the Python package ziglang",),
        hint=f"install {gcc} with the system's package manager, "
        "or clang with `pip install 'edgec[toolchain]'`",
    )
