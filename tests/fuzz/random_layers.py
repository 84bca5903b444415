"""Random convolutions, dense layers, sums and pools of odd sizes, in int8, int16 and float32.

    python tests/fuzz/random_layers.py int8 1234 [BOARD]     # one seed again

Windows may lie in the padding alone, weights be -128, zero or of four bits, channels constant, and
factors the same for all channels: what rules and kernels have to tell apart. Every fourth model
has a batch of two. Models are graphs, not files, so that a compile takes a tenth of a second,
and thousands can be tried on every core.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from edgec import ops
from edgec.boards.board import Board, load_board
from edgec.deploy.project import deploy
from edgec.errors import TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import Interpretation
from edgec.graph.ir import Module, Value
from edgec.graph.operator import NoAttrs
from edgec.graph.types import Quant, TensorType
from edgec.ops.add import AddAttrs
from edgec.ops.avg_pool2d import AvgPool2dAttrs
from edgec.ops.clip import ClipAttrs
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs
from edgec.ops.max_pool2d import MaxPool2dAttrs
from edgec.ops.requantize import RequantizeAttrs
from edgec.ops.reshape import ReshapeAttrs
from edgec.options import Options
from edgec.pipeline import Compiled, compile_module
from edgec.runners.engine import open_session

ops.load()

DTYPES = ("int8", "int16", "float32")
#: Boards that models are compiled for.
BOARDS = (
    "mps2_an386", "mps2_an385", "sim_m0", "esp32c3_devkitm", "qemu_cortex_a7", "mps2_an505",
    "mps2_an500", "mps3_an547", "qemu_riscv32_v", "qemu_xtensa_lx106", "host", "raspberry_pi_5",
)  # fmt: skip
#: Boards of the core simulator, which sees every access outside.
SIMULATED = BOARDS[:7]
LEVELS = ("balanced", "time", "ram", "size")
CHANNELS = (1, 2, 3, 4, 8, 16, 24, 32, 64)


@dataclass
class _Maker:
    """A model while it grows by one layer after the other."""

    rng: np.random.Generator
    dtype: str
    rounding: str
    b: GraphBuilder = field(default_factory=GraphBuilder)
    count: int = 0

    def one_of(self, *choices: int) -> int:
        return choices[self.rng.integers(len(choices))]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def channels(self) -> int:
        return self.one_of(*CHANNELS, int(self.rng.integers(1, 40)))

    @property
    def limits(self) -> tuple[int, int]:
        info = np.iinfo(self.dtype)
        return int(info.min), int(info.max)

    def quant(self) -> Quant:
        """Of an activation; ReLU's zero point is frequent."""
        if self.dtype == "int16":
            return Quant((0.002,), (0,))
        return Quant((0.05,), (self.one_of(-128, -128, int(self.rng.integers(-128, 128))),))

    def op(self, name: str, inputs: list[Value], attrs: object) -> Value:
        self.count += 1
        return self.b.op(name, inputs, attrs, name=f"{name}_{self.count}")

    def constant(self, data: np.ndarray, quant: Quant | None = None) -> Value:
        self.count += 1
        return self.b.constant(f"c{self.count}", data, quant)

    def start(self, batch: int) -> Value:
        sizes = (int(self.rng.integers(1, 14)), int(self.rng.integers(1, 14)), self.channels())
        quant = None if self.dtype == "float32" else self.quant()
        return self.b.param("x", TensorType((batch, *sizes), self.dtype, quant))

    def convolution(self, x: Value, *, depthwise: bool) -> Value:
        """Of a window of up to 4 by 4, with strides, dilation, and padding at each side alone."""
        _, *sizes, channels = x.type.shape
        is_point = not depthwise and self.chance(0.4)
        is_square = self.chance(0.6)
        kernel, stride, dilation, padding = [], [], [], []
        for extent in sizes:
            taps = 1 if is_point else 3 if is_square else int(self.rng.integers(1, 5))
            far = self.one_of(1, 1, 1, 2)
            reach = (taps - 1) * far + 1
            ends = [int(self.rng.integers(0, reach)) for _ in range(2)]
            ends = [0, 0] if self.chance(0.3) else ends
            ends[0] = max(ends[0], reach - extent - ends[1])
            kernel.append(taps)
            stride.append(self.one_of(1, 1, 2))
            dilation.append(far)
            padding.append((ends[0], ends[1]))
        kind = DepthwiseConv2dAttrs if depthwise else Conv2dAttrs
        attrs = kind(stride=tuple(stride), padding=tuple(padding), dilation=tuple(dilation))
        if depthwise:
            return self.products("depthwise_conv2d", x, (*kernel, channels), 2, attrs)
        return self.products("conv2d", x, (self.channels(), *kernel, channels), 0, attrs)

    def dense(self, x: Value) -> Value:
        batch, *sizes = x.type.shape
        elements = int(np.prod(sizes))
        x = self.op("reshape", [x], ReshapeAttrs((batch, elements)))
        return self.products("dense", x, (self.channels(), elements), 0, NoAttrs())

    def products(
        self, name: str, x: Value, shape: tuple[int, ...], axis: int, attrs: object
    ) -> Value:
        channels = shape[axis]
        terms = int(np.prod(shape)) // channels
        if self.dtype == "float32":
            w = self.rng.standard_normal(shape) / terms**0.5
            bias = self.constant(self.rng.standard_normal(channels).astype(np.float32))
            y = self.op(name, [x, self.constant(w.astype(np.float32)), bias], attrs)
            limits = ClipAttrs(0.0, 6.0) if self.chance(0.3) else ClipAttrs(0.0)
            return self.op("clip", [y], limits) if self.chance(0.5) else y
        weights = self.constant(self.weights(shape, axis), Quant((0.01,) * channels,
                                (0,) * channels, axis))  # fmt: skip
        most = 10 ** int(self.rng.integers(1, 6))
        bias = self.constant(self.rng.integers(-most, most, channels).astype(np.int32))
        acc = self.op(name, [x, weights, bias], attrs)
        return self.op("requantize", [acc], self.rescaling(channels, terms))

    def weights(self, shape: tuple[int, ...], axis: int) -> np.ndarray:
        """int8; some are all -128, mostly zero, or of four bits, and some channels constant."""
        low = -128 if self.chance(0.2) else -127
        w = self.rng.integers(low, 128, shape).astype(np.int8)
        style = self.rng.random()
        if style < 0.1:
            w[...] = low
        elif style < 0.2:
            w[self.rng.random(shape) < 0.8] = 0
        elif style < 0.3:
            w = np.clip(w // 20, -8, 7).astype(np.int8)
        if self.chance(0.2):
            np.moveaxis(w, axis, 0)[: max(1, shape[axis] // 3)] = 0
        return w

    def rescaling(self, channels: int, terms: int) -> RequantizeAttrs:
        spread = 2400 * terms**0.5
        factors = self.rng.uniform(30, 200, channels) / spread
        if self.chance(0.3):
            factors[:] = factors[0]
        if self.chance(0.05):
            factors *= 50
        output, (low, high) = self.quant(), self.limits
        if self.chance(0.2) and output.zero_point[0] < high:
            low = output.zero_point[0]
        exact = tuple(float(np.float32(factor)) for factor in factors)
        return RequantizeAttrs(exact, output, low, high, self.rounding, self.dtype)

    def no_products(self, x: Value) -> Value:
        """Sometimes a sum with itself, or a pool."""
        _, height, width, _ = x.type.shape
        is_float, (low, high) = self.dtype == "float32", (0, 0)
        if not is_float:
            low, high = self.limits
        kernel = (int(self.rng.integers(1, min(height, 5) + 1)),
                  int(self.rng.integers(1, min(width, 5) + 1)))  # fmt: skip
        stride = (self.one_of(1, 2), self.one_of(1, 2))
        if self.chance(0.4):
            kernel, stride = (height, width), (1, 1)
        kind = self.rng.random()
        if kind < 0.2:
            added = AddAttrs() if is_float else AddAttrs(self.quant(), low, high, self.rounding)
            return self.op("add", [x, x], added)
        if kind < 0.35:
            ends = {} if is_float else {"minimum": low, "maximum": high}
            return self.op("max_pool2d", [x], MaxPool2dAttrs(kernel, stride, **ends))
        if kind < 0.5:
            ends = {} if is_float else {"output": x.type.quant, "minimum": low, "maximum": high,
                                        "rounding": self.rounding}  # fmt: skip
            return self.op("avg_pool2d", [x], AvgPool2dAttrs(kernel, stride, **ends))
        return x


def random_layers(seed: int, dtype: str) -> Module:
    """The model of a seed: one to four layers with products, and others between them."""
    rng = np.random.default_rng((seed, DTYPES.index(dtype)))
    rounding = "tflm" if dtype != "int8" else str(rng.choice(("tflm", "tflm", "onnx", "single")))
    maker = _Maker(rng, dtype, rounding)
    x, count = maker.start(2 if seed % 4 == 0 else 1), int(rng.integers(1, 5))
    for n in range(count):
        if n == count - 1 and maker.chance(0.2):
            x = maker.dense(x)
            break
        x = maker.no_products(maker.convolution(x, depthwise=maker.chance(0.4)))
    source = "onnx" if rounding == "onnx" else "tflite"
    return Module({"main": maker.b.finish([x])}, source="m." + source, format=source)


def batch_without_padding(kernel: tuple[int, int], stride: tuple[int, int]) -> Module:
    """A convolution of two images whose windows are as far apart between images as in one."""
    maker = _Maker(np.random.default_rng(0), "int8", "tflm")
    x = maker.b.param("x", TensorType((2, 4, 14, 8), "int8", maker.quant()))
    y = maker.products("conv2d", x, (16, *kernel, 8), 0, Conv2dAttrs(stride=stride))
    return Module({"main": maker.b.finish([y])}, source="m.tflite", format="tflite")


def random_options(rng: np.random.Generator, module: Module) -> Options:
    """Of a compile; rounding as the model has it."""
    is_single = "single" in {getattr(node.attrs, "rounding", "") for node in module.main.nodes}
    return Options(
        optimize=str(rng.choice(LEVELS)), no_asm=bool(rng.random() < 0.15),
        io="caller" if rng.random() < 0.15 else "arena",
        match="litert" if is_single else None,
    )  # fmt: skip


def compiled(seed: int, dtype: str, boards: tuple[str, ...], name: str = "") -> tuple[
    Module, Board, Compiled
]:  # fmt: skip
    """The seed's model for one of the boards, which the seed chooses, or for the board named."""
    module = random_layers(seed, dtype)
    rng = np.random.default_rng((seed, 9))
    name = name or str(rng.choice(boards))
    board, options = load_board(name), random_options(rng, module)
    return module, board, compile_module(
        module, board.core, options, board=board, board_name=name
    )  # fmt: skip


def check(seed: int, dtype: str, engine: str = "core", name: str = "") -> None:
    """Runs of a seed's model on a simulated core have the bytes of the reference."""
    compare(f"seed {seed}", *compiled(seed, dtype, SIMULATED, name), engine)


def compare(what: str, module: Module, board: Board, built: Compiled, engine: str = "core") -> None:
    """Runs have the bytes of the reference: random inputs, and the limits of the dtype."""
    x = module.main.inputs[0].type
    rng, shape, dtype = np.random.default_rng(0), x.shape, x.dtype
    if dtype == "float32":
        runs = [rng.standard_normal(shape).astype(np.float32) for _ in range(2)]
    else:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        ends = [np.full(shape, end, dtype) for end in (low, high)]
        runs = [rng.integers(low, high, shape, endpoint=True).astype(dtype), *ends]
    with tempfile.TemporaryDirectory() as folder:
        project = deploy(built, board, Path(folder) / "project")
        with open_session(engine, project) as session:
            for x in runs:
                (expected,) = Interpretation(module.main).run_whole([x])
                found = session.run([x]).outputs[0]
                wrong = int(np.sum(found.ravel() != expected.ravel()))
                assert found.tobytes() == expected.tobytes(), (
                    f"{what}, {dtype}, {board.name}: {wrong} of {expected.size} differ"
                )


def failures(run: Callable[[int], object], seeds: range) -> dict[int, str]:
    """What each seed that fails says. Models that an operator refuses are none."""
    found = {}
    for seed in seeds:
        try:
            run(seed)
        except TypeMismatch:
            continue
        except Exception as error:  # the test says which seed
            found[seed] = f"{type(error).__name__}: {error}"
    return found


if __name__ == "__main__":
    check(int(sys.argv[2]), sys.argv[1], name="".join(sys.argv[3:]))
