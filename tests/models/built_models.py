"""Sample models built for boards and run there, each combination once per test session."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path

import pytest
from kept_objects import KeptObjects

from edgec.boards.board import load_board
from edgec.deploy.project import Built, deploy
from edgec.options import Options, read_optimize
from edgec.pipeline import Compiled, compile_model
from edgec.runners.emulator import missing_emulator
from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs

REPO_ROOT = Path(__file__).resolve().parents[2]
DIGITS = REPO_ROOT / "examples" / "digits" / "digits_int8.onnx"

#: Key in baselines.json and budgets.toml -> file among the sample models.
MODELS = {
    "kws": "mlperf_kws_dscnn_int8.tflite",
    "ic": "mlperf_ic_resnet8_int8.tflite",
    "vww": "mlperf_vww_mbv1_int8.tflite",
    "ad": "mlperf_ad_autoencoder_int8.tflite",
    "sww": "mlperf_sww_int8.tflite",
    "person_detect": "tflm_person_detect_int8.tflite",
}

#: Models of audio and sequences: key in budgets.toml -> file among the sample models.
SEQUENCE_MODELS = {
    "audio_preprocessor": "tflm_audio_preprocessor_int8.tflite",
    "dtln": "tflm_dtln_noise_suppression_int8.tflite",
    "keyword_scrambled": "tflm_keyword_scrambled_int8.tflite",
    "micro_speech_lstm": "xtensa_micro_speech_lstm.tflite",
    "mnist_lstm": "tflm_mnist_lstm_int8.tflite",
    "mww_hey_jarvis": "mww_hey_jarvis_int8.tflite",
    "mww_vad": "mww_vad_int8.tflite",
}

#: The same networks with QuantizeLinear and DequantizeLinear, as `edgec quantize` writes them too.
QDQ_MODELS = {
    "kws_qdq": "mlperf_kws_dscnn_qdq.onnx",
    "ic_qdq": "mlperf_ic_resnet8_qdq.onnx",
    "ad_qdq": "mlperf_ad_autoencoder_qdq.onnx",
}

#: In floats, on kernels of cores with an FPU and of MVE.
FLOAT_MODELS = {
    "mnist8_f32": "onnxzoo_mnist8.onnx",
    "mnist_lstm_f32": "tflm_mnist_lstm_f32.tflite",
    "ic_f32": "mlperf_ic_resnet8_f32.tflite",
    "vww_f32": "mlperf_vww_mbv1_f32.onnx",
}

_FOLDER = tempfile.TemporaryDirectory(prefix="edgec_tests_")


#: Names and shapes of inputs.
Shapes = tuple[tuple[str, tuple[int, ...]], ...]
#: Names of inputs and the number that each always is.
Values = tuple[tuple[str, float], ...]


def build(model: Path, board_name: str, compiler: str | None = None, traced: bool = False,
          unfused: bool = False, c_optimize: str | None = None,
          shapes: Shapes = (), values: Values = (),
          optimize: str = "balanced") -> tuple[Compiled, Built]:  # fmt: skip
    """Compile and build, floats with the bits of every machine; all tests of a process share it."""
    given = compiler, traced, unfused, c_optimize, shapes, values, optimize
    return _build(KeptObjects.is_quick and board_name == "host", model, board_name, *given)


@cache
def _build(is_quick: bool, model: Path, board_name: str, compiler: str | None, traced: bool,
           unfused: bool, c_optimize: str | None, shapes: Shapes, values: Values,
           optimize: str) -> tuple[Compiled, Built]:  # fmt: skip
    board = load_board(board_name)
    options = Options(
        compiler=compiler, unfused=unfused, c_optimize=c_optimize, input_shapes=shapes,
        input_values=values, optimize=read_optimize(optimize), float_sums="ordered",
    )  # fmt: skip
    compiled = compile_model(model, board.core, options, board_name=board.name)
    # Files of one name lie in several folders.
    folder = tempfile.mkdtemp(prefix=f"{model.stem}_{board_name}_", dir=_FOLDER.name)
    return compiled, deploy(compiled, board, Path(folder) / "project", traced=traced)


@cache
def figures(model: Path, board: str, optimize: str = "balanced") -> dict[str, int]:
    """Sizes, and what one run takes; the test is skipped where a tool is absent."""
    place = load_board(board)
    compiler = "clang" if place.core.has("rv32v") else "gcc"  # gcc 12 makes no such vectors
    if compiler == "gcc" and shutil.which(place.core.gcc_programs[0]) is None:
        pytest.skip("the figures are stated for a gcc that is not installed")
    engine = "core" if place.core.is_simulated else "qemu"
    if engine == "core":
        pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    elif (missing := missing_emulator(place)) is not None:
        pytest.skip(missing.message)
    compiled, built = build(model, board, compiler, optimize=optimize)
    types = [(p.shape, p.dtype) for p in built.manifest.inputs]
    # On QEMU an interrupt of the link may fall into a run and adds to it: the least of three.
    runs = 3 if engine == "qemu" else 1
    with open_session(engine, built) as session:
        results = [session.run(generate_inputs(1, types)) for _ in range(runs)]
        result = min(results, key=lambda result: result.instructions or 0)
    assert built.image is not None and result.instructions
    return {
        "arena_bytes": compiled.program.arena_bytes,
        "code_bytes": built.image.code_bytes,
        "flash_bytes": built.image.flash_bytes,
        "stack_bytes": result.stack_bytes or 0,
        "instructions": result.instructions,
        "cycles": result.cycles or 0,
        "macs": compiled.macs,
    }
