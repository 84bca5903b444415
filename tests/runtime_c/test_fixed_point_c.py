"""The runtime's scalar functions in C give the bits of their meaning in Python."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgec.boards.toolchain import LANGUAGE_FLAGS, WARNING_FLAGS, available_toolchains
from edgec.codegen.runtime_source import runtime_functions
from edgec.loop.intrinsics import get_intrinsic, names
from edgec.loop.values import MOST_BOUNDED
from edgec.numerics import fixed_point
from edgec.targets.core import host_core

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
COUNT = 20000

HEADERS = "".join(
    f'#include "edgec/{name}.h"\n' for name in ("ec_fixed_point", "ec_math", "ec_status")
)
WRAPPERS = {
    "int32x3": "void all_{0}(int32_t n, const int32_t *a, const int32_t *b, const int32_t *c,"
    " int32_t *y);\nvoid all_{0}(int32_t n, const int32_t *a, const int32_t *b, const int32_t *c,"
    " int32_t *y) {{\n    for (int32_t i = 0; i < n; ++i) {{\n        y[i] = {0}(a[i], b[i], c[i]);"
    "\n    }}\n}}\n",
    "to_s8": "void all_{0}(int32_t n, const int32_t *a, const int32_t *b, const int32_t *c,"
    " const int32_t *d, int32_t *y);\nvoid all_{0}(int32_t n, const int32_t *a, const int32_t *b,"
    " const int32_t *c, const int32_t *d, int32_t *y) {{\n    for (int32_t i = 0; i < n; ++i) {{\n"
    "        y[i] = {0}(a[i], b[i], c[i], d[i]);\n    }}\n}}\n",
    "parts": "void all_{0}(int32_t n, const int32_t *a, const uint32_t *b, const int32_t *c,"
    " int32_t *y);\nvoid all_{0}(int32_t n, const int32_t *a, const uint32_t *b, const int32_t *c,"
    " int32_t *y) {{\n    for (int32_t i = 0; i < n; ++i) {{\n        y[i] = {0}(a[i], b[i], c[i]);"
    "\n    }}\n}}\n",
    "parts_s8": "void all_{0}(int32_t n, const int32_t *a, const uint32_t *b, const int32_t *c,"
    " const int32_t *d, int32_t *y);\nvoid all_{0}(int32_t n, const int32_t *a, const uint32_t *b,"
    " const int32_t *c, const int32_t *d, int32_t *y) {{\n    for (int32_t i = 0; i < n; ++i) {{\n"
    "        y[i] = {0}(a[i], b[i], c[i], d[i]);\n    }}\n}}\n",
    "onnx_s8": "void all_{0}(int32_t n, const int32_t *a, const float *b, const int32_t *c,"
    " int32_t *y);\nvoid all_{0}(int32_t n, const int32_t *a, const float *b, const int32_t *c,"
    " int32_t *y) {{\n    for (int32_t i = 0; i < n; ++i) {{\n        y[i] = {0}(a[i], b[i], c[i]);"
    "\n    }}\n}}\n",
    "int64": "void all_{0}(int32_t n, const int64_t *a, const int32_t *b, const int32_t *c,"
    " int32_t *y);\nvoid all_{0}(int32_t n, const int64_t *a, const int32_t *b, const int32_t *c,"
    " int32_t *y) {{\n    for (int32_t i = 0; i < n; ++i) {{\n        y[i] = {0}(a[i], b[i], c[i]);"
    "\n    }}\n}}\n",
    "int32x2": "void all_{0}(int32_t n, const int32_t *a, const int32_t *b, int32_t *y);\n"
    "void all_{0}(int32_t n, const int32_t *a, const int32_t *b, int32_t *y) {{\n"
    "    for (int32_t i = 0; i < n; ++i) {{\n        y[i] = {0}(a[i], b[i]);\n    }}\n}}\n",
    "int32x1": "void all_{0}(int32_t n, const int32_t *a, int32_t *y);\n"
    "void all_{0}(int32_t n, const int32_t *a, int32_t *y) {{\n"
    "    for (int32_t i = 0; i < n; ++i) {{\n        y[i] = {0}(a[i]);\n    }}\n}}\n",
    "float": "void all_{0}(int32_t n, const float *a, int32_t *y);\n"
    "void all_{0}(int32_t n, const float *a, int32_t *y) {{\n"
    "    for (int32_t i = 0; i < n; ++i) {{\n        y[i] = {0}(a[i]);\n    }}\n}}\n",
    "double": "void all_{0}(int32_t n, const double *a, int32_t *y);\n"
    "void all_{0}(int32_t n, const double *a, int32_t *y) {{\n"
    "    for (int32_t i = 0; i < n; ++i) {{\n        y[i] = {0}(a[i]);\n    }}\n}}\n",
    "onnx": "void all_{0}(int32_t n, const int32_t *a, const float *b, int32_t *y);\n"
    "void all_{0}(int32_t n, const int32_t *a, const float *b, int32_t *y) {{\n"
    "    for (int32_t i = 0; i < n; ++i) {{\n        y[i] = {0}(a[i], b[i]);\n    }}\n}}\n",
}
FUNCTIONS = {
    "ec_requantize_tflm": "int32x3",
    "ec_requantize_tflm_right": "int32x3",
    "ec_requantize_tflm_small": "int32x3",
    "ec_requantize_tflm_relu": "int32x3",
    "ec_requantize_tflm_small_s8": "to_s8",
    "ec_requantize_tflm_relu_s8": "to_s8",
    "ec_high_by_halves": "int32x2",
    "ec_requantize_single": "int32x3",
    "ec_requantize_tflm16": "int64",
    "ec_requantize_tflm16_high": "int32x3",
    "ec_multiply_add_high": "to_s8",
    "ec_rescale_parts": "parts",
    "ec_rescale_parts_s8": "parts_s8",
    "ec_rescale_parts_relu_s8": "parts",
    "ec_rounding_doubling_high_multiply": "int32x2",
    "ec_rounding_divide_by_power_of_two": "int32x2",
    "ec_floor_div_s32": "int32x2",
    "ec_floor_mod_s32": "int32x2",
    "ec_add_s32": "int32x2",
    "ec_sub_s32": "int32x2",
    "ec_mul_s32": "int32x2",
    "ec_shl_s32": "int32x2",
    "ec_count_leading_zeros": "int32x1",
    "ec_one_over_one_plus_x": "int32x1",
    "ec_reciprocal_root": "int32x1",
    "ec_saturate_s8": "int32x1",
    "ec_saturate_u8": "int32x1",
    "ec_saturate_s16": "int32x1",
    "ec_round_half_even_f32": "float",
    "ec_round_half_even_small_f32": "float",
    "ec_round_half_even_bounded_f32": "float",
    "ec_round_half_away_f32": "float",
    "ec_round_half_away_f64": "double",
    "ec_requantize_onnx": "onnx",
    "ec_requantize_onnx_s8": "onnx_s8",
}

Call = Callable[..., np.ndarray]


@pytest.fixture(scope="module", params=["gcc", "clang"])
def call(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, repo_root: Path
) -> Call:
    """Call a runtime function on arrays, as the named compiler made it."""
    toolchains = {t.name: t for t in available_toolchains(host_core())}
    if request.param not in toolchains:
        pytest.skip(f"no {request.param} on this computer")
    toolchain = toolchains[request.param]
    folder = tmp_path_factory.mktemp("runtime")
    text = HEADERS + "\n".join(WRAPPERS[kind].format(name) for name, kind in FUNCTIONS.items())
    (folder / "all.c").write_text(text)
    command = [*toolchain.command, *LANGUAGE_FLAGS, *WARNING_FLAGS, "-O2", "-shared", "-fPIC"]
    # Undefined behaviour ends the process: gcc's runtime says where, zig's is left out.
    sanitize = [] if toolchain.is_zig else ["-fsanitize=undefined", "-fno-sanitize-recover=all"]
    if toolchain.is_zig:
        command.append("-fno-sanitize=all")
    include = f"-I{repo_root / 'runtime_c' / 'include'}"
    output = folder / "all.so"
    done = subprocess.run(
        [*command, *sanitize, include, "-o", str(output), str(folder / "all.c")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    library = ctypes.CDLL(str(output))

    def run(name: str, *arrays: np.ndarray) -> np.ndarray:
        result = np.zeros(len(arrays[0]), np.int32)
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays, result)]
        getattr(library, f"all_{name}")(len(result), *pointers)
        return result.astype(np.int64)

    return run


def accumulators(seed: int, low: int = INT32_MIN, high: int = INT32_MAX) -> np.ndarray:
    """Random and extreme int32 values in [low, high], of all magnitudes."""
    rng = np.random.default_rng(seed)
    values = rng.integers(INT32_MIN, INT32_MAX, COUNT, endpoint=True)
    values >>= rng.integers(0, 31, COUNT)
    values[:8] = [INT32_MIN, INT32_MAX, INT32_MIN + 1, INT32_MAX - 1, 0, 1, -1, 2]
    values[8:12] = [2**30 - 1, -(2**30), 2**30, -(2**30) - 1]
    return np.clip(values, low, high).astype(np.int32)


def multipliers(seed: int) -> np.ndarray:
    values = np.random.default_rng(seed).integers(2**30, 2**31, COUNT)
    values[::17] = 2**30
    values[1::17] = INT32_MAX
    values[2::17] = 0
    return values.astype(np.int32)


def shifts(seed: int, low: int, high: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high + 1, COUNT).astype(np.int32)


def near_ties(acc: np.ndarray, multiplier: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Accumulators whose result lies next to a rounding tie: where an error would be seen."""
    target = np.random.default_rng(9).integers(-200, 200, len(acc)) + 0.5
    real = multiplier.astype(np.float64) * 2.0 ** (shift.astype(np.float64) - 31)
    exact = np.divide(target, real, out=np.zeros(len(acc)), where=real > 0)
    jitter = np.random.default_rng(10).integers(-2, 3, len(acc))
    usable = np.abs(exact) < 2**30 - 4
    return np.where(usable, np.round(exact) + jitter, acc).astype(np.int32)


