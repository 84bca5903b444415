"""Cores: their features, and the options of each compiler for them.

A core is code because schedules, microkernels and checks depend on its features; a board
(`board.py`) is data that names a core. Feature words:

    thumb2      the 32-bit Thumb instructions of ARMv7-M, and divide
    unaligned   single loads and stores of words and half-words work at any address
    dsp         the SIMD-in-a-register and saturating instructions of ARMv7E-M
    fpu         single-precision hardware floating point (and passes floats in its registers)
    fpu_double  double-precision too
    v7ar        ARMv7-A or -R: a system control coprocessor, exceptions that jump into code
    v8m         ARMv8-M Mainline: stack limit registers, security states
    mve         Helium, integer and float vectors of 128 bits
    rv32m       RISC-V's multiply and divide
    rv32c       its instructions of 16 bits
    rv32v       its vectors of integers, of 128 bits or more
    avx2        AVX2 and FMA
    avx512      AVX-512 F, BW, CD, DQ and VL
    vnni        its products of four int8 (VPDPBUSD)
    neon        vectors of aarch64; dotprod and i8mm: its products of four and of eight int8
    cuda        an NVIDIA GPU beside the processor, which runs the model
"""

from __future__ import annotations

import difflib
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from edgec.errors import BoardError

#: Least alignment of weight arrays: loads of words by LDM and LDRD need it.
WORD_BYTES = 4


@dataclass(frozen=True)
class Core:
    """One instruction set, with the flags that make each compiler emit it.

    `isa` is the family of its machine code: "thumb", "rv32", "xtensa", "x86_64" or "aarch64".
    `gcc_flags` are for one of the `gcc_programs` (a microcontroller's cross compilers, the best
    first) or the host's gcc; `clang_flags` for the clang inside the `ziglang` package, which has
    its own spelling of targets.
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
    def has_pairs(self) -> bool:
        """Whether products of two int16 at once are the most that it does.

        Fast schedules may then need much more scratch or code than others as good.
        """
        return self.has("dsp") and not self.has("mve")

    @property
    def weight_alignment(self) -> int:
        """The alignment of weight arrays in bytes: vectors that cross a cache line take twice the
        time to load; cores without such vectors need only words.
        """
        vectors = {"avx512": 64, "avx2": 32, "neon": 16}
        return next((size for name, size in vectors.items() if self.has(name)), WORD_BYTES)

    @property
    def has_gpu(self) -> bool:
        """Whether an NVIDIA GPU runs the model; `isa` is the instruction set of the processor that
        calls it.
        """
        return self.has("cuda")

    @property
    def gpu_architecture(self) -> str:
        """The name of the GPU for CUDA's compilers: "sm_87"; empty without a GPU."""
        return self.name.removeprefix("cuda-") if self.has_gpu else ""

    @property
    def is_simulated(self) -> bool:
        """Whether the engine `core` has it: Cortex and RV32 without vectors."""
        return self.isa in ("thumb", "rv32") and not (self.has("mve") or self.has("rv32v"))

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
#: gcc treats float vectors like scalars, but MVE's flush denormals to zero.
GCC_WITHOUT_LOOP_VECTORS = ("-fno-tree-vectorize",)


def _cortex(name: str, features: frozenset[str], gcc: str, zig: str, title: str) -> Core:
    """Return a 32-bit Cortex core; `gcc` and `zig` are their -mcpu (and -mfpu) words."""
    hard = "fpu" in features
    (cpu, *fpu), (zig_cpu, *zig_fpu) = gcc.split(), zig.split()
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
            f"-mcpu={zig_cpu}",
            *(f"-mfpu={unit}" for unit in zig_fpu),
            *(CLANG_WITHOUT_LOOP_VECTORS if "mve" in features else ()),
        ),
    )


