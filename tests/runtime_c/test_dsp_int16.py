"""The DSP microkernels of int16 inputs do what they are registered to mean, on the cores."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_images import DSP_BUILDS, dsp_image, meant, run_on_core, with_arguments

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.loop.microkernel import get_microkernel
from edgec.loop.window import Window

pytest.importorskip("unicorn")
pytest.importorskip("capstone")

SOURCE = with_arguments("""
#include "kernels/dsp/depthwise_windows_s16.h"
#include "kernels/dsp/matrix_s16.h"

void run_matrix_1(int16_t *out, const int16_t *x, WORDS(s), WORDS(n));
void run_matrix_1_any(int16_t *out, const int16_t *x, WORDS(s), WORDS(n));
void run_matrix_1_s64(int16_t *out, const int16_t *x, WORDS(s), WORDS(n));

void run_matrix_1(int16_t *out, const int16_t *x, WORDS(s), WORDS(n))
{ ec_matrix_1_s16_dsp(out, x, s, n[0] * n[1] * n[2], n[3], n[4], n[5]); }
void run_matrix_1_any(int16_t *out, const int16_t *x, WORDS(s), WORDS(n))
{ ec_matrix_1_s16_any_dsp(out, x, s, n[0] * n[1] * n[2], n[3], n[4], n[5]); }
void run_matrix_1_s64(int16_t *out, const int16_t *x, WORDS(s), WORDS(n))
{ ec_matrix_1_s16_s64_dsp(out, x, s, n[0] * n[1] * n[2], n[3], n[4], n[5]); }

void run_tail(int16_t *out, const int16_t *x, WORDS(s), WORDS(n));
void run_tail_any(int16_t *out, const int16_t *x, WORDS(s), WORDS(n));
void run_tail_s64(int16_t *out, const int16_t *x, WORDS(s), WORDS(n));

void run_tail(int16_t *out, const int16_t *x, WORDS(s), WORDS(n))
{ ec_matrix_1_tail_s16_dsp(out, x, s, ARGUMENTS(ec_matrix_1_tail_s16_dsp)); }
void run_tail_any(int16_t *out, const int16_t *x, WORDS(s), WORDS(n))
{ ec_matrix_1_tail_s16_any_dsp(out, x, s, ARGUMENTS(ec_matrix_1_tail_s16_any_dsp)); }
void run_tail_s64(int16_t *out, const int16_t *x, WORDS(s), WORDS(n))
{ ec_matrix_1_tail_s16_s64_dsp(out, x, s, ARGUMENTS(ec_matrix_1_tail_s16_s64_dsp)); }

void run_windows(int16_t *out, const int16_t *x, WORDS(s), WORDS(n));
void run_windows_limited(int16_t *out, const int16_t *x, WORDS(s), WORDS(n));
void run_windows(int16_t *out, const int16_t *x, WORDS(s), WORDS(n))
{ ec_depthwise_windows_s16_dsp(out, x, s, n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8],
                               n[9], n[10], n[11], n[12], n[13], n[14], n[15]); }
void run_windows_limited(int16_t *out, const int16_t *x, WORDS(s), WORDS(n))
{ ec_depthwise_windows_limited_s16_dsp(out, x, s,
                                       ARGUMENTS(ec_depthwise_windows_limited_s16_dsp)); }
