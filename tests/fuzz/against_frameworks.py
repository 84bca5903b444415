"""Points 1 and 2 of `compare_models.py`: nodes and outputs against the framework's answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from random_models import Array

from edgec.graph.operator import Fusion

#: How far floats may be apart after many operators, as a part of the largest magnitude.
FAR = 1e-3
#: Of what operators are that order elements: a NaN has no place in it.
UNORDERED = (Fusion.REDUCTION, Fusion.OPAQUE)
MOVES = (Fusion.VIEW, Fusion.INJECTIVE)
#: How far the parts of an operator may drift, whose own tolerance is for the whole.
OF_A_PART = 5e-7

#: What frameworks themselves are off by: ONNX Runtime's transform of a length that is no power of
#: two goes through a longer one, in float32, and the sigmoid in its Swish is a fraction of two
#: polynomials, which keeps no digits of small results. Of rows of nearly equal numbers little is
#: left where a mean that was rounded is taken off.
OF_THE_FRAMEWORK = {"dft": 1e-4, "swish": 2e-5, "layer_norm": 2e-5}


class Wrong(AssertionError):
    """A model is computed otherwise than its framework says."""


def check_nodes(
    function: Any, inputs: Sequence[Sequence[Array]], answers: Sequence[Any], *, is_litert: bool
) -> None:
    """Point 1: each node on the framework's operands, without what depends on state."""
    from edgec.graph.interpret import initial_state, interpret
    from edgec.graph.ir import Constant

    for arrays, answer in list(zip(inputs, answers, strict=True))[:1]:
        known = dict(zip(function.params, [*arrays, *initial_state(function)], strict=True))
        drift: dict[Any, float] = {}  # of floats that are our own so far
        unsure: set[Any] = set()  # what frameworks have no rule for so far
        sizes: dict[Any, float] = {}  # what errors of these are small beside
        for node in function.nodes:
            given = [v.data if isinstance(v, Constant) else known[v] for v in node.inputs]
            has_nan = any(x.dtype.kind == "f" and np.isnan(x).any() for x in given)
            with np.errstate(all="ignore"):
                found = node.evaluate(given, interpret)
            is_unsure = has_nan and (
                node.op.fusion in UNORDERED or any(y.dtype.kind in "iu" for y in found)
            )
            is_unsure |= not unsure.isdisjoint(node.inputs) or _holds_not(node, given)
            # Of nothing, means and extremes are undefined.
            is_unsure |= node.op.filled_axis(node.attrs) is not None and not given[1].any()
            # A product may overflow in one order, and meet a 0 after that.
            overflows = any(y.dtype.kind == "f" and np.isnan(y).any() for y in found)
            is_unsure |= overflows and node.op.fusion in UNORDERED
            tolerance = 4 * tolerance_of(node) + OF_A_PART * is_litert  # by its delegate
            tolerance += OF_THE_FRAMEWORK.get(node.op.name, 0.0)
            before = max((drift.get(value, 0.0) for value in node.inputs), default=0.0)
            tolerance += max(before, _steep(node, given, found, before))
            magnitude = max((float(np.max(np.abs(x[np.isfinite(x)]), initial=0)) for x in given
                             if x.dtype.kind == "f"), default=0.0)  # fmt: skip
            magnitude = max(magnitude, *(sizes.get(value, 0.0) for value in node.inputs), 0.0)
            magnitude = node.op.scale(node.attrs, *([magnitude] * len(given)))
            magnitude = max(magnitude, _least_real(node, is_litert))
            for value, array in zip(node.outputs, found, strict=True):
                known[value], drift[value], sizes[value] = array, tolerance, magnitude
                if array.shape != value.type.shape or array.dtype != value.type.dtype:
                    raise Wrong(f"{node.op.name} gave {array.dtype}{array.shape}, not {value.type}")
                want = _source(value, answer)
                if want is None or value.origin.permutation or want.size != array.size:
                    if want is None and node.op.fusion not in MOVES:  # a part of an operator
                        drift[value] += OF_A_PART
                    unsure |= {value} if is_unsure else set()
                    continue
                want = want.reshape(array.shape)
                if is_unsure or (
                    not has_nan and _may_overflow(node, want)
                ):  # no framework says which
                    known[value] = want.astype(array.dtype)
                    continue
                compare(f"{node.op.name} {value.name}", want, array, tolerance, magnitude,
                        steps=_steps(value, answer, node, is_litert))  # fmt: skip
                known[value] = want.astype(array.dtype)
                drift[value] = sizes[value] = 0.0


