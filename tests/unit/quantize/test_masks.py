"""Attention as one node and masks before a softmax: in integers, near float and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_builder import OnnxBuilder
from quantized_files import qdq_bytes, quantize_model

from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.oracle.frameworks import open_oracle
from edgec.passes.sequence import run_passes
from edgec.quantizer.post_training import Recipe

STEPS, HEADS, DEPTH = 10, 4, 8
WIDTH = HEADS * DEPTH
LATER = np.triu(np.ones((STEPS, STEPS), bool), 1)
Scores = Callable[[OnnxBuilder, str], str]


def product(b: OnnxBuilder, x: str, width: int) -> str:
    weights = b.rng.normal(0, WIDTH**-0.5, (WIDTH, width)).astype(np.float32)
    return b.add("MatMul", [x, b.constant(weights, "w")])


def with_added(mask: float) -> Scores:
    """What scores are with a mask that is added to them."""
    data = np.where(LATER, np.float32(mask), np.float32(0))
    return lambda b, scores: b.add("Add", [scores, b.constant(data, "mask")])


def with_chosen(mask: float) -> Scores:
    """What scores are with a choice by a constant condition, as PyTorch's masked_fill."""
    return lambda b, scores: b.add(
        "Where", [b.constant(LATER, "later"), b.constant(np.float32(mask), "low"), scores]
    )


def attention(path: Path, masked: Scores) -> Path:
    """One head in its parts."""
    b = OnnxBuilder(4, (STEPS, WIDTH))
    q, k, v = (product(b, "x", WIDTH) for _ in range(3))
    scores = b.add("MatMul", [q, b.add("Transpose", [k], perm=[1, 0])])
    scaled = b.add("Mul", [scores, b.constant(np.float32(0.5), "scale")])
    shares = b.add("Softmax", [masked(b, scaled)], axis=-1)
    return b.save(product(b, b.add("MatMul", [shares, v]), WIDTH), path)


def one_node(path: Path, heads: int = HEADS, **attributes: Any) -> Path:
    """ONNX's Attention of three dimensions; heads: of keys and values."""
    b = OnnxBuilder(4, (1, STEPS, WIDTH))
    operands = [product(b, "x", width) for width in (WIDTH, heads * DEPTH, heads * DEPTH)]
    made = b.add("Attention", operands, q_num_heads=HEADS, kv_num_heads=heads, **attributes)
    return b.save(product(b, made, WIDTH), path, opset=23)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize(
    "make",
    [one_node, lambda p: one_node(p, is_causal=1), lambda p: one_node(p, 2),
     lambda p: one_node(p, softcap=5.0), lambda p: attention(p, with_added(-np.inf)),
     lambda p: attention(p, with_added(-1e9)), lambda p: attention(p, with_added(-1e4)),
     lambda p: attention(p, with_chosen(-np.inf)), lambda p: attention(p, with_chosen(-3.4e38))],
    ids=["node", "causal", "few_keys", "softcap", "inf", "1e9", "1e4", "chosen_inf", "chosen"],
)  # fmt: skip
def test_attention_is_in_integers(make: Any, dtype: str, tmp_path: Path) -> None:
    path = make(tmp_path / "m.onnx")
    shape = import_model(path).main.inputs[0].type.shape
    rng = np.random.default_rng(2)
    samples = [[rng.normal(size=shape).astype(np.float32)] for _ in range(36)]
    recipe = Recipe("minmax", activations=dtype, equalize="never", reconstruct=False)
    made = quantize_model(path, samples[:24], recipe)
    assert {node.operator for node in made.float_nodes()} == {"quantize", "dequantize"}
    assert made.explain(samples[24:]).output_sqnr_db > (38 if dtype == "int16" else 25)
    path.write_bytes(qdq_bytes(made))
    back, oracle = run_passes(import_model(path).main, "onnx"), open_oracle(path)
    step = made.integers.nodes[-1].inputs[0].type.scalar_quant()[0]
    for sample in samples[24:30]:
        (mine,) = interpret(made.integers, sample)
        np.testing.assert_array_equal(mine, interpret(back, sample)[0])
        off = np.abs(mine - oracle.run(sample).outputs[0]).max() / step
        assert off < (40 if dtype == "int16" else 2.01)