def test_requantize_tflm(call: Call) -> None:
    acc, multiplier, shift = accumulators(1), multipliers(2), shifts(3, -31, 30)
    expected = fixed_point.requantize_tflm(acc, multiplier, shift)
    np.testing.assert_array_equal(call("ec_requantize_tflm", acc, multiplier, shift), expected)


def test_requantize_tflm_right(call: Call) -> None:
    acc, multiplier, shift = accumulators(1), multipliers(2), shifts(3, -31, 0)
    for values in (acc, near_ties(acc, multiplier, shift)):
        expected = fixed_point.requantize_tflm(values, multiplier, shift)
        given = call("ec_requantize_tflm_right", values, multiplier, shift)
        np.testing.assert_array_equal(given, expected)


def test_short_forms_hold_for_small_accumulators(call: Call) -> None:
    acc = accumulators(4, -(2**30), 2**30 - 1)
    multiplier, shift = multipliers(5), shifts(6, -31, -1)
    for values in (acc, near_ties(acc, multiplier, shift)):
        expected = fixed_point.requantize_tflm(values, multiplier, shift)
        small = call("ec_requantize_tflm_small", values, multiplier, shift)
        np.testing.assert_array_equal(small, expected)
        relu = call("ec_requantize_tflm_relu", values, multiplier, shift)
        np.testing.assert_array_equal(np.maximum(relu, 0), np.maximum(expected, 0))


