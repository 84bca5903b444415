"""Faults planted in what an engine answers: `verify` finds each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import edgec
from edgec.boards.board import load_board
from edgec.errors import RunFailed
from edgec.options import Options
from edgec.oracle import verify
from edgec.oracle.verify import Verification, verify_model
from edgec.runners.engine import RunResult

MODEL = """
<ir_version: 9, opset_import: ["":17]>
g (float[2,3] x) => (float[2,3] a, float[2,3] b) {
    h = Relu(x)
    a = Mul(h, x)
    b = Add(a, h)
}
"""
CASES = 3

Fault = Callable[[list[RunResult]], list[RunResult]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "m.onnx"
    onnx.save(onnx.parser.parse_model(MODEL), path)
    return path


def verified(model: Path, folder: Path, fault: Fault, monkeypatch: pytest.MonkeyPatch,
             *, layers: bool = False) -> Verification:  # fmt: skip
    """The verdict on three cases, of which `fault` changes the answers."""
    honest = verify.Runner.results

    def results(self: object, built: object, inputs: Sequence[object], trace: bool) -> Iterator:
        yield from fault(list(honest(self, built, inputs, trace)))  # type: ignore[arg-type]

    monkeypatch.setattr(verify.Runner, "results", results)
    rng = np.random.default_rng(1)
    cases = [[rng.normal(size=(2, 3)).astype(np.float32)] for _ in range(CASES)]
    return verify_model(model, load_board("host"), Options(), "host", cases, folder, layers=layers)


def changed(result: RunResult, number: int, array: np.ndarray) -> RunResult:
    outputs = list(result.outputs)
    outputs[number] = array
    return replace(result, outputs=tuple(outputs))


def of_last(change: Callable[[np.ndarray], np.ndarray]) -> Fault:
    """A fault in the second output of the last case alone."""
    return lambda found: [*found[:-1], changed(found[-1], 1, change(found[-1].outputs[1].copy()))]


def with_element(value: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        array[1, 2] = value
        return array

    return change


def with_bit(array: np.ndarray) -> np.ndarray:
    array.view(np.uint32)[1, 2] ^= 1
    return array


def test_nothing_is_found_where_nothing_is_wrong(model, tmp_path, monkeypatch) -> None:
    result = verified(model, tmp_path, lambda found: found, monkeypatch, layers=True)
    assert result.mismatches == 0 and result.cases == CASES and result.uncovered == []
    assert {row.tensor for row in result.layers} == {"h", "a", "b"}
    assert all(row.elements == 6 * CASES for row in (*result.layers, *result.outputs))


@pytest.mark.parametrize(
    "fault",
    [
        of_last(lambda array: array.reshape(6, 1)),
        of_last(lambda array: array.reshape(1, 2, 3)),
        of_last(lambda array: array.T),
        of_last(lambda array: array.astype(np.float64)),
        of_last(lambda array: array.view(np.int32)),
        of_last(with_element(np.nan)),
        of_last(with_element(np.inf)),
        lambda found: [*found[:-1], found[0]],
        lambda found: [found[1], found[0], *found[2:]],
        lambda found: [replace(r, outputs=r.outputs[::-1]) for r in found],
        lambda found: [replace(r, outputs=(np.zeros_like(r.outputs[0]), r.outputs[1]))
                       for r in found],
    ],
    ids=["shape", "rank", "transposed", "dtype", "view", "nan", "inf", "stale", "order of cases",
         "order of outputs", "skipped"],
)  # fmt: skip
def test_a_wrong_output_is_found(fault: Fault, model, tmp_path, monkeypatch) -> None:
    result = verified(model, tmp_path, fault, monkeypatch)
    assert result.beyond > 0
    assert result.to_dict()["first_difference"] is not None


def test_one_bit_is_counted(model, tmp_path, monkeypatch) -> None:
    assert verified(model, tmp_path, of_last(with_bit), monkeypatch).mismatches == 1


def test_the_sign_of_a_zero_is_counted() -> None:
    row = verify.Comparison("t", "neg", (2,))
    row.add(0, np.float32([0.0, 0.0]), np.float32([0.0, -0.0]))
    assert (row.mismatches, row.beyond) == (1, 0)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda found: found[:-1], "2 cases of 3"),
        (lambda found: [], "0 cases of 3"),
        (lambda found: [replace(r, outputs=r.outputs[:1]) for r in found], "1 outputs of 2"),
        (lambda found: [replace(r, outputs=(*r.outputs, r.outputs[0])) for r in found],
         "3 outputs of 2"),
    ],
    ids=["case", "all", "less", "more"],
)  # fmt: skip
def test_a_wrong_count_is_an_error(fault, message, model, tmp_path, monkeypatch) -> None:
    with pytest.raises(RunFailed, match=message):
        verified(model, tmp_path, fault, monkeypatch)


def test_a_layer_that_was_not_traced_is_an_error(model, tmp_path, monkeypatch) -> None:
    def fault(found: list[RunResult]) -> list[RunResult]:
        traces = dict(found[-1].traces)
        traces.popitem()
        return [*found[:-1], replace(found[-1], traces=traces)]

    with pytest.raises(RunFailed, match="did not trace"):
        verified(model, tmp_path, fault, monkeypatch, layers=True)


def test_one_bit_of_a_layer_is_found(model, tmp_path, monkeypatch) -> None:
    def fault(found: list[RunResult]) -> list[RunResult]:
        traces = {key: value.copy() for key, value in found[-1].traces.items()}
        next(iter(traces.values())).reshape(-1).view(np.uint8)[2] ^= 1
        return [*found[:-1], replace(found[-1], traces=traces)]

    result = verified(model, tmp_path, fault, monkeypatch, layers=True)
    assert sum(row.mismatches for row in result.layers) == 1
    assert sum(row.mismatches for row in result.outputs) == 0


def test_an_output_that_the_code_does_not_write_is_found(model, tmp_path, monkeypatch) -> None:
    """The memory of outputs never holds what the run before left there."""
    cases = [[np.ones((2, 3), np.float32)]] * 2
    from edgec.runners.host import HostModel

    run = HostModel.run
    count = 0

    def sometimes(self: HostModel, inputs: Sequence[np.ndarray]) -> object:
        nonlocal count
        count += 1
        if count > 1:
            self._functions["run"] = lambda *arguments: 0
        return run(self, inputs)

    monkeypatch.setattr(HostModel, "run", sometimes)
    for io in ("arena", "caller"):
        count = 0
        result = verify_model(
            model, load_board("host"), Options(io=io), "host", cases, tmp_path / io
        )
        assert result.beyond > 0


def test_inputs_that_numpy_lacks_are_one_error(tmp_path: Path) -> None:
    text = """
    <ir_version: 10, opset_import: ["":19]>
    g (float8e4m3fn[3] x) => (float[3] y) { y = Cast<to = 1>(x) }
    """
    file = tmp_path / "narrow.onnx"
    onnx.save(onnx.parser.parse_model(text), file)
    with pytest.raises(RunFailed, match="takes no inputs of float8e4m3fn from Python"):
        edgec.verify(file)
