"""Bodies of ONNX operators without one in the standard: other operators replace them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgec.errors import ImportFailed
from edgec.graph.types import TensorType
from edgec.ops.cast import ELEMENT_TYPES

#: The operator set that bodies are written in.
OPSET = 24
#: The names of inputs; only sums and the like have more than a few.
INPUTS = (*"abcdefghijklmn", *(f"in{number}" for number in range(14, 1024)))
#: ONNX's numbers of dtypes.
NUMBERS = {name: number for number, name in ELEMENT_TYPES.items()}


@dataclass(frozen=True)
class Use:
    """One node: its attributes, the types of its inputs, and how many outputs are wanted."""

    kind: str
    attributes: dict[str, Any]
    types: tuple[TensorType | None, ...]
    outputs: int
    opset: int

    def get(self, key: str, default: Any) -> Any:
        """An attribute; ImportFailed if it has not the default's type."""
        value = self.attributes.get(key, default)
        is_number = isinstance(default, (int, float)) and isinstance(value, (int, float))
        if not is_number and not isinstance(value, type(default)):
            raise ImportFailed(f"attribute {key} is {value!r}")
        return value

    def type(self, position: int) -> TensorType:
        """The type of an input. ImportFailed where it is absent."""
        found = self.types[position] if position < len(self.types) else None
        if found is None:
            raise ImportFailed(f"input {position} is absent")
        return found

    def has(self, position: int) -> bool:
        """Whether there is such an input."""
        return position < len(self.types) and self.types[position] is not None

    def axis(self, key: str, default: int, rank: int) -> int:
        """An axis of an input of this rank, not negative."""
        axis = int(self.get(key, default))
        if not -rank <= axis < rank:
            raise ImportFailed(f"{key} {axis} of rank {rank}")
        return axis % rank


#: The texts of bodies, by the operator's domain and name.
Bodies = Mapping[str, Callable[[Use], str]]


def ints(name: str, values: Sequence[int]) -> str:
    """A constant of int64."""
    return f"{name} = Constant<value_ints: ints = [{', '.join(str(int(v)) for v in values)}]>()\n"


def number(name: str, value: float, dtype: str = "float32", shape: Sequence[int] = ()) -> str:
    """A constant of one number of a dtype, in all of a shape."""
    text = f"{name}_n = Constant<value_float = {float(value)!r}>()\n"
    if dtype not in ("float32", "float16", "float64", "bfloat16"):
        text = f"{name}_n = Constant<value_int = {int(value)}>()\n"
    text += f"{name}_c = Cast<to = {NUMBERS[dtype]}>({name}_n)\n"
    if not shape:
        return text + f"{name} = Identity({name}_c)\n"
    return text + ints(f"{name}_s", shape) + f"{name} = Expand({name}_c, {name}_s)\n"


def _gemm(use: Use) -> str:
    dtype = use.type(0).dtype
    text = ""
    for name, key in (("a", "transA"), ("b", "transB")):
        turned = "Transpose<perm = [1, 0]>" if use.get(key, 0) else "Identity"
        text += f"{name}1 = {turned}({name})\n"
    text += "p = MatMul(a1, b1)\n" + number("alpha", use.get("alpha", 1.0), dtype)
    if not use.has(2):
        return text + "x = Mul(p, alpha)\n"
    text += number("beta", use.get("beta", 1.0), dtype)
    return text + "p1 = Mul(p, alpha)\nc1 = Mul(c, beta)\nx = Add(p1, c1)\n"


def _batch_norm(use: Use) -> str:
    rank = len(use.type(0).shape)
    if use.get("training_mode", 0):
        raise ImportFailed("training is not supported")
    text = ints("s", [1, -1, *(1 for _ in range(rank - 2))])
    for name in "bcde":
        text += f"{name}1 = Reshape({name}, s)\n"
    text += number("eps", use.get("epsilon", 1e-5), use.type(4).dtype)
    return (
        text
        + """v = Add(e1, eps)
        r = Sqrt(v)
        m = Sub(a, d1)
        n = Div(m, r)
        o = Mul(n, b1)
        x = Add(o, c1)
        """
    )


