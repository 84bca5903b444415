"""Quantize model files, and write what becomes of them as files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from edgec.frontends import import_model
from edgec.frontends.onnx_writer import onnx_bytes
from edgec.graph.ir import Function
from edgec.quantizer import float_model
from edgec.quantizer.post_training import PostTraining, Recipe, Sample, quantize_function

PLAIN = Recipe()


def float_function(
    path: Path,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    *,
    from_start: bool = False,
    values: Mapping[str, float] | None = None,
) -> Function:
    module = import_model(path, shapes=shapes, values=values)
    return float_model.float_function(module, from_start=from_start)


def quantize_model(path: Path, samples: Iterable[Sample], recipe: Recipe = PLAIN) -> PostTraining:
    return quantize_function(float_function(path), samples, recipe)


def qdq_bytes(made: PostTraining) -> bytes:
    return onnx_bytes(made.quantized.function)


def write_quantized(made: PostTraining, path: Path) -> Path:
    path.write_bytes(qdq_bytes(made))
    return path
