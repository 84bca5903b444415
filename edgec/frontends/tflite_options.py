"""TFLite's builtin options, decoded to the plain attributes that operator files read.

    stride, dilation, kernel    (height, width)
    padding                     "SAME" or "VALID"
    fused_activation            "NONE", "RELU", "RELU6" ...: the schema's ActivationFunctionType
    weights_format              "DEFAULT" or "SHUFFLED4x16INT8"
    asymmetric                  whether floats are quantized at run time with a zero point
    alpha, beta                 float
    adj_x, adj_y                whether an operand is taken transposed
    approximate                 whether GELU is computed by tanh
    mode                        "REFLECT" or "SYMMETRIC"
    axis                        int, may be negative
    batch_dims, block_size      int
    keep_dims, align_corners, half_pixel_centers    bool
    container, shared_name      text: which resource variable
    init_subgraph, then_subgraph, else_subgraph, cond_subgraph, body_subgraph   its number
    rank                        int, of an SVDF
    cell_clip, proj_clip        float: limits of an LSTM
    time_major, merge_outputs   bool, of a recurrent operator over a sequence
    kernel_type                 "FULL" or "BASIC", of an LSTM
    exclusive, reverse          bool, of CUMSUM
    seq_dim, batch_dim          int, of REVERSE_SEQUENCE
    radius, bias, alpha, beta   of LOCAL_RESPONSE_NORMALIZATION
    boundaries                  tuple of floats, of BUCKETIZE
    combiner                    "SUM", "MEAN" or "SQRTN"
    function                    "ADD", "MUL" ... of REDUCE_WINDOW
    begin_mask, end_mask ...    bits of STRIDED_SLICE, by the schema's names

The operators that appear here are those that have an importer and options that matter to it.
"""

from __future__ import annotations

import importlib
import math
import struct
from typing import Any

from edgec.errors import ImportFailed
from edgec.frontends.tflite_hlo_options import HLO_DECODERS, NEWER_TABLES, Decoder

_PADDING = {0: "SAME", 1: "VALID"}
_WEIGHTS_FORMAT = {0: "DEFAULT", 1: "SHUFFLED4x16INT8"}

#: Larger windows and steps are damage: no tensor of a small machine has such an extent.
_MAX_WINDOW = 1 << 16


#: A flatbuffer whose root table has no fields, so that all of them have their defaults.
_EMPTY_TABLE = struct.pack("<IHHi", 8, 4, 4, 4)


def decode_options(kind: str, operator: Any) -> dict[str, Any]:
    """Attributes of an operator of this kind from its flatbuffer table, one of two unions' tables.

    Without a table, the fields have the schema's defaults, as in LiteRT and TFLite Micro. Raises
    ImportFailed where options without a default are absent, of another operator, or out of range.
    """
    if kind not in _DECODERS:
        return {}
    name, decode = _DECODERS[kind]
    if name in NEWER_TABLES:
        options = NEWER_TABLES[name][1]()
    else:
        options = getattr(importlib.import_module(f"tflite.{name}"), name)()
    options.Init(*_table(kind, operator, name))
    return decode(options)


def _table(kind: str, operator: Any, name: str) -> tuple[bytes, int]:
    """The bytes and the place of the operator's table of this name, or of an empty one."""
    from tflite.BuiltinOptions import BuiltinOptions
    from tflite.BuiltinOptions2 import BuiltinOptions2

    second = {**vars(BuiltinOptions2), **{key: n for key, (n, _) in NEWER_TABLES.items()}}
    if name in second:
        wanted = second[name]
        number, table = operator.BuiltinOptions2Type(), operator.BuiltinOptions2()
    else:
        wanted = getattr(BuiltinOptions, name)
        number, table = operator.BuiltinOptionsType(), operator.BuiltinOptions()
    if number == wanted and table is not None:
        return table.Bytes, table.Pos
    if number or table is not None or kind in _WITHOUT_DEFAULTS:
        raise ImportFailed(f"it has no {name}")
    return _EMPTY_TABLE, len(_EMPTY_TABLE) - 4