def _instance_norm(use: Use) -> str:
    rank = len(use.type(0).shape)
    text = ints("s", [1, -1, *(1 for _ in range(rank - 2))]) + ints("axes", range(2, rank))
    text += number("eps", use.get("epsilon", 1e-5), use.type(0).dtype)
    return (
        text
        + """m = ReduceMean(a, axes)
        u = Sub(a, m)
        q = Mul(u, u)
        v0 = ReduceMean(q, axes)
        v = Add(v0, eps)
        r = Sqrt(v)
        n = Div(u, r)
        b1 = Reshape(b, s)
        c1 = Reshape(c, s)
        o = Mul(n, b1)
        x = Add(o, c1)
        """
    )


def _norm(name: str, use: Use, axes: Sequence[int], p: int) -> str:
    """`name`: the p-norm of a over some axes."""
    text = ints(f"{name}_axes", axes)
    if p == 1:
        return text + f"{name} = ReduceL1(a, {name}_axes)\n"
    if p == 2:
        return text + f"{name} = ReduceL2(a, {name}_axes)\n"
    dtype = use.type(0).dtype
    text += number("p1", p, dtype) + number("p2", 1 / p, dtype)
    text += f"abs = Abs(a)\npow = Pow(abs, p1)\nsum = ReduceSum(pow, {name}_axes)\n"
    return text + f"{name} = Pow(sum, p2)\n"


def _lp_normalization(use: Use) -> str:
    rank, dtype = len(use.type(0).shape), use.type(0).dtype
    text = _norm("n", use, [use.axis("axis", -1, rank)], int(use.get("p", 2)))
    text += number("zero", 0, dtype) + number("one", 1, dtype)
    return text + "z = Equal(n, zero)\nm = Where(z, one, n)\nx = Div(a, m)\n"


def _global_lp_pool(use: Use) -> str:
    rank = len(use.type(0).shape)
    return _norm("x", use, range(2, rank), int(use.get("p", 2)))


def _lp_pool(use: Use) -> str:
    """The sum of a window is the mean that counts padding, times the window's size."""
    dtype, p = use.type(0).dtype, int(use.get("p", 2))
    window = {**use.attributes, "count_include_pad": 1}
    window.pop("p", None)
    size = math.prod(use.get("kernel_shape", ()))
    text = number("p1", p, dtype) + number("p2", 1 / p, dtype) + number("size", size, dtype)
    text += "abs = Abs(a)\n" + ("pow = Mul(abs, abs)\n" if p == 2 else "pow = Pow(abs, p1)\n")
    text += f"mean = AveragePool{attributes_of(window)}(pow)\nsum = Mul(mean, size)\n"
    return text + ("x = Sqrt(sum)\n" if p == 2 else "x = Pow(sum, p2)\n")


def attributes_of(found: dict[str, Any]) -> str:
    """Attributes in a body's text."""

    def value(v: Any) -> str:
        if isinstance(v, str):
            return f'"{v}"'
        return f"[{', '.join(map(repr, v))}]" if isinstance(v, (tuple, list)) else repr(v)

    text = ", ".join(f"{key} = {value(v)}" for key, v in found.items())
    return f"<{text}>" if text else ""


def _hardmax(use: Use) -> str:
    x = use.type(0)
    axis = use.axis("axis", -1 if use.opset >= 13 else 1, len(x.shape))
    text = ints("depth", [x.shape[axis]]) + number("zero", 0, x.dtype, [1])
    text += number("one", 1, x.dtype, [1]) + "values = Concat<axis = 0>(zero, one)\n"
    text += f"place = ArgMax<axis = {axis}, keepdims = 0>(a)\n"
    return text + f"x = OneHot<axis = {axis}>(place, depth, values)\n"


def _trilu(use: Use) -> str:
    """Trilu: a mask that compares row numbers with column numbers chooses x or 0."""
    x = use.type(0)
    if len(x.shape) < 2:
        raise ImportFailed(f"an input of rank {len(x.shape)}")
    rows, columns = x.shape[-2:]
    text = ints("r", range(rows)) + ints("n", range(columns)) + ints("last", [1])
    text += "r1 = Unsqueeze(r, last)\n"
    if use.has(1):
        text += "r2 = Add(r1, b)\n"
    else:
        text += "r2 = Identity(r1)\n"
    compare = "GreaterOrEqual" if use.get("upper", 1) else "LessOrEqual"
    text += f"keep = {compare}(n, r2)\n"
    if x.dtype == "bool":
        return text + "x = And(a, keep)\n"
    return text + number("zero", 0, x.dtype) + "x = Where(keep, a, zero)\n"


