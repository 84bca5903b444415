"""TFLite's element-wise operators on quantized integers, in the bits of TFLite Micro or LiteRT."""

from __future__ import annotations

from pathlib import Path

import pytest
from tflite_cases import Case, In, Out, check, check_by_c, const, in_builds, ints, model_of, rng

from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.ops.tflite_quantized import inverse_root

A = {"int8": {"scale": 0.05, "zero_point": -7}, "int16": {"scale": 0.0004, "zero_point": 0}}
B = {"int8": {"scale": 0.031, "zero_point": 12}, "int16": {"scale": 0.0007, "zero_point": 0}}
#: About as large as squares of both.
C = {"int8": {"scale": 0.4, "zero_point": -100}, "int16": {"scale": 0.01, "zero_point": 0}}
SHAPE = (3, 50)


def micro() -> list[Case]:
    made = []
    for dtype in ("int8", "int16"):
        a, b = In(SHAPE, dtype, **A[dtype]), In(SHAPE, dtype, **B[dtype])
        row = In((50,), dtype, **B[dtype])
        for kind in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"):
            if dtype == "int8":
                made.append(Case(kind, [a, b], [Out(SHAPE, "bool")]))
                made.append(Case(kind, [a, row], [Out(SHAPE, "bool")]))
        made.append(Case("SQUARED_DIFFERENCE", [a, b], [Out(SHAPE, dtype, **C[dtype])]))
        made.append(Case("ABS", [a], [Out(SHAPE, dtype, **B[dtype])]))
        made.append(Case("ABS", [a], [Out(SHAPE, dtype, **A[dtype])]))
        made.append(Case("RELU", [a], [Out(SHAPE, dtype, **B[dtype])]))
        made.append(Case("RELU6", [a], [Out(SHAPE, dtype, **A[dtype])]))
        made.append(Case("SELECT_V2", [In(SHAPE, "bool"), a, a], [Out(SHAPE, dtype, **A[dtype])],
                         "SelectV2Options"))  # fmt: skip
    a = In(SHAPE, "int8", **A["int8"])
    made.append(Case("ELU", [a], [Out(SHAPE, "int8", **B["int8"])]))
    given = In(SHAPE, "int8", scale=0.05, zero_point=-128)
    made.append(Case("RSQRT", [given], [Out(SHAPE, "int8", **B["int8"])]))
    wide, alpha = In(SHAPE, "int16", **A["int16"]), rng.integers(-120, 120, 50)
    for zero_point in (0, 5):
        by = const(alpha, "int8", scale=0.01, zero_point=zero_point)
        made.append(Case("PRELU", [wide, by], [Out(SHAPE, "int16", **C["int16"])]))
    for scale, length in ((0.05, 50), (0.004, 7), (0.5, 300)):
        given = In((3, length), "int8", scale=scale, zero_point=-7)
        made.append(Case("LOG_SOFTMAX", [given], [Out((3, length), "int8", scale=16 / 256,
                                                      zero_point=127)]))  # fmt: skip
    for count in (1, 3):
        out = Out(SHAPE, "int8", scale=0.1, zero_point=4)
        made.append(Case("ADD_N", [a] * (count + 1), [out], "AddNOptions"))
    for flags in range(4):
        made.append(Case("CUMSUM", [In((3, 4, 5), "int8", **A["int8"]), ints(1)],
                         [Out((3, 4, 5), "int8", scale=0.2, zero_point=3)], "CumsumOptions",
                         {"Exclusive": bool(flags & 1), "Reverse": bool(flags & 2)}))  # fmt: skip
    made.append(Case("SQUARED_DIFFERENCE", [In(SHAPE, "int32", -999, 999)] * 2,
                     [Out(SHAPE, "int32")]))  # fmt: skip
    return made