""")
KERNELS = {
    "ec_matrix_1_s16_dsp": "run_matrix_1",
    "ec_matrix_1_s16_any_dsp": "run_matrix_1_any",
    "ec_matrix_1_s16_s64_dsp": "run_matrix_1_s64",
}
#: The same for windows whose inputs are no multiple of four.
TAILS = {
    "ec_matrix_1_tail_s16_dsp": "run_tail",
    "ec_matrix_1_tail_s16_any_dsp": "run_tail_any",
    "ec_matrix_1_tail_s16_s64_dsp": "run_tail_s64",
}
WHOLE = (-32768, 32767)


@pytest.fixture(scope="module", params=DSP_BUILDS, ids=lambda b: "-".join((b[0], b[1], *b[2])))
def core(request, tmp_path_factory):
    with dsp_image(request, tmp_path_factory, SOURCE) as simulator:
        yield simulator


@pytest.fixture(params=list(KERNELS))
def name(request):
    return request.param


def is_high(name):
    """Whether sums are rescaled by the upper half of a product of 32 bits."""
    return name in ("ec_matrix_1_s16_dsp", "ec_matrix_1_tail_s16_dsp")


def tables(rng, name, window, channels):
    """Constants with which no accumulator of 32 bits overflows."""
    wide = "s64" in name
    high = 40 if wide else 20
    multiplier = rng.integers(1 << 14, 1 << 15, channels)
    return {
        "bias": rng.integers(-(1 << high), 1 << high, channels).astype(
            np.int64 if wide else np.int32
        ),
        "w": rng.integers(-128, 128, (channels, *window)).astype(np.int8),
        "multiplier": (multiplier << 15 if is_high(name) else multiplier).astype(np.int32),
        "shift": rng.integers(*shifts(name), channels).astype(np.int8),
    }


def shifts(name):
    return (1, 25) if is_high(name) else (8, 47)


def check(core, name, window, channels, constants, x, limits=WHOLE):
    kernel = get_microkernel(name)
    numbers = (*window, channels, *limits)
    sizes = dict(zip(kernel.sizes, numbers, strict=True))
    stream = kernel.stream.pack(constants, **sizes)
    assert stream.size == kernel.stream.words(**sizes)
    for key, array in kernel.stream.unpack(stream, **sizes).items():
        assert np.array_equal(array.reshape(-1), constants[key].reshape(-1)), key
    out = np.full(channels, 77, np.int16)
    expected = meant(kernel, out, [x, stream], numbers)
    found = run_on_core(core, {**KERNELS, **TAILS}[name], out, [x, stream], numbers)
    assert np.array_equal(found, expected)
    return expected


def test_windows_and_channels(core, name):
    rng = np.random.default_rng(3)
    for window in ((1, 1, 4), (1, 1, 36), (3, 3, 4), (2, 1, 6), (1, 4, 5)):
        for channels in (4, 5, 7, 8):
            constants = tables(rng, name, window, channels)
            x = rng.integers(-32768, 32768, int(np.prod(window))).astype(np.int16)
            check(core, name, window, channels, constants, x, (-3000, 32767))


@pytest.mark.parametrize("tail", TAILS)
def test_inputs_that_are_no_multiple_of_four(core, tail):
    rng = np.random.default_rng(8)
    for window in ((1, 1, 5), (1, 1, 6), (1, 1, 39), (3, 3, 3), (2, 1, 7), (1, 5, 5)):
        for channels in (4, 5, 8):
            constants = tables(rng, tail, window, channels)
            x = rng.integers(-32768, 32768, int(np.prod(window))).astype(np.int16)
            check(core, tail, window, channels, constants, x, (-3000, 32767))
    constants = tables(rng, tail, (1, 1, 7), 8)
    constants["w"][:] = -128
    check(core, tail, (1, 1, 7), 8, constants, np.full(7, -32768, np.int16))


def test_ties_extremes_and_limits(core, name):
    """Sums on and beside ties of every shift, the largest inputs and weights."""
    rng = np.random.default_rng(4)
    window = (1, 1, 4)
    for shift in range(*shifts(name)):
        constants = tables(rng, name, window, 20)
        constants["shift"][:] = shift
        constants["multiplier"][:10] = 1 << (14 if "s64" in name else 29)
        half = (np.arange(20) - 10).astype(np.int64) << max(
            shift - 15 + (0 if "s64" in name else 17), 0
        )
        near = np.clip(half, -(1 << 30), 1 << 30) + rng.integers(-2, 3, 20)
        constants["bias"] = near.astype(constants["bias"].dtype)
        check(core, name, window, 20, constants, np.zeros(4, np.int16))
        edges = rng.choice(np.array(WHOLE, np.int16), 4)
        constants["w"] = rng.choice(np.array([-128, 127], np.int8), constants["w"].shape)
        constants["bias"][:] = rng.integers(-5, 5, 20)
        check(core, name, window, 20, constants, edges, (-100, 30000))


def test_sums_beyond_32_bits(core):
    """What only 64 bits hold, and a bias near their ends, which wraps."""
    name, window = "ec_matrix_1_s16_s64_dsp", (1, 1, 700)
    constants = tables(np.random.default_rng(5), name, window, 4)
    constants["w"][:] = -128
    constants["bias"][:] = [0, 1 << 40, (1 << 62), -(1 << 62)]
    constants["shift"][:] = [46, 40, 46, 8]
    x = np.full(700, -32768, np.int16)
    check(core, name, window, 4, constants, x)


#: Kernels, and the ranges of results of each.
WINDOWS = {
    "windows": [(-32768,), (0,)],
    "windows_limited": [(-32768, 20000), (0, 300), (-5000, -7), (-32768, 32767)],
}


def windows(core, name, window, row, limits, **changes):
    """Run output row `row` on the core, and compare it with the kernel's meaning."""
    kernel = get_microkernel(f"ec_depthwise_{name}_s16_dsp")
    rng = np.random.default_rng(window.shape[2] + row)
    channels = window.shape[2]
    constants = {
        "bias": rng.integers(-(1 << 20), 1 << 20, channels).astype(np.int32),
        "w": rng.integers(-128, 128, (channels, *window.kernel)).astype(np.int8),
        "multiplier": (rng.integers(1 << 14, 1 << 15, channels) << 15).astype(np.int32),
        "shift": rng.integers(1, 25, channels).astype(np.int8),
        **changes,
    }
    sizes = {**window.sizes, **dict(zip(("least", "most"), limits, strict=False))}
    stream = kernel.stream.pack(constants, **sizes)
    assert stream.size == kernel.stream.words(**sizes)
    for key, array in kernel.stream.unpack(stream, **sizes).items():
        assert np.array_equal(array.reshape(-1), constants[key].reshape(-1)), key
    x = rng.integers(-32768, 32768, window.shape).astype(np.int16)
    out = np.full((window.out_width, channels), 77, np.int16)
    numbers = (*sizes.values(), row * window.out_width)
    expected = meant(kernel, out, [x, stream], numbers)
    assert np.array_equal(run_on_core(core, f"run_{name}", out, [x, stream], numbers), expected)


