"""Compare a target's values with the model's own framework, element by element.

1. Every value that exists in the shipped code, through EC_TRACE, mapped to the source's tensors
   by provenance.
2. The rest in a build of the same model with one function for every operator (`unfused`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgec.boards.board import Board
from edgec.codegen.manifest import Manifest, TraceEntry
from edgec.codegen.versions import special_name
from edgec.deploy.limits import build_within
from edgec.deploy.project import Built, deploy
from edgec.errors import EdgecError, RunFailed
from edgec.graph.ir import Function, Module, Value
from edgec.graph.provenance import Origin
from edgec.graph.types import Array
from edgec.options import Limits, Options
from edgec.oracle.frameworks import Oracle, OracleResult, open_oracle
from edgec.oracle.own_reference import OwnReference, has_declared
from edgec.oracle.tolerances import scales, steps_of, tolerances
from edgec.pipeline import Compiled, compile_module, read_model
from edgec.report.notebook import verification_html
from edgec.runners.engine import RunResult, Transfer, open_session
from edgec.runners.pool import Pool
from edgec.runners.sizes import chosen_sizes

#: The note of a verification if no framework has an operator of the model.
OWN_NOTE = "its custom operators are in no framework: compared with their declared references"

Prepare = Callable[[Built], None]
"""Brings a built project onto a board."""


@dataclass
class Comparison:
    """One tensor compared over all cases.

    mismatches: elements that differ. beyond: elements that differ by more than `tolerance` times
    the case's largest magnitude, or `scale` if that is larger. first: the first of these.
    """

    tensor: str
    operator: str
    shape: tuple[int, ...]
    tolerance: float = 0.0
    scale: float = 0.0
    elements: int = 0
    mismatches: int = 0
    beyond: int = 0
    max_abs_diff: float = 0.0
    first: dict[str, Any] | None = None

    def add(self, case: int, expected: Array, found: Array) -> None:
        """Compare one case. Both arrays have the source tensor's layout; NaN equals NaN.

        Where shape or dtype differ, every element does. Of two zeros the signs count as a
        difference, which is within every tolerance.
        """
        self.elements += expected.size
        if (expected.shape, expected.dtype) != (found.shape, found.dtype):
            self.mismatches += max(expected.size, 1)
            self.beyond += max(expected.size, 1)
            self._first(case, [], _type_text(expected), _type_text(found))
            return
        same = (expected == found) & (np.signbit(expected) == np.signbit(found))
        same |= np.isnan(expected) & np.isnan(found)
        wrong = np.flatnonzero(~same)
        if not wrong.size:
            return
        self.mismatches += int(wrong.size)
        wide = expected.astype(np.float64)
        with np.errstate(invalid="ignore"):
            difference = np.abs(wide - found.astype(np.float64))
        self.max_abs_diff = max(self.max_abs_diff, float(np.nan_to_num(difference).max()))
        finite = np.abs(wide[np.isfinite(wide) & (expected.dtype.kind not in "biu")])
        allowed = self.tolerance * float(np.max(finite, initial=self.scale))
        wrong = np.flatnonzero(~(same | (difference <= allowed)))
        self.beyond += int(wrong.size)
        if wrong.size:
            position = np.unravel_index(int(wrong[0]), expected.shape)
            index = [int(p) for p in position]
            self._first(case, index, expected[position].item(), found[position].item())

    def _first(self, case: int, index: list[int], expected: Any, found: Any) -> None:
        if self.first is None:
            self.first = {
                "case": case, "tensor": self.tensor, "operator": self.operator,
                "index": index, "expected": expected, "found": found,
            }  # fmt: skip


#: Fields of each layer in the JSON object.
_SHOWN = (
    "tensor", "operator", "shape", "elements", "mismatches", "beyond", "tolerance", "max_abs_diff",
)  # fmt: skip


def _type_text(array: Array) -> str:
    return f"{array.dtype.name}{list(array.shape)}"


@dataclass
class Verification:
    """The result: outputs and, if asked for, every source tensor.

    uncovered: source tensors that the compiled graph has no value for (a pass removed them).
    rounded_steps: by dtype, the most steps that integers may differ by which the framework
    computes in floats, or of such. note: why another framework answered than the file's own.
    """

    reference: str
    engine: str
    cases: int = 0
    outputs: list[Comparison] = field(default_factory=list)
    layers: list[Comparison] = field(default_factory=list)
    uncovered: list[str] = field(default_factory=list)
    rounded_steps: dict[str, int] = field(default_factory=dict)
    note: str = ""

    @property
    def mismatches(self) -> int:
        """Elements that differ, over outputs and layers."""
        return sum(c.mismatches for c in (*self.outputs, *self.layers))

    @property
    def beyond(self) -> int:
        """Elements that differ by more than their operators' tolerances."""
        return sum(c.beyond for c in (*self.outputs, *self.layers))

    def to_dict(self) -> dict[str, Any]:
        """The object that `edgec verify --json` prints."""
        compared = [*self.layers, *self.outputs]  # layers in order: the first cause comes first
        return {
            "reference": self.reference,
            "engine": self.engine,
            "cases": self.cases,
            "elements": sum(c.elements for c in compared),
            "mismatches": self.mismatches,
            "beyond": self.beyond,
            "max_abs_diff": max((c.max_abs_diff for c in compared), default=0.0),
            "rounded_steps": self.rounded_steps,
            "note": self.note,
            "first_difference": next((c.first for c in compared if c.first), None),
            "layers": [{key: getattr(c, key) for key in _SHOWN} for c in self.layers],
            "uncovered": self.uncovered,
        }

    def _repr_html_(self) -> str:
        """Tables for notebooks."""
        return verification_html(self.to_dict())