def _chain(operator: str) -> Callable[[Use], str]:
    def body(use: Use) -> str:
        text, last = "", "a"
        for position in range(1, len(use.types)):
            text += f"t{position} = {operator}({last}, {INPUTS[position]})\n"
            last = f"t{position}"
        if use.kind == "Mean" and use.type(0).dtype == "float32":
            # ONNX Runtime multiplies by the part of one, which is not rounded as a quotient is.
            return text + number("part", 1 / len(use.types)) + f"x = Mul({last}, part)\n"
        if use.kind == "Mean":
            text += number("count", len(use.types), use.type(0).dtype)
            return text + f"x = Div({last}, count)\n"
        return text + f"x = Identity({last})\n"

    return body


def _shaped(use: Use, name: str, position: int, axis: int, block: int) -> str:
    """A scale or a zero point in a form that broadcasts to the first input."""
    x, given = use.type(0), use.type(position)
    source = INPUTS[position]
    if block:
        repeated = list(given.shape)
        repeated[axis] *= block
        ones = list(given.shape)
        ones.insert(axis + 1, 1)
        wide = list(ones)
        wide[axis + 1] = block
        first = [0] * len(x.shape)
        return (
            ints(f"{name}_1", ones) + ints(f"{name}_2", wide) + ints(f"{name}_3", repeated)
            + ints(f"{name}_4", first) + ints(f"{name}_5", x.shape)
            + f"{name}_a = Reshape({source}, {name}_1)\n{name}_b = Expand({name}_a, {name}_2)\n"
            + f"{name}_c = Reshape({name}_b, {name}_3)\n"
            + f"{name} = Slice({name}_c, {name}_4, {name}_5)\n"
        )  # fmt: skip
    if given.elements == 1:
        return ints(f"{name}_1", []) + f"{name} = Reshape({source}, {name}_1)\n"
    shape = [1] * len(x.shape)
    shape[axis] = given.elements
    return ints(f"{name}_1", shape) + f"{name} = Reshape({source}, {name}_1)\n"


def _scale(use: Use) -> TensorType:
    """The type of the scale. Raises ImportFailed for inputs that the standard does not allow."""
    scale = use.type(1)
    if len(use.types) > 3 or "float" not in scale.dtype:
        raise ImportFailed(f"{len(use.types)} inputs, the second one a scale of {scale.dtype}")
    return scale


def _dequantize(use: Use) -> str:
    x, scale = use.type(0), _scale(use)
    if use.has(2) and use.type(2).dtype != x.dtype:
        raise ImportFailed(f"a zero point of {use.type(2).dtype} for values of {x.dtype}")
    rank = len(x.shape)
    axis = use.axis("axis", 1, rank) if scale.elements > 1 else 0
    text = _shaped(use, "s", 1, axis, int(use.get("block_size", 0)))
    text += "s1 = Cast<to = 1>(s)\n"
    wide = 6 if "int" in x.dtype else 1
    text += f"q = Cast<to = {wide}>(a)\n"
    if use.has(2):
        text += _shaped(use, "z", 2, axis, int(use.get("block_size", 0)))
        text += f"z1 = Cast<to = {wide}>(z)\nq1 = Sub(q, z1)\n"
    else:
        text += "q1 = Identity(q)\n"
    to = int(use.get("output_dtype", 0)) or NUMBERS[scale.dtype]
    return text + f"r = Cast<to = 1>(q1)\np = Mul(r, s1)\nx = Cast<to = {to}>(p)\n"


def _bounds(dtype: str) -> tuple[int, int]:
    width = int(dtype.lstrip("uint"))
    return (0, 2**width - 1) if dtype[0] == "u" else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)


def _quantize(use: Use) -> str:
    x, scale = use.type(0), _scale(use)
    axis = use.axis("axis", 1, len(x.shape)) if scale.elements > 1 else 0
    block = int(use.get("block_size", 0))
    dtype = ELEMENT_TYPES.get(int(use.get("output_dtype", 0)), "uint8")
    dtype = use.type(2).dtype if use.has(2) else dtype
    text = _shaped(use, "s", 1, axis, block) + "s1 = Cast<to = 1>(s)\nr = Cast<to = 1>(a)\n"
    text += "p = Div(r, s1)\n"
    saturate = int(use.get("saturate", 1))
    if "int" not in dtype:
        return text + f"x = Cast<to = {NUMBERS[dtype]}, saturate = {saturate}>(p)\n"
    text += "n = Round(p)\n"
    if use.has(2):
        text += _shaped(use, "z", 2, axis, block) + "z1 = Cast<to = 1>(z)\nm = Add(n, z1)\n"
    else:
        text += "m = Identity(n)\n"
    low, high = _bounds(dtype)
    text += number("low", low) + number("high", high)
    return text + f"l = Clip(m, low, high)\nx = Cast<to = {NUMBERS[dtype]}>(l)\n"