def test_high_half_of_a_product_by_halves(call: Call) -> None:
    a, b = accumulators(11), multipliers(12)
    for low in (0, 0x7FFF, 0x8000, 0xFFFF):  # carries between the halves
        a[low & 7 :: 8] = a[low & 7 :: 8] & ~0xFFFF | low
        b[low & 5 :: 16] = b[low & 5 :: 16] & ~0xFFFF | low
    expected = (a.astype(np.int64) * b + (1 << 31)) >> 32
    np.testing.assert_array_equal(call("ec_high_by_halves", a, b), expected)


def test_requantized_to_int8(call: Call) -> None:
    multiplier, shift = multipliers(5), shifts(6, -31, -1)
    zero_point = shifts(7, -128, 127)
    acc = near_ties(accumulators(4, -(2**30), 2**30 - 1), multiplier, shift)
    scaled = fixed_point.requantize_tflm(acc, multiplier, shift)
    given = call("ec_requantize_tflm_small_s8", acc, multiplier, shift, zero_point)
    np.testing.assert_array_equal(given, np.clip(scaled + zero_point, -128, 127))
    given = call("ec_requantize_tflm_relu_s8", acc, multiplier, shift, zero_point * 0 - 128)
    np.testing.assert_array_equal(given, np.clip(scaled - 128, -128, 127))


def test_requantize_single(call: Call) -> None:
    acc, multiplier, shift = accumulators(7), multipliers(8), shifts(9, -31, 30)
    expected = fixed_point.requantize_single(acc, multiplier, shift)
    np.testing.assert_array_equal(call("ec_requantize_single", acc, multiplier, shift), expected)


