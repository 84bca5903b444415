"""The scalar meanings equal the array meanings of `edgec.numerics.fixed_point`."""

import numpy as np
import pytest

from edgec.errors import ContractError
from edgec.loop.intrinsics import get_intrinsic, is_known, names
from edgec.numerics import fixed_point

EDGES = [0, 1, -1, 2, -2, 63, -64, 2**30, -(2**30), 2**31 - 1, -(2**31), 2**31 - 2, 1 - 2**31]


def accumulators():
    rng = np.random.default_rng(5)
    return np.array([*EDGES, *rng.integers(-(2**31), 2**31, 60), *rng.integers(-4000, 4000, 60)])


@pytest.mark.parametrize("name", ["requantize_tflm", "requantize_single"])
def test_requantize(name):
    scalar, array = get_intrinsic(name).meaning, getattr(fixed_point, name)
    for multiplier in (2**30, 2**31 - 1, 1518500250, 0):
        for shift in (-31, -12, -3, -1, 0, 1, 4):
            acc = accumulators()
            expected = array(acc, np.array(multiplier), np.array(shift))
            got = [scalar(int(a), multiplier, shift) for a in acc]
            assert got == expected.tolist()


def test_requantize_tflm16():
    wide, high = (get_intrinsic(f"requantize_tflm16{end}").meaning for end in ("", "_high"))
    for multiplier in (2**14, 2**15 - 1, 23171, 0):
        for shift in (8, 15, 18, 31, 46):
            acc = np.concatenate([accumulators(), accumulators() << 31])
            expected = fixed_point.requantize_tflm16(acc, np.array(multiplier), np.array(shift))
            assert [wide(int(a), multiplier, shift) for a in acc] == expected.tolist()
            if shift >= 18:
                narrow = [high(int(a), multiplier << 15, shift - 17) for a in accumulators()]
                assert narrow == expected[: len(narrow)].tolist()


def test_requantize_onnx():
    acc = accumulators()
    for scale in np.array([1e-3, 0.5, 0.00390625, 3.7, 1e-9], dtype=np.float32):
        expected = fixed_point.requantize_onnx(acc, scale)
        got = [get_intrinsic("requantize_onnx").meaning(int(a), float(scale)) for a in acc]
        assert got == expected.tolist()


def test_round_half_even():
    meaning = get_intrinsic("round_half_even_f32").meaning
    values = [0.5, 1.5, 2.5, -0.5, -1.5, 2.4999, 3e9, -3e9, float("nan")]
    assert [meaning(v) for v in values] == [
        0, 2, 2, 0, -2, 2, 2**31 - 128, -(2**31), 0
    ]  # fmt: skip


def test_halves():
    meaning = get_intrinsic("f32_from_f16").meaning
    bits = np.arange(1 << 16, dtype=np.uint16)
    finite = bits[np.isfinite(bits.view(np.float16))]
    assert [meaning(int(b)) for b in finite[::97]] == finite[::97].view(np.float16).tolist()


def test_high_multiply_and_divide():
    multiply = get_intrinsic("rounding_doubling_high_multiply").meaning
    divide = get_intrinsic("rounding_divide_by_power_of_two").meaning
    acc = accumulators()
    for b in EDGES:
        expected = fixed_point.rounding_doubling_high_multiply(acc, b)
        assert [multiply(int(a), b) for a in acc] == expected.tolist()
    for exponent in (0, 1, 7, 31):
        expected = fixed_point.rounding_divide_by_power_of_two(acc, np.array(exponent))
        assert [divide(int(a), exponent) for a in acc] == expected.tolist()


#: Arguments that a function's meaning is defined for, by its name; others take any of their type.
ARGUMENTS = {
    "requantize_tflm": (accumulators, lambda: 1518500250, lambda: -3),
    "requantize_tflm_right": (accumulators, lambda: 1518500250, lambda: -3),
    "requantize_single": (accumulators, lambda: 1518500250, lambda: 2),
    "requantize_tflm16": (accumulators, lambda: 23171, lambda: 15),
    "requantize_onnx": (accumulators, lambda: 0.0123),
    "one_over_one_plus_x": (lambda: np.abs(accumulators()) % 2**31,),
    "reciprocal_root": (lambda: np.arange(2**29, 2**31, 2**22 + 12345),),
    "rounding_divide_by_power_of_two": (accumulators, lambda: 5),
    "f32_from_bits": (lambda: np.arange(0, 2**32 - 2**22, 123456789),),
    "f64_from_bits": (lambda: np.arange(0, 2**62, 2**55 + 12345),),
    "widen_f32": (lambda: np.arange(256), lambda: 8, lambda: 3, lambda: 7, lambda: 1),
    "narrow_f32": (None, lambda: 8, lambda: 2, lambda: 15, lambda: 0, lambda: 1),
}


@pytest.mark.parametrize("name", [n for n in names() if get_intrinsic(n).on_arrays is not None])
def test_functions_of_arrays_equal_those_of_elements(name):
    definition = get_intrinsic(name)
    floats = np.float32([0.0, -0.0, 0.5, -0.5, 1.5, 2.5, 1e-3, 3.7, -80.25, 1e6, -3e9, 3e9, np.nan])
    given = ARGUMENTS.get(name, [None] * len(definition.args))
    arguments = []
    for number, (dtype, make) in enumerate(zip(definition.args, given, strict=True)):
        values = accumulators() if dtype.startswith("int") else np.roll(floats, number)
        values = values if make is None else make()
        column = np.asarray(values).astype(dtype)
        same = all(d == dtype for d in definition.args)
        shape = (-1, *[1] * (0 if same else len(definition.args) - 1 - number))
        arguments.append(column.reshape(shape) if column.ndim else column)
    found = definition.map(*arguments)
    rows = zip(*(a.reshape(-1).tolist() for a in np.broadcast_arrays(*arguments)), strict=True)
    wanted = np.array([definition.meaning(*row) for row in rows], definition.dtype)
    np.testing.assert_array_equal(found.reshape(-1), wanted, strict=True)


def test_names():
    assert "requantize_tflm" in names()
    assert not is_known("nope")
    with pytest.raises(ContractError, match="'nope' is unknown"):
        get_intrinsic("nope")
