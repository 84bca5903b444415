"""edgec has all of LiteRT's builtin operators, except for programs of another kind."""

from __future__ import annotations

from typing import Any

import flatbuffers
import pytest

import edgec.ops
from edgec.ops.op import importer_kinds

HASHES, RANDOM, TEXT = "hash tables", "random numbers", "text"
REASONS = {
    **dict.fromkeys(("HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_LOOKUP",
                     "HASHTABLE_SIZE", "LSH_PROJECTION"), HASHES),
    **dict.fromkeys(("MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM",
                     "STABLEHLO_RNG_BIT_GENERATOR"), RANDOM),
    "SKIP_GRAM": TEXT,
}  # fmt: skip
#: Of the schema, but no operators.
OTHERS = {"CUSTOM", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES"}
#: Some operators begin with a later version.
VERSIONS = range(1, 5)


def registered() -> set[str]:
    """The builtins that LiteRT's interpreter takes, in some version."""
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    numbers = {k: n for k, n in vars(schema.BuiltinOperator).items() if isinstance(n, int)}
    return {
        kind for kind, number in numbers.items()
        if kind not in OTHERS and any(_takes(schema, number, version) for version in VERSIONS)
    }  # fmt: skip


def _takes(schema: Any, number: int, version: int) -> bool:
    """Whether LiteRT knows an operator: it looks for it before anything else of a model."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    code = schema.OperatorCodeT()
    code.builtinCode, code.deprecatedBuiltinCode, code.version = number, min(number, 127), version
    graph, model, builder = schema.SubGraphT(), schema.ModelT(), flatbuffers.Builder()
    graph.tensors, graph.operators, graph.inputs, graph.outputs = [], [], [], []
    model.version, model.operatorCodes, model.subgraphs = 3, [code], [graph]
    model.buffers = [schema.BufferT()]
    builder.Finish(model.Pack(builder), b"TFL3")
    try:
        Interpreter(
            model_content=bytes(builder.Output()),
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )
    except ValueError as error:
        return "Didn't find op" not in str(error)
    return True


def test_all_builtins_but_those_with_a_reason() -> None:
    edgec.ops.load()
    known, mine = registered(), set(importer_kinds("tflite"))
    assert known - mine == set(REASONS)
    assert len(known & mine) >= 161, "the fewest there may be"