def test_requantize_tflm16(call: Call) -> None:
    rng = np.random.default_rng(19)
    narrow = accumulators(20)
    wide = rng.integers(-(2**63), 2**63 - 1, COUNT, dtype=np.int64) >> rng.integers(0, 63, COUNT)
    wide[:2] = -(2**63), 2**63 - 1
    multiplier = rng.integers(2**14, 2**15, COUNT).astype(np.int32)
    multiplier[::7] = 0
    shift = shifts(21, 8, 46)
    for acc in (narrow.astype(np.int64), wide):
        expected = fixed_point.requantize_tflm16(acc, multiplier, shift)
        given = call("ec_requantize_tflm16", acc, multiplier, shift)
        np.testing.assert_array_equal(given, expected)
    shift = shifts(22, 18, 46)
    expected = fixed_point.requantize_tflm16(narrow, multiplier, shift)
    given = call("ec_requantize_tflm16_high", narrow, multiplier << 15, shift - 17)
    np.testing.assert_array_equal(given, expected)


def test_multiply_add_high(call: Call) -> None:
    rng = np.random.default_rng(23)
    acc = rng.integers(-(1 << 22), 1 << 22, COUNT).astype(np.int32)
    multiplier = rng.integers(0, 1 << 31, COUNT).astype(np.int32)
    offset = rng.integers(0, 1 << 16, COUNT).astype(np.int32)
    high = rng.integers(-(1 << 20), 1 << 20, COUNT).astype(np.int32)
    wide = [value.astype(np.int64) for value in (acc, multiplier, offset, high)]
    expected = (wide[0] * wide[1] + (wide[2] << 16) + (wide[3] << 32)) >> 32
    given = call("ec_multiply_add_high", acc, multiplier, offset, high)
    np.testing.assert_array_equal(given, expected)


def test_rescale_parts(call: Call) -> None:
    rng = np.random.default_rng(24)
    acc = rng.integers(-(1 << 18), 1 << 18, COUNT).astype(np.int32)
    multiplier = rng.integers(0, 1 << 28, COUNT).astype(np.int32)
    offset = rng.integers(0, 1 << 16, COUNT).astype(np.int32)
    product = acc.astype(np.int64) * multiplier + (offset.astype(np.int64) << 11)
    expected = (product + (1 << 32)) >> 33
    given = call("ec_rescale_parts", acc, multiplier, offset)
    np.testing.assert_array_equal(given, expected)
    zero_point = shifts(25, -128, 127)
    given = call("ec_rescale_parts_s8", acc, multiplier, offset, zero_point)
    np.testing.assert_array_equal(given, np.clip(expected + zero_point, -128, 127))
    given = call("ec_rescale_parts_relu_s8", acc, multiplier, offset)
    np.testing.assert_array_equal(given, np.clip(expected - 128, -128, 127))


def test_requantize_onnx(call: Call) -> None:
    rng = np.random.default_rng(11)
    acc = accumulators(10)
    scale = np.exp2(rng.uniform(-30, 3, COUNT)).astype(np.float32)
    scale[::3] = np.float32(2.0) ** rng.integers(-12, 1, len(scale[::3]))  # exact ties
    expected = fixed_point.requantize_onnx(acc, scale)
    np.testing.assert_array_equal(call("ec_requantize_onnx", acc, scale), expected)
    zero_point = shifts(7, -128, 127)
    given = call("ec_requantize_onnx_s8", acc, scale, zero_point)
    np.testing.assert_array_equal(given, np.clip(expected + zero_point, -128, 127))


def test_round_half_even(call: Call) -> None:
    halves = np.arange(-3000, 3000, dtype=np.float32) / 2
    big = (np.arange(-4000, 4000, dtype=np.float64) / 2 + 2**22).astype(np.float32)
    wide = np.float32(2.0) ** np.arange(-40, 60, dtype=np.float32)
    special = np.array([np.nan, np.inf, -np.inf, 2**31, -(2.0**31), 2**31 - 128], np.float32)
    values = np.concatenate([halves, big, -big, wide, -wide, special]).astype(np.float32)
    meaning = get_intrinsic("round_half_even_f32").meaning
    expected = [meaning(float(v)) for v in values]
    np.testing.assert_array_equal(call("ec_round_half_even_f32", values), expected)
    bounded = values[np.abs(values) < MOST_BOUNDED]
    expected = np.rint(bounded).astype(np.int32)
    np.testing.assert_array_equal(call("ec_round_half_even_bounded_f32", bounded), expected)
    values = np.concatenate([values, np.array([1e-45, 1e-30, 0.5, 0.50000006], np.float32)])
    values = values[~np.isnan(values)]
    expected = np.clip(np.rint(values.astype(np.float64)), -1024, 1024)
    np.testing.assert_array_equal(call("ec_round_half_even_small_f32", values), expected)


