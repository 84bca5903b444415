"""The DSP microkernels whose results are of another dtype than inputs, on the cores."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_images import DSP_BUILDS, dsp_image, meant, onnx_tables, run_on_core, with_arguments

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.loop.gathered import COLUMN
from edgec.loop.microkernel import get_microkernel, meaning_of
from edgec.loop.window import Window
from edgec.targets.dsp.kernels.windows import MOST_TAPS

pytest.importorskip("unicorn")
pytest.importorskip("capstone")

SOURCE = with_arguments("""
#include "kernels/dsp/depthwise_s8_to_s16_onnx.h"
#include "kernels/dsp/depthwise_windows_s16.h"
#include "kernels/dsp/depthwise_windows_s8_to_s16_onnx.h"
#include "kernels/dsp/matrix_s16.h"
#include "kernels/dsp/matrix_s8_onnx.h"

void run_matrix_3(int16_t *out, const int16_t *x, WORDS(s), WORDS(n));
void run_matrix_1(int16_t *out, const int16_t *x, WORDS(s), WORDS(n));
void run_matrix_1_plain(int16_t *out, const int8_t *x, WORDS(s), WORDS(n));
void run_high(int8_t *out, const int16_t *x, WORDS(s), WORDS(n));
void run_any(int8_t *out, const int16_t *x, WORDS(s), WORDS(n));
void run_s64(int8_t *out, const int16_t *x, WORDS(s), WORDS(n));
void run_tail_high(int8_t *out, const int16_t *x, WORDS(s), WORDS(n));
void run_tail_any(int8_t *out, const int16_t *x, WORDS(s), WORDS(n));
void run_tail_s64(int8_t *out, const int16_t *x, WORDS(s), WORDS(n));
void run_windows(int8_t *out, const int16_t *x, WORDS(s), WORDS(n));
void run_windows_16(int16_t *out, const int8_t *x, WORDS(s), WORDS(n));
void run_3x3(int16_t *out, const int16_t *plane, WORDS(s), WORDS(n));

void run_matrix_3(int16_t *out, const int16_t *x, WORDS(s), WORDS(n))
{ ec_matrix_3_onnx_s8_s16_dsp(out, x, s, n[0], n[1], n[2], n[3]); }
void run_matrix_1(int16_t *out, const int16_t *x, WORDS(s), WORDS(n))
{ ec_matrix_1_onnx_s8_s16_dsp(out, x, s, n[0], n[1], n[2], n[3]); }
void run_matrix_1_plain(int16_t *out, const int8_t *x, WORDS(s), WORDS(n))
{ ec_matrix_1_plain_onnx_s8_s16_dsp(out, x, s, n[0], n[1], n[2], n[3]); }
void run_high(int8_t *out, const int16_t *x, WORDS(s), WORDS(n))
{ ec_matrix_1_s16_s8_dsp(out, x, s, n[0] * n[1] * n[2], n[3], n[4], n[5], n[6]); }
void run_any(int8_t *out, const int16_t *x, WORDS(s), WORDS(n))
{ ec_matrix_1_s16_s8_any_dsp(out, x, s, n[0] * n[1] * n[2], n[3], n[4], n[5], n[6]); }
void run_s64(int8_t *out, const int16_t *x, WORDS(s), WORDS(n))
{ ec_matrix_1_s16_s8_s64_dsp(out, x, s, n[0] * n[1] * n[2], n[3], n[4], n[5], n[6]); }
void run_tail_high(int8_t *out, const int16_t *x, WORDS(s), WORDS(n))
{ ec_matrix_1_tail_s16_s8_dsp(out, x, s, ARGUMENTS(ec_matrix_1_tail_s16_s8_dsp)); }
void run_tail_any(int8_t *out, const int16_t *x, WORDS(s), WORDS(n))
{ ec_matrix_1_tail_s16_s8_any_dsp(out, x, s, ARGUMENTS(ec_matrix_1_tail_s16_s8_any_dsp)); }
void run_tail_s64(int8_t *out, const int16_t *x, WORDS(s), WORDS(n))
{ ec_matrix_1_tail_s16_s8_s64_dsp(out, x, s, ARGUMENTS(ec_matrix_1_tail_s16_s8_s64_dsp)); }
void run_windows(int8_t *out, const int16_t *x, WORDS(s), WORDS(n))
{ ec_depthwise_windows_s16_s8_dsp(out, x, s, ARGUMENTS(ec_depthwise_windows_s16_s8_dsp)); }
void run_windows_16(int16_t *out, const int8_t *x, WORDS(s), WORDS(n))
{ ec_depthwise_windows_onnx_s8_s16_dsp(out, x, s, (const ec_window_sizes *)n,
  n[14], n[15], n[16]); }
