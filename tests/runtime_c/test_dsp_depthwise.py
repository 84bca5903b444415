"""The DSP microkernels of depthwise convolution do what they are registered to mean."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_images import DSP_BUILDS, dsp_image, meant, run_on_core, with_arguments

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.loop.gathered import COLUMN
from edgec.loop.microkernel import get_microkernel
from edgec.loop.window import Window

pytest.importorskip("unicorn")
pytest.importorskip("capstone")

SOURCE = with_arguments("""
#include "kernels/dsp/depthwise_s8.h"
#include "kernels/dsp/depthwise_windows_s8.h"

void run_3x3(int8_t *out, const int16_t *plane, WORDS(s), WORDS(n));
void run_windows(int8_t *out, const int8_t *x, WORDS(s), WORDS(n));
void run_pack(int16_t *to, const int8_t *x, WORDS(n));
void run_pack_4(int16_t *to, const int8_t *x, WORDS(n));

void run_3x3(int8_t *out, const int16_t *plane, WORDS(s), WORDS(n))
{ ec_depthwise_3x3_s8_dsp(out, plane, s, n[0], n[1], n[2], n[3]); }
void run_windows(int8_t *out, const int8_t *x, WORDS(s), WORDS(n))
{ ec_depthwise_windows_s8_dsp(out, x, s, (const ec_window_sizes *)n, n[14], n[15]); }
void run_pack(int16_t *to, const int8_t *x, WORDS(n))
{ ec_pack_columns_s8_dsp(to, x, ARGUMENTS(ec_pack_columns_s8_dsp)); }
void run_pack_4(int16_t *to, const int8_t *x, WORDS(n))
{ ec_pack_columns_4_s8_dsp(to, x, ARGUMENTS(ec_pack_columns_4_s8_dsp)); }
""")


@pytest.fixture(scope="module", params=DSP_BUILDS, ids=lambda b: "-".join((b[0], b[1], *b[2])))
def core(request, tmp_path_factory):
    with dsp_image(request, tmp_path_factory, SOURCE) as simulator:
        yield simulator


def constants(rng, shift, *, extreme=False):
    """A channel's constants that the policy accepts."""
    w = rng.integers(-128, 128, (3, 3))
    if extreme:
        w = np.where(rng.random((3, 3)) < 0.5, -128, 127)
    return {
        "bias": rng.integers(-(1 << 18), 1 << 18, 1).astype(np.int32),
        "w": w.astype(np.int8),
        "multiplier": rng.integers(1 << 30, 1 << 31, 1).astype(np.int32),
        "shift": np.array([shift], np.int8),
    }


def check_3x3(core, rng, height, width, out_width, channels, channel):
    """C against meaning, on the bytes that belong to the channel; others stay as they were."""
    kernel = get_microkernel("ec_depthwise_3x3_s8_dsp")
    numbers = (height, width, out_width, channels)
    sizes = dict(zip(kernel.sizes, numbers, strict=True))
    stream = kernel.stream.pack(channel, **sizes)
    assert stream.size == kernel.stream.words(**sizes)
    plane = rng.integers(-128, 128, (width + 2) * COLUMN).astype(np.int16)
    out = np.full(((height - 1) * out_width + width - 1) * channels + 1, 77, np.int8)
    expected = meant(kernel, out, [plane, stream], numbers)
    found = run_on_core(core, "run_3x3", out, [plane, stream], numbers)
    assert np.array_equal(found, expected), numbers


def test_every_shape(core):
    """Odd and even rows and columns; each shift that has a way of its own, and others."""
    rng = np.random.default_rng(3)
    for number, height in enumerate((2, 3, 4, 7, 29, 30)):
        for width in (1, 2, 3, 6):
            channel = constants(rng, -1 - (4 * number + width) % 16)
            check_3x3(core, rng, height, width, width + height % 2, 3, channel)


def test_extremes_ties_and_saturation(core):
    """Sums on and beside ties of both roundings, and at the limits that the policy allows."""
    rng = np.random.default_rng(5)
    for shift in (-16, -9, -8, -7, -6, -5, -1):
        for extreme in (False, True):
            for multiplier in (1 << 30, (1 << 31) - 1):
                channel = constants(rng, shift, extreme=extreme)
                channel["multiplier"][0] = multiplier
                # With M = 2^30 the first rounding halves; the second ties at odd halves.
                half = int(rng.integers(-300, 300))
                bias = half * (1 << -shift) + int(rng.integers(-2, 3))
                most = (1 << 23) - 1 - 128 * int(np.abs(channel["w"].astype(int)).sum())
                if extreme:
                    bias = rng.choice([-1, 1]) * most
                channel["bias"][0] = np.clip(bias, -most, most)
                if half % 2:
                    channel["w"][:] = 0  # the bias alone is the sum
                check_3x3(core, rng, 3, 3, 3, 2, channel)


def window_tables(rng, channels, kernel, shift):
    """Constants of a layer that the policy accepts."""
    return {
        "bias": rng.integers(-(1 << 20), 1 << 20, channels).astype(np.int32),
        "w": rng.integers(-128, 128, (channels, *kernel)).astype(np.int8),
        "multiplier": rng.integers(1 << 30, 1 << 31, channels).astype(np.int32),
        "shift": np.resize(shift, channels).astype(np.int8),
    }


