"""Products on DSP microkernels: what the rules schedule computes what the operator means."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgec.loop.define import Definition
from edgec.loop.gathered import input_of, offset_pair
from edgec.loop.interpret import interpret
from edgec.loop.lowering import COLUMNS, OFFSET_ROW, PADDED_COLUMNS, ROW
from edgec.loop.overlap import overlap_distance
from edgec.loop.printer import print_func
from edgec.loop.schedule import replay
from edgec.loop.values import clamp, int8, int16, int32
from edgec.loop.window import Window
from edgec.options import Options
from edgec.targets.common.kernels.rescaling import ONNX, TFLM
from edgec.targets.core import CORES
from edgec.targets.dsp.matrix import plain_schedules, schedule_product, settled
from edgec.targets.rule import Nest

RNG = np.random.default_rng(11)
FEATURES = frozenset({"dsp"})


def tables(channels, quads):
    return {
        "w": RNG.integers(-127, 128, (channels, quads, 2, 2)).astype(np.int8),
        "bias": RNG.integers(-3000, 3000, channels).astype(np.int32),
        "multiplier": RNG.integers(1 << 30, 1 << 31, channels).astype(np.int32),
        "shift": RNG.integers(-8, -3, channels).astype(np.int8),
    }


def product(form, window, out_height, constants, zero_point=-128, low=-128):
    """The nest that the operators lower to."""
    channels, quads = constants["w"].shape[:2]
    pixels = out_height * window.out_width
    b = Definition("conv2d")
    x = b.input("x", (1, *window.shape), "int8")
    out = b.output("out", (pixels, channels), "int8")
    given = {n: b.constant(n, c.shape, str(c.dtype)) for n, c in constants.items()}
    w, bias = given["w"], given["bias"]
    source, inner = x, window
    if form == PADDED_COLUMNS:
        inner = window.padded(out_height)
        source = b.compute("padded", lambda n, h, w, c: window.pad(x, n, h, w, c),
                           shape=(1, *inner.shape), dtype="int8")  # fmt: skip

    def read(p, q, s, r):
        return inner.read(source, 0, p, 4 * q + 2 * r + s)

    if form in (COLUMNS, PADDED_COLUMNS):
        col = b.compute("col", lambda q, s, p, r: int16(read(p, q, s, r)),
                        shape=(quads, 2, pixels, 2), dtype="int16")  # fmt: skip
        taken = lambda p, q, s, r: col[q, s, p, r]  # noqa: E731
    elif form == ROW:
        row = b.compute("col", lambda p, q, s, r: int16(read(p, q, s, r)),
                        shape=(pixels, quads, 2, 2), dtype="int16")  # fmt: skip
        taken = lambda p, q, s, r: row[p, q, s, r]  # noqa: E731
    else:
        pair = b.compute("col", lambda p, q, r: offset_pair(read(p, q, 0, r), read(p, q, 1, r)),
                         shape=(pixels, quads, 2), dtype="int16")  # fmt: skip
        taken = lambda p, q, s, r: input_of(pair[p, q, r], s)  # noqa: E731
    acc = b.reduce(
        "acc", [("q", 0, quads), ("s", 0, 2), ("r", 0, 2)],
        init=lambda p, c: bias[c],
        update=lambda acc, p, c, q, s, r: acc + int32(taken(p, q, s, r)) * int32(w[c, q, s, r]),
        shape=(pixels, channels), dtype="int32",
    )  # fmt: skip
    rescaling = ONNX if "scale" in given else TFLM
    factors = tuple(given[name] for name in rescaling.tables)
    b.compute(out, lambda *d: int8(clamp(
        rescaling.rounded(acc[d], factors, d[-1]) + zero_point, low, 127)))  # fmt: skip
    return b.build()


def window(shape, kernel=(1, 1), stride=(1, 1), corner=(0, 0), out_width=1, padded=False):
    return Window(shape, kernel, stride, (1, 1), corner, out_width, padded, -5)


CASES = [
    (COLUMNS, window((3, 4, 8), out_width=4), 3, "ec_pack_rows_3_s8_dsp"),
    (COLUMNS, window((5, 7, 8), out_width=7), 5, "ec_pack_rows_3_s8_dsp"),
    (COLUMNS, window((4, 4, 4), (3, 3), corner=(1, 1), out_width=4, padded=True), 4,
     "ec_pack_windows_3_s8_dsp"),
    (COLUMNS, window((7, 7, 4), stride=(2, 2), out_width=4), 4, "ec_pack_windows_3_s8_dsp"),
    (COLUMNS, window((4, 5, 2), (2, 2), corner=(1, 1), out_width=5, padded=True), 4,
     "ec_pack_taps_3_s8_dsp"),
    (PADDED_COLUMNS, window((6, 5, 1), (3, 4), corner=(1, 1), out_width=4, padded=True), 5,
     "ec_pad_s8"),
    (ROW, window((1, 1, 16)), 1, "ec_pack_row_s8_dsp"),
    (OFFSET_ROW, window((1, 1, 16)), 1, "ec_offset_row_s8_dsp"),
]  # fmt: skip


@pytest.mark.parametrize("zero_point", [-128, 9])
@pytest.mark.parametrize(("form", "shape", "height", "kernel"), CASES)
def test_schedules_keep_the_meaning(form, shape, height, kernel, zero_point):
    constants = tables(5, shape.depth // 4)
    func = product(form, shape, height, constants, zero_point)
    schedule = schedule_product(func, form, constants, shape, FEATURES)
    assert schedule is not None
    assert kernel in print_func(schedule.func)
    x = RNG.integers(-128, 128, (1, *shape.shape)).astype(np.int8)
    expected = interpret(func, {"x": x, **constants})["out"]
    (packed,) = schedule.packed.values()
    stream = packed.pack({name: constants[own] for name, own in packed.sources.items()})
    found = interpret(schedule.func, {"x": x, packed.name: stream})["out"]
    assert np.array_equal(found, expected)
    assert replay(func, schedule.trace_json()).func == schedule.func


def four_bits(channels, quads):
    return {**tables(channels, quads),
            "w": RNG.integers(-8, 8, (channels, quads, 2, 2)).astype(np.int8)}  # fmt: skip


@pytest.mark.parametrize("zero_point", [-128, 9])
@pytest.mark.parametrize(("form", "shape", "height", "kernel"), CASES)
def test_weights_of_four_bits_stay_so(form, shape, height, kernel, zero_point):
    constants = four_bits(5, shape.depth // 4)
    func = product(form, shape, height, constants, zero_point)
    schedule = schedule_product(func, form, constants, shape, FEATURES, nibbles=True)
    if form == OFFSET_ROW:
        assert schedule is None
        return
    assert schedule is not None
    text = print_func(schedule.func)
    assert "_nibbles_" in text and kernel in text
    x = RNG.integers(-128, 128, (1, *shape.shape)).astype(np.int8)
    expected = interpret(func, {"x": x, **constants})["out"]
    (packed,) = schedule.packed.values()
    stream = packed.pack({name: constants[own] for name, own in packed.sources.items()})
    assert np.array_equal(interpret(schedule.func, {"x": x, packed.name: stream})["out"], expected)
    assert replay(func, schedule.trace_json()).func == schedule.func


def in_groups(channels, quads, quads_of_group):
    """Weights of four bits with a shift of up to 3 for each group, and ONNX Runtime's scales."""
    digits = RNG.integers(-8, 8, (channels, quads, 2, 2))
    shifts = RNG.integers(0, 4, (channels, -(-quads // quads_of_group)))
    shifts[:, 0] = 3
    wide = np.repeat(shifts, quads_of_group, axis=1)[:, :quads]
    made = tables(channels, quads)
    scale = (2.0 ** RNG.uniform(-14, -8, channels)).astype(np.float32)
    return {"bias": made["bias"], "w": (digits << wide[..., None, None]).astype(np.int8),
            "scale": scale}  # fmt: skip


@pytest.mark.parametrize(("form", "shape", "height", "group", "size"), [
    (COLUMNS, window((3, 5, 64), out_width=5), 3, 8, 8),
    (COLUMNS, window((3, 5, 32), (3, 3), corner=(1, 1), out_width=5, padded=True), 3, 4, 4),
    (COLUMNS, window((3, 5, 20), out_width=5), 3, 5, 5),
    (ROW, window((1, 1, 128)), 1, 16, 4), (ROW, window((1, 1, 48)), 1, 6, 3),
])  # fmt: skip
def test_groups_stay_in_four_bits(form, shape, height, group, size):
    constants = in_groups(5, shape.depth // 4, group)
    func = product(form, shape, height, constants, 9)
    features = FEATURES | {"fpu"}
    schedule = schedule_product(func, form, constants, shape, features, nibbles=True)
    assert schedule is not None
    text = print_func(schedule.func)
    assert "_groups_onnx_s8_dsp" in text
    (call,) = [line for line in text.splitlines() if "_groups_" in line]
    count = shape.depth // (4 if form == COLUMNS else 8)
    assert f" {count}, {size}, 5, 9)" in call
    x = RNG.integers(-128, 128, (1, *shape.shape)).astype(np.int8)
    expected = interpret(func, {"x": x, **constants})["out"]
    (packed,) = schedule.packed.values()
    stream = packed.pack({name: constants[own] for name, own in packed.sources.items()})
    assert np.array_equal(interpret(schedule.func, {"x": x, packed.name: stream})["out"], expected)
    for quads, value in ((group, 17), (3, None)):  # not four bits with a shift; steps too short
        other = in_groups(5, shape.depth // 4, quads)
        if value:
            other["w"][2, 1, 0, 0] = value
        assert schedule_product(func, form, other, shape, features, nibbles=True) is None


def test_four_bits_and_sums_have_to_fit():
    shape = window((3, 4, 64), out_width=4)
    constants = four_bits(6, 16)
    # No channel is always the same.
    constants["shift"][:], constants["multiplier"][:] = -12, 1 << 30
    func = product(COLUMNS, shape, 3, constants, 9)

    def scheduled(**changed):
        return schedule_product(func, COLUMNS, {**constants, **changed}, shape, FEATURES,
                                nibbles=True)  # fmt: skip

    assert scheduled() is not None
    wide, grown = constants["w"].copy(), constants["bias"].copy()
    wide[2, 3, 1, 0] = 8
    assert scheduled(w=wide) is None
    grown[1] = (1 << 19) - 1
    assert scheduled(bias=grown) is None


def dense(constants, zero_point):
    """The nest of a dense layer as the operator lowers it."""
    channels, depth = constants["w"].shape
    b = Definition("dense")
    x, out = b.input("x", (1, depth), "int8"), b.output("out", (1, channels), "int8")
    given = {n: b.constant(n, c.shape, str(c.dtype)) for n, c in constants.items()}
    acc = b.reduce(
        "acc", [("k", 0, depth)], init=lambda n, c: given["bias"][c],
        update=lambda acc, n, c, k: acc + int32(x[n, k]) * int32(given["w"][c, k]),
        shape=(1, channels), dtype="int32",
    )  # fmt: skip
    rescaling = ONNX if "scale" in given else TFLM
    factors = tuple(given[name] for name in rescaling.tables)
    b.compute(out, lambda *d: int8(clamp(
        rescaling.rounded(acc[d], factors, d[-1]) + zero_point, -128, 127)))  # fmt: skip
    return b.build()


@pytest.mark.parametrize(("constants", "level", "kernel"), [
    (tables(5, 4), "time", "ec_matrix_1_plain_s8_dsp"),
    (four_bits(5, 4), "size", "ec_matrix_1_plain_nibbles_s8_dsp"),
    (in_groups(5, 24, 8), "size", "ec_matrix_1_plain_groups_onnx_s8_dsp"),
])  # fmt: skip
@pytest.mark.parametrize("zero_point", [-128, 9])
def test_inputs_and_weights_may_lie_as_they_are(constants, level, kernel, zero_point):
    constants = {**constants, "w": constants["w"].reshape(5, -1)}
    func = dense(constants, zero_point)
    nest = Nest(func, constants, None, CORES["cortex-m4"], Options(optimize=level))
    (schedule,) = plain_schedules(nest)
    assert kernel in print_func(schedule.func)
    x = RNG.integers(-128, 128, (1, constants["w"].shape[1])).astype(np.int8)
    expected = interpret(func, {"x": x, **constants})["out"]
    (packed,) = schedule.packed.values()
    stream = packed.pack({name: constants[own] for name, own in packed.sources.items()})
    assert np.array_equal(interpret(schedule.func, {"x": x, packed.name: stream})["out"], expected)
    odd = {**constants, "w": constants["w"][:, 4:]}
    assert not plain_schedules(replace(nest, func=dense(odd, zero_point), tables=odd))


ROWS = [
    (COLUMNS, window((1, 5, 8), out_width=5), "ec_pack_rows_2_s8_dsp"),
    (COLUMNS, window((1, 16, 8), out_width=16), "ec_pack_rows_2_s8_dsp"),
    (COLUMNS, window((3, 11, 4), (3, 3), corner=(0, 1), out_width=11, padded=True),
     "ec_pack_windows_2_s8_dsp"),
    (PADDED_COLUMNS, window((3, 10, 1), (3, 4), corner=(0, 1), out_width=8, padded=True),
     "ec_pack_windows_2_s8_dsp"),
]  # fmt: skip


@pytest.mark.parametrize(("form", "shape", "kernel"), ROWS)
def test_rows_that_three_do_not_divide_end_by_two(form, shape, kernel):
    """Nothing is computed twice, so that the output may replace the input."""
    constants = tables(5, shape.depth // 4)
    func = product(form, shape, 1, constants, 9)
    schedule = schedule_product(func, form, constants, shape, FEATURES, in_rows=True)
    assert schedule is not None
    text = print_func(schedule.func)
    assert kernel in text and "ec_matrix_2_s8_dsp" in text and "min(" not in text
    x = RNG.integers(-128, 128, (1, *shape.shape)).astype(np.int8)
    expected = interpret(func, {"x": x, **constants})["out"]
    streams = {
        packed.name: packed.pack({name: constants[own] for name, own in packed.sources.items()})
        for packed in schedule.packed.values()
    }
    first, second = streams.values()
    assert np.array_equal(first, second)
    assert np.array_equal(interpret(schedule.func, {"x": x, **streams})["out"], expected)
    assert replay(func, schedule.trace_json()).func == schedule.func


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("w", lambda a: np.where(a == a.max(), -128, a)),  # b' would be -129
        ("bias", lambda a: a + (1 << 23)),  # 256 times the sum would not fit
        ("multiplier", lambda a: a // 4),  # not normalized
        ("shift", lambda a: np.where(np.arange(a.size) == 1, -16, a)),
    ],
)
def test_constants_that_do_not_fit_are_refused(name, change):
    shape = window((3, 4, 8), out_width=4)
    constants = tables(6, 2)
    constants["bias"] %= 1000
    constants["bias"] += 500
    constants["w"][1], constants["multiplier"][1] = 127, (1 << 31) - 1  # not always the same
    func = product(COLUMNS, shape, 3, constants, 9)
    good = schedule_product(func, COLUMNS, constants, shape, FEATURES)
    assert good is not None
    if name == "shift":  # only the zero point -128 needs room for its scaled constants
        func = product(COLUMNS, shape, 3, constants, -128)
    if name == "bias":  # small enough a scale that the result is not constant
        constants["shift"][:] = -17
    changed = {**constants, name: change(constants[name]).astype(constants[name].dtype)}
    assert schedule_product(func, COLUMNS, changed, shape, FEATURES) is None


@pytest.mark.parametrize(("first", "fits"), [(0, True), (127, True), (-1, False), (-128, False)])
@pytest.mark.parametrize("zero_point", [-128, 9])
def test_least_weights_beside_others(first, fits, zero_point):
    """256 * -128 + a fits into a half-word where a is not negative."""
    shape = window((3, 4, 8), out_width=4)
    constants = tables(6, 2)
    constants["w"][:, 1, 0, 1] = np.array([-128, 5, first, -128, -9, 3])
    func = product(COLUMNS, shape, 3, constants, zero_point)
    assert schedule_product(func, COLUMNS, constants, shape, FEATURES) is None
    schedule = schedule_product(func, COLUMNS, constants, shape, FEATURES, paired=True)
    assert (schedule is not None) == fits
    if schedule is not None:
        x = RNG.choice([-128, 127], (1, *shape.shape)).astype(np.int8)
        expected = interpret(func, {"x": x, **constants})["out"]
        (packed,) = schedule.packed.values()
        stream = packed.pack({name: constants[own] for name, own in packed.sources.items()})
        found = interpret(schedule.func, {"x": x, packed.name: stream})["out"]
        assert np.array_equal(found, expected)


def test_of_an_odd_number_every_neighbour_has_to_fit():
    shape = window((3, 4, 8), out_width=4)
    constants = tables(5, 2)
    constants["w"][:, 0, 0, 0] = np.array([1, 2, -3, -128, 0])
    func = product(COLUMNS, shape, 3, constants, 9)
    assert schedule_product(func, COLUMNS, constants, shape, FEATURES, paired=True) is None
    constants["w"][2, 0, 0, 0] = 3
    assert schedule_product(func, COLUMNS, constants, shape, FEATURES, paired=True) is not None


def test_bytes_with_offsets_take_the_place_of_the_input():
    shape = window((1, 1, 32))
    constants = tables(5, 8)
    func = product(OFFSET_ROW, shape, 1, constants)
    schedule = schedule_product(func, OFFSET_ROW, constants, shape, FEATURES)
    assert schedule is not None
    params = {param.name: param for param in schedule.func.params}
    assert overlap_distance(schedule.func, params["x"], params["col"]) == 0
    constants["w"][2, 3, 1, 0] = -128  # its opposite is no int8
    assert schedule_product(func, OFFSET_ROW, constants, shape, FEATURES) is None


def test_another_clamp_is_refused():
    shape = window((3, 4, 8), out_width=4)
    constants = tables(6, 2)
    func = product(COLUMNS, shape, 3, constants, 9, low=9)
    assert schedule_product(func, COLUMNS, constants, shape, FEATURES) is None


def test_too_few_channels_and_pixels_are_refused():
    shape = window((3, 4, 8), out_width=4)
    one = tables(1, 2)
    assert schedule_product(product(COLUMNS, shape, 3, one), COLUMNS, one, shape, FEATURES) is None
    two = window((1, 2, 8), out_width=2)
    constants = tables(6, 2)
    func = product(COLUMNS, two, 1, constants)
    assert schedule_product(func, COLUMNS, constants, two, FEATURES) is None


def test_constant_channels_are_told_by_small_numbers():
    shape = window((3, 4, 8), out_width=4)
    constants = tables(4, 2)
    constants["bias"][1], constants["shift"][1] = 1 << 30, -28
    constants["bias"][2], constants["multiplier"][2], constants["shift"][2] = 77, 0, 0
    func = product(COLUMNS, shape, 3, constants, -128)
    small = settled(constants, TFLM, -128)
    assert not small["w"][[1, 2]].any()
    assert small["bias"][1] != constants["bias"][1]
    assert np.array_equal(small["w"][[0, 3]], constants["w"][[0, 3]])
    x = RNG.integers(-128, 128, (1, *shape.shape)).astype(np.int8)
    before = interpret(func, {"x": x, **constants})["out"]
    assert np.array_equal(interpret(func, {"x": x, **small})["out"], before)
    assert schedule_product(func, COLUMNS, constants, shape, FEATURES) is not None
