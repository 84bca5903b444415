"""Cores: what an instruction set can do, and how each compiler is told about it.

A core is code because schedules, microkernels and checks depend on its features; a board
(`board.py`) is data that names a core. Feature words:

    thumb2      the 32-bit Thumb instructions of ARMv7-M, and divide
    unaligned   single loads and stores of words and half-words work at any address
    dsp         the SIMD-in-a-register and saturating instructions of ARMv7E-M
    fpu         single-precision hardware floating point (and passes floats in its registers)
    fpu_double  double-precision too
    v8m         ARMv8-M Mainline: stack limit registers, security states
    mve         Helium, integer and float vectors of 128 bits
    rv32m       RISC-V's multiply and divide
    rv32c       its instructions of 16 bits
    avx2, neon  desktop vectors that the core's compiler flags enable
"""

from __future__ import annotations

import difflib
import platform
from dataclasses import dataclass

from edgec.errors import BoardError


@dataclass(frozen=True)
class Core:
    """One instruction set, with the flags that make each compiler emit it.

    `isa` is the family of its machine code: "thumb", "rv32", "x86_64" or "aarch64". `gcc_flags`
    are for one of the `gcc_programs` (a microcontroller's cross compilers, the best first) or the
    host's gcc; `clang_flags` for the clang inside the `ziglang` package, which has its own
    spelling of targets.
    """

    name: str
    title: str
    isa: str
    features: frozenset[str]
    gcc_flags: tuple[str, ...]
    clang_flags: tuple[str, ...]
    gcc_programs: tuple[str, ...] = ()

    @property
    def is_embedded(self) -> bool:
        """Whether it is a microcontroller's, with programs of its own and no system below."""
        return bool(self.gcc_programs)

    @property
    def multiplies_wide(self) -> bool:
        """Whether a product of 64 bits takes one or two instructions (on microcontrollers)."""
        return has_wide_products(self.features)

    @property
    def is_simulated(self) -> bool:
        """Whether the engine `core` has it: Cortex-M without vectors."""
        return self.isa == "thumb" and not self.has("mve")

    def has(self, feature: str) -> bool:
        """Return whether the core has `feature` (a word of the module's list)."""
        return feature in self.features


def has_wide_products(features: frozenset[str]) -> bool:
    """Whether a microcontroller with these features has products of 64 bits."""
    return not features.isdisjoint({"thumb2", "rv32m"})


_V6M: frozenset[str] = frozenset()
_V7M = frozenset({"thumb2", "unaligned"})
_V7EM = _V7M | {"dsp"}
_V8M = _V7EM | {"v8m"}


#: clang 22 (ziglang 0.17) miscompiles loops that it turns into MVE gathers and scatters: pushing
#: increments out of an inner loop it also changes the outer loop's counter (add 16 where 1 was
#: meant), and the loop never ends. Vectors come from microkernels, not from the compiler.
CLANG_WITHOUT_LOOP_VECTORS = ("-fno-vectorize", "-fno-slp-vectorize")
#: gcc takes vectors of floats for as good as scalars, but those of MVE flush denormals to zero.
GCC_WITHOUT_LOOP_VECTORS = ("-fno-tree-vectorize",)


def _cortex_m(
    name: str,
    features: frozenset[str],
    gcc: str,
    zig: str,
    title: str,
) -> Core:
    """Return a Cortex-M core; `gcc` is the -mcpu (and -mfpu) words, `zig` the -mcpu value."""
    hard = "fpu" in features
    cpu, *fpu = gcc.split()
    return Core(
        name=name,
        title=title,
        isa="thumb",
        features=features,
        gcc_programs=("arm-none-eabi-gcc",),
        gcc_flags=(
            f"-mcpu={cpu}",
            "-mthumb",
            *(f"-mfpu={unit}" for unit in fpu),
            f"-mfloat-abi={'hard' if hard else 'soft'}",
            *(GCC_WITHOUT_LOOP_VECTORS if "mve" in features else ()),
        ),
        clang_flags=(
            "--target=thumb-freestanding-eabi" + ("hf" if hard else ""),
            f"-mcpu={zig}",
            *(CLANG_WITHOUT_LOOP_VECTORS if "mve" in features else ()),
        ),
    )


