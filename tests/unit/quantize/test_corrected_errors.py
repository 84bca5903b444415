"""Errors of schemes whose biases are settled, on samples held out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_network import images, network

from edgec.passes.sequence import run_passes
from edgec.quantizer.bias_correction import corrected_biases
from edgec.quantizer.calibrate import Seen, calibrate
from edgec.quantizer.corrected_errors import CorrectedErrors
from edgec.quantizer.held_out import Deviation, fitted_to, output_error
from edgec.quantizer.insert import insert_qdq
from edgec.quantizer.post_training import Plan, Recipe
from edgec.quantizer.scheme import Scheme


def plan(samples: list[list[np.ndarray]]) -> Plan:
    function = network()
    return Plan(function, calibrate(function, iter(samples)), Recipe(), "minmax")


def with_drift(scheme: Scheme) -> Scheme:
    """With biases of one layer a good deal off, which settling mends."""
    node, weights = list(scheme.weights.items())[2]
    off = replace(weights, bias=weights.bias + np.float32(0.5))
    return replace(scheme, weights={**scheme.weights, node: off})


def test_biases_are_those_of_the_finished_model() -> None:
    """Sums in another order may round a value to the next step; a mean hardly changes by it."""
    made = plan(images(24))
    found = CorrectedErrors(made.function, made.statistics)
    schemes = found.schemes(lambda seen: made.scheme(seen)[0])
    moved = 0
    for scheme, seen in zip(schemes, fitted_to(made.statistics), strict=True):
        plain = made.scheme(seen)[0]
        expected = corrected_biases(made.function, plain, seen.followed)
        assert scheme.values == plain.values
        for node, weights in expected.weights.items():
            np.testing.assert_allclose(scheme.weights[node].bias, weights.bias, atol=1e-4)
            moved += not np.allclose(plain.weights[node].bias, weights.bias, atol=2e-4)
    assert moved
    same = found.schemes(lambda seen: made.scheme(seen)[0], correct=False)
    for scheme, seen in zip(same, fitted_to(made.statistics), strict=True):
        for node, weights in made.scheme(seen)[0].weights.items():
            assert np.array_equal(scheme.weights[node].bias, weights.bias)


def test_the_error_is_nearly_that_of_the_integers() -> None:
    made = plan(images(24))
    found = CorrectedErrors(made.function, made.statistics)

    def drifted(seen: Seen) -> Scheme:
        return with_drift(made.scheme(seen)[0])

    schemes = found.schemes(drifted)
    integers = [
        run_passes(insert_qdq(found.function, scheme).function, "onnx") for scheme in schemes
    ]
    exact = output_error(found.tests, integers)
    assert found.error(schemes) == pytest.approx(exact, rel=0.05)
    assert found.error(found.schemes(drifted, correct=False)) > 1.5 * exact
    assert exact == pytest.approx(
        found.error(found.schemes(lambda seen: made.scheme(seen)[0])), rel=0.05
    )


def test_biases_are_settled_where_that_helps_on_samples_held_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = plan(images(24))
    assert made.errors.choose_biases(lambda seen: with_drift(made.scheme(seen)[0]))[1]
    for settled, is_worth in ((0.97, True), (0.99, False), (1.5, False)):  # of the plain error
        pair = [Deviation(np.array([e]), np.array([e])) for e in (1.0, settled)]
        found = iter(pair)
        monkeypatch.setattr(CorrectedErrors, "deviation", lambda *_, found=found: next(found))
        least = pair[is_worth]
        assert made.errors.choose_biases(lambda seen: made.scheme(seen)[0]) == (least, is_worth)


def test_the_finished_model_has_settled_biases_if_they_are_worth_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = plan(images(24))
    plain = made.scheme(made.statistics)[0]
    settled = corrected_biases(made.function, plain, made.statistics.kept)
    for is_worth, expected in ((False, plain), (True, settled)):
        monkeypatch.setattr(
            CorrectedErrors, "choose_biases", lambda *_, worth=is_worth: (1.0, worth)
        )
        finished = made.other().finished()
        assert finished.has_corrected_biases == is_worth
        for node, weights in finished.scheme.weights.items():
            assert np.array_equal(weights.bias, expected.weights[node].bias)
