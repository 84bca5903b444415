"""Replace MediaPipe's custom operators in a TFLite file by builtin ones that mean the same.

LiteRT knows no custom operators, so this is how it is an oracle for models that have them:

    Convolution2DTransposeBias(x, weights, bias)  ->  TRANSPOSE_CONV(shape, weights, x, bias)

where shape is the output's declared shape. LiteRT derives the same padding from it as MediaPipe
from the input. Existing tensors keep their numbers; new tensors are appended.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

_TRANSPOSE_CONV_BIAS = b"Convolution2DTransposeBias"
#: The first version of TRANSPOSE_CONV with a bias.
_VERSION_WITH_BIAS = 3
#: TfLitePadding is one more than the schema's Padding.
_PADDING_OFFSET = 1


def with_builtin_operators(data: bytes) -> bytes:
    """The file with every known custom operator replaced; the same bytes if it has none."""
    if _TRANSPOSE_CONV_BIAS not in data:
        return data
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(data, 0)
    customs = {
        number
        for number, code in enumerate(model.operatorCodes)
        if code.customCode == _TRANSPOSE_CONV_BIAS
    }
    for number in customs:
        code = model.operatorCodes[number]
        code.customCode = None
        code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.TRANSPOSE_CONV
        code.version = _VERSION_WITH_BIAS
    for graph in model.subgraphs:
        for operator in graph.operators:
            if operator.opcodeIndex in customs:
                _to_transpose_conv(schema, model, graph, operator)
    builder = flatbuffers.Builder(len(data) + 4096)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


def _to_transpose_conv(schema: Any, model: Any, graph: Any, operator: Any) -> None:
    raw = bytes(bytearray(operator.customOptions))
    padding, stride_width, stride_height = struct.unpack_from("<3i", raw)
    x, weights, bias = (int(number) for number in operator.inputs)
    target = np.asarray(graph.tensors[operator.outputs[0]].shape, np.int32)

    buffer = schema.BufferT()
    buffer.data = np.frombuffer(target.tobytes(), np.uint8)
    model.buffers.append(buffer)
    shape = schema.TensorT()
    shape.name = b"shape of " + graph.tensors[operator.outputs[0]].name
    shape.type = schema.TensorType.INT32
    shape.shape = np.array([target.size], np.int32)
    shape.buffer = len(model.buffers) - 1
    graph.tensors.append(shape)

    options = schema.TransposeConvOptionsT()
    options.padding = padding - _PADDING_OFFSET
    options.strideW, options.strideH = stride_width, stride_height
    operator.inputs = [len(graph.tensors) - 1, weights, x, bias]
    operator.customOptions = None
    operator.builtinOptionsType = schema.BuiltinOptions.TransposeConvOptions
    operator.builtinOptions = options
