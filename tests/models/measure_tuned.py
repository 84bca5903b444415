"""Tune ten layers that no rule was written for, and a model, and compare with the rules.

    PYTHONPATH=tests:tests/pages python tests/models/measure_tuned.py [--workers N]

It writes the tables of `docs/tune.md` (a quarter of an hour; `make docs` puts them there).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from figure_tables import write_figures
from shared_folder import find_shared

import edgec.ops.dense  # noqa: F401  registers it
from edgec.frontends import import_model
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Module
from edgec.graph.operator import NoAttrs
from edgec.graph.types import Quant, TensorType
from edgec.loop.tuned import Tuned
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs
from edgec.ops.requantize import RequantizeAttrs
from edgec.options import Options
from edgec.targets.core import find_core
from edgec.tune.model import Plan, TunedLayers, tune
from edgec.tune.workers import open_workers

SCRIPT = "tests/models/measure_tuned.py"
SAME, NONE = ((1, 1), (1, 1)), ((0, 0), (0, 0))
#: By core: the dtype of its layers, and the trials of each.
CORES = {
    "cortex-m3": ("int8", 48), "cortex-m0": ("int8", 32), "rv32imc": ("int8", 32),
    "cortex-m4": ("float32", 32),
}  # fmt: skip
#: The keyword spotter of MLPerf Tiny, and the trials of all its layers together by core.
MODEL = "mlperf_kws_dscnn_int8.tflite"
MODEL_TRIALS = {"cortex-m3": 150, "cortex-m0": 80, "rv32imc": 80, "cortex-m4": 500}


@dataclass(frozen=True)
class Shape:
    """An operator, the shape of its input, of its weights, and its strides and padding."""

    operator: str
    shape: tuple[int, ...]
    weights: tuple[int, ...]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[tuple[int, int], tuple[int, int]] = NONE

    @property
    def title(self) -> str:
        """For people."""
        size = "x".join(map(str, self.shape[1:]))
        if self.operator == "dense":
            return f"dense, {self.shape[0]} x {self.shape[1]} to {self.weights[0]}"
        if self.operator == "conv2d":
            outputs, *window, _ = self.weights
            return f"{window[0]}x{window[1]}{self._by}, {size} to {outputs} channels"
        return f"depthwise {self.weights[0]}x{self.weights[1]}{self._by}, {size}"

    @property
    def _by(self) -> str:
        return f" by {self.stride[0]}" if self.stride[0] > 1 else ""

    @property
    def attrs(self) -> Conv2dAttrs | DepthwiseConv2dAttrs | NoAttrs:
        """The operator's own."""
        if self.operator == "dense":
            return NoAttrs()
        kind = Conv2dAttrs if self.operator == "conv2d" else DepthwiseConv2dAttrs
        return kind(stride=self.stride, padding=self.padding)


SHAPES = (
    Shape("conv2d", (1, 12, 12, 7), (11, 3, 3, 7), padding=SAME),
    Shape("conv2d", (1, 9, 9, 24), (13, 1, 1, 24)),
    Shape("conv2d", (1, 20, 20, 3), (10, 5, 5, 3), stride=(2, 2)),
    Shape("conv2d", (1, 7, 7, 48), (50, 1, 1, 48)),
    Shape("conv2d", (1, 40, 1, 16), (22, 3, 1, 16), padding=((1, 1), (0, 0))),
    Shape("conv2d", (1, 16, 16, 1), (9, 3, 3, 1), padding=SAME),
    Shape("depthwise_conv2d", (1, 14, 14, 20), (3, 3, 20), padding=SAME),
    Shape("depthwise_conv2d", (1, 15, 15, 12), (3, 3, 12), stride=(2, 2), padding=SAME),
    Shape("dense", (1, 100), (37, 100)),
    Shape("dense", (6, 64), (10, 64)),
)


