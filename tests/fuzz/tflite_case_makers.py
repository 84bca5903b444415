"""Operators of TFLite from the tables of cases in tests/ops, each on values of a random model."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator

import numpy as np
from random_models import Maker, Step, Tensor
from tflite_cases import Case, In, Out, const
from tflite_dtypes import TABLES
from tflite_simple_cases import simple_cases

_SUBGRAPHS = "it has subgraphs: tests/ops/test_tflite_control.py, test_tflite_hlo.py"
_VARIABLES = "it is of resource variables: tests/ops/test_tflite_control.py"
_CHAIN = "it takes what the signal operator before it makes: tests/ops/test_signal_"
#: Importers of TFLite that no maker is for, and why.
WITHOUT_MAKER = {
    **dict.fromkeys(("IF", "WHILE", "STABLEHLO_CASE", "STABLEHLO_COMPOSITE",
                     "STABLEHLO_REDUCE_WINDOW", "STABLEHLO_SCATTER"), _SUBGRAPHS),
    **dict.fromkeys(("ASSIGN_VARIABLE", "CALL_ONCE", "READ_VARIABLE", "VAR_HANDLE"), _VARIABLES),
    **{f"CUSTOM:SignalFilterBank{what}": _CHAIN + "filter_bank.py"
       for what in ("", "Log", "SpectralSubtraction", "SquareRoot")},
    "CUSTOM:SignalPCAN": _CHAIN + "noise.py",
    "CUSTOM:SignalStacker": "what is not valid yet is undefined: tests/ops/test_signal_frames.py",
    "CUSTOM:CIRCULAR_BUFFER": "its result begins late: tests/ops/test_signal_frames.py",
    "CUSTOM:Convolution2DTransposeBias": "no framework of the tests has it",
    "CUSTOM:TFLite_Detection_PostProcess": "ties have no order: tests/ops/test_tflite_detection.py",
    "DENSIFY": "its weights are sparse: tests/ops/test_tflite_found.py",
    "BROADCAST_ARGS": "all its operands are constants: edgec computes it when it reads the file",
    "RANGE": "all its operands are constants",
    "RANK": "it is a constant",
}  # fmt: skip


#: Modules with tables of cases, and their names.
MODULES = {
    **{f"test_tflite_{table}": ("CASES",) for table in (*TABLES, "complex")},
    "test_tflite_uint8": ("PRODUCTS", "OTHERS"), "test_tflite_quantized": ("CASES", "MICRO"),
    "test_quotient": ("MICRO", "WIDER"), "test_integer_root": ("MICRO",),
    "test_signal_frames": ("MICRO",),
    "test_computed_weights": ("CASES",), "test_svdf_float": ("CASES",),
}  # fmt: skip


@functools.cache
def cases() -> dict[str, list[Case]]:
    """What the tables have, by operator; not what has subgraphs."""
    listed = [*simple_cases(), *_signals()]
    for module, tables in MODULES.items():
        for table in tables:
            listed += getattr(importlib.import_module(module), table)
    found: dict[str, list[Case]] = {}
    for case in listed:
        if case.body is None and not _is_disputed(case):
            found.setdefault(case.kind, []).append(case)
    return found


def _is_disputed(case: Case) -> bool:
    """Of a table, TFLite Micro takes the first row's scale for all rows, LiteRT each its own."""
    return case.kind == "EMBEDDING_LOOKUP" and np.size(case.inputs[1].scale) > 1


def _signals() -> Iterator[Case]:
    """What tests of TFLite Micro's library of signals have no table of."""
    for size, bins in ((64, 33), (256, 129)):
        real, spectrum = In((size,), "int16"), In((2 * bins,), "int16")
        window = const(np.arange(size) * 16, "int16")
        yield Case("CUSTOM:SignalRfft", [real], [Out((2 * bins,), "int16")], "",
                   {"T": 7, "fft_length": size})  # fmt: skip
        yield Case("CUSTOM:SignalIrfft", [spectrum], [Out((size,), "int16")], "",
                   {"T": 7, "fft_length": size})  # fmt: skip
        yield Case("CUSTOM:SignalWindow", [real, window], [Out((size,), "int16")], "",
                   {"shift": 12})  # fmt: skip
        yield Case("CUSTOM:SignalFftAutoScale", [real], [Out((size,), "int16"), Out((), "int32")])
        yield Case("CUSTOM:SignalEnergy", [spectrum], [Out((bins,), "uint32")], "",
                   {"start_index": 0, "end_index": bins})  # fmt: skip


def of_case(maker: Maker) -> None:
    """Append the operator of a case, on values of the model where they are of its types."""
    kinds = sorted(cases())
    kind = kinds[int(maker.rng.integers(len(kinds)))]
    case = cases()[kind][int(maker.rng.integers(len(cases()[kind])))]
    names = [_operand(maker, operand) for operand in case.inputs]
    for position in case.absent:
        names.insert(position, "")
    outputs = [maker.name(f"y{n}_") for n in range(len(case.outputs))]
    for name, out in zip(outputs, case.outputs, strict=True):
        maker.tensors[name] = _typed(out)
    maker.steps.append(Step(kind, tuple(names), tuple(outputs), dict(case.fields), case.options))
    if case.then is not None:
        last = maker.name("z")
        maker.tensors[last] = _typed(case.then[1])
        maker.steps.append(Step(case.then[0], tuple(outputs), (last,)))


def _typed(x: In | Out) -> Tensor:
    scales = tuple(float(np.float32(s)) for s in np.atleast_1d(np.asarray(x.scale, np.float64)))
    points = np.atleast_1d(np.asarray(0 if x.zero_point is None else x.zero_point))
    zeros = tuple(int(z) for z in np.resize(points, len(scales)))
    axes = tuple(n for n, extent in enumerate(getattr(x, "signature", None) or ()) if extent < 0)
    return Tensor(x.shape, x.dtype, scales, zeros, open=axes)


def _operand(maker: Maker, operand: In) -> str:
    """A value of the type, a new input, or a constant."""
    like, rng = _typed(operand), maker.rng
    if operand.data is not None or operand.values is not None:
        data = operand.data if operand.data is not None else operand.values
        return maker.constant(data, scale=like.scale, zero_point=like.zero_point)
    if operand.variable:
        name = maker.name("s")
        maker.tensors[name] = Tensor(**{**vars(like), "variable": True})
        return name
    is_plain = (operand.low, operand.high) == (-2, 2)
    alike = maker.values(lambda t: (t.shape, t.dtype, t.scale, t.zero_point)
                         == (like.shape, like.dtype, like.scale, like.zero_point))  # fmt: skip
    if is_plain and alike and rng.random() < 0.7:
        return alike[int(rng.integers(len(alike)))]
    if rng.random() < 0.2:
        data = operand.sample(rng)
        return maker.constant(data, scale=like.scale, zero_point=like.zero_point)
    within = None if is_plain else (operand.low, operand.high)
    return maker.input(Tensor(**{**vars(like), "within": within}))


def generated() -> Iterator[str]:
    """Operators that the tables have."""
    for kind, found in cases().items():
        yield kind
        yield from (case.then[0] for case in found if case.then is not None)
