"""The DSP kernels of 3x3 windows in tiles do what they are registered to mean."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_images import DSP_BUILDS, dsp_image, meant, onnx_tables, run_on_core

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.loop.microkernel import get_microkernel

pytest.importorskip("unicorn")
pytest.importorskip("capstone")

TFLM, ONNX = "ec_tiles_s8_dsp", "ec_tiles_onnx_s8_dsp"
SOURCE = """
#include "kernels/dsp/tiles_s8.h"

void run_tiles(int8_t *out, const int8_t *x, WORDS(s), WORDS(n));
void run_tiles_onnx(int8_t *out, const int8_t *x, WORDS(s), WORDS(n));

void run_tiles(int8_t *out, const int8_t *x, WORDS(s), WORDS(n))
{ ec_tiles_s8_dsp(out, x, s, (const ec_tiles_sizes *)n); }

void run_tiles_onnx(int8_t *out, const int8_t *x, WORDS(s), WORDS(n))
{ ec_tiles_onnx_s8_dsp(out, x, s, (const ec_tiles_sizes *)n); }
"""


@pytest.fixture(scope="module", params=DSP_BUILDS, ids=lambda b: "-".join((b[0], b[1], *b[2])))
def core(request, tmp_path_factory):
    with dsp_image(request, tmp_path_factory, SOURCE) as simulator:
        yield simulator


def layer(rng, inputs, channels, shifts):
    """Constants that the policy accepts."""
    return {
        "bias": rng.integers(-(1 << 16), 1 << 16, channels).astype(np.int32),
        "w": rng.integers(-128, 128, (channels, 3, 3, inputs)).astype(np.int8),
        "multiplier": rng.integers(1 << 30, 1 << 31, channels).astype(np.int32),
        "shift": np.resize(shifts, channels).astype(np.int8),
    }


def check(core, rng, name, tables, x=None, **sizes):
    """C against meaning."""
    kernel = get_microkernel(name)
    numbers = tuple(sizes[size] for size in kernel.sizes)
    stream = kernel.stream.pack(tables, **sizes)
    assert stream.size == kernel.stream.words(**sizes)
    for source, array in kernel.stream.unpack(stream, **sizes).items():
        assert np.array_equal(np.reshape(array, tables[source].shape), tables[source])
    if x is None:
        count = sizes["height"] * sizes["width"] * sizes["in_channels"]
        x = rng.integers(-128, 128, count).astype(np.int8)
    out = np.full(sizes["rows"] * sizes["pixels"] * sizes["channels"], 77, np.int8)
    expected = meant(kernel, out, [x, stream], numbers)
    function = "run_tiles" if name == TFLM else "run_tiles_onnx"
    assert np.array_equal(run_on_core(core, function, out, [x, stream], numbers), expected)


def sizes_of(height, width, inputs, channels, around, fill=-9, zero_point=3):
    """The sizes of an image with so much outside of it: above, left, below, right."""
    top, left, bottom, right = around
    return {
        "height": height, "width": width, "in_channels": inputs, "top": top, "left": left,
        "rows": height + top + bottom - 2, "pixels": width + left + right - 2,
        "channels": channels, "fill": fill, "zero_point": zero_point,
    }  # fmt: skip


@pytest.mark.parametrize("around", [(0, 0, 0, 0), (1, 1, 1, 1), (2, 0, 0, 2), (0, 3, 1, 0)])
def test_every_edge(core, around):
    """Nothing outside of x is read, wherever windows begin and strips overlap."""
    rng = np.random.default_rng(3)
    for height, width in ((3, 10), (2, 13), (1, 8), (5, 19)):
        sizes = sizes_of(height, width, 8, 3, around)
        if sizes["rows"] > 0 and sizes["pixels"] >= 8:
            check(core, rng, TFLM, layer(rng, 8, 3, [-9, -7, -3]), **sizes)


@pytest.mark.parametrize(("inputs", "rows"), [(16, 12), (24, 3), (48, 3), (64, 2)])
def test_rows_and_channels(core, inputs, rows):
    """More rows than are transformed together, or just one."""
    rng = np.random.default_rng(4)
    tables = layer(rng, inputs, 2, [-9, -8])
    check(core, rng, TFLM, tables, **sizes_of(rows, 8, inputs, 2, (1, 1, 1, 1)))


def test_both_zero_points_and_saturation(core):
    """Sums on and beside ties of both roundings, and at the limits that the policy allows."""
    rng = np.random.default_rng(5)
    channels = 16
    for zero_point, shifts in ((-128, (0, -1, -8, -15)), (3, (-1, -7, -22)), (127, (-6,))):
        for shift in shifts:
            tables = layer(rng, 8, channels, [shift])
            tables["multiplier"][::3] = 1 << 30
            tables["multiplier"][1::3] = (1 << 31) - 1
            half = rng.integers(-300, 300, channels)
            tables["w"][half % 2 == 1] = 0  # the bias alone is the sum
            bias = half * (1 << -shift) + rng.integers(-2, 3, channels)
            tables["bias"] = np.clip(bias, -(1 << 22), 1 << 22).astype(np.int32)
            sizes = sizes_of(1, 8, 8, channels, (1, 1, 1, 1), 127, zero_point)
            check(core, rng, TFLM, tables, **sizes)


def test_extremes_of_weights_and_inputs(core):
    """Transformed inputs of 256 and -256, and weights of 384 and -384, do not wrap."""
    rng = np.random.default_rng(6)
    sizes = sizes_of(3, 10, 64, 2, (0, 0, 0, 0), -128, -4)
    for w in (-128, 127):
        for x in (-128, 127):
            tables = layer(rng, 64, 2, [-13])
            tables["w"][0] = w
            tables["w"][1, :, :, ::2] = -w - 1
            image = np.full(3 * 10 * 64, x, np.int8)
            check(core, rng, TFLM, tables, image, **sizes)
            image.reshape(3, 10, 64)[:, ::2] = -x - 1
            check(core, rng, TFLM, tables, image, **sizes)


def test_rounding_of_onnx(core):
    rng = np.random.default_rng(7)
    for ties in (True, False):
        tables = onnx_tables(rng, (7, 3, 3, 8), 7, ties=ties, shift=3, largest=-5)
        check(core, rng, ONNX, tables, **sizes_of(2, 9, 8, 7, (1, 1, 1, 1)))
