"""The float32 kernels of convolutions do what they are registered to mean, in every bit.

On simulated cores with an FPU each array ends where memory ends; on the emulated Cortex-M55, whose
vectors flush denormals, these must be there all the same.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kernel_images import START, build_image, meant, run_on_core
from mve_machine import Call, MveMachine, has_qemu

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.boards.toolchain import available_toolchains
from edgec.build.elf import read_elf
from edgec.loop.ir import Buffer
from edgec.loop.microkernel import get_microkernel, meaning_of
from edgec.sim.core import CoreSimulator
from edgec.targets.core import find_core
from edgec.targets.cortex_m.kernels.float_rows import (
    CONV,
    CONV_GROUPS,
    CONV_HALVES,
    CONV_INT4,
    CONV_STEPS,
    CONV_UNITS,
    DEPTHWISE,
    DEPTHWISE_HALVES,
    DEPTHWISE_STEPS,
    DEPTHWISE_UNITS,
    MOST_SHIFT,
    float_bits,
)
from edgec.targets.cortex_m.kernels.products import ADD_PRODUCTS, DENSE

UNITS = (CONV_UNITS, DEPTHWISE_UNITS)
DEPTHWISES = (DEPTHWISE, DEPTHWISE_HALVES, DEPTHWISE_STEPS, DEPTHWISE_UNITS)
CONVS = (CONV, CONV_HALVES, CONV_STEPS, CONV_INT4, CONV_GROUPS, CONV_UNITS, *DEPTHWISES)
KERNELS = (*CONVS, DENSE, ADD_PRODUCTS)
SOURCE = "".join(f'#include "kernels/{get_microkernel(name).header}"\n' for name in KERNELS)


def call_of(name: str) -> str:
    """C text of a call with the numbers n; members of a struct are set from n by name."""
    kernel = get_microkernel(name)
    numbers = [f"n[{i}]" for i in range(len((*kernel.sizes, *kernel.indices)))]
    if kernel.struct is None:
        return f"{name}(out, x, s, {', '.join(numbers)});"
    types = dict.fromkeys(kernel.struct.members, "(int16_t)" * (name in UNITS)) | {"high": ""}
    held = ", ".join(f".{m} = {types[m]}n[{i}]" for i, m in enumerate(kernel.struct.members))
    given = ", ".join(["&sizes", *numbers[len(kernel.struct.members) :]])
    value = f"const {kernel.struct.name} sizes = {{{held}}};"
    return f"{value} {name}(out, x, s, {given});"


FLOAT_STREAMS = (CONV, DEPTHWISE, *UNITS, DENSE, ADD_PRODUCTS)
CALLS = {
    name: f"""
void call_{name}(float *out, const float *x, const {word} *s, WORDS(n));
void call_{name}(float *out, const float *x, const {word} *s, WORDS(n)) {{
    {call_of(name)}
}}
"""
    for name in KERNELS
    for word in ("float" if name in FLOAT_STREAMS else "int32_t",)
}
ON_M55 = "".join(
    f"""
