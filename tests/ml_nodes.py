"""One node of the domain ai.onnx.ml, compared with ONNX Runtime, and as C under the sanitizers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper
from sanitized import check_sanitized

from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.ir import Module
from edgec.options import Options
from edgec.pipeline import compile_module
from edgec.targets.core import find_core

Attributes = dict[str, Any]


def save_ml_node(
    folder: Path,
    kind: str,
    inputs: Sequence[np.ndarray],
    outputs: int = 1,
    version: int = 3,
    **attributes: Any,
) -> Path:
    """A model of one node of this version of the domain: inputs x0, x1, …, outputs y0, …"""
    names = [f"x{number}" for number in range(len(inputs))]
    made = [f"y{number}" for number in range(outputs)]
    node = helper.make_node(kind, names, made, domain="ai.onnx.ml", name="node", **attributes)
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in zip(names, inputs, strict=True)
    ]
    graph = helper.make_graph([node], "g", given, [onnx.ValueInfoProto(name=name) for name in made])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", version)]
    path = folder / f"{kind.lower()}.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    )
    return path


def check_ml_node(
    folder: Path,
    kind: str,
    inputs: Sequence[np.ndarray],
    outputs: int = 1,
    version: int = 3,
    **attributes: Any,
) -> Module:
    """Assert that the interpreter answers as ONNX Runtime does; integers equal, floats nearly."""
    import onnxruntime

    path = save_ml_node(folder, kind, inputs, outputs, version, **attributes)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    expected = session.run(None, {f"x{n}": x for n, x in enumerate(inputs)})
    module = import_model(path)
    for mine, wanted in zip(interpret(module.main, list(inputs)), expected, strict=True):
        assert (mine.shape, mine.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(mine, wanted, rtol=1e-5, atol=1e-5)
    return module


def check_ml_c(module: Module, folder: Path) -> None:
    """Assert that the C has the interpreter's bits."""
    assert check_sanitized(compile_module(module, find_core("host"), Options()), folder) > 0


def random_trees(
    trees: int,
    targets_of: Callable[[int], Sequence[int]],
    modes: Sequence[str] = ("BRANCH_LEQ",),
    *,
    prefix: str = "target",
    positive: bool = False,
    missing: bool = False,
    depth: int = 2,
) -> Attributes:
    """Full trees over four features, whose leaves add to the targets that the tree has."""
    rng = np.random.default_rng(trees)
    nodes: list[tuple[Any, ...]] = []
    weights: list[tuple[Any, ...]] = []
    branches = 2**depth - 1
    for tree in range(trees):
        for number in range(branches):
            value = float(rng.integers(-3, 4)) / 2
            mode = str(rng.choice(list(modes)))
            nodes.append((tree, number, int(rng.integers(4)), mode, value, 2 * number + 1,
                          2 * number + 2, int(rng.integers(2))))  # fmt: skip
        for number in range(branches, 2 * branches + 1):
            nodes.append((tree, number, 0, "LEAF", 0.0, 0, 0, 0))
            for target in targets_of(tree):
                weight = float(rng.random() / trees if positive else rng.normal())
                weights.append((tree, number, target, weight))
    keys = ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids",
            "missing_value_tracks_true")  # fmt: skip
    found = {f"nodes_{key}": list(v) for key, v in zip(keys, zip(*nodes, strict=True), strict=True)}
    if not missing:
        del found["nodes_missing_value_tracks_true"]
    for key, values in zip(("treeids", "nodeids", "ids", "weights"), zip(*weights, strict=True),
                           strict=True):  # fmt: skip
        found[f"{prefix}_{key}"] = list(values)
    return found
