"""The DSP microkernels of matrix products do what they are registered to mean, on the cores."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_images import DSP_BUILDS, dsp_image, meant, packed_by_four, run_on_core

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.errors import ScheduleError
from edgec.loop.microkernel import get_microkernel, meaning_of
from edgec.loop.window import Window
from edgec.targets.dsp.shared_shift import LEAST, SHIFT

pytest.importorskip("unicorn")
pytest.importorskip("capstone")

SOURCE = """
#include "kernels/dsp/matrix_s8_to_s16.h"
#include "kernels/dsp/matrix_s8_two.h"
#include "kernels/dsp/matrix_s8_four.h"
#include "kernels/dsp/matrix_pack_s8_four.h"

void run_matrix_3(int8_t *out, const int16_t *x, WORDS(s), WORDS(n));
void run_matrix_2(int8_t *out, const int16_t *x, WORDS(s), WORDS(n));
void run_pack_rows_2(int16_t *to, const int8_t *x, WORDS(n));
void run_pack_windows_2(int16_t *to, const int8_t *x, WORDS(n));
void run_matrix_4(int8_t *out, const int8_t *x, WORDS(s), WORDS(n));
void run_matrix_1(int8_t *out, const int16_t *x, WORDS(s), WORDS(n));
void run_matrix_1_plain(int8_t *out, const int8_t *x, WORDS(s), WORDS(n));
void run_matrix_1_to_s16(int16_t *out, const int8_t *x, WORDS(s), WORDS(n));
void run_pack_rows_3(int16_t *to, const int8_t *x, WORDS(n));
void run_pack_row(int16_t *to, const int8_t *x, WORDS(n));
void run_pack_rows_4(int8_t *to, const int8_t *x, WORDS(n));
void run_pack_windows_4(int8_t *to, const int8_t *x, WORDS(n));
void run_pack_neighbours_4(int8_t *to, const int8_t *x, WORDS(n));
void run_pack_taps_4(int8_t *to, const int8_t *x, WORDS(n));
void run_pack_few_taps_4(int8_t *to, const int8_t *x, WORDS(n));
void run_pack_windows_3(int16_t *to, const int8_t *x, WORDS(n));
void run_pack_taps_3(int16_t *to, const int8_t *x, WORDS(n));
void run_pack_few_taps_3(int16_t *to, const int8_t *x, WORDS(n));
void run_pad(int8_t *to, const int8_t *x, WORDS(n));

void run_matrix_3(int8_t *out, const int16_t *x, WORDS(s), WORDS(n))
{ ec_matrix_3_s8_dsp(out, x, s, n[0], n[1], n[2]); }
void run_matrix_2(int8_t *out, const int16_t *x, WORDS(s), WORDS(n))
{ ec_matrix_2_s8_dsp(out, x, s, n[0], n[1], n[2]); }
void run_pack_rows_2(int16_t *to, const int8_t *x, WORDS(n))
{ ec_pack_rows_2_s8_dsp(to, x, n[0]); }
void run_pack_windows_2(int16_t *to, const int8_t *x, WORDS(n))
{ ec_pack_windows_2_s8_dsp(to, x, n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9],
                           n[10], n[11], n[12], n[13], n[14]); }
void run_matrix_4(int8_t *out, const int8_t *x, WORDS(s), WORDS(n))
{ ec_matrix_4_s8_dsp(out, x, s, n[0], n[1], n[2], n[3]); }
void run_matrix_1(int8_t *out, const int16_t *x, WORDS(s), WORDS(n))
{ ec_matrix_1_s8_dsp(out, x, s, n[0], n[1], n[2]); }
void run_matrix_1_plain(int8_t *out, const int8_t *x, WORDS(s), WORDS(n))
{ ec_matrix_1_plain_s8_dsp(out, x, s, n[0], n[1], n[2]); }
void run_matrix_1_to_s16(int16_t *out, const int8_t *x, WORDS(s), WORDS(n))
{ ec_matrix_1_plain_s8_s16_dsp(out, x, s, n[0], n[1], n[2]); }
void run_pack_rows_3(int16_t *to, const int8_t *x, WORDS(n))
{ ec_pack_rows_3_s8_dsp(to, x, n[0]); }
void run_pack_row(int16_t *to, const int8_t *x, WORDS(n)) { ec_pack_row_s8_dsp(to, x, n[0]); }
void run_pack_windows_3(int16_t *to, const int8_t *x, WORDS(n))
{ ec_pack_windows_3_s8_dsp(to, x, n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9],
                           n[10], n[11], n[12], n[13], n[14]); }