@cache
def module_of(shape: Shape, dtype: str) -> Module:
    """The layer with random weights, as a model; of int8, with its requantize."""
    rng, b = np.random.default_rng(7), GraphBuilder()
    axis = len(shape.weights) - 1 if shape.operator == "depthwise_conv2d" else 0
    channels, name = shape.weights[axis], shape.operator
    if dtype == "float32":
        x = b.param("x", TensorType(shape.shape, dtype))
        w = b.constant("w", rng.standard_normal(shape.weights).astype(np.float32))
        bias = b.constant("bias", rng.standard_normal(channels).astype(np.float32))
        result = b.op(name, [x, w, bias], shape.attrs, name="y")
    else:
        x = b.param("x", TensorType(shape.shape, dtype, Quant((0.1,), (-5,))))
        quant = Quant((0.5,) * channels, (0,) * channels, axis)
        w = b.constant("w", rng.integers(-127, 128, shape.weights).astype(np.int8), quant)
        bias = b.constant("bias", rng.integers(-9999, 9999, channels).astype(np.int32))
        acc = b.op(name, [x, w, bias], shape.attrs, name="acc")
        factors = tuple(float(s) for s in rng.uniform(0.0005, 0.01, channels))
        rescaled = RequantizeAttrs(factors, Quant((0.05,), (3,)), -128, 127, "tflm")
        result = b.op("requantize", [acc], rescaled, name="y")
    return Module({"main": b.finish([result])}, source="layer.onnx", format="onnx")


def tuned_layer(
    shape: Shape, core: str, dtype: str, trials: int, workers: str = "1"
) -> TunedLayers:
    """What tuning makes of a layer."""
    plan = Plan(find_core(core), Options(), trials, takes_shipped=False)
    with open_workers(workers) as pool:
        _, (layers,) = tune(
            module_of(shape, dtype), plan, pool, Tuned(), lambda _: None, lambda _: None
        )
    return layers


def measured_layers(workers: str) -> None:
    """Write each layer's tuned instructions as a part of the rules' instructions."""
    shares: dict[str, list[float]] = {}
    for core, (dtype, trials) in CORES.items():
        for shape in SHAPES:
            found = tuned_layer(shape, core, dtype, trials, workers)
            assert found.default is not None and found.best is not None
            shares.setdefault(core, []).append(found.best.instructions / found.default.instructions)
            print(f"{core:10} {shape.title:30} {shares[core][-1]:5.0%}", flush=True)
    heads = [f"{core}, {dtype}, {trials} trials" for core, (dtype, trials) in CORES.items()]
    rows = [
        [shape.title, *(f"{of_core[n]:.0%}" for of_core in shares.values())]
        for n, shape in enumerate(SHAPES)
    ]
    rows.append(["mean", *(f"{np.mean(of_core):.0%}" for of_core in shares.values())])
    write_figures("tuned_layers", SCRIPT, ["layer", *heads], rows)


def measured_model(workers: str) -> None:
    """Write the instructions of all layers of a model by default and tuned."""
    module, rows = import_model(find_shared() / "models" / MODEL), []
    for core, trials in MODEL_TRIALS.items():
        with open_workers(workers) as pool:
            plan = Plan(find_core(core), Options(), trials, takes_shipped=False)
            _, layers = tune(module, plan, pool, Tuned(), lambda _: None, lambda _: None)
        pairs = [(each.default, each.best or each.default, each.layers.count) for each in layers]
        default, best = (
            sum(pair[side].instructions * pair[2] for pair in pairs if pair[side] is not None)
            for side in (0, 1)
        )
        rows.append([core, str(trials), f"{default:,}", f"{best:,}", f"{best / default:.0%}"])
        print(*rows[-1], flush=True)
    heads = ["core", "trials", "instructions by default", "tuned", "share"]
    write_figures("tuned_model", SCRIPT, heads, rows)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", default="2")
    given = parser.parse_args(words)
    measured_layers(given.workers)
    measured_model(given.workers)


if __name__ == "__main__":
    main()
