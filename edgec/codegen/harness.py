"""The MLPerf Tiny program's facts about its model: its benchmark and its input format.

The official data sets have one input format for each benchmark; the device converts it to the
model's input. Other models receive the bytes of their inputs, one after the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from edgec.codegen.c_types import literal
from edgec.codegen.program import Port, Program

KEYWORDS, PERSON, IMAGES, ANOMALY, WAKE_WORD = "kws01", "vww01", "ic01", "ad01", "strww01"

#: (elements of the input, of the output) -> benchmark.
_BENCHMARKS = {
    (490, 12): KEYWORDS,
    (96 * 96 * 3, 2): PERSON,
    (32 * 32 * 3, 10): IMAGES,
    (640, 640): ANOMALY,
    (30 * 40, 3): WAKE_WORD,
}

#: Scale and zero point of a stored byte of the official data, for models with float inputs, as in
#: the reference models' quantized inputs.
MEANINGS = {
    KEYWORDS: ("int8_t", 0.5847029089927673, 83),
    PERSON: ("uint8_t", 1 / 255, 0),
    IMAGES: ("uint8_t", 1.0, 0),
    WAKE_WORD: ("int8_t", 0.003701042616739869, -128),
}


@dataclass(frozen=True)
class ResultText:
    """An output: its elements and the C expression of element `i` as float."""

    index: int
    c_type: str
    first: int
    end: int
    expression: str


@dataclass(frozen=True)
class HarnessText:
    """The values of main_mlperf_tiny.c.j2.

    `conversion` is "copy", "flip" (unsigned to signed bytes), "quantize" (from float32), "scale"
    (bytes of `byte_type` to float32 by `scale` and `zero_point`) or "reorder" (bytes, unchanged).
    `place` is the C expression of where the `i`th loaded element belongs. With `is_error` the one
    result is the mean squared difference of input and output.
    """

    id: str
    buffer_bytes: int
    conversion: str
    byte_type: str
    scale: str
    zero_point: str
    place: str
    is_error: bool
    results: tuple[ResultText, ...]
    result_count: int


def _elements(port: Port) -> int:
    return math.prod(port.shape)


def _place(port: Port, name: str) -> str:
    """Index in the input of the `i`th element of the official data: images are sent pixel by
    pixel, and some models have one plane for each channel."""
    extents = [extent for extent in port.shape if extent > 1]
    if name not in (PERSON, IMAGES) or extents[0] != 3:
        return "i"
    return f"(i % 3u) * {_elements(port) // 3}u + i / 3u"


def benchmark_id(program: Program) -> str:
    """Return the benchmark that a model is, by its shapes and types, or the model's own name."""
    if len(program.inputs) != 1 or len(program.outputs) != 1:
        return program.model
    source, target = program.inputs[0], program.outputs[0]
    found = _BENCHMARKS.get((_elements(source), _elements(target)))
    per_tensor = source.dtype == "float32" or (
        source.dtype in ("int8", "uint8") and len(source.scale) == 1
    )
    return found if found is not None and per_tensor else program.model


def harness_text(program: Program, output_types: tuple[str, ...]) -> HarnessText:
    """Decide all that the template shows; `output_types` are the C types of the outputs."""
    name = benchmark_id(program)
    dtype = program.inputs[0].dtype if program.inputs else ""
    byte_type, scale, zero_point = MEANINGS.get(name, ("uint8_t", 0.0, 0))
    place = _place(program.inputs[0], name) if name in MEANINGS else "i"
    buffer_bytes = sum(port.nbytes for port in program.inputs)
    if name == ANOMALY or name in MEANINGS:
        buffer_bytes = (4 if name == ANOMALY else 1) * _elements(program.inputs[0])
    results = _results(program, output_types)
    return HarnessText(
        id=name,
        buffer_bytes=buffer_bytes,
        conversion=_conversion(name, dtype, byte_type, place),
        byte_type=byte_type,
        scale=literal(scale, "float32"),
        zero_point=str(zero_point),
        place=place,
        is_error=name == ANOMALY,
        results=results,
        result_count=1 if name == ANOMALY else sum(r.end - r.first for r in results),
    )


def _conversion(name: str, dtype: str, byte_type: str, place: str) -> str:
    """Conversion of the official data's bytes to the input; see `HarnessText`."""
    if name == ANOMALY:
        return "copy" if dtype == "float32" else "quantize"
    if name not in MEANINGS:
        return "copy"
    if dtype == "float32":
        return "scale"
    if dtype == "int8" and byte_type == "uint8_t":
        return "flip"
    return "copy" if place == "i" else "reorder"


def _results(program: Program, output_types: tuple[str, ...]) -> tuple[ResultText, ...]:
    results = []
    first = 0
    for index, (port, c_type) in enumerate(zip(program.outputs, output_types, strict=True)):
        end = first + _elements(port)
        value = f"((const {c_type} *)(const void *)main_output_{index})[index - {first}u]"
        quantized = len(port.scale) == 1 and port.dtype in ("int8", "uint8", "int16")
        function = f"{program.model}_output_{index}_dequantize"
        expression = f"{function}({value})" if quantized else f"(float){value}"
        results.append(ResultText(index, c_type, first, end, expression))
        first = end
    return tuple(results)