def padded(path: Path, kind: str, low: float) -> Path:
    """One head whose keys an input of zeros and ones hides, as transformers are exported."""
    b = OnnxBuilder(4, (STEPS, WIDTH))
    given = helper.make_tensor_value_info("seen", TensorProto.INT64, (1, STEPS))
    one, lowest = b.constant(np.float32(1), "one"), b.constant(np.float32(low), "low")
    if kind == "chosen":
        seen = b.add("Cast", ["seen"], to=TensorProto.BOOL)
        mask = b.add("Where", [seen, b.constant(np.float32(0), "zero"), lowest])
    else:
        seen = b.add("Cast", ["seen"], to=TensorProto.FLOAT)
        mask = b.add("Mul", [b.add("Sub", [one, seen]), lowest])
    q, k, v = (product(b, "x", WIDTH) for _ in range(3))
    scores = b.add("MatMul", [q, b.add("Transpose", [k], perm=[1, 0])])
    scaled = b.add("Mul", [scores, b.constant(np.float32(0.2), "scale")])
    shares = b.add("Softmax", [b.add("Add", [scaled, mask])], axis=-1)
    return b.save(product(b, b.add("MatMul", [shares, v]), WIDTH), path, more=[given])


@pytest.mark.parametrize(
    ("kind", "low"), [("chosen", -np.inf), ("chosen", -3.4e38), ("times", -1e4), ("times", -3.4e38)]
)
def test_masks_that_are_inputs_cost_scores_nothing(kind: str, low: float, tmp_path: Path) -> None:
    """3.5 dB when the mask and the scores had one range."""
    path = padded(tmp_path / "m.onnx", kind, low)
    rng = np.random.default_rng(2)
    lengths = rng.integers(3, STEPS + 1, 32)
    samples = [
        [
            rng.normal(size=(STEPS, WIDTH)).astype(np.float32),
            (np.arange(STEPS) < n)[None] * np.int64(1),
        ]
        for n in lengths
    ]
    recipe = Recipe("minmax", equalize="never", reconstruct=False)
    made = quantize_model(path, samples[:24], recipe)
    assert made.explain(samples[24:]).output_sqnr_db > 24
    assert not {"softmax", "matmul", "add"} & {node.operator for node in made.float_nodes()}


def test_scores_that_something_else_reads_keep_their_mask(tmp_path: Path) -> None:
    b = OnnxBuilder(4, (STEPS, WIDTH))
    masked = with_added(-np.inf)(b, product(b, "x", STEPS))
    both = b.add("Add", [b.add("Softmax", [masked], axis=-1), b.add("Exp", [masked])])
    path = b.save(both, tmp_path / "m.onnx")
    rng = np.random.default_rng(2)
    samples = [[rng.normal(size=(STEPS, WIDTH)).astype(np.float32)] for _ in range(4)]
    made = quantize_model(path, samples, Recipe("minmax"))
    assert "it reads a constant that is not a number" in {n.reason for n in made.float_nodes()}


def test_a_choice_of_one_operand_everywhere_is_this_operand(tmp_path: Path) -> None:
    b = OnnxBuilder(4, (STEPS, WIDTH))
    x = product(b, "x", STEPS)
    low = b.constant(np.float32(-7), "low")
    chosen = b.add("Where", [b.constant(np.zeros((STEPS, 1), bool), "never"), low, x])
    path = b.save(b.add("Add", [chosen, product(b, "x", STEPS)]), tmp_path / "m.onnx")
    rng = np.random.default_rng(2)
    samples = [[rng.normal(size=(STEPS, WIDTH)).astype(np.float32)] for _ in range(4)]
    made = quantize_model(path, samples, Recipe("minmax"))
    assert "where" not in {node.op.name for node in made.source.nodes}