def _plain(*names: str, **fields: str) -> Decoder:
    """A decoder of numbers and truths, of the schema's names or of other fields."""
    found = {name: name.title().replace("_", "") for name in names} | fields
    return lambda options: {name: getattr(options, field)() for name, field in found.items()}


_hybrid = _plain(asymmetric="AsymmetricQuantizeInputs")
_reducer, _axis, _block_size = _plain("keep_dims"), _plain("axis"), _plain("block_size")
_resize = _plain("align_corners", "half_pixel_centers")


def _conv2d(options: Any) -> dict[str, Any]:
    return {
        **_window(options),
        "dilation": _pair("dilation", options.DilationHFactor(), options.DilationWFactor()),
    }


def _pool2d(options: Any) -> dict[str, Any]:
    return {
        **_window(options),
        "kernel": _pair("kernel", options.FilterHeight(), options.FilterWidth()),
    }


def _window(options: Any) -> dict[str, Any]:
    return {
        "stride": _pair("stride", options.StrideH(), options.StrideW()),
        "padding": _choice("padding", _PADDING, options.Padding()),
        "fused_activation": _activation(options),
    }


def _fully_connected(options: Any) -> dict[str, Any]:
    return {
        "fused_activation": _activation(options),
        "weights_format": _choice("weights format", _WEIGHTS_FORMAT, options.WeightsFormat()),
        **_hybrid(options),
    }


def _rnn(options: Any) -> dict[str, Any]:
    return {**_add(options), **_hybrid(options)}


def _mirror_pad(options: Any) -> dict[str, Any]:
    return {"mode": _choice("mode", {0: "REFLECT", 1: "SYMMETRIC"}, options.Mode())}


def _add(options: Any) -> dict[str, Any]:
    return {"fused_activation": _activation(options)}


def _softmax(options: Any) -> dict[str, Any]:
    beta = float(options.Beta())
    if not (math.isfinite(beta) and beta > 0):
        raise ImportFailed(f"beta is {beta}")
    return {"beta": beta}


def _concatenation(options: Any) -> dict[str, Any]:
    return {"axis": options.Axis(), "fused_activation": _activation(options)}


def _leaky_relu(options: Any) -> dict[str, Any]:
    alpha = float(options.Alpha())
    if not math.isfinite(alpha):
        raise ImportFailed(f"alpha is {alpha}")
    return {"alpha": alpha}


def _var_handle(options: Any) -> dict[str, Any]:
    return {"container": _text(options.Container()), "shared_name": _text(options.SharedName())}


def _svdf(options: Any) -> dict[str, Any]:
    return {"rank": int(options.Rank()), **_rnn(options)}


def _lstm(options: Any) -> dict[str, Any]:
    return {
        **_clipped(options),
        "kernel_type": _choice("LSTM kernel", {0: "FULL", 1: "BASIC"}, options.KernelType()),
    }


def _sequence_lstm(options: Any) -> dict[str, Any]:
    return {**_clipped(options), "time_major": bool(options.TimeMajor())}


def _two_lstms(options: Any) -> dict[str, Any]:
    return {**_sequence_lstm(options), "merge_outputs": bool(options.MergeOutputs())}


def _clipped(options: Any) -> dict[str, Any]:
    clips = float(options.CellClip()), float(options.ProjClip())
    if not all(math.isfinite(clip) and clip >= 0 for clip in clips):
        raise ImportFailed(f"clips {clips[0]} and {clips[1]}")
    return {
        **_rnn(options), "cell_clip": clips[0], "proj_clip": clips[1]
    }  # fmt: skip


def _sequence_rnn(options: Any) -> dict[str, Any]:
    return {**_rnn(options), "time_major": bool(options.TimeMajor())}