static void run_{name}(void *out, const void *x, const void *s, const int32_t *n) {{
    {call_of(name)}
}}
"""
    for name in KERNELS
)
FPU_BUILDS = [
    ("cortex-m4", "gcc", ("-O2",)),
    pytest.param(("cortex-m7", "gcc", ("-O3",)), marks=pytest.mark.full),
    ("cortex-m33", "clang", ("-Os",)),
    ("cortex-m4", "gcc", ("-O2", "-DEC_NO_ASM")),
    pytest.param(("cortex-m4", "gcc", ("-O0",)), marks=pytest.mark.full),
]
MVE_BUILDS = [
    ("gcc", ("-O2",)),
    pytest.param(("gcc", ("-O0",)), marks=pytest.mark.full),
    pytest.param(("gcc", ("-O2", "-DEC_NO_ASM")), marks=pytest.mark.full),
    ("clang", ("-Os",)),
]
#: Numbers that are handled apart: products and sums of them are denormal, infinite or no number.
SPECIAL = (
    0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-40, -3e-39, 1e-20, -1e-19, 3e38, 1.2e-38, 1e-44,
)  # fmt: skip

#: The same of float16: the smallest, the largest denormal, and the largest.
HALVES = (0.0, -0.0, 2.0**-24, -(2.0**-24), 1023 * 2.0**-24, -(2.0**-14), 65504.0, -65504.0)


def conv_numbers(rng: np.random.Generator, channels: int, bounds: int) -> tuple[int, ...]:
    kernel_h, kernel_w = (int(k) for k in rng.integers(1, 4, 2))
    stride_h, stride_w, dilation = (int(k) for k in rng.integers(1, 3, 3))
    top, left = int(rng.integers(0, kernel_h)), int(rng.integers(0, kernel_w))
    height, depth = (int(k) for k in rng.integers(3, 6, 2))
    pixels = int(rng.integers(1, 10))
    width = max((pixels - 1) * stride_w + kernel_w - left - int(rng.integers(0, kernel_w)), 1)
    row = int(rng.integers(0, height // stride_h))
    low, high = float_bits(-1.5), float_bits(6.0)
    return (
        height, width, depth, kernel_h, kernel_w, stride_h, stride_w, dilation, top, left, pixels,
        channels, bounds, low, high, row,
    )  # fmt: skip


def unit_numbers(rng: np.random.Generator, channels: int, bounds: int) -> tuple[int, ...]:
    """Without the lower limit, which is 0, and also of odd and even depths."""
    found = conv_numbers(rng, channels, bounds)
    return (*found[:13], *found[14:])


def depthwise_unit_numbers(rng: np.random.Generator, channels: int, bounds: int) -> tuple[int, ...]:
    found = depthwise_numbers(rng, channels, bounds)
    return (*found[:13], *found[14:])


def depthwise_numbers(rng: np.random.Generator, channels: int, bounds: int) -> tuple[int, ...]:
    found = conv_numbers(rng, channels, bounds)
    return (*found[:2], *found[3:8], 1, *found[8:])


def group_numbers(rng: np.random.Generator, channels: int, bounds: int) -> tuple[int, ...]:
    """Groups of one input, of some, of all, and none, also where these are odd."""
    found = list(conv_numbers(rng, channels, bounds))
    group = int(rng.choice([0, 1, 2, 3, 5, 16]))
    found[2] = group * int(rng.integers(1, 4)) or found[2]
    return (*found[:15], group, found[15])


#: By kernel, where they differ from a convolution's.
OWN_NUMBERS = {
    **dict.fromkeys(DEPTHWISES, depthwise_numbers), CONV_GROUPS: group_numbers,
    CONV_UNITS: unit_numbers, DEPTHWISE_UNITS: depthwise_unit_numbers,
}  # fmt: skip


def cases(special: bool, seed: int) -> list[tuple[int, tuple[int, ...], list[np.ndarray]]]:
    """(kernel's position, numbers, [output before, x, stream]) for all kinds of channels."""
    rng = np.random.default_rng(seed)
    found = []
    for position, name in enumerate(CONVS):
        numbers_of = OWN_NUMBERS.get(name, conv_numbers)
        kernel = get_microkernel(name)
        for channels in (4, 8, 16, 20, 36) if name in UNITS else (1, 3, 4, 6, 8, 16, 20, 35):
            for bounds in (0, 1, 2, 3):
                numbers = numbers_of(rng, channels, bounds)
                meaning = meaning_of(kernel, numbers)
                sizes = dict(zip((*kernel.sizes, *kernel.indices), numbers, strict=True))
                out, x = (np.zeros(p.elements, np.float32) for p in meaning.params[:2])
                bits = kernel.weight_bits
                constants = {p.name: constant(rng, p, special, bits) for p in meaning.params[2:]}
                if name == CONV_GROUPS:  # what eight times a step of theirs is, is finite
                    steps = constants["w_step"]
                    steps[np.abs(steps) > 1e37] = 1e37
                x = values(rng, (x.size,), special)
                assert kernel.stream is not None
                stream = kernel.stream.pack(constants, **sizes)
                assert len(stream) == kernel.stream.words(**sizes)
                for name, array in kernel.stream.unpack(stream, **sizes).items():
                    assert (
                        array.astype(constants[name].dtype).tobytes() == constants[name].tobytes()
                    )
                found.append((position, numbers, [out + 77, x, stream]))
    return [*found, *row_cases(rng, special)]


def row_cases(
    rng: np.random.Generator, special: bool
) -> list[tuple[int, tuple[int, ...], list[np.ndarray]]]:
    """Of the kernels for one row: lengths around the inputs that they take at once, and channels
    around a unit."""
    found = []
    for depth in (1, 2, 3, 4, 5, 8, 9, 31):
        x, sums = values(rng, (depth,), special), values(rng, (4,), special)
        w = values(rng, (depth * 4,), special)
        found.append((KERNELS.index(ADD_PRODUCTS), (depth,), [sums, x, w]))
        for channels in (1, 3, 4, 6, 8, 17):
            numbers = (depth, channels, int(rng.integers(0, 4)), float_bits(-1.5), float_bits(6.0))
            w = values(rng, (channels * (depth + 1),), special)
            found.append((KERNELS.index(DENSE), numbers, [np.full(channels, 77, "f4"), x, w]))
    return found


def constant(rng: np.random.Generator, param: Buffer, special: bool, bits: int) -> np.ndarray:
    """Biases, steps, shifts, and weights as they are stored."""
    if param.name == "w_shift":
        return rng.integers(0, MOST_SHIFT + 1, param.shape).astype(np.int8)
    if param.dtype == "int8":
        whole = 1 << bits - 1
        return rng.integers(-whole, whole, param.shape).astype(np.int8)
    if param.dtype == "uint16":
        array = rng.normal(size=param.shape)
        if special:
            some = rng.random(param.shape) < 0.3
            array = np.where(some, rng.choice(HALVES, param.shape), array)
        return array.astype(np.float16).view(np.uint16)
    return values(rng, param.shape, special and param.name != "bias")


def values(rng: np.random.Generator, shape: tuple[int, ...], special: bool) -> np.ndarray:
    array = rng.normal(size=shape).astype(np.float32)
    if special:
        some = rng.random(shape) < 0.2
        array = np.where(some, rng.choice(np.array(SPECIAL, np.float32), shape), array)
        array = array * np.float32(rng.choice([1, 1e-19, 1e-30]))
    return array.astype(np.float32)


def assert_same(got: np.ndarray, want: np.ndarray, what: object) -> None:
    """The same bits, but for what a NaN holds."""
    both = np.isnan(got) & np.isnan(want)
    same = (got.view(np.int32) == want.view(np.int32)) | both
    assert same.all(), (what, got[~same][:4], want[~same][:4])


@pytest.fixture(scope="module", params=FPU_BUILDS, ids=lambda b: "-".join((*b[:2], *b[2])))
def core(request, tmp_path_factory):
    name, compiler, flags = request.param
    folder = tmp_path_factory.mktemp("float_rows")
    image = build_image(folder, START + SOURCE + "".join(CALLS.values()), name, compiler, flags)
    return CoreSimulator(image, name)


@pytest.fixture(scope="module", params=MVE_BUILDS, ids=lambda b: "-".join((b[0], *b[1])))
def machine(request, tmp_path_factory):
    if not has_qemu():
        pytest.skip("qemu-system-arm is not installed")
    compiler, flags = request.param
    tools = available_toolchains(find_core("cortex-m55"))
    tools = [t for t in tools if t.is_zig == (compiler == "clang")]
    if not tools:
        pytest.skip(f"no {compiler} for cortex-m55")
    functions = [f"run_{name}" for name in KERNELS]
    at = tmp_path_factory.mktemp("float_rows")
    return MveMachine(tools[0], SOURCE + ON_M55, functions, flags, at)


def expected(position: int, numbers: tuple[int, ...], arrays: list[np.ndarray]) -> np.ndarray:
    with np.errstate(all="ignore"):
        return meant(get_microkernel(KERNELS[position]), arrays[0], arrays[1:], numbers)


@pytest.mark.parametrize("special", [False, True])
def test_on_cores_with_an_fpu(core, special):
    for position, numbers, arrays in cases(special, 5):
        got = run_on_core(core, f"call_{KERNELS[position]}", arrays[0], arrays[1:], numbers)
        assert_same(got, expected(position, numbers, arrays), (position, numbers))


def test_units_that_are_fitted_to_a_model(tmp_path: Path) -> None:
    """Without code for upper limits and for four pixels."""
    found = [(KERNELS[case[0]], case) for case in cases(False, 6)]
    of_units = [c for name, c in found if name in UNITS and c[1][-3] < 2]
    of_units += [c for name, c in found if name == DENSE and c[1][1] % 4 == 0]
    macros = dict[str, str]()
    for name in UNITS:
        macros |= _macros(
            name, [dict(pixels=3, width=9, bounds=1), dict(pixels=2, width=9, bounds=0)]
        )
    assert len(macros) == 4
    macros["EC_DENSE_ROW_WHOLE"] = "1"
    lines = "".join(f"#define {name} {value}\n" for name, value in macros.items())
    calls = "".join(CALLS[name] for name in (*UNITS, DENSE))
    text = START + lines + SOURCE + calls
    core = CoreSimulator(build_image(tmp_path, text, "cortex-m4", "gcc", ("-O2",)), "cortex-m4")
    assert of_units
    for position, numbers, arrays in of_units:
        got = run_on_core(core, f"call_{KERNELS[position]}", arrays[0], arrays[1:], numbers)
        assert_same(got, expected(position, numbers, arrays), (position, numbers))


def _macros(name: str, calls: list[dict[str, int]]) -> dict[str, str]:
    """Of rows of 3x3 windows with these numbers."""
    kernel = get_microkernel(name)
    usual = {**dict.fromkeys(kernel.sizes, 1), "kernel_h": 3, "kernel_w": 3, "height": 9}
    assert kernel.macros is not None
    return dict(kernel.macros([{**usual, **call} for call in calls]))


def test_rows_of_dense_layers_are_fitted_to_a_model() -> None:
    macros = get_microkernel(DENSE).macros
    assert macros is not None
    assert macros([{"channels": 8}, {"channels": 4}]) == {"EC_DENSE_ROW_WHOLE": "1"}
    assert macros([{"channels": 8}, {"channels": 5}]) == {}


@pytest.mark.parametrize("name", UNITS)
def test_kernels_of_units_are_fitted_to_what_a_model_needs(name: str) -> None:
    prefix = name.upper().removesuffix("_F32")
    few, whole = dict(pixels=3, width=9, bounds=1), dict(pixels=9, width=9, bounds=3)
    assert set(_macros(name, [few])) == {f"{prefix}_NO_UPPER", f"{prefix}_ONE"}
    assert _macros(name, [few, whole]) == {}
    assert set(_macros(name, [few, {**whole, "bounds": 0}])) == {f"{prefix}_NO_UPPER"}
    assert set(_macros(name, [few, {**few, "bounds": 2}])) == {f"{prefix}_ONE"}


@pytest.mark.parametrize("special", [False, True])
def test_on_vectors(machine, special):
    found = cases(special, 5)
    calls = [Call(position, *arrays, numbers) for position, numbers, arrays in found]
    for (position, numbers, arrays), (got, _) in zip(found, machine.run(calls), strict=True):
        assert_same(got, expected(position, numbers, arrays), (position, numbers))


def code_bytes(folder: Path, source: str) -> int:
    image = read_elf(build_image(folder, START + source, "cortex-m4", "gcc", ("-O2",)))
    return sum(section.length for section in image.sections if section.is_stored)


@pytest.mark.parametrize("name", KERNELS)
def test_registered_code_bytes(name: str, tmp_path: Path) -> None:
    kernel = get_microkernel(name)
    source = f'#include "kernels/{kernel.header}"\n{CALLS[name]}'
    found = code_bytes(tmp_path, source) - code_bytes(tmp_path, "")
    assert found == pytest.approx(kernel.code_bytes, rel=0.1)
