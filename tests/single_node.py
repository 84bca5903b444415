"""One operator of an ONNX model, compared with ONNX Runtime and with its own loop nest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.ir import Constant, Function
from edgec.graph.verify import verify_module
from edgec.loop.interpret import interpret as run_nest
from edgec.options import Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import lower_group
from edgec.targets.core import find_core
from edgec.targets.target import target_for


def save_node(
    path: Path,
    kind: str,
    x: np.ndarray,
    constants: Mapping[str, np.ndarray],
    *,
    opset: int = 17,
    output_dtype: str | None = None,
    **attributes: Any,
) -> Path:
    """A model of one node: the input `x`, then the constants in order; an empty name is absent."""
    names = [name if array is not None else "" for name, array in constants.items()]
    element = helper.np_dtype_to_tensor_dtype(x.dtype)
    out = helper.np_dtype_to_tensor_dtype(np.dtype(output_dtype or x.dtype))
    graph = helper.make_graph(
        [helper.make_node(kind, ["x", *names], ["y"], name="node", **attributes)],
        "test",
        [helper.make_tensor_value_info("x", element, x.shape)],
        [helper.make_tensor_value_info("y", out, None)],
        [numpy_helper.from_array(a, n) for n, a in constants.items() if a is not None],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 9
    path.write_bytes(onnx.shape_inference.infer_shapes(model).SerializeToString())
    return path


def check_against_onnxruntime(
    path: Path, x: np.ndarray, tolerance: float | None = None
) -> Function:
    """Assert that the reference gives ONNX Runtime's bits; returns the imported function.

    tolerance: for floats, the largest difference as a part of the largest magnitude instead.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": x})
    module = import_model(path)
    verify_module(module)
    function = module.main
    (mine,) = interpret(function, [x])
    assert mine.dtype == expected.dtype and mine.shape == expected.shape
    if tolerance is not None:
        finite = np.abs(expected[np.isfinite(expected)])
        most = float(finite.max(initial=0))
        np.testing.assert_allclose(mine, expected, rtol=0, atol=tolerance * most)
        return function
    # Bits, so that -0.0 and NaN count too.
    np.testing.assert_array_equal(mine.view(np.uint8), expected.view(np.uint8), strict=True)
    return function


def check_nests(function: Function, inputs: list[np.ndarray]) -> None:
    """Assert that every variant of every node gives the reference's bits."""
    seen = dict(zip(function.params, inputs, strict=True))
    interpret(function, inputs, seen.__setitem__)
    policy = target_for(find_core("cortex-m4"), Options())
    groups = fuse_groups(function, fuse=False)
    assert groups
    for group in groups:
        wanted = seen[group.output]
        for variant in lower_group(group, policy).variants:
            arrays = dict(variant.constants)
            for param, value in zip(variant.function.params, variant.args, strict=True):
                if value is not None and param.name != "out":
                    assert not isinstance(value, Constant)
                    arrays[param.name] = seen[value]
            mine = run_nest(variant.function, arrays)["out"]
            assert mine.dtype == wanted.dtype
            np.testing.assert_array_equal(
                mine.ravel().view(np.uint8), wanted.ravel().view(np.uint8)
            )
