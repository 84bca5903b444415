"""Compare edgec's integer reference with TFLite's interpreters, tensor by tensor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edgec.frontends import import_model
from edgec.graph.interpret import Interpretation
from edgec.graph.ir import Module, Value
from edgec.graph.verify import verify_module
from edgec.oracle.frameworks import Oracle, open_oracle
from edgec.runners.samples import generate_inputs


def differences(
    module: Module,
    oracle: Oracle,
    inputs: Sequence[np.ndarray],
    reference: Interpretation | None = None,
) -> list[str]:
    """Every tensor of the source that edgec computes otherwise; asserts that it computes all.

    reference: an interpretation of `module.main` that is in the oracle's state; a new one if None.
    """
    reference = reference or Interpretation(module.main)
    expected = oracle.run(inputs, tensors=True)
    found: dict[int, str] = {}

    def compare(value: Value, array: np.ndarray) -> None:
        if value.origin is None or value.origin.index is None:
            return
        wanted = expected.indexed[value.origin.index].reshape(array.shape)
        wrong = np.flatnonzero(wanted.ravel() != array.ravel())
        text = ""
        if wrong.size:
            at = wrong[0]
            text = (
                f"{value.name}: {wrong.size} of {array.size} differ, first at {at}:"
                f" {array.ravel()[at]} instead of {wanted.ravel()[at]}"
            )
        found[value.origin.index] = text

    for constant in module.main.constants():
        if constant.origin is not None and constant.origin.index in expected.indexed:
            compare(constant, constant.data)
    outputs = reference.run(inputs, compare)
    assert set(found) == set(expected.indexed), "tensors of the source are missing"
    for mine, wanted in zip(outputs, expected.outputs, strict=True):
        assert mine.shape == wanted.shape and mine.dtype == wanted.dtype
    return [text for text in found.values() if text]


def assert_same_bits(
    data: bytes, folder: Path, seeds: Sequence[int] = (1, 2), reference: str = "tflm"
) -> Module:
    """Import a TFLite file given as bytes, run it on generated inputs, compare every tensor.

    The runs of a model with state are one sequence.

    reference: "tflm" or "litert", for both the import's `match` and the oracle.
    """
    path = folder / "case.tflite"
    path.write_bytes(data)
    module = import_model(path, match=reference)
    verify_module(module)
    oracle = open_oracle(path, reference)
    mine = Interpretation(module.main)
    for seed in seeds:
        inputs = generate_inputs(seed, [(v.type.shape, v.type.dtype) for v in module.main.inputs])
        wrong = differences(module, oracle, inputs, mine)
        assert not wrong, "\n".join(wrong)
    return module
