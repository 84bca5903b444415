"""`--weights float16`: a float model with half the bytes of weights, in the file and in flash."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from built_models import build
from onnx_builder import OnnxBuilder
from quantized_files import quantize_model, write_quantized

from edgec.oracle.frameworks import open_oracle
from edgec.quantizer.post_training import Recipe


def network(path: Path) -> Path:
    rng = np.random.default_rng(3)
    model = OnnxBuilder(3, (1, 3, 6, 6))

    def weights(name: str, *shape: int) -> str:
        return model.constant(rng.normal(0, 0.5, shape).astype(np.float32), name)

    y = model.add("Conv", ["x", weights("w1", 4, 3, 3, 3)], pads=[1, 1, 1, 1])
    y = model.add("Conv", [model.add("Relu", [y]), weights("w2", 4, 1, 3, 3)], group=4)
    y = model.add("Flatten", [y])
    return model.save(model.add("Gemm", [y, weights("w3", 5, 64)], transB=1), path)


def test_it_is_nearly_the_same_in_half_the_bytes(tmp_path: Path) -> None:
    path = network(tmp_path / "float.onnx")
    rng = np.random.default_rng(1)
    samples = [[rng.normal(0, 1, (1, 3, 6, 6)).astype(np.float32)] for _ in range(6)]
    made = quantize_model(path, samples, Recipe(weights="float16"))
    explained = made.explain(samples)
    assert 60.0 < explained.output_sqnr_db < 120.0 and explained.agreement == 1.0
    written = write_quantized(made, tmp_path / "written.onnx")
    stored = {t.name: t for t in onnx.load(written).graph.initializer}
    halves = [t for t in stored.values() if t.data_type == onnx.TensorProto.FLOAT16]
    assert sorted(int(np.prod(t.dims)) for t in halves) == [36, 108, 320]
    oracle = open_oracle(written)
    compiled, _ = build(written, "host", optimize="size")
    plain, _ = build(written, "host")
    for sample in samples:
        (ours,) = compiled.reference(sample)
        (theirs,) = oracle.run(sample).outputs
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-6 * np.abs(theirs).max())
        assert ours.tobytes() == plain.reference(sample)[0].tobytes()
    sizes = [
        sum(a.nbytes for v in c.chosen for n, a in v.constants.items() if n.startswith("w"))
        for c in (compiled, plain)
    ]
    assert sizes == [2 * (108 + 36 + 320), 4 * (108 + 36 + 320)]


def test_weights_beyond_float16_stay(tmp_path: Path) -> None:
    model = OnnxBuilder(0, (1, 4))
    weights = model.constant(np.full((2, 4), 1e6, np.float32), "w")
    path = model.save(model.add("Gemm", ["x", weights], transB=1), tmp_path / "m.onnx")
    samples = [[np.ones((1, 4), np.float32)]]
    made = quantize_model(path, samples, Recipe(weights="float16"))
    assert made.explain(samples).output_sqnr_db == np.inf
