"""Which dtypes TFLite's frameworks take for each operator, and which of them edgec takes.

    PYTHONPATH=tests:tests/models:tests/ops python tests/ops/tflite_dtypes.py [KIND ...]

Cases of the tables of the tests are tried with every dtype in place of their own, with a scale and
without. A framework takes what it runs; edgec what it imports. REASONS has what a framework takes
and edgec does not.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import test_tflite_uint8
from tflite_cases import Case, In, Out, model_of, samples
from tflite_simple_cases import simple_cases

from edgec.errors import EdgecError
from edgec.frontends import import_model
from edgec.oracle.frameworks import open_oracle

#: The tables of cases.
TABLES = ("elements", "found", "hlo", "places", "quantized", "recurrent", "window_sums", "windows")
DTYPES = ("float32", "int8", "uint8", "int16", "int32", "int64", "bool", "float16", "uint16",
          "uint32")  # fmt: skip
STORED = ("int8", "uint8", "int16")
FRAMEWORKS = ("litert", "tflm")


#: The dtypes to change in a case first: indices and sizes have others.
CLEAR = ("float32", "uint8", "int8", "bool")
BITS = "LiteRT works on the stored bits, which with a scale have no meaning"
SHAPES = "its result has another shape than the case's file declares"
BYTES = "TFLite Micro does not look at the dtype: it reads bytes"
#: By operator, or operator and dtype, why edgec does not take what a framework does.
REASONS = {
    **dict.fromkeys(
        ("BITWISE_XOR", "FLOOR_DIV", "FLOOR_MOD", "NEG", "REDUCE_WINDOW", "RIGHT_SHIFT",
         "STABLEHLO_ADD", "STABLEHLO_AND", "STABLEHLO_COMPOSITE", "STABLEHLO_MULTIPLY",
         "STABLEHLO_REDUCE_WINDOW", "STABLEHLO_SHIFT_LEFT"), BITS),
    **{f"{kind} int16 with a scale": f"{what} of int16, which a framework takes for int8"
       for kind, what in (("CONV_2D", "weights"), ("FULLY_CONNECTED", "weights"),
                          ("TRANSPOSE_CONV", "weights"))},
    "BITCAST": SHAPES, "LOGICAL_AND": BYTES, "LOGICAL_OR": BYTES,
    "FAKE_QUANT": "it takes integers for floats", "RELU_0_TO_1": "it needs a scale",
    "STABLEHLO_SCATTER": "by a sum, product, maximum or minimum of plain numbers alone",
}  # fmt: skip


def base_cases() -> list[Case]:
    """Up to two cases of each operator, of dtypes that can be changed."""
    listed: list[Case] = [*test_tflite_uint8.PRODUCTS, *test_tflite_uint8.OTHERS]
    for table in TABLES:
        listed += importlib.import_module(f"test_tflite_{table}").CASES
    listed += [*importlib.import_module("test_tflite_quantized").MICRO, *simple_cases()]
    chosen: dict[str, list[Case]] = {}
    for case in sorted(listed, key=lambda case: main_dtype(case) not in CLEAR):
        known = chosen.setdefault(case.kind, [])
        if len(known) < 2:
            known.append(case)
    return [case for cases in chosen.values() for case in cases]


def main_dtype(case: Case) -> str:
    """The dtype that an operator computes in: its result's, if an operand has it too."""
    made = case.outputs[0].dtype
    return made if any(x.dtype == made for x in case.inputs) else case.inputs[0].dtype


def variants(case: Case) -> Iterator[tuple[str, Case]]:
    """(what it is of, the case with other dtypes)."""
    main = main_dtype(case)
    for dtype in DTYPES:
        if not any(x.scale for x in (*case.inputs, *case.outputs)):
            yield dtype, _changed(case, main, dtype, stored=False)
        if dtype in STORED:
            yield f"{dtype} with a scale", _changed(case, main, dtype, stored=True)


def _changed(case: Case, main: str, dtype: str, *, stored: bool) -> Case:
    def scale(x: In | Out) -> dict[str, object]:
        if not stored:
            return {"scale": (), "zero_point": None}
        zero = int(x.zero_point or 0) - 128 * (x.dtype == "uint8")
        if dtype == "int16" or (isinstance(x, In) and x.data is not None and dtype == "int8"):
            zero = 0
        return {"scale": x.scale or 0.05, "zero_point": zero + 128 * (dtype == "uint8")}

    def operand(x: In) -> In:
        if x.dtype != main:
            return x
        with np.errstate(invalid="ignore"):  # infinities as integers: the dtype is what counts
            data = None if x.data is None else x.data.astype(dtype)
            values = None if x.values is None else x.values.astype(dtype)
        return replace(x, dtype=dtype, data=data, values=values, **scale(x))

    def result(y: Out) -> Out:
        return replace(y, dtype=dtype, **scale(y)) if y.dtype == main else y

    return replace(case, inputs=[operand(x) for x in case.inputs],
                   outputs=[result(y) for y in case.outputs])  # fmt: skip


def takes(case: Case, who: str) -> bool:
    """Whether a framework, or edgec, takes a case."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.tflite"
        path.write_bytes(model_of([case]))
        try:
            if who == "edgec":
                import_model(path)
            else:
                open_oracle(path, who).run(samples([case], 1))
        except (EdgecError, RuntimeError, ValueError, TypeError):
            return False
    return True


def survives(case: Case, who: str) -> bool:
    """The same in a process of its own: some kernels end it for types that they do not know."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if takes(case, who) else 1
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def refused(*kinds: str) -> dict[str, list[str]]:
    """By operator and dtype, the frameworks that take what edgec refuses."""
    seen: dict[tuple[str, str], list[Case]] = {}
    for case in base_cases():
        if not kinds or case.kind in kinds:
            for what, changed in variants(case):
                seen.setdefault((case.kind, what), []).append(changed)
    found: dict[str, list[str]] = {}
    for (kind, what), cases in seen.items():
        for case in cases:
            if not takes(case, "edgec"):
                who = [name for name in FRAMEWORKS if survives(case, name)]
                if who:
                    found[f"{kind} {what}"] = sorted({*found.get(f"{kind} {what}", []), *who})
    return found


def faults(*kinds: str) -> list[str]:
    """What a framework takes, edgec does not, and no reason is known for; unused reasons."""
    found = refused(*kinds)
    why = {key: key if key in REASONS else key.partition(" ")[0] for key in found}
    unknown = [f"{key}: {' '.join(found[key])}" for key in sorted(found) if why[key] not in REASONS]
    unused = [] if kinds else sorted({*REASONS} - {*why.values()})
    return [*unknown, *(f"{key}: no longer refused" for key in unused)]


if __name__ == "__main__":
    print(*faults(*sys.argv[1:]), sep="\n")