def _steep(node: Any, given: Sequence[Array], found: Sequence[Array], drift: float) -> float:
    """What a drift of the operands makes of elements, as a part of the largest: a tangent of 700
    turns the last digit of float32 into the fourth."""
    from edgec.graph.interpret import interpret

    if not drift or node.op.fusion is not Fusion.ELEMENTWISE or found[0].dtype.kind != "f":
        return 0.0
    moved = [x * x.dtype.type(1 + drift) if x.dtype.kind == "f" else x for x in given]
    with np.errstate(all="ignore"):
        (other,) = node.evaluate(moved, interpret)
        apart = np.abs(other.astype(np.float64) - found[0])
    kept = np.isfinite(apart)
    largest = float(np.max(np.abs(found[0][kept]), initial=0.0))
    return float(np.max(apart[kept], initial=0.0)) / largest if largest else 0.0


def _holds_not(node: Any, given: Sequence[Array]) -> bool:
    """Whether floats become integers that do not hold them: neither ONNX nor C says which."""
    result = np.dtype(node.outputs[0].type.dtype) if node.op.name == "cast" else None
    if result is None or result.kind not in "iu" or given[0].dtype.kind != "f":
        return False
    return bool((np.abs(given[0].astype(np.float64)) > np.iinfo(result).max).any())


def _may_overflow(node: Any, want: Array) -> bool:
    """Whether a NaN of the framework may come of a number too large on its way to the result."""
    is_part = any(getattr(value, "origin", None) is None for value in node.inputs)
    is_in_steps = node.op.fusion in UNORDERED or is_part
    return is_in_steps and want.dtype.kind == "f" and bool(np.isnan(want).any())


def tolerance_of(node: Any) -> float:
    """An operator's tolerance, and four times its bodies': errors add up from step to step."""
    inside = [each for body in node.bodies for each in body.nodes]
    own: float = node.op.tolerance_of(node.input_types)
    return own + 4 * sum(map(tolerance_of, inside))


def _least_real(node: Any, is_litert: bool) -> float:
    """What LiteRT's delegate takes off after the product when it makes floats of integers."""
    from edgec.graph.traits import Storage

    quant = node.inputs[0].type.quant if node.op.storage is Storage.DEQUANTIZE else None
    if quant is None or not is_litert:
        return 0.0
    return float(np.max(np.abs(np.multiply(quant.scale, quant.zero_point))))


def _source(value: Any, answer: Any) -> Array | None:
    if value.origin is None:
        return None
    found: Array | None = answer.tensors.get(value.origin.tensor)
    if value.origin.index is not None:
        found = answer.indexed.get(value.origin.index)
    return (found ^ 128).view(np.int8) if found is not None and value.origin.is_moved else found


def _steps(value: Any, answer: Any, node: Any, is_litert: bool) -> int:
    """Steps that a QuantizeLinear of floats may differ by: the runtime's floats are fused ones.

    And what LiteRT rescales, since XNNPACK does so in floats.
    """
    if is_litert and value.type.quant is not None:
        return 1
    from edgec.graph.traits import Storage

    is_quantize = node.op.storage is Storage.QUANTIZE and value.origin.index is None
    return int(is_quantize)