_TABLE = (
    _cortex_m("cortex-m0", _V6M, "cortex-m0", "cortex_m0", "Arm Cortex-M0 (ARMv6-M)"),
    _cortex_m("cortex-m0plus", _V6M, "cortex-m0plus", "cortex_m0plus", "Arm Cortex-M0+ (ARMv6-M)"),
    _cortex_m("cortex-m3", _V7M, "cortex-m3", "cortex_m3", "Arm Cortex-M3 (ARMv7-M)"),
    _cortex_m(
        "cortex-m4",
        _V7EM | {"fpu"},
        "cortex-m4 fpv4-sp-d16",
        # zig's cortex_m4 has no FPU even with eabihf.
        "cortex_m4+vfp4d16sp",
        "Arm Cortex-M4 with FPU (ARMv7E-M)",
    ),
    _cortex_m(
        "cortex-m4+nofp", _V7EM, "cortex-m4", "cortex_m4", "Arm Cortex-M4 without FPU (ARMv7E-M)"
    ),
    _cortex_m(
        "cortex-m7",
        _V7EM | {"fpu", "fpu_double"},
        "cortex-m7 fpv5-d16",
        "cortex_m7+fp_armv8d16",
        "Arm Cortex-M7 with double-precision FPU (ARMv7E-M)",
    ),
    _cortex_m(
        "cortex-m7+nofp.dp",
        _V7EM | {"fpu"},
        "cortex-m7 fpv5-sp-d16",
        "cortex_m7+fp_armv8d16sp",
        "Arm Cortex-M7 with single-precision FPU (ARMv7E-M)",
    ),
    _cortex_m(
        "cortex-m33",
        _V8M | {"fpu"},
        "cortex-m33 fpv5-sp-d16",
        "cortex_m33+fp_armv8d16sp+dsp",
        "Arm Cortex-M33 with FPU and DSP (ARMv8-M Mainline)",
    ),
    _cortex_m(
        "cortex-m55",
        _V8M | {"fpu", "fpu_double", "mve"},
        # gcc takes MVE and the FPU from the core's name; auto is the default of -mfpu.
        "cortex-m55 auto",
        "cortex_m55+mve+mve_fp+fp_armv8d16",
        "Arm Cortex-M55 with Helium (ARMv8.1-M Mainline)",
    ),
    Core(
        name="rv32imc",
        title="32-bit RISC-V with multiply and compressed instructions (RV32IMC)",
        isa="rv32",
        features=frozenset({"rv32m", "rv32c"}),
        gcc_programs=(
            "riscv64-unknown-elf-gcc",
            "riscv32-unknown-elf-gcc",
            "riscv-none-elf-gcc",
            "riscv32-esp-elf-gcc",
        ),
        gcc_flags=("-march=rv32imc", "-mabi=ilp32"),
        clang_flags=(
            "--target=riscv32-freestanding-none",
            "-mcpu=generic_rv32+m+c",
            "-mabi=ilp32",
        ),
    ),
    Core(
        name="x86_64",
        title="64-bit x86, as old as SSE2",
        isa="x86_64",
        features=frozenset({"unaligned", "fpu", "fpu_double", "sse2"}),
        gcc_flags=("-m64",),
        clang_flags=("-mcpu=baseline",),
    ),
    Core(
        name="aarch64",
        title="64-bit Arm (ARMv8-A)",
        isa="aarch64",
        features=frozenset({"unaligned", "fpu", "fpu_double", "neon"}),
        gcc_flags=(),
        clang_flags=("-mcpu=baseline",),
    ),
)

CORES: dict[str, Core] = {core.name: core for core in _TABLE}
"""Every core by its name."""


def find_core(name: str) -> Core:
    """Return the core called `name`; "host" is the core of this computer.

    Raises BoardError naming the nearest known names.
    """
    if name == "host":
        return host_core()
    core = CORES.get(name)
    if core is not None:
        return core
    near = difflib.get_close_matches(name, CORES, n=3, cutoff=0.5)
    raise BoardError(
        f"there is no core '{name}'" + (f"; near it: {', '.join(near)}" if near else ""),
        details=("known cores: " + ", ".join(CORES),),
    )


def is_this_computer(core: Core) -> bool:
    """Return whether programs for `core` run on the computer that runs the compiler."""
    try:
        return host_core() == core
    except BoardError:
        return False


def host_core() -> Core:
    """Return the core of the computer that runs the compiler.

    Raises BoardError on machines that are neither 64-bit x86 nor 64-bit Arm.
    """
    machine = platform.machine().lower()
    names = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
    if machine not in names:
        raise BoardError(
            f"this computer's processor '{machine}' is not one edgec builds host code for",
            hint="use `--target` with one of: " + ", ".join(CORES),
        )
    return CORES[names[machine]]
