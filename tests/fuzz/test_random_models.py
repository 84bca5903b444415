"""Random valid models of fixed seeds against their frameworks; `make fuzz` runs for hours."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import random_onnx
from against_frameworks import Wrong, check_nodes
from compare_models import Case, Tally, case_of, end_threads, failure, inputs_of, note, run, shrink
from on_boards import on_board
from random_layers import SIMULATED
from random_models import Model, Step, Tensor
from random_onnx import MAKERS
from random_tflite import KINDS
from tflite_case_makers import WITHOUT_MAKER as WITHOUT_TFLITE
from tflite_case_makers import generated

from edgec.graph.operator import get_op

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (edgec[verify])")
pytest.importorskip("tflite_micro", reason="tflite_micro is not installed (edgec[verify])")
pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")

#: Models of `make test`; `make test-full` tries more.
COUNT, FULL = 48, 1000
#: The same of models that run on simulated cores.
CORE_COUNT, CORE_FULL = 16, 400


def check(first: int, count: int) -> None:
    tally = run(first, count, 3600, quiet=True)
    assert not tally.findings, "\n\n".join(tally.findings.values())
    # A generator whose models are refused tests nothing.
    assert tally.results["compared"] > count * 3 // 4, tally.refused


def test_random_models_equal_their_frameworks() -> None:
    check(0, COUNT)


@pytest.mark.full
def test_more_random_models_equal_their_frameworks() -> None:
    check(COUNT, FULL)


def check_on_cores(seeds: range) -> None:
    """Models run on simulated cores with the reference's bits; what is refused is no finding."""
    tally = Tally()
    for seed in seeds:
        case = case_of(seed)
        try:
            on_board(case, SIMULATED, runs=True)
            tally.results["compared"] += 1
        except Exception as error:
            note(tally, seed, case, error)
    assert not tally.findings, "\n\n".join(tally.findings.values())
    assert tally.results["compared"] > len(seeds) * 3 // 4, tally.refused


def test_random_models_run_on_simulated_cores() -> None:
    check_on_cores(range(CORE_COUNT))


@pytest.mark.full
def test_more_random_models_run_on_simulated_cores() -> None:
    check_on_cores(range(CORE_COUNT, CORE_FULL))


def test_a_forked_process_has_threads_of_its_own(tmp_path: Path) -> None:
    """A forked process waited for ever for its parent's OpenMP threads."""
    source, library = tmp_path / "count.c", tmp_path / "count.so"
    source.write_text(
        "int count(int n) {\n    int found = 0;\n"
        "#pragma omp parallel num_threads(n) reduction(+ : found)\n    {\n        found += 1;\n"
        "#pragma omp barrier\n    }\n    return found;\n}\n"
    )
    subprocess.run(["gcc", "-fopenmp", "-shared", "-fPIC", source, "-o", library], check=True)
    count = ctypes.CDLL(str(library)).count
    assert count(3) == 3
    end_threads()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(count(2))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2


def test_a_seed_stands_for_one_model() -> None:
    for seed in (4, 5):
        assert case_of(seed).model.write() == case_of(seed).model.write()


#: Importers of ONNX that no maker is for, and why.
WITHOUT_MAKER = {
    "MelWeightMatrix": "all its operands are constants: edgec computes it when it reads the file",
    "Scatter": "it has left ONNX with opset 11, which is before all that are generated",
    "Upsample": "it has left ONNX with opset 10",
    "ai.onnx.ml.TreeEnsemble": "its version 5 of ai.onnx.ml has no other tree operators",
    "ai.onnx.ml.ZipMap": "it makes no tensor",
}


def test_operators_are_generated() -> None:
    """An operator with an importer is a row of a table, or has a maker."""
    from edgec import ops
    from edgec.ops.op import importer_kinds
    from edgec.ops.row import _BY_KIND

    ops.load()
    rows = {kind for name, kind in _BY_KIND if name == "onnx"}
    missing = set(importer_kinds("onnx")) - rows - set(MAKERS)
    assert missing == set(WITHOUT_MAKER), f"makers are missing: {sorted(missing)}"
    assert len(rows | set(MAKERS)) > 100


