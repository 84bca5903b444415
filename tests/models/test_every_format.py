"""Sample models in every format that `edgec quantize` writes compile for cores of every kind.

What they compute is compared elsewhere; here no combination of fused operators may be without a
schedule. With `make test-full` more models, and their C as well, without a warning.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from measure_models import SHAPES, VALUES
from quantized_files import float_function, qdq_bytes

from edgec.boards.board import load_board
from edgec.deploy.project import deploy
from edgec.errors import DoesNotFit, ImportFailed
from edgec.graph.ir import Constant
from edgec.options import Options
from edgec.pipeline import Compiled, compile_model
from edgec.quantizer.post_training import Recipe, quantize_function

#: The least work for each: how well a format was chosen is not the question.
FORMATS = {
    "int8": Recipe("minmax", equalize="never", reconstruct=False),
    "int8 symmetric": Recipe("minmax", symmetric=True, equalize="never", reconstruct=False),
    "int8, int4 weights": Recipe("minmax", weights="int4", equalize="never", reconstruct=False),
    "int8, groups of int4": Recipe(
        "minmax", weights="int4", group=32, equalize="never", reconstruct=False
    ),
    "int16": Recipe("minmax", activations="int16", equalize="never", reconstruct=False),
    "float, int8 weights": Recipe("minmax", activations="float32", reconstruct=False),
    "float, int4 weights": Recipe(
        "minmax", activations="float32", weights="int4", reconstruct=False
    ),
    "float16 weights": Recipe("minmax", weights="float16"),
}
BOARDS = ("host", "mps2_an386", "mps3_an547")
QUICK = (
    "mlperf_kws_dscnn_f32.tflite",
    "onnxzoo_mnist8.onnx",
    "tflm_hello_world_f32.tflite",
    "tflm_magic_wand_f32.tflite",
    "tflm_mnist_lstm_f32.tflite",
)
OTHERS = (
    "deeploy_cct2_32_f32_untrained.onnx",
    "dtln_1_f32.onnx",
    "mlperf_ad_autoencoder_drq.tflite",
    "mlperf_ic_resnet8_f32.onnx",
    "mlperf_vww_mbv1_f32.tflite",
    "mp_selfie_seg_f16.tflite",
    "ppocr_v2_cls.onnx",
    "silero_vad_half.onnx",
)
#: Its cells have a limit, which no ONNX file can say of floats.
LIMITED = "tflm_mnist_lstm_f32.tflite"


def quantized(path: Path, recipe: Recipe, folder: Path) -> Path:
    """The model in this format, calibrated on two samples of nothing in particular."""
    shapes, values = dict(SHAPES.get(path.name, ())), dict(VALUES.get(path.name, ()))
    function = float_function(path, shapes, from_start=True, values=values)
    rng = np.random.default_rng(1)
    samples = [
        [rng.uniform(-1, 1, p.type.shape).astype(p.type.dtype) for p in function.inputs]
        for _ in range(2)
    ]
    file = folder / "quantized.onnx"
    file.write_bytes(qdq_bytes(quantize_function(function, samples, recipe)))
    return file


def weight_dtypes(compiled: Compiled) -> set[str]:
    """How the weights of products are stored in the model."""
    return {
        str(node.inputs[1].data.dtype)
        for node in compiled.module.main.nodes
        if node.op.name in ("conv2d", "depthwise_conv2d", "dense")
        and isinstance(node.inputs[1], Constant)
    }


@pytest.mark.parametrize("way", FORMATS)
@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(n, marks=pytest.mark.full) for n in OTHERS)]
)
def test_each_format_compiles(
    name: str, way: str, sample_model: Callable[[str], Path], tmp_path: Path
) -> None:
    path, recipe = sample_model(name), FORMATS[way]
    if name == LIMITED and way.startswith("float"):
        with pytest.raises(ImportFailed, match="a limit cannot be written"):
            quantized(path, recipe, tmp_path)
        return
    file = quantized(path, recipe, tmp_path)
    for board_name in BOARDS:
        board = load_board(board_name)
        compiled = compile_model(file, board.core, Options(), board_name=board_name)
        values = {v.type.dtype for node in compiled.module.main.nodes for v in node.outputs}
        if way.startswith("float"):
            assert "int8" not in values and weight_dtypes(compiled) == {"float32"}
        else:
            assert "int8" in weight_dtypes(compiled) and way.split(",")[0].split()[0] in values
        if name in OTHERS:
            with suppress(DoesNotFit):  # in the board's memory, once it is C that compiles
                deploy(compiled, board, tmp_path / board_name)