void run_pack_taps_3(int16_t *to, const int8_t *x, WORDS(n))
{ ec_pack_taps_3_s8_dsp(to, x, (const ec_window_sizes *)n, n[14]); }
void run_pack_few_taps_3(int16_t *to, const int8_t *x, WORDS(n))
{ ec_pack_few_taps_3_s8_dsp(to, x, (const ec_window_sizes *)n, n[14]); }
void run_pack_rows_4(int8_t *to, const int8_t *x, WORDS(n)) { ec_pack_rows_4_s8_dsp(to, x, n[0]); }
void run_pack_windows_4(int8_t *to, const int8_t *x, WORDS(n))
{ ec_pack_windows_4_s8_dsp(to, x, (const ec_window_sizes *)n, n[14]); }
void run_pack_neighbours_4(int8_t *to, const int8_t *x, WORDS(n))
{ ec_pack_neighbours_4_s8_dsp(to, x, (const ec_window_sizes *)n, n[14]); }
void run_pack_taps_4(int8_t *to, const int8_t *x, WORDS(n))
{ ec_pack_taps_4_s8_dsp(to, x, (const ec_window_sizes *)n, n[14]); }
void run_pack_few_taps_4(int8_t *to, const int8_t *x, WORDS(n))
{ ec_pack_few_taps_4_s8_dsp(to, x, (const ec_window_sizes *)n, n[14]); }
void run_pad(int8_t *to, const int8_t *x, WORDS(n))
{ ec_pad_s8(to, x, (const ec_pad_sizes *)n); }
"""


@pytest.fixture(scope="module", params=DSP_BUILDS, ids=lambda b: "-".join((b[0], b[1], *b[2])))
def core(request, tmp_path_factory):
    with dsp_image(request, tmp_path_factory, SOURCE) as simulator:
        yield simulator


def tables(rng, channels, quads, *, extreme=False, least=-127):
    """Constants that the policy accepts."""
    w = rng.integers(least, 128, (channels, quads, 2, 2))
    if extreme:
        w = np.where(rng.random(w.shape) < 0.5, least, 127)
    shift = rng.integers(-15, 0, channels)
    return {
        "bias": rng.integers(-(1 << 20), 1 << 20, channels).astype(np.int32),
        "w": w.astype(np.int8),
        "multiplier": rng.integers(1 << 30, 1 << 31, channels).astype(np.int32),
        "shift": shift.astype(np.int8),
    }


def sized(kernel, size, channels, zero_point, shift=0):
    numbers = {"channels": channels, "zero_point": zero_point, "shift": shift}
    return {name: numbers.get(name, size) for name in kernel.sizes}


def check_product(core, name, size, channels, zero_point, x, constants, shift=0):
    kernel = get_microkernel(f"ec_{name}_s8_dsp")
    sizes = sized(kernel, size, channels, zero_point, shift)
    stream = kernel.stream.pack(constants, **sizes)
    assert stream.size == kernel.stream.words(**sizes)
    numbers = tuple(sizes.values())
    func = meaning_of(kernel, numbers)
    out = np.full(next(p.elements for p in func.params if p.name == "out"), 77, np.int8)
    expected = meant(kernel, out, [x, stream], numbers)
    given = packed_by_four(x) if name == "matrix_4" else x
    assert np.array_equal(run_on_core(core, f"run_{name}", out, [given, stream], numbers), expected)


def inputs_of(rng, name, size):
    if name == "matrix_4":
        return rng.integers(-128, 128, 24 * size).astype(np.int8)
    if name == "matrix_1_plain":
        return rng.integers(-128, 128, 8 * size).astype(np.int8)
    count = 12 * size if name == "matrix_3" else 8 * size
    return rng.integers(-128, 128, count).astype(np.int16)


#: Kernels of several pixels, two channels at a time, told by quads of inputs; the others do one
#: pixel and four, told by twice as many.
PAIRS = ("matrix_4", "matrix_3", "matrix_2")
PRODUCTS = (*PAIRS, "matrix_1", "matrix_1_plain")


@pytest.mark.parametrize("zero_point", [-128, -3])
@pytest.mark.parametrize("name", PRODUCTS)
def test_every_length_of_the_reduction(core, name, zero_point):
    """Each way into the unrolled loops, and several rounds of them."""
    rng = np.random.default_rng(3)
    most = 40 if name in PAIRS else 18
    for size in range(1, most):
        channels = 2 if name in PAIRS else 4
        quads = size if name in PAIRS else 2 * size
        check_product(
            core, name, size, channels, zero_point,
            inputs_of(rng, name, size), tables(rng, channels, quads),
        )  # fmt: skip


@pytest.mark.parametrize("zero_point", [-128, 83])
@pytest.mark.parametrize("name", PRODUCTS)
def test_every_number_of_channels(core, name, zero_point):
    """Also those that make the last pair, or four, overlap the one before."""
    rng = np.random.default_rng(4)
    for channels in range(2 if name in PAIRS else 4, 14):
        quads = 3 if name in PAIRS else 4
        size = quads if name in PAIRS else quads // 2
        x = inputs_of(rng, name, size)
        check_product(core, name, size, channels, zero_point, x, tables(rng, channels, quads))


@pytest.mark.parametrize("zero_point", [-128, 0, 127])
@pytest.mark.parametrize("name", PRODUCTS)
def test_extremes_ties_and_saturation(core, name, zero_point):
    """Sums on and beside ties of both roundings, limits of sums, multipliers and shifts."""
    rng = np.random.default_rng(5)
    channels, quads = 40, 4
    size = quads if name in PAIRS else quads // 2
    zeros = np.zeros_like(inputs_of(rng, name, size))
    for shift in range(-15, 0):
        constants = tables(rng, channels, quads)
        # With M = 2^30 the first rounding halves; the second then ties at odd halves of 2^-shift.
        half = np.arange(channels) - channels // 2
        near = half * (1 << -shift) + rng.integers(-2, 3, channels)
        constants["bias"] = near.astype(np.int32)
        constants["multiplier"][::3] = 1 << 30
        constants["multiplier"][1::3] = (1 << 31) - 1
        constants["shift"][:] = shift
        check_product(core, name, size, channels, zero_point, zeros, constants)
    edges = np.where(rng.random(zeros.shape) < 0.5, -128, 127).astype(zeros.dtype)
    constants = tables(rng, channels, quads, extreme=True)
    constants["bias"][::2] = (1 << 23) - 1 - 16 * 127 * 128
    constants["bias"][1::2] = -(1 << 23) + 16 * 127 * 128
    check_product(core, name, size, channels, zero_point, edges, constants)


@pytest.mark.parametrize("zero_point", [-128, -3])
def test_four_pixels_take_all_weights_and_sums_of_24_bits(core, zero_point):
    """Weights of -128; each pixel's sum at either limit, beside others at any."""
    rng = np.random.default_rng(9)
    for quads in (1, 4, 40):
        x = rng.choice(np.array([-128, -1, 0, 127], np.int8), (quads, 2, 6, 2))
        constants = tables(rng, 40, quads, extreme=True, least=-128)
        sums = np.einsum("qspr,oqsr->op", x[:, :, :4].astype(np.int64), constants["w"])
        most, least = (1 << 23) - 1 - sums.max(axis=1), -(1 << 23) - sums.min(axis=1)
        constants["bias"] = np.where(rng.random(40) < 0.5, most, least).astype(np.int32)
        check_product(core, "matrix_4", quads, 40, zero_point, x.reshape(-1), constants)


