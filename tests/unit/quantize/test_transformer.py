"""A block of a transformer: quantized where integers are known, and written as ONNX."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from quantized_files import qdq_bytes
from transformer_block import TOKENS, WIDTH, block

from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.quantize.post_training import Recipe, quantize_function


def test_quantized_and_written(tmp_path: Path) -> None:
    import onnxruntime

    function = block()
    rng = np.random.default_rng(1)
    samples = [[rng.normal(size=(1, TOKENS, WIDTH)).astype(np.float32)] for _ in range(12)]
    made = quantize_function(function, samples, Recipe())
    path = tmp_path / "quantized.onnx"
    path.write_bytes(qdq_bytes(made))
    kinds = {node.op_type for node in onnx.load(path).graph.node}
    assert {"LayerNormalization", "MatMul", "Gelu", "Softmax", "QuantizeLinear"} <= kinds

    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    back = import_model(path).main
    for (sample,) in samples:
        (wanted,) = interpret(function, [sample])
        (mine,), (theirs,) = interpret(back, [sample]), session.run(None, {"x": sample})
        step = float(np.abs(wanted).max()) / 64
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=step)
        assert np.sum((mine - wanted) ** 2) < 0.003 * np.sum(wanted**2)  # 25 dB