def compare(
    what: str, want: Array, found: Array, tolerance: float, least: float = 0.0, steps: int = 0
) -> None:
    """Raise Wrong with the first element that differs by more than is allowed."""
    if (want.dtype, want.shape) != (found.dtype, found.shape):
        raise Wrong(f"{what}: {found.dtype}{list(found.shape)}, not {want.dtype}{list(want.shape)}")
    same = want == found
    if want.dtype.kind == "f":
        same |= np.isnan(want) & np.isnan(found)
        # TFLite's frameworks limit floats to finite numbers, here they overflow.
        same |= np.isinf(found) & (want == np.sign(found) * np.finfo(want.dtype).max)
        finite = np.abs(want[np.isfinite(want)])
        allowed = tolerance * max(float(np.max(finite, initial=0)), least, 1e-30)
        with np.errstate(invalid="ignore"):
            same |= np.abs(want.astype(np.float64) - found) <= allowed
    elif steps:
        same |= np.abs(want.astype(np.int64) - found) <= steps
    wrong = np.flatnonzero(~np.asarray(same).reshape(-1))
    if wrong.size:
        at = wrong[0]
        raise Wrong(
            f"{what}: {wrong.size} of {want.size} differ, first at {at}:"
            f" {found.reshape(-1)[at]} instead of {want.reshape(-1)[at]}"
        )


def check_outputs(
    function: Any,
    outputs: Sequence[Sequence[Array]],
    answers: Sequence[Any],
    source: Any,
    *,
    is_litert: bool,
) -> None:
    """Point 2. source: what the file was made of."""
    exact, near = _exactness(function, source, is_litert)
    fills = any(node.op.filled_axis(node.attrs) is not None for node in function.nodes)
    for found, answer in zip(outputs, answers, strict=True):
        if fills and not all(each.size for each in answer.tensors.values()):
            continue  # of nothing, means and extremes are undefined
        values = function.outputs[: len(found)]  # how much is in use comes after
        floats = [each for each in answer.tensors.values() if each.dtype.kind == "f"]
        is_sure = not any(np.isnan(each).any() for each in floats)  # a NaN has no place in an order
        for value, mine, want in zip(values, found, answer.outputs, strict=True):
            want = np.asarray(want)
            if value in exact and (is_sure or mine.dtype.kind == "f"):
                compare(f"output {value.name}", want, mine, 0.0)
            elif value in near and is_sure and mine.dtype.kind == "f" and np.isfinite(want).all():
                compare(f"output {value.name}", want, mine, FAR, 1.0)


def _exactness(function: Any, source: Any, is_litert: bool) -> tuple[set[Any], set[Any]]:
    """Values that are the framework's bits, and floats that nothing has decided on.

    LiteRT's floats and rescaled integers depend on what it delegates to XNNPACK, and that on the
    rest of the model.
    """
    exact, near = set(function.params), set(function.params)
    # Other constants may be floats that are computed.
    own = {t.data.tobytes() for t in source.tensors.values() if t.data is not None}
    near |= set(function.constants())
    exact |= {
        each for each in function.constants()
        if each.data.dtype.kind != "f" or each.data.tobytes() in own
    }  # fmt: skip
    for node in function.nodes:
        is_part = node.outputs[0].origin is None and node.op.fusion not in MOVES
        is_float = node.outputs[0].type.dtype.startswith("float")
        is_exact = exact.issuperset(node.inputs) and not (
            tolerance_of(node)
            or (is_float and is_part)
            or (is_litert and (is_float or node.outputs[0].type.quant))
        )
        if is_exact:
            exact.update(node.outputs)
        is_smooth = node.op.name in SMOOTH and getattr(node.attrs, "kind", "") != "prod"
        if is_exact or (near.issuperset(node.inputs) and is_smooth):
            near.update(node.outputs)
    return exact, near


#: Operators that small differences of operands change little, but for products, which overflow in
#: one order of steps and not in another.
SMOOTH = {
    "add", "sub", "mul", "conv2d", "depthwise_conv2d", "dense", "max_pool2d", "avg_pool2d",
    "reduce", "relu", "clip", "tanh", "logistic", "softmax", "transpose", "reshape", "concat",
    "slice", "pad", "maximum_or_nan", "minimum_or_nan", "copy", "neg", "abs",
}  # fmt: skip