def _rv32(name: str, features: frozenset[str], zig: str, more: str) -> Core:
    """Return a 32-bit RISC-V core, which has no FPU."""
    return Core(
        name=name,
        title=f"32-bit RISC-V with multiply and compressed instructions {more}",
        isa="rv32",
        features=features,
        gcc_programs=(
            "riscv64-unknown-elf-gcc",
            "riscv32-unknown-elf-gcc",
            "riscv-none-elf-gcc",
            "riscv32-esp-elf-gcc",
        ),
        gcc_flags=("-march=rv32imc", "-mabi=ilp32"),
        # Without `relax` the linker leaves a call as two instructions.
        clang_flags=("--target=riscv32-freestanding-none", f"-mcpu=generic_rv32+{zig}+relax",
                     "-mabi=ilp32"),
    )  # fmt: skip


_X86_BASE = frozenset({"unaligned", "fpu", "fpu_double", "sse2"})
_AVX2 = _X86_BASE | {"sse4", "avx2"}
_AVX512 = _AVX2 | {"avx512"}
#: Name, further features, flags after -march= and -mcpu=, features.
_X86_LEVELS = (
    ("x86-64-v2", "SSE4", "x86-64-v2", "x86_64_v2", _X86_BASE | {"sse4"}),
    ("x86-64-v3", "AVX2", "x86-64-v3", "x86_64_v3", _AVX2),
    ("x86-64-v4", "AVX-512", "x86-64-v4", "x86_64_v4", _AVX512),
    ("x86-64-v4+vnni", "AVX-512 and VNNI", "x86-64-v4 -mavx512vnni", "x86_64_v4+avx512vnni",
     _AVX512 | {"vnni"}),
)  # fmt: skip
_NEON = frozenset({"unaligned", "fpu", "fpu_double", "neon"})
_AARCH64_LEVELS = (
    ("aarch64", "", "", "baseline", _NEON),
    ("aarch64+dotprod", ", dot products", "armv8.2-a+dotprod", "baseline+dotprod",
     _NEON | {"dotprod"}),
    ("aarch64+i8mm", ", products of int8 matrices", "armv8.6-a", "baseline+dotprod+i8mm",
     _NEON | {"dotprod", "i8mm"}),
)  # fmt: skip


def _x86(name: str, more: str, gcc: str, zig: str, features: frozenset[str]) -> Core:
    """Return a level of 64-bit x86."""
    march, *others = gcc.split()
    return Core(
        name=name,
        title=f"64-bit x86 with {more}",
        isa="x86_64",
        features=features,
        gcc_flags=("-m64", f"-march={march}", *others),
        clang_flags=(f"-mcpu={zig}",),
    )


def _aarch64(name: str, more: str, gcc: str, zig: str, features: frozenset[str]) -> Core:
    """Return a level of 64-bit Arm."""
    return Core(
        name=name,
        title=f"64-bit Arm (ARMv8-A){more}",
        isa="aarch64",
        features=features,
        gcc_flags=(f"-march={gcc}",) if gcc else (),
        clang_flags=(f"-mcpu={zig}",),
    )


#: Compute capability, the processor beside it, and the oldest GPU that has it.
#: CUDA C++ Programming Guide, "Compute Capabilities".
_GPUS = (
    (87, "aarch64", "Jetson Orin (Ampere)"),
    (75, "x86_64", "an NVIDIA GPU since Turing, beside 64-bit x86"),
    (90, "x86_64", "an NVIDIA GPU since Hopper, beside 64-bit x86"),
    (110, "aarch64", "Jetson Thor (Blackwell)"),
)
#: By kind, the core of the processor beside such a GPU, with features that every one has.
_BESIDE_GPU = {"x86_64": "x86-64-v3", "aarch64": "aarch64+dotprod"}


