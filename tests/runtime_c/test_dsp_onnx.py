"""The DSP microkernels that round as ONNX Runtime does are what they are registered to mean."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_images import (
    DSP_BUILDS,
    dsp_image,
    meant,
    onnx_tables,
    packed_by_four,
    run_on_core,
)

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.loop.gathered import COLUMN
from edgec.loop.microkernel import get_microkernel, meaning_of
from edgec.loop.window import Window
from edgec.targets.dsp.fixed_scales import fixed_scales
from edgec.targets.dsp.kernels.matrix_four import PLACES

pytest.importorskip("unicorn")
pytest.importorskip("capstone")

SOURCE = """
#include "kernels/dsp/matrix_s8_onnx.h"
#include "kernels/dsp/matrix_s8_onnx_four.h"
#include "kernels/dsp/depthwise_s8_onnx.h"
#include "kernels/dsp/depthwise_windows_s8_onnx.h"

void run_matrix_4(int8_t *out, const int8_t *x, WORDS(s), WORDS(n));
void run_matrix_3(int8_t *out, const int16_t *x, WORDS(s), WORDS(n));
void run_matrix_1(int8_t *out, const int16_t *x, WORDS(s), WORDS(n));
void run_matrix_1_plain(int8_t *out, const int8_t *x, WORDS(s), WORDS(n));
void run_matrix_1_shared(int8_t *out, const int16_t *x, WORDS(s), WORDS(n));
void run_matrix_1_plain_shared(int8_t *out, const int8_t *x, WORDS(s), WORDS(n));
void run_depthwise_3x3(int8_t *out, const int16_t *plane, WORDS(s), WORDS(n));
void run_depthwise_windows(int8_t *out, const int8_t *x, WORDS(s), WORDS(n));
void run_fma(float *out, const float *x, WORDS(n));