def _two_rnns(options: Any) -> dict[str, Any]:
    return {**_sequence_rnn(options), "merge_outputs": bool(options.MergeOutputs())}


def _local_response(options: Any) -> dict[str, Any]:
    numbers = {"bias": options.Bias(), "alpha": options.Alpha(), "beta": options.Beta()}
    return {"radius": options.Radius(), **_finite(numbers)}


def _finite(numbers: dict[str, float]) -> dict[str, float]:
    for name, number in numbers.items():
        if not math.isfinite(number):
            raise ImportFailed(f"{name} is {number}")
    return {name: float(number) for name, number in numbers.items()}


def _fake_quant(options: Any) -> dict[str, Any]:
    return {
        **_finite({"low": options.Min(), "high": options.Max()}),
        "num_bits": options.NumBits(),
        "narrow_range": bool(options.NarrowRange()),
    }


def _bucketize(options: Any) -> dict[str, Any]:
    found = options.BoundariesAsNumpy() if options.BoundariesLength() else ()
    return {"boundaries": tuple(float(boundary) for boundary in found)}


def _conv3d(options: Any) -> dict[str, Any]:
    strides = options.StrideD(), options.StrideH(), options.StrideW()
    names = (f"Dilation{axis}Factor" for axis in "DHW")
    dilations = tuple(getattr(options, name)() for name in names)
    for stride, dilation in zip(strides, dilations, strict=True):
        _pair("stride and dilation", stride, dilation)
    padding = _choice("padding", _PADDING, options.Padding())
    return {"stride": strides, "dilation": dilations, "padding": padding, **_add(options)}


def _sparse_lookup(options: Any) -> dict[str, Any]:
    return {"combiner": _choice("combiner", {0: "SUM", 1: "MEAN", 2: "SQRTN"}, options.Combiner())}


def _lsh(options: Any) -> dict[str, Any]:
    return {"kind": _choice("LSH projection", {1: "SPARSE", 2: "DENSE"}, options.Type())}


def _text(raw: bytes | None) -> str:
    decoded = (raw or b"").decode("utf-8", "replace")
    return "".join(c if c.isprintable() and c != '"' else "?" for c in decoded)[:200]


def _activation(options: Any) -> str:
    from tflite.ActivationFunctionType import ActivationFunctionType

    names = {n: name for name, n in vars(ActivationFunctionType).items() if name[0] != "_"}
    return _choice("fused activation", names, options.FusedActivationFunction())


def _pair(what: str, height: int, width: int) -> tuple[int, int]:
    if not (1 <= height <= _MAX_WINDOW and 1 <= width <= _MAX_WINDOW):
        raise ImportFailed(f"{what} {height} x {width}")
    return height, width


def _choice(what: str, names: dict[int, str], number: int) -> str:
    if number not in names:
        raise ImportFailed(f"{what} number {number} is unknown")
    return names[number]