def _cuda(capability: int, isa: str, title: str) -> Core:
    """Return a GPU of a compute capability, with the processor that calls it."""
    flags = {"x86_64": (("-m64",), ("-mcpu=baseline",)), "aarch64": ((), ("-mcpu=baseline",))}
    gcc, clang = flags[isa]
    return Core(
        name=f"cuda-sm_{capability}",
        title=title,
        isa=isa,
        features=frozenset({"unaligned", "fpu", "fpu_double", "cuda"}),
        gcc_flags=gcc,
        clang_flags=clang,
    )


_TABLE = (
    _cortex("cortex-m0", _V6M, "cortex-m0", "cortex_m0", "Arm Cortex-M0 (ARMv6-M)"),
    _cortex("cortex-m0plus", _V6M, "cortex-m0plus", "cortex_m0plus", "Arm Cortex-M0+ (ARMv6-M)"),
    _cortex("cortex-m1", _V6M, "cortex-m1", "cortex_m1", "Arm Cortex-M1 (ARMv6-M, in FPGAs)"),
    # It runs ARMv6-M's code; instructions that ARMv8-M Baseline adds, such as divide, are not used.
    _cortex(
        "cortex-m23", _V6M, "cortex-m0plus", "cortex_m0plus", "Arm Cortex-M23 (ARMv8-M Baseline)"
    ),
    _cortex("cortex-m3", _V7M, "cortex-m3", "cortex_m3", "Arm Cortex-M3 (ARMv7-M)"),
    _cortex(
        "cortex-m4",
        _V7EM | {"fpu"},
        "cortex-m4 fpv4-sp-d16",
        # zig's cortex_m4 has no FPU even with eabihf.
        "cortex_m4+vfp4d16sp",
        "Arm Cortex-M4 with FPU (ARMv7E-M)",
    ),
    _cortex(
        "cortex-m4+nofp", _V7EM, "cortex-m4", "cortex_m4", "Arm Cortex-M4 without FPU (ARMv7E-M)"
    ),
    _cortex(
        "cortex-m7",
        _V7EM | {"fpu", "fpu_double"},
        "cortex-m7 fpv5-d16",
        "cortex_m7+fp_armv8d16",
        "Arm Cortex-M7 with double-precision FPU (ARMv7E-M)",
    ),
    _cortex(
        "cortex-m7+nofp.dp",
        _V7EM | {"fpu"},
        "cortex-m7 fpv5-sp-d16",
        "cortex_m7+fp_armv8d16sp",
        "Arm Cortex-M7 with single-precision FPU (ARMv7E-M)",
    ),
    _cortex(
        "cortex-m33",
        _V8M | {"fpu"},
        "cortex-m33 fpv5-sp-d16",
        "cortex_m33+fp_armv8d16sp+dsp",
        "Arm Cortex-M33 with FPU and DSP (ARMv8-M Mainline)",
    ),
    # gcc takes MVE and the FPU from the core's name; auto is the default of -mfpu. It knows the M85
    # from 13 on and the M52 from 14 on: older ones order instructions as an M55 wants them.
    *(
        _cortex(
            f"cortex-{name}",
            _V8M | {"fpu", "fpu_double", "mve"},
            "cortex-m55 auto",
            f"cortex_{name}+mve+mve_fp+fp_armv8d16",
            f"Arm Cortex-{name.upper()} with Helium (ARMv8.1-M Mainline)",
        )
        for name in ("m55", "m52", "m85")
    ),
    # Both are simulated as an M7: the same instructions, all in Thumb. The A7's NEON, whose floats
    # have no denormals, is not used.
    _cortex(
        "cortex-a7",
        _V7EM | {"fpu", "fpu_double", "v7ar"},
        "cortex-a7 vfpv4-d16",
        "cortex_a7-neon-d32",
        "Arm Cortex-A7 without a system (ARMv7-A)",
    ),
    _cortex(
        "cortex-r5",
        _V7EM | {"fpu", "fpu_double", "v7ar"},
        "cortex-r5 vfpv3-d16",
        "cortex_r5+vfp3d16 vfpv3-d16",
        "Arm Cortex-R5 with double-precision FPU (ARMv7-R)",
    ),
    _rv32("rv32imc", frozenset({"rv32m", "rv32c"}), "m+c", "(RV32IMC)"),
    # clang makes the vectors. gcc does so from 14 on, and has no library for such a -march: with it
    # the code is the other core's.
    _rv32(
        "rv32imc_zve32x",
        frozenset({"rv32m", "rv32c", "rv32v"}),
        "m+c+zve32x+zvl128b",
        "and vectors (RV32IMC with Zve32x and Zvl128b, or V)",
    ),
    # Only gcc supports it; its flag stops padding between instructions. The port has the functions
    # that its libgcc lacks (the ESP8266 has them in ROM).
    Core(
        name="lx106",
        title="Xtensa LX106 (of the ESP8266)",
        isa="xtensa",
        features=frozenset(),
        gcc_programs=("xtensa-lx106-elf-gcc",),
        gcc_flags=("-Wa,--no-target-align",),
        clang_flags=(),
    ),
    Core(
        name="x86_64",
        title="64-bit x86, as old as SSE2",
        isa="x86_64",
        features=frozenset({"unaligned", "fpu", "fpu_double", "sse2"}),
        gcc_flags=("-m64",),
        clang_flags=("-mcpu=baseline",),
    ),
    *(_x86(*row) for row in _X86_LEVELS),
    *(_aarch64(*row) for row in _AARCH64_LEVELS),
    *(_cuda(*row) for row in _GPUS),
)