@dataclass(frozen=True)
class Runner:
    """Runs builds on an engine.

    prepare: flashes a built project to a real board; without it the board must already hold the
    program. pool: the devices to run on, instead of `engine` and `port`. transfer: called for every
    tensor that moves over a serial port. dump: a folder for the stages as text. progress: called
    with the current work, done and total (0 of 0 if unknown).
    """

    engine: str
    port: str | None = None
    prepare: Prepare | None = None
    pool: Pool | None = None
    transfer: Transfer | None = None
    dump: Path | None = None
    progress: Transfer | None = None

    def tell(self, what: str, done: int = 0, total: int = 0) -> None:
        """Report the current work."""
        if self.progress is not None:
            self.progress(what, done, total)

    @property
    def name(self) -> str:
        return self.engine if self.pool is None else self.pool.name

    @property
    def takes_any_build(self) -> bool:
        """Whether a build runs without someone bringing it there."""
        engines = [d.engine for d in self.pool.devices] if self.pool else [self.engine]
        return self.prepare is not None or "serial" not in engines

    def results(
        self, built: Built, inputs: Sequence[Sequence[Array]], trace: bool
    ) -> Iterator[RunResult]:
        """Run all cases, from the initial state."""
        if self.prepare is not None:
            self.prepare(built)
        if self.pool is not None:
            yield from self.pool.run_all(built, inputs, trace=trace)
            return
        with open_session(self.engine, built, port=self.port, transfer=self.transfer) as session:
            if built.manifest.state_bytes:
                session.reset()
            for number, arrays in enumerate(inputs):
                self.tell(f"cases on {self.engine}", number, len(inputs))
                yield session.run(arrays, trace=trace)


def verify_model(
    model: Path,
    board: Board,
    options: Options,
    runner: Runner | str,
    cases: Iterable[Sequence[Array]],
    work: Path,
    *,
    layers: bool = False,
    reference: str | None = None,
) -> Verification:
    """Run every case on an engine and on the reference framework and compare all elements.

    The cases of a model with state are the steps of one sequence: both keep their state. Where a
    board holds the program that is compared, the build with one function for every operator is
    left out.

    runner: may be the name of an engine. work: a folder for the projects that are built. Raises
    ToolMissing where the framework or the engine is not installed.
    """
    runner = Runner(runner) if isinstance(runner, str) else runner
    imported = read_model(model, options)
    oracle, note = _reference(model, reference, options, imported)
    inputs = [list(case) for case in cases]
    result = Verification(oracle.name, runner.name, len(inputs), note=note)
    runner.tell(f"building {model.name} for {board.name}")
    compiled, built = build_within(
        imported, board, board.core, options, work / "fused", traced=layers, dump=runner.dump
    )
    seen = _Comparing(result, oracle, compiled, runner, layers).run(built, inputs)
    if layers and not options.unfused and runner.takes_any_build:
        apart = replace(options.with_limits(Limits()), unfused=True, placements=())
        loose = compile_module(imported, board.core, apart, board=board)
        if rest := _tensors(loose.module.main) - seen:
            runner.tell(f"building {model.name} unfused")
            built = deploy(loose, board, work / "unfused", traced=True)
            seen |= _Comparing(result, oracle, loose, runner, True, rest).run(built, inputs)
    if layers:
        result.uncovered = [name for name in _computed_tensors(imported.main) if name not in seen]
    return result