def _zero_less(name: str, zero: str, present: bool, wide: int = 6) -> str:
    """`name`1: an input of integers without its zero point, as int32."""
    text = f"{name}0 = Cast<to = {wide}>({name})\n"
    if not present:
        return text + f"{name}1 = Identity({name}0)\n"
    return text + f"{zero}0 = Cast<to = {wide}>({zero})\n{name}1 = Sub({name}0, {zero}0)\n"


def _channels(use: Use, position: int, name: str, rank: int) -> str:
    """A zero point or scale for each output channel of weights, along their first axis."""
    if not use.has(position) or use.type(position).elements == 1:
        return f"{name} = Identity({INPUTS[position]})\n"
    return ints(f"{name}_s", [-1, *(1 for _ in range(rank - 1))]) + (
        f"{name} = Reshape({INPUTS[position]}, {name}_s)\n"
    )


def _matmul_integer(use: Use) -> str:
    text = ""
    if use.has(2) and use.type(2).shape and len(use.type(0).shape) > 1:
        text = ints("last", [-1]) + "cc = Unsqueeze(c, last)\n"
    else:
        text = "cc = Identity(c)\n" if use.has(2) else ""
    text += _zero_less("a", "cc", use.has(2)) + _zero_less("b", "d", use.has(3))
    return text + "x = MatMul(a1, b1)\n"


def _conv_integer(use: Use) -> str:
    rank = len(use.type(0).shape)
    text = _channels(use, 3, "dd", rank) if use.has(3) else ""
    text += _zero_less("a", "c", use.has(2)) + _zero_less("b", "dd", use.has(3))
    return text + f"x = Conv{attributes_of(use.attributes)}(a1, b1)\n"


def _requantize(zero: str, dtype: str, factor: str) -> str:
    """x: the integers `acc` times a factor of float32, rounded, as another type."""
    low, high = _bounds(dtype)
    text = number("low", low) + number("high", high)
    return (
        text
        + f"""f = Cast<to = 1>(acc)
        p = Mul(f, {factor})
        n = Round(p)
        z = Cast<to = 1>({zero})
        m = Add(n, z)
        l = Clip(m, low, high)
        x = Cast<to = {NUMBERS[dtype]}>(l)
        """
    )


def _scales(first: str, second: str, result: str) -> str:
    return f"""s1 = Cast<to = 1>({first})
        s2 = Cast<to = 1>({second})
        s3 = Cast<to = 1>({result})
        s4 = Mul(s1, s2)
        factor = Div(s4, s3)
        """


def require_zero_points(use: Use) -> None:
    """Raise ImportFailed unless zero points have the dtypes of their tensors."""
    for zero, of in ((2, 0), (5, 3)):
        if use.type(zero).dtype != use.type(of).dtype:
            raise ImportFailed(f"the zero point of {use.type(of).dtype} is {use.type(zero).dtype}")
    if use.type(7).dtype not in ("int8", "uint8"):
        raise ImportFailed(f"the zero point of its output is {use.type(7).dtype}")


def _qlinear_matmul(use: Use) -> str:
    require_zero_points(use)
    text = _zero_less("a", "c", True) + _zero_less("d", "f", True) + "acc = MatMul(a1, d1)\n"
    return text + _scales("b", "e", "g") + _requantize("h", use.type(7).dtype, "factor")


def _qlinear_conv(use: Use) -> str:
    require_zero_points(use)
    rank = len(use.type(0).shape)
    text = _channels(use, 5, "ff", rank) + _channels(use, 4, "e0", rank)
    text += _zero_less("a", "c", True) + _zero_less("d", "ff", True)
    bias = ", i" if use.has(8) else ""
    text += f"acc = Conv{attributes_of(use.attributes)}(a1, d1{bias})\n"
    if use.type(4).elements > 1:
        text += ints("es", [1, -1, *(1 for _ in range(rank - 2))]) + "ee = Reshape(e, es)\n"
    else:
        text += "ee = Identity(e)\n"
    return text + _scales("b", "ee", "g") + _requantize("h", use.type(7).dtype, "factor")


