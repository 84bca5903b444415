"""Every attribute, input and type of every operator changed: one clear error, which names the node.

    PYTHONPATH=tests:tests/models:tests/ops:tests/fuzz python tests/fuzz/bad_nodes.py [KIND ...]

The nodes come from ONNX's official cases and from the tables of TFLite's cases. A change may leave
a valid model, which then imports.
"""

from __future__ import annotations

import random
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from official_cases import official_cases
from tflite_case_makers import cases
from tflite_cases import model_of

from edgec.errors import EdgecError
from edgec.frontends import import_model

#: The node that is changed.
NAME = "the_node"
#: What stands in place of numbers, of the kinds of attributes.
INTEGERS = (-1, 0, 3, -(1 << 62), 1 << 31)
FLOATS = (float("nan"), float("inf"), -1.0, 0.0)
#: What no error may say: a cause that is not the file's, or words of Python.
FORBIDDEN = (
    "no importer",
    "Traceback",
    "object has no attribute",
    "NoneType' object",
    "object is not",
)


def complaint(path: Path, named: bool = True) -> str:
    """What is wrong with how a file is refused, "" for nothing.

    named: whether the error must name the node.
    """
    try:
        import_model(path)
    except EdgecError as error:
        text = "\n".join((error.message, *error.details, error.hint or ""))
        said = [word for word in FORBIDDEN if word in text]
        if said or not (not named or NAME in text or "input '" in text):
            return f"{said or 'no name'}: {text}"
    except Exception as error:  # what must not be
        return f"{type(error).__name__}: {error}"
    return ""


# ---- ONNX ----


def onnx_nodes() -> dict[str, list[Any]]:
    """Models of one named node: two of each operator, and all with many attributes."""
    found: dict[str, list[Any]] = {}
    for case in official_cases():
        (node, *more) = case.model.graph.node
        known = found.setdefault(node.op_type, [])
        has_graph = any(a.HasField("g") for a in node.attribute)
        if not more and not has_graph and (len(known) < 2 or len(node.attribute) > 3):
            model = type(case.model)()
            model.CopyFrom(case.model)
            model.graph.node[0].name = NAME
            known.append(model)
    return found


def bad_values(attribute: Any) -> Iterator[Any]:
    """Other values of an attribute, and values of other types."""
    from onnx import AttributeProto, helper

    value = helper.get_attribute_value(attribute)
    listed = {AttributeProto.INTS: INTEGERS, AttributeProto.FLOATS: FLOATS}
    plain = {AttributeProto.INT: INTEGERS, AttributeProto.FLOAT: FLOATS}
    yield from plain.get(attribute.type, ())
    if attribute.type in listed and value:
        for number in listed[attribute.type]:
            yield [*value[:-1], number]
        yield from (value[:-1], [*value, value[-1]])
    yield from ("nonsense", 1, 1.5, [1, 2], ["a"])


def bad_onnx(model: Any) -> Iterator[tuple[str, Any]]:
    """(what is changed, the model): each attribute, input, rank and dtype."""
    from onnx import helper

    def changed(change: Callable[[Any, Any], None]) -> Any:
        copy = type(model)()
        copy.CopyFrom(model)
        change(copy.graph, copy.graph.node[0])
        return copy

    (node,) = model.graph.node
    for number, attribute in enumerate(node.attribute):
        yield f"without {attribute.name}", changed(lambda g, n, k=number: n.attribute.pop(k))
        for value in bad_values(attribute):
            if value == []:
                continue  # of no type
            made = helper.make_attribute(attribute.name, value)
            yield (f"{attribute.name}={value}",
                   changed(lambda g, n, k=number, m=made: n.attribute[k].CopyFrom(m)))  # fmt: skip
    yield (
        "an unknown attribute",
        changed(lambda g, n: n.attribute.append(helper.make_attribute("nonsense", 1))),
    )
    for number in range(len(node.input)):
        yield f"without input {number}", changed(lambda g, n, k=number: n.input.pop(k))
    yield "one more input", changed(lambda g, n: n.input.append(n.input[0]) if n.input else None)
    for number, entry in enumerate(model.graph.input):
        if not entry.type.HasField("tensor_type"):
            continue
        for dtype in (1, 2, 7, 9, 10, 11):
            yield (
                f"input {number} of dtype {dtype}",
                changed(
                    lambda g, n, k=number, d=dtype: setattr(
                        g.input[k].type.tensor_type, "elem_type", d
                    )
                ),
            )
        yield (
            f"input {number} of one more dimension",
            changed(lambda g, n, k=number: g.input[k].type.tensor_type.shape.dim.add(dim_value=3)),
        )
        if entry.type.tensor_type.shape.dim:
            yield (
                f"input {number} of one less dimension",
                changed(lambda g, n, k=number: g.input[k].type.tensor_type.shape.dim.pop()),
            )
            yield (
                f"input {number} of another extent",
                changed(
                    lambda g, n, k=number: setattr(
                        g.input[k].type.tensor_type.shape.dim[-1], "dim_value", 7
                    )
                ),
            )


