"""Cases of TFLite's operators as a table, and models that hold many of them side by side.

One model of many cases is read, run by an interpreter and compiled once, so that a case costs
little."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sanitized import build_sanitized, run_sanitized, same, write_sources
from tflite_builder import TfliteBuilder

from edgec.frontends import import_model
from edgec.graph.interpret import Interpretation
from edgec.graph.verify import verify_module
from edgec.options import Options
from edgec.oracle.frameworks import open_oracle
from edgec.pipeline import compile_module
from edgec.targets.core import find_core

Array = np.ndarray
SEEDS = (1, 2)
#: Cases in one build.
CHUNK = 4


@dataclass(frozen=True)
class In:
    """An operand: an input with values between low and high, or a constant.

    values: what an input holds instead, for operators that take no others.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    low: float = -2
    high: float = 2
    scale: float | Sequence[float] = ()
    zero_point: int | Sequence[int] | None = None
    data: Array | None = None
    values: Array | None = None
    variable: bool = False

    def sample(self, rng: np.random.Generator) -> Array:
        """One array for this input."""
        if self.values is not None:
            return self.values
        if self.dtype == "bool":
            return rng.integers(0, 2, self.shape).astype(bool)
        if self.dtype.startswith("float"):
            return np.asarray(rng.uniform(self.low, self.high, self.shape), self.dtype)
        info = np.iinfo(self.dtype)
        whole = self.low == -2 and self.high == 2 and info.bits < 32
        low, high = (info.min, info.max) if whole else (self.low, self.high)
        low, high = max(int(low), info.min), min(int(high), info.max)
        return rng.integers(low, high, self.shape, self.dtype, endpoint=True)


def const(data: Any, dtype: str = "float32", **quant: Any) -> In:
    """A constant operand."""
    array = np.asarray(data, dtype)
    return In(array.shape, dtype, data=array, **quant)


#: For constants of cases.
rng = np.random.default_rng(0)


def ints(*values: object) -> In:
    """A constant list of int32, or one number."""
    return const(list(values) if len(values) != 1 else values[0], "int32")


def index(shape: tuple[int, ...], most: int, dtype: str = "int32", low: int = 0) -> In:
    """Random places below a number."""
    return In(shape, dtype, low, most - 1)