def litert() -> list[Case]:
    made = []
    wide, other = (In(SHAPE, "int16", **quant["int16"]) for quant in (A, B))
    for kind in ("EQUAL", "LESS", "GREATER_EQUAL"):
        made.append(Case(kind, [wide, other], [Out(SHAPE, "bool")]))
    image = In((1, 5, 6, 3), "int16", **A["int16"])
    for flag in ("AlignCorners", "HalfPixelCenters"):
        made.append(Case("RESIZE_BILINEAR", [image, ints(9, 13)],
                         [Out((1, 9, 13, 3), "int16", **A["int16"])], "ResizeBilinearOptions",
                         {flag: True}))  # fmt: skip
    a = In(SHAPE, "int8", **A["int8"])
    for kind, out in (("RELU_N1_TO_1", B["int8"]), ("RELU6", A["int8"])):
        made.append(Case(kind, [a], [Out(SHAPE, "int8", **out)]))
    made.append(Case("EXP", [In(SHAPE, "int8", **A["int8"])],
                     [Out(SHAPE, "int8", scale=0.5, zero_point=-128)]))  # fmt: skip
    given = In(SHAPE, "int8", -127, 127, scale=0.05, zero_point=-128)
    made.append(Case("SQRT", [given], [Out(SHAPE, "int8", scale=0.02, zero_point=-99)]))
    made.append(Case("LOG", [given], [Out(SHAPE, "int8", **B["int8"])]))
    given = In(SHAPE, "int16", 0, 32767, scale=0.001, zero_point=0)
    made.append(Case("SQRT", [given], [Out(SHAPE, "int16", scale=0.0002, zero_point=0)]))
    for dtype in ("int8", "int16"):
        for axes, shape in (((1,), (2, 4)), ((0, 2), (3,)), ((0, 1, 2), ())):
            given = In((2, 3, 4), dtype, -60, 100, **A[dtype])
            made.append(Case("REDUCE_PROD", [given, const(list(axes), "int32")],
                             [Out(shape, dtype, **C[dtype])], "ReducerOptions"))  # fmt: skip
    for form in (False, True):
        made.append(Case("GELU", [a], [Out(SHAPE, "int8", **B["int8"])], "GeluOptions",
                         {"Approximate": form}))  # fmt: skip
        made.append(Case("GELU", [wide], [Out(SHAPE, "int16", **B["int16"])], "GeluOptions",
                         {"Approximate": form}))  # fmt: skip
    # Results beyond the largest, and logarithms of numbers below 0, too.
    for scale, of_powers in ((0.0002, 0.05), (0.0025, 3.0)):
        given = In(SHAPE, "int16", scale=scale, zero_point=0)
        made.append(Case("EXP", [given], [Out(SHAPE, "int16", scale=of_powers, zero_point=0)]))
        made.append(Case("LOG", [given], [Out(SHAPE, "int16", scale=0.0005, zero_point=0)]))
    for dtype, adjoint in (("int8", "X"), ("int8", "Y"), ("int16", "Y")):
        a = In((2, 5, 3) if adjoint == "X" else (2, 3, 5), dtype, **A[dtype])
        b = In((2, 4, 5) if adjoint == "Y" else (2, 5, 4), dtype, **B[dtype])
        made.append(Case("BATCH_MATMUL", [a, b], [Out((2, 3, 4), dtype, **C[dtype])],
                         "BatchMatMulOptions", {f"Adj{adjoint}": True}))  # fmt: skip
    powers = [In(SHAPE, "int32", -9, 9), In(SHAPE, "int32", 0, 5)]
    made.append(Case("POW", powers, [Out(SHAPE, "int32")], "PowOptions"))
    return made


MICRO, CASES = micro(), litert()


def test_as_tflite_micro(tmp_path: Path) -> None:
    check(MICRO, "tflm", tmp_path)


def test_as_litert(tmp_path: Path) -> None:
    check(CASES, "litert", tmp_path)


@pytest.mark.parametrize("cases", in_builds([*MICRO, *CASES]), ids=lambda cases: cases[0].kind)
def test_by_c(cases: list[Case], tmp_path: Path) -> None:
    check_by_c(cases, "tflm", tmp_path)


def test_inverse_roots_are_near() -> None:
    for value in (2, 3, 255, 65_025, 1 << 20, 1 << 30):
        multiplier, shift = inverse_root(value)
        assert multiplier * 2.0 ** (shift - 31) == pytest.approx(value**-0.5, rel=2e-5)


def test_relu6_to_another_scale_is_refused(tmp_path: Path) -> None:
    case = Case("RELU6", [In(SHAPE, "int8", **A["int8"])], [Out(SHAPE, "int8", **B["int8"])])
    (tmp_path / "m.tflite").write_bytes(model_of([case]))
    with pytest.raises(ImportFailed) as failure:
        import_model(tmp_path / "m.tflite")
    assert "the output has another scale" in failure.value.details[0]