void run_fma(float *out, const float *x, WORDS(n))
{
    for (int32_t i = 0; i < n[0]; ++i) {
        out[i] = ec_fma_f32(x[3 * i], x[3 * i + 1], x[3 * i + 2]);
    }
}
void run_matrix_4(int8_t *out, const int8_t *x, WORDS(s), WORDS(n))
{ ec_matrix_4_onnx_s8_dsp(out, x, s, n[0], n[1], n[2]); }
void run_matrix_3(int8_t *out, const int16_t *x, WORDS(s), WORDS(n))
{ ec_matrix_3_onnx_s8_dsp(out, x, s, n[0], n[1], n[2]); }
void run_matrix_1(int8_t *out, const int16_t *x, WORDS(s), WORDS(n))
{ ec_matrix_1_onnx_s8_dsp(out, x, s, n[0], n[1], n[2]); }
void run_matrix_1_plain(int8_t *out, const int8_t *x, WORDS(s), WORDS(n))
{ ec_matrix_1_plain_onnx_s8_dsp(out, x, s, n[0], n[1], n[2]); }
void run_matrix_1_shared(int8_t *out, const int16_t *x, WORDS(s), WORDS(n))
{ ec_matrix_1_shared_onnx_s8_dsp(out, x, s, n[0], n[1], n[2]); }
void run_matrix_1_plain_shared(int8_t *out, const int8_t *x, WORDS(s), WORDS(n))
{ ec_matrix_1_plain_shared_onnx_s8_dsp(out, x, s, n[0], n[1], n[2]); }
void run_depthwise_3x3(int8_t *out, const int16_t *plane, WORDS(s), WORDS(n))
{ ec_depthwise_3x3_onnx_s8_dsp(out, plane, s, n[0], n[1], n[2], n[3], n[4]); }
void run_depthwise_windows(int8_t *out, const int8_t *x, WORDS(s), WORDS(n))
{ ec_depthwise_windows_onnx_s8_dsp(out, x, s, (const ec_window_sizes *)n, n[14], n[15]); }
"""

SHARED = ("matrix_1_shared", "matrix_1_plain_shared")
PAIRS = ("matrix_4", "matrix_3")
PRODUCTS = (*PAIRS, "matrix_1", "matrix_1_plain", *SHARED)


@pytest.fixture(scope="module", params=DSP_BUILDS, ids=lambda b: "-".join((b[0], b[1], *b[2])))
def core(request, tmp_path_factory):
    with dsp_image(request, tmp_path_factory, SOURCE) as simulator:
        yield simulator


def kernel_of(name):
    return get_microkernel(f"ec_{name}_onnx_s8_dsp")


def tables(rng, weights, *, ties=False):
    return onnx_tables(rng, weights, weights[0], ties=ties, shift=1, largest=-6)


def check(core, name, numbers, x, constants, out=None):
    kernel = kernel_of(name)
    sizes = dict(zip(kernel.sizes, numbers, strict=False))
    stream = kernel.stream.pack(constants, **sizes)
    assert stream.size == kernel.stream.words(**sizes)
    for key, array in kernel.stream.unpack(stream, **sizes).items():
        assert np.array_equal(np.asarray(array).reshape(-1), constants[key].reshape(-1)), key
    if out is None:
        func = meaning_of(kernel, numbers)
        out = np.full(next(p.elements for p in func.params if p.name == "out"), 77, np.int8)
    expected = meant(kernel, out, [x, stream], numbers)
    given = packed_by_four(x) if name == "matrix_4" else x
    assert np.array_equal(run_on_core(core, f"run_{name}", out, [given, stream], numbers), expected)


def product_tables(rng, name, weights, *, ties=False):
    """All channels have one scale where the kernel wants that."""
    constants = tables(rng, weights, ties=ties)
    if name in SHARED:
        constants["scale"] = np.full_like(constants["scale"], constants["scale"][0])
    return constants


def product_inputs(rng, name, size):
    if name == "matrix_4":
        return rng.integers(-128, 128, 24 * size).astype(np.int8)
    if "plain" in name:
        return rng.integers(-128, 128, 8 * size).astype(np.int8)
    return rng.integers(-128, 128, (12 if name == "matrix_3" else 8) * size).astype(np.int16)


def test_fused_sums(core):
    """An int8 times a scale, and a sum: what float64 holds exactly is rounded once."""
    rng = np.random.default_rng(7)
    operands = rng.integers(-128, 128, (200, 1)).astype(np.float32)
    others = rng.uniform(0.01, 2, (200, 2)).astype(np.float32) * [1, 90]
    x = np.concatenate([operands, others], axis=1).astype(np.float32)
    wide = x.astype(np.float64)
    expected = (wide[:, 0] * wide[:, 1] + wide[:, 2]).astype(np.float32)
    out = np.zeros(len(x), np.float32)
    assert np.array_equal(run_on_core(core, "run_fma", out, [x], (len(x),)), expected)


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(core, name):
    """Lengths of the reduction on each way into the loops, and numbers of channels."""
    rng = np.random.default_rng(3)
    by_pairs = name in PAIRS
    for size in (1, 2, 3, 4, 5, 18, 19, 20) if by_pairs else (1, 2, 7, 8, 9):
        quads = size if by_pairs else 2 * size
        for channels in (2, 3) if by_pairs else (4, 6):
            for zero_point in (-128, 5):
                constants = product_tables(rng, name, (channels, quads, 2, 2))
                x = product_inputs(rng, name, size)
                check(core, name, (size, channels, zero_point), x, constants)


@pytest.mark.parametrize("zero_point", (-128, 0, 127))
@pytest.mark.parametrize("name", PRODUCTS)
def test_ties_of_products(core, name, zero_point):
    rng = np.random.default_rng(4)
    size = 2 if name in PAIRS else 1
    constants = product_tables(rng, name, (41, 2, 2, 2), ties=True)
    x = product_inputs(rng, name, size)
    check(core, name, (size, 41, zero_point), x, constants)
    # The largest sums that there may be, of both signs, and float32's own rounding of products.
    constants["bias"] = rng.choice([-1, 1], 41).astype(np.int32) * ((1 << 23) - 1)
    scales = 2.0 ** rng.uniform(-17, 6.9, 1 if name in SHARED else 41)
    constants["scale"] = np.full(41, scales, np.float32)
    check(core, name, (size, 41, zero_point), x, constants)


@pytest.mark.parametrize("zero_point", (-128, 0, 127))
def test_pairs_by_integers_and_by_floats(core, zero_point):
    """Results of all sizes, of scales that integers stand for and of others."""
    rng = np.random.default_rng(8)
    for channels in (24, 25):
        constants = tables(rng, (channels, 2, 2, 2))
        constants["scale"] = (2.0 ** rng.uniform(-11, -5, channels)).astype(np.float32)
        reach = 300 / constants["scale"]
        constants["w"] = (constants["w"] // 8).astype(np.int8)
        constants["bias"] = rng.uniform(-reach, reach).astype(np.int32)
        is_integer = fixed_scales(constants["scale"], zero_point, PLACES) > 0
        assert is_integer.any() and not is_integer.all()
        x = product_inputs(rng, "matrix_4", 2)
        check(core, "matrix_4", (2, channels, zero_point), x, constants)


def test_depthwise_3x3(core):
    """Odd and even rows and columns; ties."""
    rng = np.random.default_rng(5)
    for height in (2, 3, 7, 30):
        for width in (1, 2, 5):
            for ties in (False, True):
                plane = rng.integers(-128, 128, (width + 2) * COLUMN).astype(np.int16)
                out = np.full(((height - 1) * (width + 1) + width - 1) * 3 + 1, 77, np.int8)
                numbers = (height, width, width + 1, 3, int(rng.choice([-128, 4, 127])))
                channel = tables(rng, (1, 3, 3), ties=ties)
                check(core, "depthwise_3x3", numbers, plane, channel, out)


WINDOWS = (
    # shape, kernel, stride, dilation, corner, out width, padded; and rows of outputs
    (Window((6, 6, 8), (3, 3), (2, 2), (1, 1), (0, 0), 3, True, -7), 3),
    (Window((9, 2, 12), (10, 1), (1, 1), (1, 1), (4, 0), 2, True, 127), 4),
    (Window((4, 9, 4), (1, 5), (1, 2), (1, 1), (0, 0), 3, False, 0), 4),
)


@pytest.mark.parametrize("zero_point", (-128, 3))
def test_depthwise_windows(core, zero_point):
    rng = np.random.default_rng(6)
    for window, rows in WINDOWS:
        for row in range(rows):
            layer = tables(rng, (window.shape[2], *window.kernel), ties=row == 0)
            x = rng.integers(-128, 128, int(np.prod(window.shape))).astype(np.int8)
            sizes = {**window.sizes, "out_zero_point": zero_point}
            numbers = (*sizes.values(), row * window.out_width)
            check(core, "depthwise_windows", numbers, x, layer)