def test_the_shrinker_finds_the_one_step_that_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of a chain of which one operator is computed wrongly, that one is left."""
    kinds = ("Neg", "Relu", "Abs", "Floor", "Ceil")
    names = ("x", "a", "b", "c", "d", "e")
    tensors = {name: Tensor((2, 3), "float32") for name in names}
    steps = tuple(Step(kind, (names[n],), (names[n + 1],)) for n, kind in enumerate(kinds))
    model = Model("onnx", tensors, steps, ("x",), ("e", "b"))
    options = {"optimize": "ram", "unfused": True, "io": "caller", "threads": 3, "no_asm": True}
    case = Case(1, model, inputs_of(model, np.random.default_rng(1)), options, "cortex-m4", 50)
    assert not failure(case)
    monkeypatch.setattr(
        type(get_op("abs")), "evaluate", lambda *_: (np.full((2, 3), 7, np.float32),)
    )
    small = shrink(case)
    assert [step.kind for step in small.model.steps] == ["Abs"]
    assert small.options == {"optimize": "balanced", "unfused": False, "io": "arena", "threads": 1,
        "no_asm": False,
    }  # fmt: skip
    assert small == replace(small, percent=100, core="host")


def test_what_data_select_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other operators read values of a selected size, and what lies beyond it shows."""
    monkeypatch.setattr(random_onnx, "SELECTING", 1)
    models = [random_onnx.random_onnx(np.random.default_rng(seed)) for seed in range(6)]
    readers = [step for model in models for step in model.steps
               if any(model.tensors[name].open for name in step.inputs if name)]  # fmt: skip
    assert len(readers) > 2
    x, row = Tensor((5,), "float32"), Tensor((), "float32")
    limit = replace(row, data=np.zeros((), np.float32))
    tensors = {"x": x, "limit": limit, "holds": replace(x, dtype="bool"), "y": row,
               "kept": replace(x, open=(0,))}  # fmt: skip
    steps = (
        Step("Greater", ("x", "limit"), ("holds",)),
        Step("Compress", ("x", "holds"), ("kept",), {"axis": 0}),
        Step("ReduceSum", ("kept",), ("y",), {"keepdims": 0}),
    )
    model = Model("onnx", tensors, steps, ("x",), ("y",))
    inputs = [[np.array([-1, 2, 0, 3, -4], np.float32)]] * 2
    case = replace(case_of(0), model=model, inputs=inputs)
    assert not failure(case)

    def unfilled(self: Any, node: Any, target: Any, given: Any) -> Any:
        return target.compute("element", (5,), "float32", lambda i: given[0][i])

    monkeypatch.setattr(type(get_op("fill_beyond")), "lower", unfilled)
    assert failure(case)


def test_tflite_operators_are_generated() -> None:
    """The same of TFLite."""
    from edgec import ops
    from edgec.ops.op import importer_kinds
    from edgec.ops.row import _BY_KIND

    ops.load()
    rows = {kind for name, kind in _BY_KIND if name == "tflite"}
    made = rows | set(generated()) | set(KINDS)
    missing = set(importer_kinds("tflite")) - made
    assert missing == set(WITHOUT_TFLITE), f"makers are missing: {sorted(missing)}"


@pytest.mark.parametrize(
    ("number", "answer", "is_finding"), [(3e9, -(2**31), False), (3.0, 3, False), (3.0, 4, True)]
)
def test_floats_that_an_integer_does_not_hold_are_no_finding(
    number: float, answer: int, is_finding: bool
) -> None:
    from edgec.graph.builder import GraphBuilder
    from edgec.graph.provenance import Origin
    from edgec.graph.types import TensorType
    from edgec.ops.cast import CastAttrs

    b = GraphBuilder()
    x = b.param("x", TensorType((1,), "float32"))
    y = b.op("cast", [x], CastAttrs("int32"), name="y", origins=[Origin("y", (1,))])
    answers = [SimpleNamespace(tensors={"y": np.array([answer], np.int32)}, indexed={})]
    inputs = [[np.array([number], np.float32)]]
    with pytest.raises(Wrong, match="differ") if is_finding else nullcontext():
        check_nodes(b.finish([y]), inputs, answers, is_litert=False)
