"""TFLite's windows, against LiteRT and by C."""

from __future__ import annotations

from tflite_cases import Case, In, Out, const, ints, litert_tests, rng


def windows() -> list[Case]:
    made = []
    for padding in (0, 1):
        for activation in (0, 1, 3):
            common = {
                "Padding": padding,
                "StrideD": 1,
                "StrideH": 2,
                "StrideW": 1,
                "DilationDFactor": 1,
                "DilationHFactor": 1,
                "DilationWFactor": 1 + padding,
                "FusedActivationFunction": activation,
            }
            size = (1, 3, 3, 5, 4) if padding == 0 else (1, 2, 2, 3, 4)
            made.append(
                Case(
                    "CONV_3D",
                    [In((1, 3, 5, 5, 2)), In((2, 2, 2, 2, 4)), In((4,))],
                    [Out(size)],
                    "Conv3DOptions",
                    common,
                    near=1e-6,
                )
            )
    plain = {
        "StrideD": 2,
        "StrideH": 1,
        "StrideW": 2,
        "DilationDFactor": 1,
        "DilationHFactor": 1,
        "DilationWFactor": 1,
    }
    taps = const(rng.uniform(-1, 1, (2, 3, 2, 3, 2)))
    made.append(
        Case(
            "CONV_3D",
            [In((1, 4, 3, 4, 3)), const(rng.uniform(-1, 1, (1, 2, 3, 3, 2)))],
            [Out((1, 2, 2, 1, 2))],
            "Conv3DOptions",
            {**plain, "Padding": 1},
            near=1e-6,
        )
    )
    for padding, size, out in (
        (0, (1, 2, 3, 3, 2), (1, 4, 3, 6, 3)),
        (1, (1, 2, 3, 2, 2), (1, 4, 5, 4, 3)),
    ):
        made.append(
            Case(
                "CONV_3D_TRANSPOSE",
                [ints(*out), taps, In(size), In((3,))],
                [Out(out)],
                "Conv3DOptions",
                {**plain, "Padding": padding},
                near=1e-6,
            )
        )
    for padding, out in ((0, (1, 3, 3, 2)), (1, (1, 2, 2, 2))):
        made.append(
            Case(
                "L2_POOL_2D",
                [In((1, 5, 6, 2))],
                [Out(out)],
                "Pool2DOptions",
                {
                    "Padding": padding,
                    "StrideW": 2,
                    "StrideH": 2,
                    "FilterWidth": 3,
                    "FilterHeight": 2,
                },
                near=2e-7,
            )
        )
    for radius in (0, 2):
        made.append(
            Case(
                "LOCAL_RESPONSE_NORMALIZATION",
                [In((1, 2, 3, 6))],
                [Out((1, 2, 3, 6))],
                "LocalResponseNormalizationOptions",
                {"Radius": radius, "Bias": 1.5, "Alpha": 0.2, "Beta": 0.75},
                near=3e-7,
            )
        )
    return made


CASES = windows()
test_as_litert, test_by_c, test_all_by_c = litert_tests(CASES)