def check_row(core, rng, window, pixel, zero_point, layer):
    kernel = get_microkernel("ec_depthwise_windows_s8_dsp")
    sizes = {**window.sizes, "out_zero_point": zero_point}
    stream = kernel.stream.pack(layer, **sizes)
    assert stream.size == kernel.stream.words(**sizes)
    x = rng.integers(-128, 128, int(np.prod(window.shape))).astype(np.int8)
    out = np.full(window.out_width * window.shape[2], 77, np.int8)
    numbers = (*sizes.values(), pixel)
    expected = meant(kernel, out, [x, stream], numbers)
    assert np.array_equal(run_on_core(core, "run_windows", out, [x, stream], numbers), expected)


WINDOWS = [
    # shape, kernel, stride, dilation, corner, out width, padded; and rows of outputs
    (Window((6, 6, 8), (3, 3), (2, 2), (1, 1), (0, 0), 3, True, -7), 3),
    (Window((5, 5, 4), (3, 3), (1, 1), (1, 1), (1, 1), 5, True, 5), 5),
    (Window((9, 2, 12), (10, 1), (1, 1), (1, 1), (4, 0), 2, True, 127), 4),
    (Window((4, 9, 4), (1, 5), (1, 2), (1, 1), (0, 0), 3, False, 0), 4),
    (Window((7, 8, 4), (2, 4), (1, 1), (2, 2), (1, 3), 8, True, -128), 7),
]


@pytest.mark.parametrize("zero_point", (-128, -3, 127))
def test_windows(core, zero_point):
    rng = np.random.default_rng(8)
    for window, rows in WINDOWS:
        for row in range(rows):
            layer = window_tables(rng, window.shape[2], window.kernel, rng.integers(-15, 0, 7))
            check_row(core, rng, window, row * window.out_width, zero_point, layer)


@pytest.mark.parametrize("zero_point", (-128, 0, 127))
def test_windows_at_ties_and_limits(core, zero_point):
    rng = np.random.default_rng(9)
    window = Window((1, 1, 40), (1, 2), (1, 1), (1, 1), (0, 0), 1, True, 0)
    for shift in (-22, -15, -8, -7, -2, -1):
        layer = window_tables(rng, 40, (1, 2), [shift])
        layer["w"][:, :, 0] = 0  # and the other input is padding, which is zero
        near = (np.arange(40) - 20) * (1 << -shift) + rng.integers(-2, 3, 40)
        layer["bias"] = np.clip(near, -(1 << 30) + 1, (1 << 30) - 1).astype(np.int32)
        layer["multiplier"][::3] = 1 << 30
        layer["multiplier"][1::3] = (1 << 31) - 1
        check_row(core, rng, window, 0, zero_point, layer)
        layer["bias"][:] = np.where(rng.random(40) < 0.5, (1 << 30) - 1, -(1 << 30) + 1)
        check_row(core, rng, window, 0, zero_point, layer)


def test_streams_of_windows_give_their_constants_back():
    rng = np.random.default_rng(10)
    kernel = get_microkernel("ec_depthwise_windows_s8_dsp")
    for window, _ in WINDOWS:
        sizes = {**window.sizes, "out_zero_point": 3}
        layer = window_tables(rng, window.shape[2], window.kernel, rng.integers(-22, 0, 7))
        found = kernel.stream.unpack(kernel.stream.pack(layer, **sizes), **sizes)
        for key, array in layer.items():
            assert np.array_equal(np.asarray(found[key]).reshape(-1), array.reshape(-1)), key


def test_streams_give_their_constants_back():
    rng = np.random.default_rng(6)
    kernel = get_microkernel("ec_depthwise_3x3_s8_dsp")
    sizes = dict.fromkeys(kernel.sizes, 1)
    for shift in (-16, -9, -8, -7, -6, -5, -1):
        channel = constants(rng, shift, extreme=shift % 2 == 0)
        found = kernel.stream.unpack(kernel.stream.pack(channel, **sizes), **sizes)
        for key, array in channel.items():
            assert np.array_equal(np.asarray(found[key]).reshape(-1), array.reshape(-1)), key


def check_packing(core, name, numbers, x_elements, shape, used):
    kernel = get_microkernel(f"ec_{name}_s8_dsp")
    x = np.random.default_rng(7).integers(-128, 128, x_elements).astype(np.int8)
    to = np.full(int(np.prod(shape)), 99, np.int16)
    expected = meant(kernel, to, [x], numbers).reshape(shape)
    runner = {"pack_columns": "run_pack", "pack_columns_4": "run_pack_4"}.get(name, f"run_{name}")
    found = run_on_core(core, runner, to, [x], numbers).reshape(shape)
    assert np.array_equal(found[used], expected[used]), numbers


def plane_cases():
    """(height, width, top, left, pairs, columns, first, column): whole planes, parts and tiles."""
    for height, width in ((25, 5), (2, 1), (3, 3), (6, 4), (5, 2)):
        yield height, width, 1, 1, (height + 3) // 2, width + 2, 0, 0
        yield height, width, 0, 0, (height + 1) // 2, width, 0, 0
    for first in (0, 6, 12):
        yield 18, 3, 1, 1, 4, 5, first, 0
        for column in (0, 4):
            yield 18, 8, 1, 1, 4, 6, first, column


def test_columns(core):
    for height, width, top, left, pairs, columns, first, column in plane_cases():
        for step in (1, 3, 4, 8):
            sizes = (height, width, step, top, left, pairs, columns, -7)
            where = (first, column)
            elements = height * width * step - step + 1
            used = (slice(None), slice(0, 2 * pairs))
            check_packing(core, "pack_columns", (*sizes, *where), elements, (columns, COLUMN), used)
            if step >= 4:
                plane = columns * COLUMN
                check_packing(
                    core, "pack_columns_4", (*sizes, plane, *where), elements + 3,
                    (4, columns, COLUMN), (slice(None), *used),
                )  # fmt: skip