def _reference(
    model: Path, name: str | None, options: Options, imported: Module
) -> tuple[Oracle, str]:
    """The interpreter for a file with custom operators, else a framework."""
    if imported.format == "features":
        raise EdgecError(
            f"no framework computes the sound features of {model} to the same bits",
            hint="`edgec build` compiles it: the C has a self-test against the reference",
        )
    if name is None and has_declared(imported):
        return OwnReference(model, imported), OWN_NOTE
    return _framework(model, name, options)


def _framework(model: Path, name: str | None, options: Options) -> tuple[Oracle, str]:
    """The framework of that name, else the one that the options follow, else the file's own.

    LiteRT replaces TFLite Micro for a file that TFLite Micro refuses; the text says so.
    """
    if name is None and options.match == "litert":
        name = "litert"  # TFLite Micro rounds otherwise
    try:
        return open_oracle(model, name, dict(options.input_values)), ""
    except RunFailed as refused:
        if name is not None or model.suffix != ".tflite":
            raise
        try:
            oracle = open_oracle(model, "litert")
        except EdgecError:
            raise refused from None
        return oracle, f"{refused.message}: compared with LiteRT instead"


def _tensors(function: Function) -> set[str]:
    """The source tensors that nodes' results stand for."""
    return {v.origin.tensor for n in function.nodes for v in n.outputs if v.origin is not None}


def _computed_tensors(function: Function) -> list[str]:
    """Source tensors that depend on the inputs; inputs themselves and constants are left out."""
    data: set[Value] = set(function.params)
    names: list[str] = []
    for node in function.nodes:
        if not data.isdisjoint(node.inputs):
            data.update(node.outputs)
            names += [v.origin.tensor for v in node.outputs if v.origin is not None]
    return names


