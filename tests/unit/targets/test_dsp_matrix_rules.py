"""Products on DSP microkernels: what the rules schedule computes what the operator means."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from edgec.errors import ScheduleError
from edgec.loop.define import Definition
from edgec.loop.interpret import interpret
from edgec.loop.printer import print_func
from edgec.loop.schedule import replay
from edgec.loop.values import clamp, int8, int32
from edgec.loop.window import Window, clipped
from edgec.options import Options
from edgec.targets.common.constant_channels import folded_channels
from edgec.targets.common.kernels.rescaling import ONNX, TFLM
from edgec.targets.core import CORES
from edgec.targets.dsp.columns import columns, fours, padded_columns, padded_fours, row
from edgec.targets.dsp.matrix import (
    plain_schedules,
    product_schedules,
    schedule_product,
)
from edgec.targets.rule import Nest, Prepare

RNG = np.random.default_rng(11)
FEATURES = frozenset({"dsp"})


def tables(channels, quads):
    return {
        "w": RNG.integers(-127, 128, (channels, quads, 2, 2)).astype(np.int8),
        "bias": RNG.integers(-3000, 3000, channels).astype(np.int32),
        "multiplier": RNG.integers(1 << 30, 1 << 31, channels).astype(np.int32),
        "shift": RNG.integers(-8, -3, channels).astype(np.int8),
    }


def product(window, out_height, constants, zero_point=-128, low=-128):
    """The nest that `conv2d` lowers to; weights [O, KH, KW, C]."""
    channels = len(constants["w"])
    (top, left), (height, width, depth) = window.corner, window.shape
    b = Definition("conv2d")
    x = b.input("x", (1, *window.shape), "int8")
    out = b.output("out", (1, out_height, window.out_width, channels), "int8")
    given = {n: b.constant(n, c.shape, str(c.dtype)) for n, c in constants.items()}
    rows, columns = (
        clipped(extent, window.kernel[axis], window.stride[axis], 1, window.corner[axis])
        for axis, extent in enumerate((height, width))
    )
    acc = b.reduce(
        "acc",
        [
            ("kh", lambda n, h, w, c: rows[0](h), lambda n, h, w, c: rows[1](h)),
            ("kw", lambda n, h, w, c: columns[0](w), lambda n, h, w, c: columns[1](w)),
            ("ic", 0, depth),
        ],
        init=lambda n, h, w, c: given["bias"][c],
        update=lambda acc, n, h, w, c, kh, kw, ic: (
            acc
            + (
                int32(x[n, h * window.stride[0] + kh - top, w * window.stride[1] + kw - left, ic])
                + -window.zero_point
            )
            * int32(given["w"][c, kh, kw, ic])
        ),
        shape=out.shape, dtype="int32",
    )  # fmt: skip
    rescaling = ONNX if "scale" in given else TFLM
    factors = tuple(given[name] for name in rescaling.tables)
    b.compute(out, lambda *d: int8(clamp(
        rescaling.rounded(acc[d], factors, d[-1]) + zero_point, low, 127)))  # fmt: skip
    return b.build()


@dataclass(frozen=True)
class Case:
    """A convolution, and the first steps of its schedule; constants as kernels have them."""

    prepare: Prepare
    shape: Window
    height: int
    constants: dict[str, np.ndarray]
    zero_point: int = -128
    low: int = -128
    features: frozenset[str] = FEATURES

    @property
    def tables(self):
        """As the operator has them: weights in the order of inputs, nothing folded."""
        w = self.constants["w"]
        stored = w.swapaxes(2, 3).reshape(len(w), *self.shape.kernel, self.shape.shape[2])
        folded = -self.shape.zero_point * w.sum(axis=(1, 2, 3), dtype=np.int64)
        bias = (self.constants["bias"] - folded).astype(np.int32)
        return {**self.constants, "w": np.ascontiguousarray(stored), "bias": bias}

    @property
    def nest(self):
        func = product(self.shape, self.height, self.tables, self.zero_point, self.low)
        core = replace(CORES["cortex-m4"], features=self.features)
        return Nest(func, folded_channels(func, self.tables), self.shape, core, Options())

    def schedule(self, *, in_rows=False, stored="", paired=False, no_asm=True, level="balanced"):
        options = Options(no_asm=no_asm, optimize=level)
        nest = replace(self.nest, paired=paired, in_rows=in_rows, options=options)
        try:
            nest = self.prepare(nest)
        except ScheduleError:
            return None
        return schedule_product(nest, stored)

    def check(self, schedule, choose=None):
        """Its bits equal the nest's; returns the streams."""
        shape = (1, *self.shape.shape)
        x = RNG.integers(-128, 128, shape) if choose is None else RNG.choice(choose, shape)
        x, nest = x.astype(np.int8), self.nest
        expected = interpret(nest.func, {"x": x, **self.tables})["out"]
        streams = {name: schedule.table(name, nest.tables) for name in schedule.packed}
        found = interpret(schedule.func, {"x": x, **streams})["out"]
        assert np.array_equal(found.reshape(expected.shape), expected)
        assert replay(nest.func, schedule.trace_json()).func == schedule.func
        return list(streams.values())


