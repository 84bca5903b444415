"""Only operator files name operators: everything else asks traits (`edgec.graph.traits`)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from repo_files import REPO_ROOT, relative

from edgec import ops
from edgec.graph.operator import all_ops

EDGEC = REPO_ROOT / "edgec"
#: Words of the loop IR, its text, its C and machine code themselves: arithmetic, functions of
#: floats, the limits of a clamp, a kind of axis, statements, instructions.
LOOP_WORDS = {
    "add", "sub", "mul", "div", "int_div", "exp", "log", "tanh", "erf", "sqrt", "rsqrt", "neg",
    "abs", "floor", "ceil", "round", "sin", "cos", "atan", "sinh", "cosh", "maximum", "minimum",
    "reduce", "gather", "if", "call", "while", "scan",
}  # fmt: skip
LOOP_FOLDERS = ("loop", "codegen", "targets", "build", "sim")
#: The operations of TOSA, some of which are called as operators are.
TOSA_FOLDER = "edgec/exporters/tosa/"
TOSA_WORDS = {
    "add", "sub", "mul", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor",
    "logical_and", "logical_or", "logical_xor", "logical_not", "greater", "greater_equal", "equal",
    "exp", "log", "erf", "tanh", "sin", "cos", "rsqrt", "floor", "ceil", "abs", "reciprocal",
    "div", "round",  # of the loop IR, and an attribute
    "conv2d", "depthwise_conv2d", "transpose_conv2d", "max_pool2d", "avg_pool2d", "reshape",
    "transpose", "concat", "slice", "pad", "tile", "gather", "cast",
}  # fmt: skip
#: Other words that happen to be an operator's name, by file.
OTHER_WORDS = {
    "edgec/__init__.py": {"quantize"},  # the function
    "edgec/cli/main.py": {"quantize"},  # a command
    "edgec/cli/quantize.py": {"quantize"},
    "edgec/codegen/harness.py": {"copy", "quantize"},  # what the harness does to its input
    # PyTorch's own names.
    "edgec/frontends/aten_elements.py": {
        "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_and", "bitwise_not",
        "bitwise_or", "bitwise_xor", "ceil", "cos", "cosh", "erf", "exp", "floor", "log",
        "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "mul",
        "neg", "reciprocal", "round", "sign", "sin", "sinh", "sqrt", "tan", "tanh",
    },
    # Kernels and files of kernels have names of their own.
    "edgec/targets/dsp/kernels/__init__.py": {"softmax"},
    "edgec/targets/dsp/kernels/packing.py": {"pad"},
    "edgec/targets/dsp/kernels/softmax.py": {"reciprocal", "softmax"},
    "edgec/targets/dsp/kernels/svdf.py": {"svdf_time"},
    "edgec/targets/dsp/rules.py": {"softmax"},
    "edgec/targets/helium/kernels/matrix.py": {"dense"},
    "edgec/targets/helium/matrix.py": {"dense"},
    "edgec/targets/common/described.py": {"dense"},  # what users of own kernels call it
    # CMSIS-NN's functions, and names of sizes and tables.
    "edgec/external/cmsis_nn.py": {
        "add", "dense", "exp", "maximum", "minimum", "mul", "softmax",
    },
    "edgec/external/host_libraries.py": {"dense"},
    "edgec/external/tensorrt.py": {"dense"},
    "edgec/frontends/aten_layers.py": {"floor"},
    "edgec/frontends/aten_maps.py": {"add", "mul"},  # ONNX's words for reductions
    "edgec/report/explore.py": {"quantize"},  # the command
    "edgec/report/html.py": {"maximum", "minimum"},  # keys of the report
    "edgec/report/project.py": {"maximum", "minimum"},
}  # fmt: skip


def found_names(path: Path, names: set[str]) -> Iterator[str]:
    """Operators that a file names, with the line."""
    area = path.relative_to(EDGEC).parts[0]
    allowed = OTHER_WORDS.get(relative(path), set())
    allowed = allowed | LOOP_WORDS if area in LOOP_FOLDERS else allowed
    allowed = allowed | TOSA_WORDS if relative(path).startswith(TOSA_FOLDER) else allowed
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and node.value in names - allowed:
            yield f"{relative(path)}:{node.lineno} names {node.value}"


def test_only_operator_files_name_operators() -> None:
    ops.load()
    names = {op.name for op in all_ops()}
    outside = (p for p in sorted(EDGEC.rglob("*.py")) if p.relative_to(EDGEC).parts[0] != "ops")
    found = [line for path in outside for line in found_names(path, names)]
    assert not found, "\n".join(["ask a trait of the operator instead:", *found])


def test_importers_say_what_they_return() -> None:
    """Of type Any, mypy could not hold them to the contract of `Importer`."""
    untyped = [
        f"{relative(path)}:{node.lineno}"
        for path in sorted((EDGEC / "ops").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef) and node.returns is not None
        if ast.unparse(node.returns) == "Any"
        if {"GraphBuilder", "RawNode"}
        <= {ast.unparse(a.annotation) for a in node.args.args if a.annotation}
    ]
    assert not untyped