class _Comparing:
    """The comparison of one build with the reference.

    only: compare these source tensors and no outputs; None: everything.
    """

    def __init__(
        self, result: Verification, oracle: Oracle, compiled: Compiled, runner: Runner,
        layers: bool, only: set[str] | None = None,
    ) -> None:  # fmt: skip
        self.result, self.oracle, self.runner = result, oracle, runner
        self.layers, self.only = layers, only
        self.function = compiled.module.main
        self.values: dict[str, Value] = {}
        self.operators: dict[str, str] = {}
        self.allowed: dict[Value, float] = {}
        self.least: dict[Value, float] = {}
        self.rows: dict[str, Comparison] = {}
        self._add_values("", self.function)
        for words, special in compiled.special_functions:
            self._add_values(special_name(words, ""), special)

    def _add_values(self, prefix: str, function: Function) -> None:
        """The values of the function for all sizes, or for certain ones, by their trace's names."""
        own = {value.name: value for value in function.values()} | dict(function.inner_values())
        self.values |= {prefix + name: value for name, value in own.items()}
        operators = {v.name: node.op.name for node in function.nodes for v in node.outputs}
        self.operators |= {prefix + name: operator for name, operator in operators.items()}
        self.allowed |= tolerances(function, self.oracle.some_in_floats)
        self.least |= scales(function, self.allowed)
        for value in function.values():
            if steps := steps_of(value, self.allowed[value]):
                most = self.result.rounded_steps.get(value.type.dtype, steps)
                self.result.rounded_steps[value.type.dtype] = max(steps, most)

    @property
    def compared(self) -> set[str]:
        """Names of the source tensors that were compared inside the model."""
        return {row.tensor for row in self.rows.values()}

    def run(self, built: Built, inputs: Sequence[Sequence[Array]]) -> set[str]:
        """Run all cases on the build and compare; rows are added to the result.

        Returns `compared`.
        """
        answers = self.function.answers if self.only is None else ()
        outputs = [self._row(value, "output", value.type.shape) for value in answers]
        self.oracle.reset()
        done = 0
        for case, found in enumerate(self.runner.results(built, inputs, self.layers)):
            expected = self.oracle.run(inputs[case], tensors=self.layers)
            done += 1
            self._check(expected, found)
            for row, want, got in zip(outputs, expected.outputs, found.outputs, strict=False):
                row.add(case, np.asarray(want), got)
            for trace in self._traces(built.manifest, inputs[case], found):
                self._add_trace(case, trace, expected, found)
        _check_count("cases", len(inputs), done, f"the engine {self.runner.name}")
        self.result.outputs += outputs
        self.result.layers += self.rows.values()
        return self.compared

    def _traces(
        self, manifest: Manifest, inputs: Sequence[Array], found: RunResult
    ) -> Sequence[TraceEntry]:
        """The compared values; with open sizes, of the largest sizes and of the special ones."""
        if not self.layers:
            return ()
        if manifest.without_gpu is not None:
            return manifest.traces_shown((), found.traces)
        if not manifest.sizes:
            return manifest.traces
        sizes = chosen_sizes(manifest, inputs)
        steps = manifest.steps_at(sizes)
        is_largest = sizes == tuple(size.maximum for size in manifest.sizes)
        if steps.start == 0 and not is_largest:
            return ()
        return manifest.traces_at(sizes)

    def _check(self, expected: OracleResult, found: RunResult) -> None:
        count = len(self.function.answers)
        _check_count("outputs", len(expected.outputs), count, "the compiled model")
        _check_count("outputs", count, len(found.outputs), f"the engine {self.runner.name}")

    def _row(self, value: Value, operator: str, shape: tuple[int, ...]) -> Comparison:
        tolerance, scale = self.allowed.get(value, 0.0), self.least.get(value, 0.0)
        return Comparison(_tensor_name(value), operator, shape, tolerance, scale)

    def _wanted(self, value: Value, expected: OracleResult) -> Array | None:
        """The reference's array that a value is compared with, if it is."""
        if self.only is not None and _tensor_name(value) not in self.only:
            return None
        return _source_tensor(expected, value)

    def _add_trace(
        self, case: int, trace: TraceEntry, expected: OracleResult, found: RunResult
    ) -> None:
        is_known = trace.value in self.values and trace.id in found.traces
        if trace.is_inside and not is_known:
            return  # a copy of the compiler's, or a body that did not run
        value = self.values[trace.value]
        tensor = self._wanted(value, expected)
        if tensor is None:
            return
        if trace.id not in found.traces:
            raise RunFailed(f"the {self.runner.name} engine did not trace {value.name}")
        if trace.value not in self.rows:
            operator = self.operators.get(trace.value, "")
            self.rows[trace.value] = self._row(value, operator, tensor.shape)
        raw = found.traces[trace.id][-trace.bytes :]  # of a body in a loop, the last round
        raw = raw.view(value.type.dtype).reshape(value.type.shape)
        assert value.origin is not None
        found_tensor = value.origin.to_source(raw)
        if found_tensor.shape == tensor.shape:
            _forget(tensor, found_tensor, value.origin)
        self.rows[trace.value].add(case, tensor, found_tensor)


def _check_count(what: str, wanted: int, found: int, who: str) -> None:
    if wanted != found:
        raise RunFailed(f"{who} answered {found} {what} of {wanted}", hint="this is a bug in edgec")


def _forget(tensor: Array, found: Array, origin: Origin) -> None:
    """Take the reference's own values for channels that nothing depends on and nobody computes."""
    unknown = origin.unknown_channels
    if unknown:
        axis = origin.permutation[-1] if origin.permutation else len(origin.shape) - 1
        view = np.moveaxis(found.reshape(origin.shape), axis, -1)
        view[..., unknown] = np.moveaxis(tensor.reshape(origin.shape), axis, -1)[..., unknown]


def _tensor_name(value: Value) -> str:
    return value.origin.tensor if value.origin is not None else value.name


def _source_tensor(expected: OracleResult, value: Value) -> Array | None:
    """The framework's own array of the tensor that a value stands for, if it shows it."""
    if value.origin is None:
        return None
    if value.origin.index is not None and value.origin.index in expected.indexed:
        found: Array = expected.indexed[value.origin.index]
        return found
    array: Array | None = expected.tensors.get(value.origin.tensor)
    return array