void run_3x3(int16_t *out, const int16_t *plane, WORDS(s), WORDS(n))
{ ec_depthwise_3x3_onnx_s8_s16_dsp(out, plane, s, ARGUMENTS(ec_depthwise_3x3_onnx_s8_s16_dsp)); }
""")
TO_16 = ("matrix_3", "matrix_1", "matrix_1_plain")
TO_8 = {"high": "", "any": "_any", "s64": "_s64"}
WHOLE = (-32768, 32767)


@pytest.fixture(scope="module", params=DSP_BUILDS, ids=lambda b: "-".join((b[0], b[1], *b[2])))
def core(request, tmp_path_factory):
    with dsp_image(request, tmp_path_factory, SOURCE) as simulator:
        yield simulator


def check(core, name, kernel, numbers, x, constants, out=None):
    sizes = dict(zip((*kernel.sizes, *kernel.indices), numbers, strict=True))
    stream = kernel.stream.pack(constants, **sizes)
    assert stream.size == kernel.stream.words(**sizes)
    for key, array in kernel.stream.unpack(stream, **sizes).items():
        assert np.array_equal(np.asarray(array).reshape(-1), constants[key].reshape(-1)), key
    to = next(p for p in meaning_of(kernel, tuple(numbers)).params if p.name == "out")
    out = np.full(to.elements if out is None else out, 77, to.dtype)
    expected = meant(kernel, out, [x, stream], numbers)
    assert np.array_equal(run_on_core(core, f"run_{name}", out, [x, stream], numbers), expected)
    return expected


def check_to_16(core, rng, name, size, channels, limits, *, ties=False, **changes):
    quads = size if name == "matrix_3" else 2 * size
    weights = (channels, quads, 2, 2)
    constants = onnx_tables(rng, weights, channels, ties=ties, shift=1, largest=2)
    constants.update(changes)
    if name == "matrix_1_plain":
        x = rng.integers(-128, 128, 8 * size).astype(np.int8)
    else:
        x = rng.integers(-128, 128, (12 if name == "matrix_3" else 8) * size).astype(np.int16)
    kernel = get_microkernel(f"ec_{name}_onnx_s8_s16_dsp")
    return check(core, name, kernel, (size, channels, *limits), x, constants)


@pytest.mark.parametrize("name", TO_16)
def test_to_16_bits(core, name):
    """Lengths of the reduction on each way into the loops, and numbers of channels."""
    rng = np.random.default_rng(3)
    for size in (1, 2, 3, 4, 5, 18, 19, 20) if name == "matrix_3" else (1, 2, 7, 8, 9):
        for channels in (2, 3, 4) if name == "matrix_3" else (4, 5, 6, 7, 8):
            for limits in (WHOLE, (0, 32767), (-300, 5)):
                check_to_16(core, rng, name, size, channels, limits)


@pytest.mark.parametrize("name", TO_16)
def test_ties_and_ends_to_16_bits(core, name):
    rng = np.random.default_rng(4)
    for limits in (WHOLE, (0, 20000)):
        check_to_16(core, rng, name, 2, 41, limits, ties=True)
        # The largest sums that there may be, of both signs: beyond int16 and beyond int32.
        bias = rng.choice([-1, 1], 41).astype(np.int32) * ((1 << 23) - 1)
        scale = (2.0 ** rng.uniform(-17, 6.9, 41)).astype(np.float32)
        scale[::5] = 100.0
        found = check_to_16(core, rng, name, 2, 41, limits, ties=True, bias=bias, scale=scale)
        assert {limits[0], limits[1]} <= set(found.tolist())


def tables(rng, name, window, channels):
    """Constants with which no accumulator of 32 bits overflows; most results are of eight bits."""
    multiplier = rng.integers(1 << 14, 1 << 15, channels)
    bias = rng.integers(-(1 << 20), 1 << 20, channels)
    if name == "s64":
        bias[:2] = [1 << 40, -(1 << 40)]
    return {
        "bias": bias.astype(np.int64 if name == "s64" else np.int32),
        "w": rng.integers(-128, 128, (channels, *window)).astype(np.int8),
        "multiplier": (multiplier << 15 if name == "high" else multiplier).astype(np.int32),
        "shift": rng.integers(*((12, 17) if name == "high" else (29, 34)), channels).astype(
            np.int8
        ),
    }


def check_to_8(core, name, window, channels, constants, x, limits):
    tail = "tail_" if np.prod(window) % 4 else ""
    kernel = get_microkernel(f"ec_matrix_1_{tail}s16_s8{TO_8[name]}_dsp")
    return check(core, tail + name, kernel, (*window, channels, *limits), x, constants)


@pytest.mark.parametrize("name", TO_8)
def test_to_8_bits(core, name):
    """Windows, numbers of channels that make the last four overlap, zero points and limits."""
    rng = np.random.default_rng(5)
    seen = set()
    for window in ((1, 1, 4), (1, 1, 36), (3, 3, 4), (2, 1, 6), (1, 4, 5), (3, 3, 3), (1, 1, 6)):
        for channels in (4, 5, 7, 8):
            for limits in ((-128, -128, 127), (5, -100, 120), (-3, -3, 60)):
                constants = tables(rng, name, window, channels)
                x = rng.integers(-32768, 32768, int(np.prod(window))).astype(np.int16)
                seen |= set(check_to_8(core, name, window, channels, constants, x, limits).tolist())
    assert len(seen) > 80


@pytest.mark.parametrize("name", TO_8)
def test_ties_and_ends_to_8_bits(core, name):
    """Sums on and beside ties, of factors that are powers of two; sums that int8 does not hold."""
    rng = np.random.default_rng(6)
    for exact in (4, 10, 16):
        constants = tables(rng, name, (1, 1, 4), 40)
        # By 2^14 * 2^-shift, or 2^29 * 2^-(32 + shift): 2^-exact.
        constants["multiplier"][:] = 1 << (29 if name == "high" else 14)
        constants["shift"][:] = exact - 3 if name == "high" else exact + 14
        half = (np.arange(40) - 20) << (exact - 1)
        constants["bias"][:] = half * rng.choice([1, 20], 40) + rng.integers(-1, 2, 40)
        for limits in ((0, -128, 127), (-128, -128, 127)):
            check_to_8(core, name, (1, 1, 4), 40, constants, np.zeros(4, np.int16), limits)


#: Shapes of inputs and windows, strides, dilations, corners, shapes of outputs.
WINDOWS = pytest.mark.parametrize(
    ("shape", "kernel", "stride", "dilation", "corner", "out"),
    [
        ((4, 5, 8), (3, 3), (1, 1), (1, 1), (1, 1), (4, 5)),
        ((3, 4, 4), (5, 8), (1, 1), (1, 1), (2, 4), (3, 4)),
        ((6, 7, 12), (3, 2), (2, 2), (1, 2), (1, 0), (3, 3)),
        ((2, 2, 4), (2, 2), (1, 1), (3, 3), (1, 1), (1, 1)),  # no tap inside
        ((3, 3, 4), (1, 1), (1, 1), (1, 1), (0, 0), (3, 3)),
    ],
)


@WINDOWS
def test_depthwise_windows_to_8_bits(core, shape, kernel, stride, dilation, corner, out):
    """Windows inside, across each edge and each corner, and outside; limits of every kind."""
    rng = np.random.default_rng(7)
    found = get_microkernel("ec_depthwise_windows_s16_s8_dsp")
    window = Window(shape, kernel, stride, dilation, corner, out[1], True, 0)
    for row in range(out[0]):
        for ends in ((-128, -128, 127), (5, -100, 120), (127, -3, 127)):
            constants = tables(rng, "high", kernel, shape[2])
            x = rng.integers(-32768, 32768, int(np.prod(shape))).astype(np.int16)
            numbers = (*window.sizes.values(), *ends, row * window.out_width)
            check(core, "windows", found, numbers, x, constants)


def sums_and_ties(rng, window, channels, case):
    """Constants of depthwise kernels to int16: any, on and beside ties, and the largest sums."""
    layer = onnx_tables(rng, (channels, *window), channels, ties=case == 1, shift=1, largest=2)
    if case == 2:
        layer["bias"] = rng.choice([-1, 1], channels).astype(np.int32) * ((1 << 22) - 1)
        layer["scale"] = (2.0 ** rng.uniform(-17, 6.9, channels)).astype(np.float32)
        layer["scale"][::3] = 100.0
    return layer


@WINDOWS
def test_depthwise_windows_to_16_bits(core, shape, kernel, stride, dilation, corner, out):
    if not 2 <= kernel[0] * kernel[1] <= MOST_TAPS:
        kernel = (5, 2) if kernel != (1, 1) else (2, 1)
    rng = np.random.default_rng(8)
    found = get_microkernel("ec_depthwise_windows_onnx_s8_s16_dsp")
    window = Window(shape, kernel, stride, dilation, corner, out[1], True, -5)
    for row in range(out[0]):
        for case, limits in enumerate((WHOLE, (0, 20000), (-300, 32767))):
            constants = sums_and_ties(rng, kernel, shape[2], case)
            x = rng.integers(-128, 128, int(np.prod(shape))).astype(np.int8)
            numbers = (*window.sizes.values(), *limits, row * window.out_width)
            check(core, "windows_16", found, numbers, x, constants)


def test_depthwise_3x3_to_16_bits(core):
    """Odd and even rows and columns; one channel among others."""
    rng = np.random.default_rng(9)
    found = get_microkernel("ec_depthwise_3x3_onnx_s8_s16_dsp")
    seen = set()
    for height in (2, 3, 7, 30):
        for width in (1, 2, 5):
            for case, limits in enumerate((WHOLE, (0, 20000), (-300, 32767))):
                plane = rng.integers(-128, 128, (width + 2) * COLUMN).astype(np.int16)
                elements = ((height - 1) * (width + 1) + width - 1) * 3 + 1
                constants = sums_and_ties(rng, (3, 3), 1, case)
                numbers = (height, width, width + 1, 3, *limits)
                seen |= set(check(core, "3x3", found, numbers, plane, constants, elements).tolist())
    assert len(seen) > 200
