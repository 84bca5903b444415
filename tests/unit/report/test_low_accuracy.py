"""The warning of outputs that integers are too coarse for."""

from __future__ import annotations

from typing import Any

from edgec.report.low_accuracy import LOW_SQNR_DB, inaccurate_outputs, low_accuracy_lines

AGAIN = ["edgec", "quantize", "a model.onnx", "--activations", "mixed"]


def report(
    *decibels: float,
    weights: str = "int8",
    activations: str = "int8",
    goal_db: float | None = None,
    build: dict[str, int] | None = None,
) -> dict[str, Any]:
    """Of a model with such outputs and three layers."""
    return {
        "outputs": [{"name": f"o{n}", "sqnr_db": db} for n, db in enumerate(decibels)],
        "rows": [
            {"name": name, "blame": blame}
            for name, blame in (("less", 0.1), ("none", -0.1), ("most", 0.7), ("moved", None))
        ],
        "recipe": {"weights": weights, "activations": activations},
        "values": {"goal_db": goal_db, "build": build} if goal_db or build else None,
    }


def test_one_coarse_output_among_good_ones_is_named() -> None:
    inaccurate = inaccurate_outputs(report(60.0, 13.04, LOW_SQNR_DB), AGAIN)
    assert inaccurate is not None
    assert inaccurate["outputs"] == [{"name": "o1", "sqnr_db": 13.04}]
    assert inaccurate["blamed"] == ["most", "less"]
    assert low_accuracy_lines(inaccurate) == [
        "warning: integers are too coarse for this model: o1 13.0 dB, less than 20 (an error of"
        " 10 % in amplitude); first to blame: most, less",
        "hint: store in int16 the values for which int8 is too coarse:",
        "  edgec quantize 'a model.onnx' --activations mixed",
    ]


def test_good_outputs_and_those_as_near_as_asked_for_are_not_said() -> None:
    assert inaccurate_outputs(report(LOW_SQNR_DB, float("inf")), AGAIN) is None
    assert inaccurate_outputs(report(12.0, activations="mixed", goal_db=10.0), AGAIN) is None


def test_the_hint_fits_what_was_asked_for() -> None:
    for words, hint in (
        ({"activations": "mixed", "goal_db": 30.0}, "more samples"),
        (
            {"activations": "mixed", "build": {"ram_bytes": 4000}},
            "no mix within the limits has a smaller error",
        ),
        ({"weights": "int4"}, "--weights int8"),
        ({"weights": "float16"}, "build the float model"),
        ({"activations": "int16"}, "--keep-float"),
    ):
        inaccurate = inaccurate_outputs(report(10.0, **words), AGAIN)  # type: ignore[arg-type]
        assert inaccurate is not None and not inaccurate["command"]
        assert hint in low_accuracy_lines(inaccurate)[1]