CORES: dict[str, Core] = {core.name: core for core in _TABLE}
"""Every core by its name."""


def find_core(name: str) -> Core:
    """Return the core called `name`; "host" is the oldest core of this computer's kind, and
    "native" has all of this computer's features.

    Raises BoardError naming the nearest known names.
    """
    if name == "host":
        return host_core()
    if name == "native":
        return native_core()
    core = CORES.get(name)
    if core is not None:
        return core
    near = difflib.get_close_matches(name, CORES, n=3, cutoff=0.5)
    raise BoardError(
        f"there is no core '{name}'" + (f"; near it: {', '.join(near)}" if near else ""),
        details=("known cores: " + ", ".join(CORES),),
    )


def is_gpu(name: str) -> bool:
    """Whether a target is a GPU; other names, such as `native`, are not."""
    return name in CORES and CORES[name].has_gpu


def processor_of(core: Core) -> Core:
    """Return the core of the processor beside a GPU, which runs what the GPU does not."""
    return CORES[_BESIDE_GPU[core.isa]]


def is_this_computer(core: Core) -> bool:
    """Return whether programs for `core` run on the computer that runs the compiler.

    Of a core with a GPU the processor counts: without a GPU the program says so itself.
    """
    try:
        return core.isa == host_core().isa and core.features - {"cuda"} <= host_features()
    except BoardError:
        return False


#: Linux's names for the instructions of a feature.
_LINUX_FLAGS = {
    "sse4": ("sse4_1", "sse4_2", "ssse3", "popcnt"),
    "avx2": ("avx2", "fma", "bmi1", "bmi2", "f16c", "movbe"),
    "avx512": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
    "vnni": ("avx512_vnni",),
    "dotprod": ("asimddp",),
    "i8mm": ("i8mm",),
}


@cache
def host_features() -> frozenset[str]:
    """Return the features of this computer's processor; without Linux, the features of its oldest
    kind.
    """
    known = host_core().features
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return known
    lines = (line.partition(":") for line in text.splitlines())
    found = {w for name, _, words in lines if name.strip() in ("flags", "Features")
             for w in words.split()}  # fmt: skip
    return known | {name for name, words in _LINUX_FLAGS.items() if found.issuperset(words)}


def native_core() -> Core:
    """Return the core with the most features that this computer has."""
    fitting = [core for core in _TABLE if is_this_computer(core) and not core.has_gpu]
    return max(fitting, key=lambda core: len(core.features))


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