@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "dilation", "corner", "out"),
    [
        ((4, 5, 8), (3, 3), (1, 1), (1, 1), (1, 1), (4, 5)),
        ((3, 4, 4), (5, 8), (1, 1), (1, 1), (2, 4), (3, 4)),
        ((6, 7, 12), (3, 2), (2, 2), (1, 2), (1, 0), (3, 3)),
        ((2, 2, 4), (2, 2), (1, 1), (3, 3), (1, 1), (1, 1)),  # no tap inside
        ((3, 3, 4), (1, 1), (1, 1), (1, 1), (0, 0), (3, 3)),
    ],
)
def test_depthwise_windows(core, shape, kernel, stride, dilation, corner, out):
    """Windows inside, across each edge and each corner, and outside."""
    window = Window(shape, kernel, stride, dilation, corner, out[1], True, 0)
    for row in range(out[0]):
        for name, limits in WINDOWS.items():
            windows(core, name, window, row, limits[row % len(limits)])


@pytest.mark.parametrize("name", WINDOWS)
def test_depthwise_ties(core, name):
    """Sums on and beside ties of every shift, of both signs, and sums that are limited."""
    window = Window((1, 1, 16), (1, 1), (1, 1), (1, 1), (0, 0), 1, False, 0)
    rng = np.random.default_rng(9)
    for shift in range(1, 25):
        near = (np.arange(16) - 8) * (1 << min(shift + 2, 27)) + rng.integers(-2, 3, 16)
        windows(
            core, name, window, 0, WINDOWS[name][shift % len(WINDOWS[name])],
            bias=near.astype(np.int32), w=np.zeros((16, 1, 1), np.int8),
            multiplier=np.full(16, 1 << 29, np.int32), shift=np.full(16, shift, np.int8),
        )  # fmt: skip
