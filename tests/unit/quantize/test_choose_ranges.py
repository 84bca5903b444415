"""Ranges by `local`: the least error of what is made of a value, of many samples at once."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from small_network import images, network

from edgec.graph.interpret import interpret
from edgec.graph.ir import Function, Node, Value
from edgec.quantizer import choose_ranges
from edgec.quantizer.batches import Batch
from edgec.quantizer.calibrate import Statistics, calibrate, has_weights
from edgec.quantizer.choose_ranges import Ranges, observed_ranges
from edgec.quantizer.integer_nodes import IntegerNodes
from edgec.quantizer.moments import as_rows, input_rows, some_input_rows, weights_of
from edgec.quantizer.observers import OBSERVERS
from edgec.quantizer.scheme import Stored, activation_quant, rounded


def network_and_statistics() -> tuple[Function, Statistics]:
    """The network and what 24 samples show, of which some have outliers: observers disagree."""
    function, samples = network(), images(24)
    for sample in samples[::5]:
        sample[0][0, 0, 2, 3] *= 6
    return function, calibrate(function, samples)


def test_local_has_the_least_error_at_the_layers_that_read_a_value() -> None:
    function, statistics = network_and_statistics()
    local = observed_ranges(function, statistics, "local")
    every = {name: observed_ranges(function, statistics, name) for name in OBSERVERS}

    def error(node: Node, bounds: tuple[float, float]) -> float:
        rows, total = as_rows(node, weights_of(node)).astype(np.float64), 0.0
        for sample in statistics.kept:
            known: dict[Value, np.ndarray] = {}
            interpret(function, sample, known.__setitem__)
            x = known[node.inputs[0]]
            noise = rounded(x, Stored(activation_quant(*bounds))) - x
            noise, x = (np.einsum("grk,gok->gro", input_rows(node, a), rows) for a in (noise, x))
            total += float(np.sum(noise**2) / np.sum(x**2))
        return total

    names = set()
    for node in function.nodes:
        if node.name not in ("second", "third"):  # what they read is read by nothing else
            continue
        errors = {name: error(node, every[name][node.inputs[0]]) for name in OBSERVERS}
        name = min(errors, key=errors.__getitem__)
        assert sorted(errors.values())[1] > errors[name] * 1.001  # no other is about as good
        assert local[node.inputs[0]] == every[name][node.inputs[0]]
        names.add(name)
    assert len(names) > 1


def test_samples_that_run_at_once_choose_what_each_by_itself_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    function, statistics = network_and_statistics()
    assert Batch(function).count > 1
    found = observed_ranges(function, statistics, "local")
    monkeypatch.setattr(choose_ranges, "Batch", partial(Batch, count=1))
    assert observed_ranges(function, statistics, "local") == found
    assert found != observed_ranges(function, statistics, "minmax")


def test_ranges_are_found_once_for_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    function, statistics = network_and_statistics()
    ranges = Ranges(function)
    first, half = statistics, statistics.halves[0]
    found = {name: ranges.of(first, name) for name in ("local", "mse")}
    assert ranges.of(half, "mse") == observed_ranges(function, half, "mse") != found["mse"]
    found["mse"].clear()  # what is given is the caller's own
    monkeypatch.setattr(choose_ranges, "OBSERVERS", {})
    assert ranges.of(first, "local") == found["local"]
    assert ranges.of(first, "mse")


def test_only_what_is_stored_is_clipped() -> None:
    function, statistics = network_and_statistics()
    whole = observed_ranges(function, statistics, "minmax")
    stored = set(IntegerNodes(function).stored_values())
    for name in ("local", "mse", "percentile", "entropy"):
        found = observed_ranges(function, statistics, name)
        clipped = {value for value in found if found[value] != whole[value]}
        assert clipped
        assert clipped <= stored - set(function.params)


@pytest.mark.parametrize("most", [3, 20, 256])
def test_some_rows_are_every_nth_of_each_sample(most: int) -> None:
    function = network()
    samples = images(3)
    known: list[dict[Value, np.ndarray]] = [{} for _ in samples]
    for sample, one in zip(samples, known, strict=True):
        interpret(function, sample, one.__setitem__)
    for node in (node for node in function.nodes if has_weights(node)):
        wide = np.concatenate([one[node.inputs[0]] for one in known])
        found = some_input_rows(node, wide, len(samples), most)
        for one, rows in zip(known, found, strict=True):
            every = input_rows(node, one[node.inputs[0]])
            assert np.array_equal(rows, every[:, :: -(-every.shape[1] // most)])