def _lrn(use: Use) -> str:
    """The sum of squares of near channels is a mean over a window of the padded channels."""
    x = use.type(0)
    size = int(use.get("size", 1))
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    flat = [x.shape[0], 1, x.shape[1], -1]
    text = ints("flat", flat) + ints("whole", x.shape)
    for name, value in (
        ("alpha", float(use.get("alpha", 1e-4))),
        ("bias", use.get("bias", 1.0)),
        ("beta", use.get("beta", 0.75)),
    ):
        text += number(name, value, x.dtype)
    return (
        text
        + f"""sq = Mul(a, a)
        sq1 = Reshape(sq, flat)
        mean = AveragePool<kernel_shape = [{size}, 1], pads = [{before}, 0, {after}, 0],
                           count_include_pad = 1>(sq1)
        mean1 = Reshape(mean, whole)
        t = Mul(mean1, alpha)
        u = Add(t, bias)
        v = Pow(u, beta)
        x = Div(a, v)
        """
    )


def _space_to_depth(use: Use) -> str:
    n, c, h, w = use.type(0).shape
    size = int(use.get("blocksize", 1))
    is_crd = use.get("mode", "DCR") == "CRD"
    order = [0, 1, 3, 5, 2, 4] if is_crd else [0, 3, 5, 1, 2, 4]
    text = ints("s", [n, c, h // size, size, w // size, size])
    text += ints("t", [n, c * size * size, h // size, w // size])
    return text + f"p = Reshape(a, s)\nq = Transpose<perm = {order}>(p)\nx = Reshape(q, t)\n"


def _reverse_sequence(use: Use) -> str:
    """Return the position to read for each position along time, for GatherElements."""
    x = use.type(0)
    time, batch = int(use.get("time_axis", 0)), int(use.get("batch_axis", 1))
    rank = len(x.shape)
    along, across = [1] * rank, [1] * rank
    along[time], across[batch] = -1, -1
    text = ints("t0", range(x.shape[time])) + ints("ts", along) + ints("bs", across)
    text += ints("whole", x.shape) + number("one", 1, "int64")
    return (
        text
        + f"""t = Reshape(t0, ts)
        n = Reshape(b, bs)
        n1 = Sub(n, one)
        back = Sub(n1, t)
        inside = Less(t, n)
        place = Where(inside, back, t)
        places = Expand(place, whole)
        x = GatherElements<axis = {time}>(a, places)
        """
    )


BODIES: Bodies = {
    "Gemm": _gemm, "BatchNormalization": _batch_norm, "InstanceNormalization": _instance_norm,
    "LpNormalization": _lp_normalization, "GlobalLpPool": _global_lp_pool, "LpPool": _lp_pool,
    "Hardmax": _hardmax, "Trilu": _trilu, "Sum": _chain("Add"), "Mean": _chain("Add"),
    "DequantizeLinear": _dequantize, "QuantizeLinear": _quantize, "LRN": _lrn,
    "MatMulInteger": _matmul_integer, "ConvInteger": _conv_integer,
    "QLinearMatMul": _qlinear_matmul, "QLinearConv": _qlinear_conv,
    "SpaceToDepth": _space_to_depth, "ReverseSequence": _reverse_sequence,
}  # fmt: skip


def own_body(use: Use, bodies: Bodies) -> Any:
    """The body of a node as a FunctionProto, None if these have none. Raises ImportFailed."""
    from onnx import parser

    if use.kind not in bodies:
        return None
    if len(use.types) > len(INPUTS):
        raise ImportFailed(f"{len(use.types)} inputs are too many")
    text = bodies[use.kind](use)
    name = use.kind.rpartition(".")[2]
    given = ", ".join(INPUTS[: len(use.types)])
    wanted = ", ".join("xyz"[: max(use.outputs, 1)])
    head = f'<domain: "edgec", opset_import: ["": {OPSET}]>\n{name} ({given}) => ({wanted})'
    try:
        return parser.parse_function(f"{head} {{\n{text}}}")
    except parser.ParseError:
        raise ImportFailed("one of its attributes is of another type than it must be") from None