@dataclass(frozen=True)
class Out:
    """What the file declares of a result."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    scale: float | Sequence[float] = ()
    zero_point: int | None = None
    signature: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Case:
    """One operator on operands. near: the largest difference as a part of the largest result.

    body: of an operator with a subgraph, the kind that stands in it, on two scalars. absent:
    positions of operands that the node leaves out. runs: in a row, where there is state.
    then: a second operator on the first result, for types that a model cannot return.
    """

    kind: str
    inputs: Sequence[In]
    outputs: Sequence[Out]
    options: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    near: float = 0.0
    body: str | None = None
    absent: tuple[int, ...] = ()
    then: tuple[str, Out] | None = None

    def __str__(self) -> str:
        return f"{self.kind}-{self.inputs[0].dtype}"


def model_of(cases: Sequence[Case]) -> bytes:
    """One model with all cases side by side; its inputs and outputs are theirs, in order."""
    model = TfliteBuilder()
    inputs: list[int] = []
    outputs: list[int] = []
    for number, case in enumerate(cases):
        _add(model, case, f"{number}_{case.kind}", inputs, outputs)
    return model.build(inputs, outputs)


def _add(
    model: TfliteBuilder, case: Case, name: str, inputs: list[int], outputs: list[int]
) -> None:
    numbers = []
    for position, operand in enumerate(case.inputs):
        number = model.tensor(
            f"{name}_x{position}", operand.shape, operand.dtype, data=operand.data,
            scale=operand.scale, zero_point=operand.zero_point, variable=operand.variable,
        )  # fmt: skip
        numbers.append(number)
        if operand.data is None and not operand.variable:
            inputs.append(number)
    for position in case.absent:
        numbers.insert(position, -1)
    results = [
        model.tensor(f"{name}_y{n}", out.shape, out.dtype, scale=out.scale,
                     zero_point=out.zero_point,
                     signature=out.signature)
        for n, out in enumerate(case.outputs)
    ]  # fmt: skip
    fields = dict(case.fields)
    if case.body is not None:
        key = next(key for key in fields if key.endswith("SubgraphIndex"))
        fields[key] = _body(model, case)
    model.operator(case.kind, numbers, results, case.options, **fields)
    if case.then is not None:
        kind, out = case.then
        last = model.tensor(f"{name}_z", out.shape, out.dtype)
        model.operator(kind, results, [last])
        results = [last]
    outputs.extend(results)


def _body(model: TfliteBuilder, case: Case) -> int:
    """The number of a new subgraph of one operator on two numbers; of none, the second one.

    A composite's subgraph takes what the node takes.
    """
    inner = model.subgraph()
    dtype = case.outputs[0].dtype
    shape = case.inputs[0].shape if "Composite" in case.options else ()
    a, b, c = (inner.tensor(name, shape, dtype) for name in "abc")
    if case.body:
        inner.operator(case.body, [a, b], [c])
    inner.ends = ([a, b], [c if case.body else b])
    return len(model.others)


def samples(cases: Sequence[Case], seed: int) -> list[Array]:
    """Inputs of the model of these cases."""
    rng = np.random.default_rng(seed)
    return [
        operand.sample(rng)
        for case in cases
        for operand in case.inputs
        if operand.data is None and not operand.variable
    ]


def assert_equal(case: Case, mine: Sequence[Array], theirs: Sequence[Array]) -> None:
    """Every bit, or as near as the case allows."""
    for found, wanted in zip(mine, theirs, strict=True):
        assert found.dtype == wanted.dtype, case
        assert found.shape == wanted.shape, (case, found.shape, wanted.shape)
        if case.near:
            most = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0)) or 1.0
            np.testing.assert_allclose(
                found, wanted, rtol=0, atol=case.near * most, err_msg=str(case)
            )
        else:
            np.testing.assert_array_equal(found, wanted, err_msg=str(case))


def by_case(cases: Sequence[Case], arrays: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
    rest = iter(arrays)
    return [[next(rest) for _ in (case.outputs if not case.then else "1")] for case in cases]


def check(cases: Sequence[Case], reference: str, folder: Path) -> Path:
    """Compare all cases of one model with an interpreter; returns the model."""
    path = folder / "cases.tflite"
    path.write_bytes(model_of(cases))
    module = import_model(path, match=reference)
    verify_module(module)
    oracle = open_oracle(path, reference)
    mine = Interpretation(module.main)
    for seed in SEEDS:
        inputs = samples(cases, seed)
        found = by_case(cases, mine.run(inputs))
        wanted = by_case(cases, oracle.run(inputs).outputs)
        for case, own, theirs in zip(cases, found, wanted, strict=True):
            assert_equal(case, own, theirs)
    return path


def in_builds(cases: Sequence[Case], every: bool = False) -> list[list[Case]]:
    """A few cases each, since plans of many outputs take long: one of each operator, or all."""
    chosen = cases if every else list({case.kind: case for case in reversed(cases)}.values())
    return [list(chosen[n : n + CHUNK]) for n in range(0, len(chosen), CHUNK)]


def check_by_c(cases: Sequence[Case], reference: str, folder: Path) -> None:
    """Assert that C has the bits of the interpretation, under sanitizers."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    path = folder / "cases.tflite"
    path.write_bytes(model_of(cases))
    module = import_model(path, match=reference)
    compiled = compile_module(module, find_core("host"), Options())
    manifest = write_sources(compiled, folder / "project")
    program = build_sanitized(folder / "project", manifest)
    inputs = [tuple(samples(cases, seed)) for seed in SEEDS]
    interpretation = Interpretation(compiled.module.main)
    for arrays, outputs in zip(inputs, run_sanitized(program, manifest, inputs), strict=True):
        for mine, theirs in zip(outputs, interpretation.run_whole(arrays), strict=True):
            assert same(mine, theirs.reshape(mine.shape))


def litert_tests(cases: Sequence[Case]) -> tuple[Callable[..., None], ...]:
    """Tests of all cases against LiteRT, of one C build of each operator, and of all by C."""
    by_kind: dict[str, Any] = {"ids": lambda chunk: chunk[0].kind}

    def as_litert(tmp_path: Path) -> None:
        check(cases, "litert", tmp_path)

    @pytest.mark.parametrize("chunk", in_builds(cases), **by_kind)
    def by_c(chunk: list[Case], tmp_path: Path) -> None:
        check_by_c(chunk, "litert", tmp_path)

    @pytest.mark.full
    @pytest.mark.parametrize("chunk", in_builds(cases, every=True), **by_kind)
    def all_by_c(chunk: list[Case], tmp_path: Path) -> None:
        check_by_c(chunk, "litert", tmp_path)

    return as_litert, by_c, all_by_c
