"""Small ONNX files that ask for much: by hand, one for each way that was thought of.

Each is a text of ONNX's own parser, or a function that makes the model.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx

_HEAD = '<ir_version: 10, opset_import: ["":{}]> '


def _chain(head: str, lines: list[str]) -> str:
    return head + " { " + " ".join(lines) + " }"


def _constants(n: int) -> str:
    """n constants of 4 MB each, added up."""
    lines = ["s0 = Identity(x)"]
    for i in range(n):
        lines += [f"c{i} = ConstantOfShape(shape)", f"s{i + 1} = Add(s{i}, c{i})"]
    lines.append(f"y = Identity(s{n})")
    return _chain(
        "g (float[1000,1000] x) => (float[1000,1000] y) <int64[2] shape = {1000, 1000}>", lines
    )


def _folded(operator: str, side: int, n: int) -> str:
    """n computations of constants alone, each of which reads the one before twice."""
    lines = ["s0 = ConstantOfShape(shape)"]
    lines += [f"s{i + 1} = {operator}(s{i}, s{i})" for i in range(n)]
    lines += [f"m = ReduceMax<keepdims=0>(s{n})", "y = Add(x, m)"]
    return _chain(f"g (float[2] x) => (float[2] y) <int64[2] shape = {{{side}, {side}}}>", lines)


def _run_chain(operator: str, n: int) -> str:
    lines = [f"s{i + 1} = {operator}(s{i})" for i in range(n)]
    return _chain("g (float[8] s0) => (float[8] y)", [*lines, f"y = Identity(s{n})"])


def _doubled(n: int) -> str:
    """Two ways from each node to the next: 2**n paths."""
    lines = [f"s{i + 1} = Mul(s{i}, s{i})" for i in range(n)]
    return _chain("g (float[8] s0) => (float[8] y)", [*lines, f"y = Identity(s{n})"])


def _many_outputs(n: int) -> str:
    names = [f"p{i}" for i in range(n)]
    back = ", ".join(reversed(names))
    return _chain(
        f"g (float[{n}] x) => (float[{n}] y)",
        [f"{', '.join(names)} = Split<axis=0, num_outputs={n}>(x)", f"y = Concat<axis=0>({back})"],
    )


def _nested(n: int) -> str:
    """n If inside one another, with a body on both sides."""
    then = f"g{n} () => (float[2] y{n}) {{ y{n} = Relu(x) }}"
    other = f"h{n} () => (float[2] z{n}) {{ z{n} = Neg(x) }}"
    for i in range(n - 1, -1, -1):
        inner = f"If<then_branch = {then}, else_branch = {other}>(c)"
        then = f"g{i} () => (float[2] y{i}) {{ y{i} = {inner} }}"
        other = f"h{i} () => (float[2] z{i}) {{ z{i} = Neg(x) }}"
    node = f"If<then_branch = {then}, else_branch = {other}>(c)"
    return f"g (bool c, float[2] x) => (float[2] y) {{ y = {node} }}"


def _loop(trips: str, body: str) -> str:
    return (
        f"g (float[64,64] x) => (float[64,64] y) <int64 n = {{{trips}}}>"
        " { y = Loop<body = b (int64 i, bool go, float[64,64] s) => (bool more, float[64,64] t)"
        f" {{ more = Identity(go) t = {body} }}>(n, , x) }}"
    )


def _loops(n: int) -> str:
    """n Loops inside one another of 1,000 trips each, of constants alone."""
    text = f"t{n} = Add(s{n}, s{n})"
    for i in range(n, 0, -1):
        text = (
            f"t{i - 1} = Loop<body = b{i} (int64 i{i}, bool g{i}, float[2] s{i})"
            f" => (bool m{i}, float[2] t{i}) {{ m{i} = Identity(g{i}) {text} }}>(n, , s{i - 1})"
        )
    return (
        "g (float[2] x) => (float[2] y) <int64 n = {1000}, float[2] s0 = {1, 2}>"
        f" {{ {text} y = Add(x, t0) }}"
    )


def _dense(side: int, n: int) -> str:
    """n products of a matrix that is computed, too."""
    lines = ["w = ConstantOfShape<value = float[1] {0.5}>(shape)"]
    lines += [f"s{i + 1} = MatMul(s{i}, w)" for i in range(n)]
    return _chain(
        f"g (float[1,{side}] s0) => (float[1,{side}] y) <int64[2] shape = {{{side}, {side}}}>",
        [*lines, f"y = Identity(s{n})"],
    )


def _one(inputs: str, output: str, node: str, constants: str = "") -> str:
    more = f" <{constants}>" if constants else ""
    return f"g ({inputs}) => ({output} y){more} {{ y = {node} }}"


def _of_constant(node: str, shape: str, dtype: str = "float", constants: str = "") -> str:
    """One operator of a constant whose shape alone stands in the file."""
    rank = shape.count(",") + 1
    lines = [
        f"c = ConstantOfShape<value = {dtype}[1] {{1}}>(shape)",
        node,
        "z = Cast<to = 1>(r)",
        "m = ReduceMax<keepdims=0>(z)",
        "y = Add(x, m)",
    ]
    more = f", {constants}" if constants else ""
    return _chain(
        f"g (float[2] x) => (float[2] y) <int64[{rank}] shape = {{{shape}}}{more}>", lines
    )


def _einsum() -> str:
    letters = "abcdefghijklmnopqrstuvwxyz"
    dims = ",".join(["2"] * 26)
    return _one(f"float[{dims}] x", "float", f'Einsum<equation = "{letters}->">(x)')


#: By name: the text of a model.
TEXTS: dict[str, Callable[[], str]] = {
    "constants": lambda: _constants(3000),
    "folded products": lambda: _folded("MatMul", 1000, 400),
    "folded sums": lambda: _folded("Add", 1000, 3000),
    "chain of Relu": lambda: _run_chain("Relu", 5000),
    "chain of Erf": lambda: _run_chain("Erf", 5000),
    "chain of Softmax": lambda: _run_chain("Softmax", 1500),
    "two ways": lambda: _doubled(600),
    "many outputs": lambda: _many_outputs(3000),
    "nested If": lambda: _nested(22),
    "too deeply nested If": lambda: _nested(30),
    "endless Loop": lambda: _loop("9223372036854775807", "Relu(s)"),
    "Loop of products": lambda: _loop("1000000", "MatMul(s, s)"),
    "nested Loops of constants": lambda: _loops(5),
    "computed weights": lambda: _dense(1000, 900),
    "LSTM of steps": lambda: _one(
        "float[4000000,1,1] x",
        "float[4000000,1,1,1]",
        "LSTM<hidden_size=1>(x, w, r)",
        "float[1,4,1] w = {1,1,1,1}, float[1,4,1] r = {1,1,1,1}",
    ),
    "LSTM of constants": lambda: _of_constant(
        "r = LSTM<hidden_size=1>(c, w, v)",
        "100000, 1, 1",
        constants="float[1,4,1] w = {1,1,1,1}, float[1,4,1] v = {1,1,1,1}",
    ),
    "wide input": lambda: _one("float[1000000000] x", "float[1000000000]", "Relu(x)"),
    "Expand": lambda: _one(
        "float[1] x", "float[100000,100000]", "Expand(x, s)", "int64[2] s = {100000,100000}"
    ),
    "Tile": lambda: _one(
        "float[2,2] x", "float[200000,200000]", "Tile(x, s)", "int64[2] s = {100000,100000}"
    ),
    "Range": lambda: (
        _one("float[1] x", "float[1]", "Gather(c, i)", "int64[1] i = {5}")
        .replace("{ y", "{ c = Range(a, b, d) y")
        .replace("<int64[1]", "<float a = {0}, float b = {1000000000}, float d = {1}, int64[1]")
    ),
    "OneHot": lambda: _one(
        "int64[100] x",
        "float[100,1000000000]",
        "OneHot(x, d, v)",
        "int64 d = {1000000000}, float[2] v = {0, 1}",
    ),
    "DFT of a length": lambda: _one(
        "float[1,8,1] x", "float[1,n,2]", "DFT(x, l)", "int64 l = {1000000000}"
    ),
    "MelWeightMatrix": lambda: (
        "g (float[1] x) => (float[a,b] y) <int64 m = {100000}, int64 l = {2000000000},"
        " int64 r = {16000}, float low = {0}, float high = {8000}>"
        " { w = MelWeightMatrix(m, l, r, low, high) y = Add(w, x) }"
    ),
    "HannWindow": lambda: (
        "g (float[1] x) => (float[n] y) <int64 s = {2000000000}>"
        " { w = HannWindow(s) y = Add(w, x) }"
    ),
    "EyeLike": lambda: (
        "g (float[1] x) => (float[n,n] y) <int64[2] s = {60000,60000}>"
        " { c = ConstantOfShape(s) w = EyeLike(c) y = Add(w, x) }"
    ),
    "reflected Pad": lambda: _one(
        "float[900000000] x", "float[900000004]", 'Pad<mode="reflect">(x, p)', "int64[2] p = {2,2}"
    ),
    "CenterCropPad": lambda: _one(
        "float[2] x", "float[2000000000]", "CenterCropPad(x, s)", "int64[1] s = {2000000000}"
    ),
    "MaxUnpool": lambda: _one(
        "float[1,1,2,2] x, int64[1,1,2,2] i",
        "float[1,1,60000,60000]",
        "MaxUnpool<kernel_shape=[2,2]>(x, i, s)",
        "int64[4] s = {1,1,60000,60000}",
    ),
    "GroupNormalization": lambda: _one(
        "float[1,1000000,1] x",
        "float[1,1000000,1]",
        "InstanceNormalization(x, s, s)",
        "float[1] s = {1}",
    ),
    "AffineGrid": lambda: _one(
        "float[1,2,3] x",
        "float[1,30000,30000,2]",
        "AffineGrid(x, s)",
        "int64[4] s = {1,1,30000,30000}",
    ),
    "Col2Im": lambda: _one(
        "float[1,4,900] x",
        "float[1,1,60000,60000]",
        "Col2Im(x, s, b)",
        "int64[2] s = {60000,60000}, int64[2] b = {2,2}",
    ),
    "ConvTranspose": lambda: _one(
        "float[1,1,2,2] x",
        "float[1,1,60000,60000]",
        "ConvTranspose<strides=[50000,50000]>(x, w)",
        "float[1,1,1,1] w = {1}",
    ),
    "Resize": lambda: _one(
        "float[1,1,2,2] x",
        "float[1,1,60000,60000]",
        'Resize<mode="cubic">(x, , , s)',
        "int64[4] s = {1,1,60000,60000}",
    ),
    "Pad": lambda: _one(
        "float[2] x", "float[2000000002]", "Pad(x, p)", "int64[2] p = {1000000000,1000000000}"
    ),
    "Conv of many groups": lambda: (
        "g (float[1,20000,4,4] x) => (float[1,20000,4,4] y) <int64[4] s = {20000,1,3,3}>"
        " { w = ConstantOfShape<value = float[1] {1}>(s)"
        " y = Conv<group=20000, pads=[1,1,1,1]>(x, w) }"
    ),
    "Conv of a large kernel": lambda: (
        "g (float[1,1,1200,1200] x) => (float[1,1,601,601] y) <int64[4] s = {1,1,600,600}>"
        " { w = ConstantOfShape<value = float[1] {1}>(s) y = Conv(x, w) }"
    ),
    "MaxPool": lambda: _one(
        "float[1,1,4000,4000] x", "float[1,1,2001,2001]", "MaxPool<kernel_shape=[2000,2000]>(x)"
    ),
    "folded MaxPool": lambda: _of_constant(
        "r = MaxPool<kernel_shape=[400,400]>(c)", "1, 1, 1000, 1000"
    ),
    "LRN": lambda: _one("float[1,3000,8,8] x", "float[1,3000,8,8]", "LRN<size=2999>(x)"),
    "Einsum": _einsum,
    "Det": lambda: _one("float[400,400] x", "float", "Det(x)"),
    "DFT": lambda: _one("float[1,30011,1] x", "float[1,30011,2]", "DFT(x)"),
    "STFT": lambda: _one(
        "float[1,400000,1] x",
        "float[1,48001,2001,2]",
        "STFT(x, s, , f)",
        "int64 s = {8}, int64 f = {4000}",
    ),
    "TopK": lambda: (
        "g (float[200000] x) => (float[200000] y) <int64[1] k = {200000}> { y, i = TopK(x, k) }"
    ),
    "folded TopK": lambda: _of_constant(
        "r, i = TopK(c, k)", "1000000", constants="int64[1] k = {1000000}"
    ),
    "Unique": lambda: "g (float[50000] x) => (float[n] y) { y = Unique(x) }",
    "folded Unique": lambda: _of_constant("r = Unique(c)", "1000000"),
    "NonZero": lambda: "g (float[3000,3000] x) => (int64[2,n] y) { y = NonZero(x) }",
    "NMS": lambda: (
        "g (float[1,20000,4] b, float[1,40,20000] s) => (int64[n,3] y) <int64 m = {20000}>"
        " { y = NonMaxSuppression(b, s, m) }"
    ),
    "CumSum": lambda: _of_constant("r = CumSum(c, a)", "1000, 1000", constants="int64 a = {0}"),
    "ArgMax": lambda: _of_constant("r = ArgMax<axis=0>(c)", "1000, 1000"),
    "Hardmax": lambda: _of_constant("r = Hardmax(c)", "1000, 1000"),
    "ScatterND": lambda: _of_constant(
        "z1 = NonZero(c) i = Transpose(z1) u = ReduceSum<keepdims=0>(c, a) r = ScatterND(c, i, u)",
        "500, 1000",
        constants="int64[1] a = {1}",
    ),
    "GridSample": lambda: _one(
        "float[1,1,9,9] x, float[1,2000,2000,2] i",
        "float[1,1,2000,2000]",
        'GridSample<mode="cubic">(x, i)',
    ),
    "Attention": lambda: _one("float[1,2,2000,8] x", "float[1,2,2000,8]", "Attention(x, x, x)"),
    "rank": lambda: _one(
        f"float[{','.join(['1'] * 3000)}] x", "float[1]", "Reshape(x, s)", "int64[1] s = {1}"
    ),
    "Transposes": lambda: _chain(
        "g (float[2,3,4,5,6] s0) => (float[2,3,4,5,6] y)",
        [f"s{i + 1} = Transpose<perm=[1,0,3,2,4]>(s{i})" for i in range(2000)]
        + ["y = Relu(s2000)"],
    ),
    "Concat of rows": lambda: _chain(
        "g (float[1,1] x) => (float[4000,1] y)",
        [
            *(f"p{i} = Add(x, x)" for i in range(4000)),
            f"y = Concat<axis=0>({', '.join(f'p{i}' for i in range(4000))})",
        ],
    ),
    "AveragePools": lambda: _chain(
        "g (float[1,8,64,64] s0) => (float[1,8,64,64] y)",
        [f"s{i + 1} = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1]>(s{i})" for i in range(400)]
        + ["y = Relu(s400)"],
    ),
}


def hostile_model(name: str) -> onnx.ModelProto:
    """The model of that name; under a megabyte. Raises AssertionError where it is larger."""
    opset = 23 if name == "Attention" else 21
    model: onnx.ModelProto = onnx.parser.parse_model(_HEAD.format(opset) + TEXTS[name]())
    assert model.ByteSize() < 1 << 20, name
    return model
