"""Post-training quantization: from a float model and samples to a QDQ model and an explanation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgec import __version__
from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.graph.ir import Function
from edgec.graph.types import Array
from edgec.pipeline import PASSES
from edgec.quantize.bias_correction import corrected_biases
from edgec.quantize.calibrate import calibrate
from edgec.quantize.explain import Explanation, explain
from edgec.quantize.insert import Quantized, insert_qdq
from edgec.quantize.observers import OBSERVERS
from edgec.quantize.parameters import LEVELS

Sample = Sequence[Array]


@dataclass(frozen=True)
class PostTraining:
    """source: the float model after the passes. quantized: the same with QDQ nodes."""

    source: Function
    quantized: Quantized

    def explain(
        self,
        samples: Sequence[Sample],
        labels: Sequence[int] | None = None,
        progress: Callable[[], None] | None = None,
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
    samples: Sequence[Sample],
    *,
    observer: str = "percentile",
    correct_biases: bool = True,
    progress: Callable[[], None] | None = None,
) -> PostTraining:
    """Quantize a float model to int8, calibrated on samples of its inputs.

    observer: one of `edgec.quantize.observers.OBSERVERS`. progress: called after each pass of a
    sample. Raises ImportFailed for a file that is no float model, EdgecError without samples.
    """
    function = float_function(path)
    seen = calibrate(function, samples, progress)
    ranges = {
        # What a sample holds is what the device will see: inputs are never clipped.
        value: OBSERVERS["minmax" if value in function.params else observer](found, LEVELS)
        for value, found in seen.items()
    }
    biases = corrected_biases(function, samples, progress) if correct_biases else {}
    return PostTraining(function, insert_qdq(function, ranges, biases))


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
    return function