def window(shape, kernel=(1, 1), stride=(1, 1), corner=(0, 0), out_width=1, padded=False):
    return Window(shape, kernel, stride, (1, 1), corner, out_width, padded, -5)


CASES = [
    (columns, window((3, 4, 8), out_width=4), 3, "ec_pack_rows_3_s8_dsp"),
    (columns, window((5, 7, 8), out_width=7), 5, "ec_pack_rows_3_s8_dsp"),
    (
        columns,
        window((4, 4, 4), (3, 3), corner=(1, 1), out_width=4, padded=True),
        4,
        "ec_pack_windows_3_s8_dsp",
    ),
    (columns, window((7, 7, 4), stride=(2, 2), out_width=4), 4, "ec_pack_windows_3_s8_dsp"),
    (
        columns,
        window((4, 5, 2), (2, 2), corner=(1, 1), out_width=5, padded=True),
        4,
        "ec_pack_few_taps_3_s8_dsp",
    ),
    (
        columns,
        window((6, 5, 3), (3, 4), corner=(1, 1), out_width=4, padded=True),
        5,
        "ec_pack_taps_3_s8_dsp",
    ),
    (
        padded_columns,
        window((6, 5, 1), (3, 4), corner=(1, 1), out_width=4, padded=True),
        5,
        "ec_pad_s8",
    ),
    (row, window((1, 1, 16)), 1, "ec_pack_row_s8_dsp"),
]
#: The same for four pixels at a time; the last block may overlap the one before.
FOURS = [
    (fours, window((3, 4, 8), out_width=4), 3, "ec_pack_rows_4_s8_dsp"),
    (fours, window((5, 7, 8), out_width=7), 5, "ec_pack_rows_4_s8_dsp"),
    (fours, window((2, 2, 4), out_width=2), 2, "ec_pack_rows_4_s8_dsp"),
    (fours, window((4, 4, 4), (3, 3), corner=(1, 1), out_width=4, padded=True), 4,
     "ec_pack_neighbours_4_s8_dsp"),
    (fours, window((4, 6, 4), (3, 2), corner=(1, 1), out_width=6, padded=True), 4,
     "ec_pack_windows_4_s8_dsp"),
    (fours, window((7, 7, 4), stride=(2, 2), out_width=4), 4, "ec_pack_windows_4_s8_dsp"),
    (fours, window((4, 5, 2), (2, 2), corner=(1, 1), out_width=5, padded=True), 4,
     "ec_pack_few_taps_4_s8_dsp"),
    (fours, window((6, 5, 3), (3, 4), corner=(1, 1), out_width=4, padded=True), 5,
     "ec_pack_taps_4_s8_dsp"),
    (padded_fours, window((6, 5, 1), (3, 4), corner=(1, 1), out_width=4, padded=True), 5,
     "ec_pad_s8"),
]  # fmt: skip


