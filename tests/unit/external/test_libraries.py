"""Kernels of XNNPACK, oneDNN and CMSIS-NN: layers that they take, with the bits that are promised.

CMSIS-NN is a stand-in with its public signatures: `cmsis_nn_stand_in/README.md`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from shared_folder import find_shared

import edgec
from edgec import external
from edgec.errors import EdgecError
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.targets.core import find_core

REPO = Path(__file__).parents[3]
STAND_IN = Path(__file__).with_name("cmsis_nn_stand_in")
DIGITS = REPO / "examples" / "digits"
SHARED = find_shared()


def require_header(name: str) -> None:
    if not (Path("/usr/include") / name).exists():
        pytest.skip(f"{name} is not installed")


def symbols(model: edgec.Model) -> set[str]:
    return {row["symbol"] for row in model.report["own_kernels"]}


@pytest.mark.parametrize(
    ("library", "header", "symbol"),
    [("xnnpack", "pthreadpool.h", "edgec_xnn_conv_f32"),
     ("onednn", "oneapi/dnnl/dnnl.h", "edgec_dnnl_conv_f32")],
)  # fmt: skip
def test_floats_differ_by_rounding_alone(library: str, header: str, symbol: str) -> None:
    require_header(header)
    x = np.random.default_rng(1).random((1, 1, 8, 8), np.float32)
    with edgec.compile(DIGITS / "digits_float.onnx") as ours:
        expected = ours.run(x)
    kernels = getattr(external, library)(cost=0.001)
    with edgec.compile(DIGITS / "digits_float.onnx", float_sums="free", kernels=kernels) as theirs:
        assert symbols(theirs) == {symbol}
        assert len(theirs.report["own_kernels"]) == 5
        np.testing.assert_allclose(theirs.run(x), expected, rtol=1e-4, atol=1e-4)
    compiled = compile_model(DIGITS / "digits_float.onnx", find_core("x86-64-v3"),
                             Options(kernels=kernels, float_sums="ordered"))  # fmt: skip
    assert not any(v.is_theirs for v in compiled.chosen), "ordered sums allow no other order"


def test_int8_of_xnnpack_has_the_same_bits() -> None:
    require_header("pthreadpool.h")
    x = np.random.default_rng(2).random((1, 1, 8, 8), np.float32)
    with edgec.compile(DIGITS / "digits_int8.onnx") as ours:
        expected = ours.run(x)
    with edgec.compile(DIGITS / "digits_int8.onnx", kernels=external.xnnpack(0.001)) as theirs:
        assert symbols(theirs) == {"edgec_xnn_conv_s8"}
        assert theirs.run(x).tobytes() == expected.tobytes()


def test_cmsis_nn_runs_on_the_simulated_core() -> None:
    """Two layers of a model in TFLite's rounding."""
    given = [k for k in external.cmsis_nn(STAND_IN, 0.001) if "pool" in k.symbol]
    given += [k for k in external.cmsis_nn(STAND_IN, 0.001) if "depthwise" in k.symbol]
    options = Options(optimize="time", match="tflm", kernels=tuple(given))
    compiled = compile_model(DIGITS / "digits_int8.onnx", find_core("cortex-m4"), options)
    names = [name for variant in compiled.chosen for name in variant.their_functions]
    assert names == ["edgec_cmsis_max_pool_s8", "edgec_cmsis_depthwise_s8"]


@pytest.mark.full
@pytest.mark.skipif(not SHARED.exists(), reason="the sample models are not here")
def test_cmsis_nn_runs_whole_models() -> None:
    """Every kind of layer but products and max pools, each compared on the simulated core."""
    path = SHARED / "models" / "mlperf_ic_resnet8_int8.tflite"
    given = Options(optimize="time", kernels=external.cmsis_nn(STAND_IN, 0.001))
    compiled = compile_model(path, find_core("cortex-m4"), given)
    names = [name for variant in compiled.chosen for name in variant.their_functions]
    assert {name.removeprefix("edgec_cmsis_") for name in names} == {
        "conv_s8", "add_s8", "avg_pool_s8", "dense_s8", "softmax_s8",
    }  # fmt: skip
    assert len(names) == len(compiled.chosen)


def test_only_what_a_kernel_calls_is_copied() -> None:
    dense = next(k for k in external.cmsis_nn(STAND_IN) if k.symbol == "edgec_cmsis_dense_s8")
    copied = {name for name, _ in dense.files if name.endswith(".c")}
    assert copied == {"arm_fully_connected_s8.c", "arm_fully_connected_s8_get_buffer_size.c"}


def test_a_folder_without_cmsis_nn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EdgecError, match="is not a checkout of CMSIS-NN"):
        external.cmsis_nn(tmp_path)
