"""Post-training quantization: from a float model and samples to a QDQ model and an explanation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgec import __version__
from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.graph.ir import Function
from edgec.graph.types import Array
from edgec.pipeline import PASSES
from edgec.quantize.calibrate import Statistics, calibrate
from edgec.quantize.choose_ranges import observed_ranges
from edgec.quantize.equalize import equalize
from edgec.quantize.explain import Explanation, explain
from edgec.quantize.insert import Quantized, insert_qdq
from edgec.quantize.prepare import prepare
from edgec.quantize.reconstruct import correct_biases, reconstruct
from edgec.quantize.scheme import Scheme, make_scheme

Sample = Sequence[Array]
Progress = Callable[[], None]


@dataclass(frozen=True)
class Recipe:
    """How to quantize. observer: a name of `edgec.quantize.observers.OBSERVERS`, or `auto`.

    symmetric: zero points of 0 for values. reconstruct: choose the rounding of weights by the
    layer's output. correct_biases: take the mean error out of biases. equalize: make channels of
    neighbouring layers alike in range first.
    """

    observer: str = "auto"
    symmetric: bool = False
    reconstruct: bool = True
    correct_biases: bool = True
    equalize: bool = False


@dataclass(frozen=True)
class PostTraining:
    """source: the float model after the passes. quantized: the same with QDQ nodes.

    statistics: what calibration saw. scheme: what was decided from it.
    """

    source: Function
    quantized: Quantized
    statistics: Statistics
    scheme: Scheme

    def explain(
        self,
        samples: Iterable[Sample],
        labels: Sequence[int] | None = None,
        progress: Progress | None = None,
    ) -> Explanation:
        """Compare float and integers on samples, if possible others than those calibrated with."""
        return explain(self.source, self.quantized, samples, labels, progress)

    def onnx_bytes(self) -> bytes:
        """The QDQ model as a file's content. Raises ImportFailed for what ONNX cannot say."""
        from edgec.frontends.onnx_writer import to_onnx

        model = to_onnx(self.quantized.function, producer_version=__version__)
        return bytes(model.SerializeToString(deterministic=True))


def quantize_model(
    path: Path,
    samples: Iterable[Sample],
    recipe: Recipe | None = None,
    progress: Progress | None = None,
) -> PostTraining:
    """Quantize a float model to int8, calibrated on samples of its inputs.

    samples: read once, one by one. progress: called after each sample. Raises ImportFailed for a
    file that is no float model, EdgecError without samples.
    """
    return quantize_function(float_function(path), samples, recipe or Recipe(), progress)


def quantize_function(
    function: Function,
    samples: Iterable[Sample],
    recipe: Recipe,
    progress: Progress | None = None,
) -> PostTraining:
    """Quantize what `float_function` gives; see `quantize_model`."""
    if recipe.equalize:
        function = equalize(function)
    statistics = calibrate(function, samples, progress)
    ranges = observed_ranges(function, statistics, recipe.observer, symmetric=recipe.symmetric)
    scheme = make_scheme(function, ranges, symmetric=recipe.symmetric)
    weights = scheme.weights
    if recipe.reconstruct:
        weights = reconstruct(weights, statistics.moments)
    if recipe.correct_biases:
        weights = correct_biases(weights, statistics.moments)
    scheme = replace(scheme, weights=weights)
    return PostTraining(function, insert_qdq(function, scheme), statistics, scheme)


def float_function(path: Path) -> Function:
    """The function to quantize: imported and simplified. Raises ImportFailed if it is not float."""
    module = import_model(path)
    function = module.main
    for _, run in PASSES:
        function = run(function, "onnx" if module.format == "onnx" else "tflm")
    if any(value.type.is_quantized for value in function.values()):
        raise ImportFailed(
            f"{path.name} is quantized already",
            hint="build it as it is; to quantize anew, start from the float model",
        )
    if function.states:
        raise ImportFailed(f"{path.name} has state: such models cannot be quantized yet")
    return prepare(function)