@pytest.mark.parametrize("zero_point", [-128, 9])
@pytest.mark.parametrize(("form", "shape", "height", "kernel"), [*CASES, *FOURS])
def test_schedules_keep_the_meaning(form, shape, height, kernel, zero_point):
    case = Case(form, shape, height, tables(5, shape.depth // 4), zero_point)
    schedule = case.schedule()
    assert schedule is not None
    assert kernel in print_func(schedule.func)
    case.check(schedule)


def test_four_pixels_take_least_weights_and_three_half_words():
    """Two channels share no words; what four pixels have is stored as three."""
    shape = window((3, 4, 8), out_width=4)
    constants = tables(6, 2)
    constants["w"][:, 1, 0, 1] = np.array([-128, 5, -1, -128, -9, 3])
    case = Case(fours, shape, 3, constants)
    assert replace(case, prepare=columns).schedule() is None
    schedule = case.schedule()
    assert schedule is not None
    case.check(schedule, [-128, 127])
    (col,) = [param for param in schedule.func.params if param.name == "col"]
    assert (col.dtype, col.elements) == ("int8", 12 * 8 // 2)
    assert case.schedule(in_rows=True) is not None
    assert case.schedule(stored="s4") is None
    high = {**constants, "bias": constants["bias"] + (1 << 23), "shift": constants["shift"] - 8}
    assert replace(case, constants=high, zero_point=9).schedule() is None


def four_bits(channels, quads):
    return {**tables(channels, quads),
            "w": RNG.integers(-8, 8, (channels, quads, 2, 2)).astype(np.int8)}  # fmt: skip


@pytest.mark.parametrize("zero_point", [-128, 9])
@pytest.mark.parametrize(("form", "shape", "height", "kernel"), CASES)
def test_weights_of_four_bits_stay_so(form, shape, height, kernel, zero_point):
    case = Case(form, shape, height, four_bits(5, shape.depth // 4), zero_point)
    schedule = case.schedule(stored="s4")
    assert schedule is not None
    text = print_func(schedule.func)
    assert "_s4_" in text and kernel in text
    case.check(schedule)


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
    (columns, window((3, 5, 64), out_width=5), 3, 8, 8),
    (columns, window((3, 5, 32), (3, 3), corner=(1, 1), out_width=5, padded=True), 3, 4, 4),
    (columns, window((3, 5, 20), out_width=5), 3, 5, 5),
    (row, window((1, 1, 128)), 1, 16, 4), (row, window((1, 1, 48)), 1, 6, 3),
])  # fmt: skip
def test_groups_stay_in_four_bits(form, shape, height, group, size):
    constants, features = in_groups(5, shape.depth // 4, group), FEATURES | {"fpu"}
    case = Case(form, shape, height, constants, 9, features=features)
    schedule = case.schedule(stored="groups")
    assert schedule is not None
    text = print_func(schedule.func)
    assert "_groups_onnx_s8_dsp" in text
    (call,) = [line for line in text.splitlines() if "_groups_" in line]
    count = shape.depth // (4 if form is columns else 8)
    assert f" {count}, {size}, 5, 9)" in call
    case.check(schedule)
    for quads, value in ((group, 17), (3, None)):  # not four bits with a shift; steps too short
        other = in_groups(5, shape.depth // 4, quads)
        if value:
            other["w"][2, 1, 0, 0] = value
        assert replace(case, constants=other).schedule(stored="groups") is None


def test_one_pixel_in_four_bits_without_shifts_may_take_the_kernel_of_groups_too():
    """Which other layers of the model may call; eight inputs are one group."""
    constants = in_groups(5, 2, 2)
    constants["w"] = (constants["w"] >> 3).astype(np.int8)
    case = Case(row, window((1, 1, 8)), 1, constants, 9, features=FEATURES | {"fpu"})
    schedules = product_schedules(case.prepare(case.nest))
    texts = [print_func(schedule.func) for schedule in schedules]
    assert [text.count("_s4_onnx") + 2 * text.count("_groups_onnx") for text in texts] == [0, 1, 2]
    case.check(schedules[-1])


def test_four_bits_and_sums_have_to_fit():
    shape = window((3, 4, 64), out_width=4)
    constants = four_bits(6, 16)
    # No channel is always the same.
    constants["shift"][:], constants["multiplier"][:] = -12, 1 << 30

    def scheduled(**changed):
        return Case(columns, shape, 3, {**constants, **changed}, 9).schedule(stored="s4")

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
    (four_bits(5, 4), "size", "ec_matrix_1_plain_s4_s8_dsp"),
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
    (columns, window((1, 5, 8), out_width=5), "ec_pack_rows_2_s8_dsp"),
    (columns, window((1, 16, 8), out_width=16), "ec_pack_rows_2_s8_dsp"),
    (columns, window((3, 11, 4), (3, 3), corner=(0, 1), out_width=11, padded=True),
     "ec_pack_windows_2_s8_dsp"),
    (padded_columns, window((3, 10, 1), (3, 4), corner=(0, 1), out_width=8, padded=True),
     "ec_pack_windows_2_s8_dsp"),
]  # fmt: skip


@pytest.mark.parametrize(("form", "shape", "kernel"), ROWS)
def test_rows_that_three_do_not_divide_end_by_two(form, shape, kernel):
    """Nothing is computed twice, so that the output may replace the input."""
    case = Case(form, shape, 1, tables(5, shape.depth // 4), 9)
    schedule = case.schedule(in_rows=True)
    assert schedule is not None
    text = print_func(schedule.func)
    assert kernel in text and "ec_matrix_2_s8_dsp" in text and "min(" not in text
    first, second = case.check(schedule)
    assert np.array_equal(first, second)


ROWS_BY_FOUR = [
    (fours, window((1, 8, 8), out_width=8), "ec_pack_rows_4_s8_dsp"),
    (fours, window((3, 11, 4), (3, 3), corner=(0, 1), out_width=11, padded=True),
     "ec_pack_windows_4_s8_dsp"),
    (padded_fours, window((3, 10, 1), (3, 4), corner=(0, 1), out_width=8, padded=True),
     "ec_pack_windows_4_s8_dsp"),
]  # fmt: skip


@pytest.mark.parametrize(("form", "shape", "kernel"), ROWS_BY_FOUR)
def test_rows_take_four_pixels_at_a_time(form, shape, kernel):
    case = Case(form, shape, 1, tables(5, shape.depth // 4), 9)
    schedule = case.schedule(in_rows=True)
    assert schedule is not None
    text = print_func(schedule.func)
    assert kernel in text and "ec_matrix_4_s8_dsp" in text
    case.check(schedule)


def test_few_pixels_three_at_a_time_and_others_four():
    """A model should need one of these kernels, where C has assembly."""
    constants = tables(5, 2)
    for pixels, in_rows, by_three in ((3, False, True), (6, False, True), (7, False, False),
                                      (6, True, False)):  # fmt: skip
        shape = window((1, pixels, 8), out_width=pixels)
        case = Case(columns, shape, 1, constants)
        assert (case.schedule(in_rows=in_rows, no_asm=False) is not None) == by_three
        assert case.schedule(in_rows=in_rows) is not None
        schedule = replace(case, prepare=fours).schedule(in_rows=in_rows)
        assert (schedule is not None) == (pixels > 3)
        # For RAM, narrow rows stream by three and two.
        assert case.schedule(in_rows=in_rows, no_asm=False, level="ram") is not None
        by_four = replace(case, prepare=fours)
        assert by_four.schedule(in_rows=in_rows, no_asm=False, level="ram") is None


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
    case = Case(columns, shape, 3, constants, 9)
    assert case.schedule() is not None
    # Only the zero point -128 needs room for its scaled constants.
    zero_point = -128 if name == "shift" else 9
    if name == "bias":  # small enough a scale that the result is not constant
        constants["shift"][:] = -17
    changed = {**constants, name: change(constants[name]).astype(constants[name].dtype)}
    assert replace(case, constants=changed, zero_point=zero_point).schedule() is None


@pytest.mark.parametrize(("first", "fits"), [(0, True), (127, True), (-1, False), (-128, False)])
@pytest.mark.parametrize("zero_point", [-128, 9])
def test_least_weights_beside_others(first, fits, zero_point):
    """256 * -128 + a fits into a half-word where a is not negative."""
    shape = window((3, 4, 8), out_width=4)
    constants = tables(6, 2)
    constants["w"][:, 1, 0, 1] = np.array([-128, 5, first, -128, -9, 3])
    case = Case(columns, shape, 3, constants, zero_point)
    assert case.schedule() is None
    schedule = case.schedule(paired=True)
    assert (schedule is not None) == fits
    if schedule is not None:
        case.check(schedule, [-128, 127])


def test_of_an_odd_number_every_neighbour_has_to_fit():
    shape = window((3, 4, 8), out_width=4)
    constants = tables(5, 2)
    constants["w"][:, 0, 0, 0] = np.array([1, 2, -3, -128, 0])
    case = Case(columns, shape, 3, constants, 9)
    assert case.schedule(paired=True) is None
    constants["w"][2, 0, 0, 0] = 3
    assert case.schedule(paired=True) is not None


def test_another_clamp_is_refused():
    shape = window((3, 4, 8), out_width=4)
    constants = tables(6, 2)
    assert Case(columns, shape, 3, constants, 9, low=9).schedule() is None


def test_too_few_channels_and_pixels_are_refused():
    shape = window((3, 4, 8), out_width=4)
    assert Case(columns, shape, 3, tables(1, 2)).schedule() is None
    two = window((1, 2, 8), out_width=2)
    assert Case(columns, two, 1, tables(6, 2)).schedule() is None


def test_constant_channels_are_told_by_small_numbers():
    shape = window((3, 4, 8), out_width=4)
    constants = tables(4, 2)
    constants["bias"][1], constants["shift"][1] = 1 << 30, -28
    constants["bias"][2], constants["multiplier"][2], constants["shift"][2] = 77, 0, 0
    case = Case(columns, shape, 3, constants)
    small = case.nest.tables
    assert not small["w"][[1, 2]].any()
    assert small["bias"][1] != case.tables["bias"][1]
    assert np.array_equal(small["w"][[0, 3]], case.tables["w"][[0, 3]])
    schedule = case.schedule()
    assert schedule is not None
    case.check(schedule)