#: Operator kind -> (name of its table in the schema, decoder).
_DECODERS: dict[str, tuple[str, Decoder]] = {
    "CONV_2D": ("Conv2DOptions", _conv2d),
    "DEPTHWISE_CONV_2D": ("DepthwiseConv2DOptions", _conv2d),
    "AVERAGE_POOL_2D": ("Pool2DOptions", _pool2d),
    "MAX_POOL_2D": ("Pool2DOptions", _pool2d),
    "TRANSPOSE_CONV": ("TransposeConvOptions", _window),
    "FULLY_CONNECTED": ("FullyConnectedOptions", _fully_connected),
    "ADD": ("AddOptions", _add),
    "SUB": ("SubOptions", _add),
    "DIV": ("DivOptions", _add),
    "MUL": ("MulOptions", _add),
    "CONCATENATION": ("ConcatenationOptions", _concatenation),
    "PACK": ("PackOptions", _axis),
    "GATHER": ("GatherOptions", _plain("axis", "batch_dims")),
    "DEPTH_TO_SPACE": ("DepthToSpaceOptions", _block_size),
    "SPACE_TO_DEPTH": ("SpaceToDepthOptions", _block_size),
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY",
                     "REDUCE_ALL"), ("ReducerOptions", _reducer)),
    "MIRROR_PAD": ("MirrorPadOptions", _mirror_pad),
    "GELU": ("GeluOptions", _plain("approximate")),
    "BATCH_MATMUL": ("BatchMatMulOptions", _plain("adj_x", "adj_y")),
    "RESIZE_NEAREST_NEIGHBOR": ("ResizeNearestNeighborOptions", _resize),
    "LEAKY_RELU": ("LeakyReluOptions", _leaky_relu),
    "RESIZE_BILINEAR": ("ResizeBilinearOptions", _resize),
    "STRIDED_SLICE": ("StridedSliceOptions", _plain(
        "begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset")),
    "UNPACK": ("UnpackOptions", _axis),
    "VAR_HANDLE": ("VarHandleOptions", _var_handle),
    "CALL_ONCE": ("CallOnceOptions", _plain(init_subgraph="InitSubgraphIndex")),
    "L2_POOL_2D": ("Pool2DOptions", _pool2d),
    "L2_NORMALIZATION": ("L2NormOptions", _add),
    "CUMSUM": ("CumsumOptions", _plain("exclusive", "reverse")),
    "ONE_HOT": ("OneHotOptions", _axis),
    "REVERSE_SEQUENCE": ("ReverseSequenceOptions", _plain("seq_dim", "batch_dim")),
    "LOCAL_RESPONSE_NORMALIZATION": ("LocalResponseNormalizationOptions", _local_response),
    "FAKE_QUANT": ("FakeQuantOptions", _fake_quant),
    "BUCKETIZE": ("BucketizeOptions", _bucketize),
    "CONV_3D": ("Conv3DOptions", _conv3d),
    "CONV_3D_TRANSPOSE": ("Conv3DOptions", _conv3d),
    "EMBEDDING_LOOKUP_SPARSE": ("EmbeddingLookupSparseOptions", _sparse_lookup),
    "LSH_PROJECTION": ("LSHProjectionOptions", _lsh),
    "RNN": ("RNNOptions", _rnn),
    "UNIDIRECTIONAL_SEQUENCE_RNN": ("SequenceRNNOptions", _sequence_rnn),
    "BIDIRECTIONAL_SEQUENCE_RNN": ("BidirectionalSequenceRNNOptions", _two_rnns),
    "LSTM": ("LSTMOptions", _lstm),
    "BIDIRECTIONAL_SEQUENCE_LSTM": ("BidirectionalSequenceLSTMOptions", _two_lstms),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": ("UnidirectionalSequenceLSTMOptions", _sequence_lstm),
    "IF": ("IfOptions", _plain(
        then_subgraph="ThenSubgraphIndex", else_subgraph="ElseSubgraphIndex")),
    "WHILE": ("WhileOptions", _plain(
        cond_subgraph="CondSubgraphIndex", body_subgraph="BodySubgraphIndex")),
    "SVDF": ("SVDFOptions", _svdf),
    "SOFTMAX": ("SoftmaxOptions", _softmax),
    **HLO_DECODERS,
}  # fmt: skip

#: Operators whose fields have no usable default, or not the interpreters' one.
_WITHOUT_DEFAULTS = frozenset((
    "CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D",
    "TRANSPOSE_CONV", "CONV_3D", "CONV_3D_TRANSPOSE", "SOFTMAX", "MIRROR_PAD", "LSH_PROJECTION",
    "VAR_HANDLE", "CALL_ONCE", "IF", "WHILE", "SVDF", "DEPTH_TO_SPACE", "SPACE_TO_DEPTH",
    "UNIDIRECTIONAL_SEQUENCE_LSTM", "LSTM", "FAKE_QUANT", *HLO_DECODERS,
))  # fmt: skip