# ---- TFLite ----


def bad_tflite(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The same of the options of the first operator, its operands and their types."""
    import flatbuffers

    whole = schema.ModelT.InitFromPackedBuf(data, 0)
    graph = whole.subgraphs[0]
    operator = graph.operators[0]

    def written() -> bytes:
        builder = flatbuffers.Builder(len(data))
        builder.Finish(whole.Pack(builder), file_identifier=b"TFL3")
        return bytes(builder.Output())

    def with_value(table: Any, field: str, values: Any, what: str) -> Iterator[tuple[str, bytes]]:
        before = getattr(table, field)
        for value in values:
            setattr(table, field, value)
            try:
                made = written()
            except Exception:  # flatbuffers asserts that numbers fit
                continue
            finally:
                setattr(table, field, before)
            yield f"{what}={value}", made

    for options in (operator.builtinOptions, operator.builtinOptions2):
        for field, value in vars(options).items() if options is not None else ():
            values: tuple[Any, ...] = (-1, 0, 3, 100, 1 << 30)
            if isinstance(value, float):
                values = FLOATS
            elif not isinstance(value, (int, np.integer)):
                values = (None, [], [1], [-1] * 9)
            yield from with_value(options, field, values, field)
    kinds = ((operator, "builtinOptionsType"), (operator, "builtinOptions2Type"))
    for table, field in kinds:
        yield from with_value(table, field, (0, 1, 40), field)
    inputs = [int(n) for n in operator.inputs]
    for number in range(len(inputs)):
        less = np.array(inputs[:number] + inputs[number + 1 :], np.int32)
        absent = np.array([*inputs[:number], -1, *inputs[number + 1 :]], np.int32)
        yield from with_value(operator, "inputs", (less, absent), f"input {number}")
    yield from with_value(operator, "inputs", (np.array([*inputs, inputs[0]], np.int32),), "inputs")
    for number in {*inputs, *map(int, operator.outputs)} - {-1}:
        tensor = graph.tensors[number]
        shape = [] if tensor.shape is None else [int(n) for n in tensor.shape]
        yield from with_value(
            tensor, "type", (0, 1, 2, 4, 6, 7, 9, 17), f"dtype of tensor {number}"
        )
        shapes = [np.array(s, np.int32) for s in ([*shape, 3], shape[:-1], [*shape[:-1], 7])]
        yield from with_value(tensor, "shape", shapes, f"shape of tensor {number}")
        yield from with_value(tensor, "quantization", (None,), f"scale of tensor {number}")


def complaints(share: float, *kinds: str) -> Iterator[str]:
    """A line for each file that is not refused as it should be, of a share of all, at random."""
    chosen = random.Random(1)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "m.onnx"
        for kind, models in onnx_nodes().items():
            for what, model in ((w, m) for each in models for w, m in bad_onnx(each)):
                if (not kinds or kind in kinds) and chosen.random() < share:
                    path.write_bytes(model.SerializeToString())
                    wrong = complaint(path)
                    if wrong:
                        yield f"{kind} {what}: {wrong}"
        path = Path(folder) / "m.tflite"
        for kind, found in cases().items():
            if kinds and kind not in kinds:
                continue
            for what, data in bad_tflite(model_of(found[:1])):
                if chosen.random() < share:
                    path.write_bytes(data)
                    wrong = complaint(path, named=False)
                    if wrong:
                        yield f"{kind} {what}: {wrong}"


if __name__ == "__main__":
    for line in complaints(1, *sys.argv[1:]):
        print(line, flush=True)