@pytest.mark.parametrize("channels", [2, 7, 40])
def test_four_pixels_by_a_shift_of_all_channels(core, channels):
    """Quads into and around the unrolled loop; sums around the first one of each result."""
    rng = np.random.default_rng(channels)
    for quads in (1, 2, 15, 16, 17, 31, 32, 47):
        constants = shared_tables(rng, channels, quads)
        x = inputs_of(rng, "matrix_4", quads)
        check_product(core, "matrix_4", quads, channels, -128, x, constants, SHIFT)
    constants = shared_tables(rng, channels, 1)
    constants["w"][:] = 0
    for result in (1, 2, 128, 254, 255):
        first = (2 * result - 1) << (-constants["shift"].astype(np.int64) - 1)
        first = -(-((first << 31) - (1 << 30)) // constants["multiplier"])
        for sums in (first - 1, first):
            constants["bias"] = sums.astype(np.int32)
            check_product(
                core, "matrix_4", 1, channels, -128, np.zeros(24, np.int8), constants, SHIFT
            )


@pytest.fixture(scope="module")
def fitted(request, tmp_path_factory):
    """The kernel as a model has it whose layers need a loop of three quads and share shifts."""
    calls = [{"quads": quads, "shift": SHIFT} for quads in (1, 4, 32)]
    macros = get_microkernel("ec_matrix_4_s8_dsp").macros(calls)
    assert macros == {"EC_MATRIX_4_MODEL_ROUND": '"11"', "EC_MATRIX_4_ONE_SHIFT": "1"}
    macros["EC_MATRIX_4_MODEL_ROUND"] = '"3"'
    lines = "".join(f"#define {name} {value}\n" for name, value in macros.items())
    request.param = DSP_BUILDS[0]
    with dsp_image(request, tmp_path_factory, lines + SOURCE) as simulator:
        yield simulator


def test_four_pixels_by_a_kernel_that_is_fitted_to_a_model(fitted):
    rng = np.random.default_rng(12)
    for quads in range(1, 12):
        x = inputs_of(rng, "matrix_4", quads)
        constants = shared_tables(rng, 6, quads)
        check_product(fitted, "matrix_4", quads, 6, -128, x, constants, SHIFT)


def test_loops_have_no_more_quads_than_their_rounds_need():
    macros = get_microkernel("ec_matrix_4_s8_dsp").macros
    assert macros([{"quads": 16, "shift": 0}, {"quads": 32, "shift": SHIFT}]) == {}
    assert macros([{"quads": 32, "shift": 0}]) == {"EC_MATRIX_4_MODEL_ROUND": '"11"'}
    assert macros([{"quads": 1, "shift": 0}]) == {"EC_MATRIX_4_MODEL_ROUND": '"1"'}
    onnx, int4 = (get_microkernel(f"ec_matrix_4_{s}onnx_s8_dsp").macros for s in ("", "s4_"))
    assert onnx([{"quads": 10}, {"quads": 4}]) == {"EC_MATRIX_4_ONNX_MODEL_ROUND": '"9"'}
    assert int4([{"quads": 10}, {"quads": 4}]) == {"EC_S4_4_ONNX_MODEL_ROUND": '"5"'}
    assert int4([{"quads": 8}]) == {}


def shared_tables(rng, channels, quads):
    """Constants of channels that can share a shift; their multipliers are rounded."""
    constants = tables(rng, channels, quads)
    constants["shift"] = rng.integers(-10, -4, channels).astype(np.int8)
    lost = -constants["shift"].astype(np.int64) - LEAST
    constants["multiplier"] = (constants["multiplier"] >> lost << lost).astype(np.int32)
    return constants


def test_streams_of_one_shift_give_their_constants_back():
    rng = np.random.default_rng(8)
    kernel = get_microkernel("ec_matrix_4_s8_dsp")
    for channels in (2, 5):
        constants = shared_tables(rng, channels, 3)
        sizes = sized(kernel, 3, channels, -128, SHIFT)
        found = kernel.stream.unpack(kernel.stream.pack(constants, **sizes), **sizes)
        for key, array in constants.items():
            assert np.array_equal(np.asarray(found[key]).reshape(-1), array.reshape(-1)), key


def test_streams_give_their_constants_back():
    rng = np.random.default_rng(6)
    for name, size, channels in (
        ("matrix_3", 5, 7), ("matrix_4", 5, 7), ("matrix_4", 1, 4), ("matrix_1", 2, 9),
        ("matrix_1", 3, 4), ("matrix_1_plain", 2, 5),
    ):  # fmt: skip
        kernel = get_microkernel(f"ec_{name}_s8_dsp")
        for zero_point in (-128, 5):
            constants = tables(rng, channels, size if name in PAIRS else 2 * size)
            sizes = sized(kernel, size, channels, zero_point)
            found = kernel.stream.unpack(kernel.stream.pack(constants, **sizes), **sizes)
            for key, array in constants.items():
                assert np.array_equal(np.asarray(found[key]).reshape(-1), array.reshape(-1)), key


def wide_tables(rng, channels, quads, **changes):
    """Constants that the policy accepts: four factors for all channels."""
    constants = tables(rng, channels, quads, **changes)
    for name in ("multiplier", "shift"):
        constants[name] = constants[name][:4]
    return constants


def check_wide(core, rng, quads, channels, constants, x=None, added=0):
    kernel = get_microkernel("ec_matrix_1_plain_s8_s16_dsp")
    sizes = {"quads": quads, "channels": channels, "added": added}
    stream = kernel.stream.pack(constants, **sizes)
    assert stream.size == kernel.stream.words(**sizes)
    for name, array in kernel.stream.unpack(stream, **sizes).items():
        assert np.array_equal(array.reshape(-1), constants[name].reshape(-1)), name
    out = rng.integers(-32768, 32768, channels).astype(np.int16)
    if x is None:
        x = rng.integers(-128, 128, 4 * quads).astype(np.int8)
    numbers = (quads, channels, added)
    expected = meant(kernel, out, [x, stream], numbers)
    found = run_on_core(core, "run_matrix_1_to_s16", out, [x, stream], numbers)
    assert np.array_equal(found, expected)
    return expected


@pytest.mark.parametrize("added", [0, 1])
def test_results_of_sixteen_bits(core, added):
    """Every way into the loop, ties, every shift, and limits of both ends."""
    rng = np.random.default_rng(8)
    for quads in range(1, 27):
        check_wide(core, rng, quads, 4, wide_tables(rng, 4, quads), added=added)
    for channels in (8, 12, 20):
        check_wide(core, rng, 2, channels, wide_tables(rng, channels, 2), added=added)
    for shift in range(-22, 8):
        constants = wide_tables(rng, 40, 1)
        # With M = 2^30 the first rounding halves; the second then ties at odd halves of 2^-shift.
        half = np.arange(40) // 2 - 10
        near = np.clip(half * (1 << max(-shift, 0)), -(1 << 22), 1 << 22)
        constants["bias"] = (near + rng.integers(-2, 3, 40)).astype(np.int32)
        constants["multiplier"][:2] = 1 << 30
        constants["multiplier"][2] = (1 << 31) - 1
        constants["shift"][:3] = shift
        check_wide(core, rng, 1, 40, constants, np.zeros(4, np.int8), added)
    constants = wide_tables(rng, 8, 4, extreme=True)
    constants["bias"][::2] = (1 << 23) - 1 - 16 * 127 * 128
    constants["bias"][1::2] = -(1 << 23) + 16 * 127 * 128
    for shift in (-1, 0, 6):
        constants["shift"][:] = shift
        edges = np.where(rng.random(16) < 0.5, -128, 127).astype(np.int8)
        found = check_wide(core, rng, 4, 8, constants, edges, added)
        assert added or set(found.tolist()) == {-32768, 32767}


def test_units_of_sixteen_bits_are_whole():
    with pytest.raises(ScheduleError, match="no multiple of 4"):
        get_microkernel("ec_matrix_1_plain_s8_s16_dsp").meaning(1, 6, 1)


def check_packing(core, name, numbers, x_elements, to_elements, kernel_name=None, dtype=np.int16):
    kernel = get_microkernel(kernel_name or f"ec_{name}_s8_dsp")
    rng = np.random.default_rng(7)
    x = rng.integers(-128, 128, x_elements).astype(np.int8)
    to = np.full(to_elements, 99, dtype)
    expected = meant(kernel, to, [x], numbers)
    if name.endswith("_4"):
        expected = packed_by_four(expected)
    assert np.array_equal(run_on_core(core, f"run_{name}", to, [x], numbers), expected)


def test_rows(core):
    for depth in range(1, 50):
        for pixels in (2, 3):
            words = -(-depth // 4) * pixels
            check_packing(core, f"pack_rows_{pixels}", (depth,), pixels * depth, 4 * words)
        check_packing(core, "pack_rows_4", (depth,), 4 * depth, -(-depth // 4) * 24, dtype=np.int8)
        check_packing(core, "pack_row", (depth,), depth, -(-depth // 8) * 8)


WINDOWS = [
    # shape, kernel, stride, dilation, corner, out (height, width), padded
    Window((5, 4, 8), (3, 3), (1, 1), (1, 1), (1, 1), 4, True, -7),
    Window((6, 7, 4), (3, 3), (2, 2), (1, 1), (0, 1), 4, True, 5),
    Window((9, 9, 4), (3, 2), (1, 1), (2, 3), (2, 1), 8, True, 127),
    Window((6, 6, 12), (1, 1), (2, 2), (1, 1), (0, 0), 3, False, 0),
    Window((12, 9, 1), (10, 4), (1, 2), (1, 1), (0, 0), 3, False, 0),
    Window((7, 6, 4), (2, 3), (1, 1), (2, 1), (0, 0), 4, False, 0),
]
TAPS = [
    Window((5, 6, 3), (3, 3), (1, 1), (1, 1), (1, 1), 6, True, -7),
    Window((9, 9, 1), (5, 3), (2, 2), (1, 1), (0, 0), 4, False, 0),
    Window((9, 7, 2), (3, 5), (2, 1), (2, 1), (2, 2), 7, True, 3),
    Window((3, 2, 1), (5, 5), (1, 1), (1, 1), (4, 4), 6, True, 9),  # wider than the image
]


@pytest.mark.parametrize(
    "name",
    [
        "pack_windows_4", "pack_windows_3", "pack_windows_2",
        "pack_taps_4", "pack_few_taps_4", "pack_taps_3", "pack_few_taps_3",
    ],
)  # fmt: skip
def test_windows(core, name):
    width = int(name[-1])
    for window in TAPS if "taps" in name else WINDOWS:
        if name == "pack_few_taps_4" and window.depth > 28:
            continue
        x_elements = int(np.prod(window.shape))
        to_elements = -(-window.depth // 4) * 4 * (6 if width == 4 else width)
        span = (window.kernel[0] - 1) * window.dilation[0]
        bottom = window.corner[0] if window.is_padded else 0
        height = window.shape[0] + window.corner[0] + bottom - span
        pixels = -(-height // window.stride[0]) * window.out_width
        for pixel in range(0, pixels - width + 1, 2):
            numbers = (*window.sizes.values(), pixel)
            dtype = np.int8 if width == 4 else np.int16
            check_packing(core, name, numbers, x_elements, to_elements, dtype=dtype)


NEIGHBOURS = [
    Window((5, 4, 8), (3, 3), (1, 1), (1, 1), (1, 1), 4, True, -7),
    Window((3, 12, 4), (2, 3), (2, 1), (2, 1), (1, 1), 12, True, -128),
    Window((4, 10, 12), (3, 3), (1, 1), (1, 1), (0, 0), 8, False, 0),
    Window((2, 9, 4), (3, 3), (1, 1), (1, 1), (1, 1), 8, True, 127),  # no column on the right
    Window((2, 8, 16), (1, 3), (1, 1), (1, 1), (0, 1), 8, True, 3),
]


@pytest.mark.parametrize("window", NEIGHBOURS)
def test_windows_of_neighbours(core, window):
    elements, span = int(np.prod(window.shape)), (window.kernel[0] - 1) * window.dilation[0]
    height = (window.shape[0] + 2 * window.corner[0] - span - 1) // window.stride[0] + 1
    for pixel in range(0, height * window.out_width, 4):
        numbers = (*window.sizes.values(), pixel)
        check_packing(core, "pack_neighbours_4", numbers, elements, 6 * window.depth, dtype=np.int8)


@pytest.mark.parametrize(
    "numbers",
    [(4, 5, 1, 1, 1, 6, 7, 83), (4, 5, 3, 0, 2, 5, 8, -128), (4, 5, 2, 1, 1, 3, 4, 0)],
)
def test_padding(core, numbers):
    height, width, channels, _, _, out_height, out_width, _ = numbers
    count = out_height * out_width * channels
    check_packing(
        core, "pad", numbers, height * width * channels, count, "ec_pad_s8", dtype=np.int8
    )
