"""Random graphs of blocks as networks have them, in float32, QDQ int8 and int16, and mixed.

A graph has one to three blocks: residual sums, inverted bottlenecks, branches that are joined,
parts, pools, one-dimensional, transposed and grouped convolutions, attention, recurrent layers,
embeddings, and odd ends: values of no axes, constants and inputs as outputs, nodes that nobody
reads.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from graph_maker import DTYPES, GraphMaker
from random_models import Model, Tensor


class Graph(GraphMaker):
    """A graph of blocks, each an image to an image."""

    def residual(self, x: str) -> str:
        y = self.activation(self.convolution(x))
        if self.chance(0.5):
            y = self.store(self.convolution(y, self.shape(x)[1], 3, pads=[1] * 4))
        if self.shape(y) != self.shape(x):
            strides = [max(1, a // b) for a, b in zip(self.shape(x)[2:], self.shape(y)[2:],
                                                      strict=True)]  # fmt: skip
            x = self.store(self.convolution(x, self.shape(y)[1], 1, strides=strides))
        if self.shape(y) != self.shape(x):
            return y
        made = self.node(self.one_of("Add", "Add", "Sub", "Mul"), self.one_of([x, y], [y, x]))
        return self.activation(made)

    def bottleneck(self, x: str) -> str:
        y = self.activation(self.convolution(x, self.shape(x)[1] * self.one_of(1, 2, 4), 1))
        y = self.activation(self.convolution(y, groups=self.shape(y)[1]))
        if self.chance(0.3):
            y = self.squeezed(y)
        y = self.store(self.convolution(y, self.shape(x)[1], 1))
        return self.store(self.node("Add", [x, y])) if self.shape(x) == self.shape(y) else y

    def squeezed(self, x: str) -> str:
        y = self.store(self.node("GlobalAveragePool", [x]))
        y = self.activation(self.convolution(y, kernel=1, pads=[0] * 4), ("Relu", "HardSwish"))
        y = self.convolution(y, self.shape(x)[1], 1, pads=[0] * 4)
        return self.store(self.node("Mul", [x, self.activation(y, ("Sigmoid", "HardSigmoid"))]))

    def branches(self, x: str) -> str:
        """Joined along the channels; one may be the input, or the same twice."""
        parts = [x] if self.chance(0.4) else []
        for _ in range(int(self.rng.integers(1, 4))):
            parts.append(self.activation(self.convolution(x, strides=[1, 1], pads=[1] * 4,
                                                          kernel=3)))  # fmt: skip
        parts += parts[-1:] if len(parts) == 1 or self.chance(0.15) else []
        return self.moved("Concat", parts[0], *parts[1:], axis=1)

    def split(self, x: str) -> str:
        axis = self.one_of(1, 1, 2, 3)
        extent = self.shape(x)[axis]
        first = int(self.rng.integers(1, extent)) if extent > 1 else 0
        if extent % 2 == 0 and self.chance(0.6):
            first = extent // 2
        if not first:
            return x
        a, b = self.nodes("Split", [x, self.ints(first, extent - first)], 2, axis=axis)
        a, b = self.store(a, like=x), self.store(b, like=x)
        if self.shape(a) == self.shape(b) and self.chance(0.4):  # a gated unit
            return self.store(self.node("Mul", [a, self.activation(b, ("Sigmoid", "Tanh"))]))
        a = self.activation(a) if self.chance(0.5) else a
        return self.moved("Concat", *self.one_of([a, b], [b, a], [b, a, b]), axis=axis)

    def shuffle(self, x: str) -> str:
        n, c, h, w = self.shape(x)
        groups = self.one_of(*(g for g in (1, 2, 3, 4) if c % g == 0))
        y = self.moved("Reshape", x, self.ints(n, groups, c // groups, h, w))
        y = self.moved("Transpose", y, perm=[0, 2, 1, 3, 4])
        y = self.moved("Reshape", y, self.ints(n, c, h, w))
        return self.store(self.convolution(y, groups=groups))

    def space(self, x: str) -> str:
        """Padded, cut, turned or resized."""
        n, c, h, w = self.shape(x)
        kind = self.one_of("Pad", "Slice", "Transpose", "Resize", "Resize", "DepthToSpace", "Flip")
        if kind == "Pad":
            pads = [0, 0, *self.rng.integers(0, 3, 2), 0, 0, *self.rng.integers(0, 3, 2)]
            modes = ("constant", "constant", "edge", *["reflect"] * (min(h, w) > 2))
            return self.moved("Pad", x, self.ints(*pads), mode=self.one_of(*modes))
        if kind == "Slice":
            ends = [self.ints(0, h > 2), self.ints(c, h), self.ints(1, 2)]
            return self.moved("Slice", x, *ends, self.ints(self.one_of(1, 2), self.one_of(1, 2)))
        if kind == "Flip":
            last = [self.ints(-1), self.ints(-(1 << 40)), self.ints(3), self.ints(-1)]
            return self.moved("Slice", x, *last)
        if kind == "Transpose":
            return self.moved("Transpose", x, perm=self.one_of([0, 1, 3, 2], [0, 2, 3, 1]))
        if kind == "DepthToSpace":
            x = x if c % 4 == 0 else self.store(self.convolution(x, 4, 1))
            return self.moved("DepthToSpace", x, blocksize=2)
        sizes = self.ints(n, c, h * self.one_of(1, 2), w * 2)
        mode, place = self.one_of(("nearest", "asymmetric"), ("linear", "half_pixel"),
                                  ("linear", "align_corners"))  # fmt: skip
        more = {"nearest_mode": "floor"} if mode == "nearest" else {}
        made = self.node("Resize", [x, "", "", sizes], mode=mode,
                         coordinate_transformation_mode=place, **more)  # fmt: skip
        return self.store(made, like=x)

    def pool(self, x: str) -> str:
        kind = self.one_of("MaxPool", "AveragePool", "ReduceMean", "MaxPool")
        if kind == "ReduceMean":
            made = self.node(kind, [x, self.ints(*self.one_of((2, 3), (3,), (1,)))], keepdims=1)
            return self.store(made)
        kernel = [min(extent, self.one_of(2, 3)) for extent in self.shape(x)[2:]]
        fields = {"pads": [k // 2 for k in kernel] * 2} if self.chance(0.3) else {}
        return self.moved(kind, x, kernel_shape=kernel, strides=[self.one_of(1, 2)] * 2, **fields)

    def upwards(self, x: str) -> str:
        stride = self.one_of(1, 2)
        return self.activation(self.convolution(x, kernel=self.one_of(2, 3), kind="ConvTranspose",
                                                strides=[stride, stride]))  # fmt: skip

    def line(self, x: str) -> str:
        """Convolutions along one axis, the past alone read, around an image as lines."""
        n, c, h, w = self.shape(x)
        y = self.moved("Reshape", x, self.ints(n, c, h * w))
        for reach in (1, 2)[: int(self.rng.integers(1, 3))]:
            groups = self.shape(y)[1] if self.chance(0.3) else 1
            y = self.activation(self.convolution(y, kernel=3, groups=groups, pads=[2 * reach, 0],
                                                 dilations=[reach]))  # fmt: skip
        return self.moved("Unsqueeze", y, self.ints(2))

    def steps(self, x: str) -> str:
        """[N, T, C] of an image."""
        n, c, h, w = self.shape(x)
        y = self.moved("Reshape", x, self.ints(n, c, h * w))
        return self.moved("Transpose", y, perm=[0, 2, 1])

    def image(self, y: str) -> str:
        return self.moved("Unsqueeze", self.moved("Transpose", y, perm=[0, 2, 1]), self.ints(2))

    def attention(self, x: str) -> str:
        y = self.steps(x)
        depth, heads = self.shape(y)[2], self.one_of(1, 2)
        size = max(1, depth // heads)
        parts = []
        for turn in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
            each = self.store(self.dense(y, heads * size))
            split = self.moved("Reshape", each, self.ints(*self.shape(y)[:2], heads, size))
            parts.append(self.moved("Transpose", split, perm=turn))
        scores = self.store(self.node("MatMul", parts[:2]))
        scores = self.store(self.node("Mul", [scores, self.constant(size**-0.5, "float32")]))
        shares = self.store(self.node("Softmax", [scores], axis=-1), "Softmax")
        made = self.moved("Transpose", self.store(self.node("MatMul", [shares, parts[2]])),
                          perm=[0, 2, 1, 3])  # fmt: skip
        made = self.moved("Reshape", made, self.ints(*self.shape(y)[:2], heads * size))
        made = self.store(self.node("Add", [y, self.store(self.dense(made, depth))]))
        if self.chance(0.5):
            ends = [self.weights((depth,), 1), self.weights((depth,), 4)]
            made = self.store(self.node("LayerNormalization", [made, *ends]))
        return self.image(made)

    def recurrent(self, x: str) -> str:
        y = self.moved("Transpose", self.steps(x), perm=[1, 0, 2])
        kind, size, depth = self.one_of("LSTM", "GRU"), self.one_of(1, 4, 8), self.shape(y)[2]
        gates = 4 if kind == "LSTM" else 3
        inputs = [y, self.weights((1, gates * size, depth), depth, 1),
                  self.weights((1, gates * size, size), size, 1)]  # fmt: skip
        more = {"linear_before_reset": self.one_of(0, 1)} if kind == "GRU" else {}
        every, last = self.nodes(kind, inputs, 2, hidden_size=size, **more)
        if self.chance(0.3):
            return self.moved("Reshape", self.store(last), self.ints(-1, size, 1, 1))
        every = self.moved("Squeeze", self.store(every), self.ints(1))
        return self.image(self.moved("Transpose", every, perm=[1, 0, 2]))

    def scaled(self, x: str) -> str:
        """By a number of no axes, which is a mean of all."""
        axes = self.ints(*range(len(self.shape(x))))
        whole = self.store(self.node("ReduceMax", [x, axes], keepdims=0))
        self.outputs += [whole] * self.chance(0.3)
        return self.store(self.node(self.one_of("Mul", "Sub"), [x, whole]))

    def embedding(self) -> str:
        count, depth = self.one_of(1, 5, 16), self.one_of(4, 8)
        dtype = self.one_of("int32", "int64")
        places = self.maker.input(Tensor((self.one_of(1, 2), 6), dtype, within=(0, count - 1)))
        made = self.store(self.node("Gather", [self.weights((count, depth), 1), places], axis=0))
        return self.image(made)

    # ---- Ends ----

    def classified(self, x: str) -> str:
        if self.chance(0.5):
            x = self.store(self.node("GlobalAveragePool", [x]))
        y = self.moved("Flatten", x)
        for _ in range(int(self.rng.integers(1, 3))):
            y = self.activation(self.dense(y), ("Relu", "Tanh", "none"))
        return self.store(self.node("Softmax", [y], axis=-1), "Softmax") if self.chance(0.4) else y

    def odd_ends(self, x: str) -> None:
        """Outputs that are constants, inputs or read inside, and what nobody reads."""
        tensors = self.maker.tensors
        made = [n for s in self.maker.steps for n in s.outputs if tensors[n].data is None]
        if self.chance(0.2):
            self.outputs.append(self.one_of(*made))
        if self.chance(0.1):
            self.outputs.append(self.one_of(*self.maker.inputs))
        if self.chance(0.1):
            self.outputs.append(self.constant(self.rng.standard_normal((2, 1)), "float32"))
        if self.chance(0.1):
            self.node("Neg", [x])
        if self.chance(0.1):
            self.maker.input(Tensor((1, 3), "float32"))
        if self.chance(0.1):
            self.outputs.append(self.node("Identity", [x]))


BLOCKS: tuple[Callable[[Graph, str], str], ...] = (
    Graph.residual, Graph.residual, Graph.bottleneck, Graph.bottleneck, Graph.squeezed,
    Graph.branches, Graph.branches, Graph.split, Graph.shuffle, Graph.space, Graph.space,
    Graph.pool, Graph.upwards, Graph.line, Graph.attention, Graph.recurrent, Graph.scaled,
)  # fmt: skip
MOST_ELEMENTS = 12_000


def random_graph(seed: int, dtype: str) -> Model:
    """The graph of a seed: one to three blocks."""
    return grown(Graph(np.random.default_rng((seed, DTYPES.index(dtype), 5)), dtype))


def grown(graph: Graph) -> Model:
    """The model of a graph that grows by blocks."""
    x = graph.embedding() if graph.chance(0.07) else graph.image_input()
    for _ in range(int(graph.rng.integers(1, 4))):
        if np.prod(graph.shape(x)) > MOST_ELEMENTS // 4:
            x = graph.moved("MaxPool", x, kernel_shape=[1, 1], strides=[2, 2])
        steps, outputs = len(graph.maker.steps), len(graph.outputs)
        try:
            x = graph.one_of(*BLOCKS)(graph, x)
        except LookupError:  # it does not fit
            del graph.maker.steps[steps:], graph.outputs[outputs:]
        if graph.chance(0.1):
            x = graph.store(graph.node("Add", [x, graph.image_input(graph.shape(x))]))
    x = graph.classified(x) if graph.chance(0.3) else x
    graph.odd_ends(x)
    step = graph.maker.steps[-1] if graph.maker.steps else None
    if step and step.kind == "DequantizeLinear" and x in step.outputs and graph.chance(0.3):
        x = step.inputs[0]  # stored outside
    outputs = tuple(dict.fromkeys([x, *graph.outputs]))
    maker = graph.maker
    return Model("onnx", maker.tensors, tuple(maker.steps), tuple(maker.inputs), outputs, 21)
