"""Products of two tensors, and of float16, by the matrix instructions of an emulated GPU."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gpu_models import both_orders, check_on_gpu, for_gpu, machine_code
from onnx import TensorProto
from onnx_builder import OnnxBuilder

from edgec.build import nvrtc
from edgec.codegen.model_text import make_text
from edgec.frontends import import_model
from edgec.graph.interpret import Interpretation
from edgec.loop.microkernel import kernels_of
from edgec.options import Driver, Options
from edgec.pipeline import Compiled, compile_module
from edgec.targets.core import find_core
from edgec.targets.cuda import tiles
from edgec.targets.cuda.kernels.mma import COPY_HALVES, MMA, MMA_FLOATS, MMA_HALVES

SHAPE = (1, 2, 64, 32)
BUDGETS = Path(__file__).resolve().parents[1] / "unit" / "build" / "gpu_budgets.toml"


def attention(folder: Path, element: int = TensorProto.FLOAT) -> Path:
    """Two heads, of int8 with zero points on both sides of products, or of one kind of floats."""
    b = OnnxBuilder(5, SHAPE, element)
    is_quantized = element == TensorProto.FLOAT

    def stored(value: str, scale: float, zero_point: int) -> str:
        return b.qdq(value, scale, zero_point) if is_quantized else value

    query, key = stored("x", 0.02, 3), stored(b.add("Neg", ["x"]), 0.025, -7)
    keys = b.add("Transpose", [key], perm=[0, 1, 3, 2])
    scores = stored(b.add("MatMul", [query, keys]), 0.2, 11)
    shares = stored(b.add("Softmax", [scores], axis=-1), 1 / 256, -128)
    value = stored(b.add("Abs", ["x"]), 0.02, 5)
    mixed = stored(b.add("MatMul", [shares, value]), 0.02, -9)
    return b.save(mixed, folder / "attention.onnx")


def halves(folder: Path) -> Path:
    """A product by constants, and one of two tensors, both of float16."""
    b = OnnxBuilder(6, SHAPE, TensorProto.FLOAT16)
    weights = b.constant(b.rng.normal(size=(32, 64)).astype(np.float16), "w")
    wide = b.add("MatMul", ["x", weights])
    turned = b.add("Transpose", ["x"], perm=[0, 1, 3, 2])
    return b.save(b.add("MatMul", [turned, wide]), folder / "halves.onnx")


@pytest.fixture
def only_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrix instructions wherever the form allows it, whatever the model of costs says."""
    monkeypatch.setattr(tiles, "on_threads", lambda apply: lambda nest: [])


def calls(compiled: Compiled, kernel: str) -> int:
    return sum(kernel in kernels_of(variant.function) for variant in compiled.chosen)


@pytest.mark.usefixtures("only_tiles")
@pytest.mark.parametrize(("core", "driver"), [("cuda-sm_87", "graph"), ("cuda-sm_75", "grid")])
def test_attention_of_int8_has_the_same_bits(core: str, driver: Driver, tmp_path: Path) -> None:
    module, gpu = import_model(attention(tmp_path)), find_core(core)
    assert calls(for_gpu(module, driver, gpu), MMA) == 2
    assert check_on_gpu(module, tmp_path, driver=driver, core=gpu) > 0


def free(path: Path, core: str = "cuda-sm_87", driver: Driver = "graph") -> Compiled:
    options = Options(model_name="m", float_sums="free", driver=driver)
    return compile_module(import_model(path), find_core(core), options)


def check_near(compiled: Compiled, folder: Path, tolerance: float) -> None:
    """Near the reference, and the same bits in both orders of threads."""
    (parameter,) = compiled.module.main.inputs
    x = np.random.default_rng(3).normal(size=SHAPE).astype(parameter.type.dtype)
    (expected,) = Interpretation(compiled.module.main).run_whole([x])
    found = set()
    for model in both_orders(compiled, folder):
        status, outputs, _ = model.run([x])
        assert status == 0
        found.add(outputs[0])
    (only,) = found
    near = np.frombuffer(only, expected.dtype).reshape(expected.shape).astype(np.float32)
    wanted = expected.astype(np.float32)
    np.testing.assert_allclose(near, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.usefixtures("only_tiles")
@pytest.mark.parametrize(("core", "driver"), [("cuda-sm_87", "graph"), ("cuda-sm_75", "grid")])
def test_products_of_float16_are_exact(core: str, driver: Driver, tmp_path: Path) -> None:
    """But for the order of sums; a float16 of the result has a step of a thousandth."""
    compiled = free(halves(tmp_path), core, driver)
    assert (calls(compiled, MMA_HALVES), calls(compiled, COPY_HALVES)) == (2, 2)
    check_near(compiled, tmp_path, 1.1e-3)


@pytest.mark.usefixtures("only_tiles")
def test_sums_of_floats_that_are_not_free_stay_in_order(tmp_path: Path) -> None:
    module = import_model(halves(tmp_path))
    assert calls(for_gpu(module), MMA_HALVES) == 0


@pytest.mark.usefixtures("only_tiles")
def test_constants_that_float16_has_not_are_of_tf32(tmp_path: Path) -> None:
    """One factor is float16, the other is a float with more digits."""
    b = OnnxBuilder(7, SHAPE, TensorProto.FLOAT16)
    weights = b.constant(b.rng.normal(size=(32, 64)).astype(np.float32), "w")
    wide = b.add("Cast", ["x"], to=TensorProto.FLOAT)
    compiled = free(b.save(b.add("MatMul", [wide, weights]), tmp_path / "mixed.onnx"))
    assert (calls(compiled, MMA_HALVES), calls(compiled, MMA_FLOATS)) == (0, 1)
    check_near(compiled, tmp_path, 2e-5)


@pytest.mark.usefixtures("only_tiles")
@pytest.mark.parametrize(
    ("make", "core", "call", "instruction"),
    [
        (attention, "sm_87", "ec_mma_s8(", "IMMA.16832.S8.S8"),
        (halves, "sm_87", "ec_mma_f16(", "HMMA.16816.F32"),
        (halves, "sm_75", "ec_mma_f16(", "HMMA.1688.F32"),
    ],
)  # fmt: skip
def test_kernels_have_the_instructions_that_they_claim(
    make: Callable[[Path], Path], core: str, call: str, instruction: str, tmp_path: Path
) -> None:
    """Each kernel that multiplies, without spills and within the registers of its budget."""
    budget = tomllib.loads(BUDGETS.read_text("utf-8"))["two_tensors"]
    if nvrtc.find_nvrtc() is None:
        pytest.skip("edgec[cuda] is not installed")
    gpu = make_text(free(make(tmp_path), f"cuda-{core}").program).text.gpu
    assert gpu is not None
    images = nvrtc.compile_kernels(gpu.source, core)
    usage = nvrtc.assemble_ptx(images.ptx, core)[1]
    assert not any(used.spilled_bytes for used in usage.values())
    assert max(used.registers for used in usage.values()) <= budget[f"registers_{core}"]
    texts = dict(re.findall(r"EC_GLOBAL void (\w+)(\(.*?\n\}\n)", gpu.source, re.S))
    names = {kernel for kernel, text in texts.items() if call in text}
    assert len(names) == 2
    assert images.ptx.count("mma.sync") >= 2
    code = machine_code(images.cubin, tmp_path)
    assert names == {kernel for kernel, text in code.items() if instruction in text}