def test_round_half_away(call: Call) -> None:
    halves = np.arange(-3000, 3000) / 2
    near = np.nextafter(halves.astype(np.float32), np.float32(0))
    wide = 2.0 ** np.arange(-40, 60)
    special = [np.nan, np.inf, -np.inf, 2.0**30, -(2.0**30), 2.0**30 - 64, 8388607.5]
    values = np.concatenate([halves, near, wide, -wide, special]).astype(np.float32)
    expected = fixed_point.round_half_away(values)
    np.testing.assert_array_equal(call("ec_round_half_away_f32", values), expected)
    exact = np.nextafter(halves, 0.0)
    values = np.concatenate([values.astype(np.float64), exact])
    expected = fixed_point.round_half_away(values)
    np.testing.assert_array_equal(call("ec_round_half_away_f64", values), expected)


def test_gemmlowp_steps(call: Call) -> None:
    a, b = accumulators(12), accumulators(13)
    a[:4], b[:4] = INT32_MIN, [INT32_MIN, INT32_MAX, -1, 0]
    expected = fixed_point.rounding_doubling_high_multiply(a, b)
    np.testing.assert_array_equal(call("ec_rounding_doubling_high_multiply", a, b), expected)
    exponent = shifts(14, 0, 31)
    expected = fixed_point.rounding_divide_by_power_of_two(a, exponent)
    np.testing.assert_array_equal(call("ec_rounding_divide_by_power_of_two", a, exponent), expected)


def test_softmax_steps(call: Call) -> None:
    x = accumulators(15, 0, INT32_MAX)
    expected = fixed_point.one_over_one_plus_x(x)
    np.testing.assert_array_equal(call("ec_one_over_one_plus_x", x), expected)
    large = (2**29 + accumulators(18, 0, 3 * 2**29 - 1)).astype(np.int32)
    roots = fixed_point.reciprocal_root(large)
    np.testing.assert_array_equal(call("ec_reciprocal_root", large), roots)
    positive = np.maximum(x, 1)
    zeros = [32 - int(v).bit_length() for v in positive]
    np.testing.assert_array_equal(call("ec_count_leading_zeros", positive), zeros)


def test_wrapping_and_flooring(call: Call) -> None:
    a, b = accumulators(16), accumulators(17)
    wide_a, wide_b = a.astype(np.int64), b.astype(np.int64)
    for name, exact in (
        ("ec_add_s32", wide_a + wide_b),
        ("ec_sub_s32", wide_a - wide_b),
        ("ec_mul_s32", (wide_a * wide_b)),
        ("ec_shl_s32", wide_a << (wide_b & 31)),
    ):
        given = call(name, a, (b & 31) if name == "ec_shl_s32" else b)
        np.testing.assert_array_equal(given, exact.astype(np.int32), err_msg=name)
    divisor = np.maximum(np.abs(np.maximum(b, -INT32_MAX)), 1).astype(np.int32)
    np.testing.assert_array_equal(call("ec_floor_div_s32", a, divisor), wide_a // divisor)
    np.testing.assert_array_equal(call("ec_floor_mod_s32", a, divisor), wide_a % divisor)


def test_saturation(call: Call) -> None:
    a = accumulators(18)
    for suffix, low, high in (("s8", -128, 127), ("u8", 0, 255), ("s16", -32768, 32767)):
        np.testing.assert_array_equal(call(f"ec_saturate_{suffix}", a), np.clip(a, low, high))


def test_every_intrinsic_has_its_c_function() -> None:
    functions = runtime_functions()
    for name in names():
        assert get_intrinsic(name).c_name in functions, name


def test_headers_stand_alone(repo_root: Path, tmp_path: Path) -> None:
    toolchain = available_toolchains(host_core())[0]
    include = repo_root / "runtime_c" / "include"
    for header in sorted(include.glob("edgec/*.h")):
        source = tmp_path / f"{header.stem}.c"
        source.write_text(f'#include "edgec/{header.name}"\ntypedef int not_empty;\n')
        done = subprocess.run(
            [*toolchain.command, *LANGUAGE_FLAGS, *WARNING_FLAGS, f"-I{include}", "-c",
             str(source), "-o", str(tmp_path / "header.o")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
