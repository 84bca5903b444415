"""Lowered groups run with input and output in the same bytes, as close as they are allowed.

For every group the accesses of one run are watched too: what `overlap_distances` proves must not
be less than what this run needs, and is mostly just that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from operator_models import MODELS
from shared_bytes import run_shared, watched_distances

from edgec.errors import ContractError
from edgec.frontends import import_model
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Function, Value
from edgec.graph.types import Quant, TensorType
from edgec.loop.ir import Call, PrimFunc
from edgec.loop.overlap import overlap_distances
from edgec.loop.rewrite import walk
from edgec.numerics.fixed_point import Rounding
from edgec.ops.add import AddAttrs
from edgec.ops.avg_pool2d import AvgPool2dAttrs
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.dense import Dense
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs
from edgec.ops.max_pool2d import MaxPool2dAttrs
from edgec.ops.quantize import QuantizeAttrs
from edgec.ops.requantize import RequantizeAttrs
from edgec.ops.softmax import SoftmaxAttrs
from edgec.ops.transpose import TransposeAttrs
from edgec.options import Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import Variant, lower_group
from edgec.targets.core import find_core
from edgec.targets.target import target_for

CORES = ("cortex-m4", "cortex-m0", "cortex-m55")
#: Kernels for vectors take several outputs at a time, and promise less than their nests do.
VECTORS = "_mve"
QUANT = Quant((0.05,), (-3,))
Make = Callable[[GraphBuilder, np.random.Generator], Value | Function]


def _requantized(b: GraphBuilder, value: Value, channels: int) -> Value:
    rounding: Rounding = "tflm"
    attrs = RequantizeAttrs((0.002,) * channels, QUANT, -128, 127, rounding)
    return b.op("requantize", [value], attrs, name="q")


def _weights(
    b: GraphBuilder, rng: np.random.Generator, shape: tuple[int, ...], channels: int
) -> tuple[Value, Value]:
    weights = rng.integers(-127, 128, shape).astype(np.int8)
    bias = rng.integers(-900, 900, channels).astype(np.int32)
    return b.constant("w", weights, Quant((0.1,), (0,))), b.constant("bias", bias)


def _window(rng: np.random.Generator) -> tuple[Any, ...]:
    """Extents of an image, window, stride and padding that fit each other."""
    kernel, stride = (tuple(rng.integers(1, 4, 2).tolist()) for _ in range(2))
    padding = tuple(tuple(rng.integers(0, k, 2).tolist()) for k in kernel)
    extents = tuple((k + rng.integers(0, 6)) for k in kernel)
    return tuple(int(e) for e in extents), kernel, stride, padding


def conv2d(b: GraphBuilder, rng: np.random.Generator) -> Value:
    (height, width), kernel, stride, padding = _window(rng)
    depth, channels = (int(n) for n in rng.choice([1, 2, 3, 4, 8, 12], 2))
    x = b.param("x", TensorType((1, height, width, depth), "int8", QUANT))
    w, bias = _weights(b, rng, (channels, *kernel, depth), channels)
    acc = b.op("conv2d", [x, w, bias], Conv2dAttrs(stride, (1, 1), padding), name="conv")
    return _requantized(b, acc, channels)


def pointwise(b: GraphBuilder, rng: np.random.Generator) -> Value:
    height, width = (int(n) for n in rng.integers(1, 6, 2))
    depth, channels = (int(n) for n in rng.choice([4, 8, 12, 16], 2))
    x = b.param("x", TensorType((1, height, width, depth), "int8", QUANT))
    w, bias = _weights(b, rng, (channels, 1, 1, depth), channels)
    return _requantized(b, b.op("conv2d", [x, w, bias], Conv2dAttrs(), name="conv"), channels)


def depthwise(b: GraphBuilder, rng: np.random.Generator) -> Value:
    (height, width), kernel, stride, padding = _window(rng)
    depth, multiplier = (int(n) for n in (rng.integers(1, 6), rng.choice([1, 1, 2])))
    channels = depth * multiplier
    x = b.param("x", TensorType((1, height, width, depth), "int8", QUANT))
    w, bias = _weights(b, rng, (*kernel, channels), channels)
    attrs = DepthwiseConv2dAttrs(stride, (1, 1), padding)
    return _requantized(b, b.op("depthwise_conv2d", [x, w, bias], attrs, name="conv"), channels)


def same_depthwise(b: GraphBuilder, rng: np.random.Generator) -> Value:
    """The output has the input's shape."""
    height, width, channels = (int(n) for n in rng.integers([3, 3, 1], 8))
    x = b.param("x", TensorType((1, height, width, channels), "int8", QUANT))
    kernel = tuple(int(n) for n in rng.choice([1, 3], 2))
    padding = tuple((k // 2, k // 2) for k in kernel)
    w, bias = _weights(b, rng, (*kernel, channels), channels)
    attrs = DepthwiseConv2dAttrs((1, 1), (1, 1), padding)  # type: ignore[arg-type]
    return _requantized(b, b.op("depthwise_conv2d", [x, w, bias], attrs, name="conv"), channels)


def pool(b: GraphBuilder, rng: np.random.Generator) -> Value:
    (height, width), kernel, stride, padding = _window(rng)
    x = b.param("x", TensorType((1, height, width, int(rng.integers(1, 6))), "int8", QUANT))
    if rng.random() < 0.5:
        return b.op("max_pool2d", [x], MaxPool2dAttrs(kernel, stride, padding), name="pool")
    attrs = AvgPool2dAttrs(kernel, stride, padding, QUANT)
    return b.op("avg_pool2d", [x], attrs, name="pool")


def dense(b: GraphBuilder, rng: np.random.Generator) -> Value:
    rows, depth, channels = (int(n) for n in (rng.integers(1, 4), *rng.choice([8, 16, 24], 2)))
    x = b.param("x", TensorType((rows, depth), "int8", QUANT))
    w, bias = _weights(b, rng, (channels, depth), channels)
    return _requantized(b, b.op(Dense(), [x, w, bias], name="dense"), channels)


def softmax(b: GraphBuilder, rng: np.random.Generator) -> Value:
    shape = tuple(rng.integers(1, 8, 2).tolist())
    x = b.param("x", TensorType(shape, "int8", QUANT))
    attrs = SoftmaxAttrs(1.0, Quant((1 / 256,), (-128,)))
    return b.op("softmax", [x], attrs, name="softmax")


def transpose(b: GraphBuilder, rng: np.random.Generator) -> Value:
    shape = tuple(rng.integers(1, 6, 3).tolist())
    x = b.param("x", TensorType(shape, str(rng.choice(["int8", "float32"]))))
    permutation = tuple(rng.permutation(3).tolist())
    return b.op("transpose", [x], TransposeAttrs(permutation), name="transpose")


def add(b: GraphBuilder, rng: np.random.Generator) -> Value:
    shape = tuple(rng.integers(1, 5, 3).tolist())
    other = tuple(1 if rng.random() < 0.3 else e for e in shape)[int(rng.integers(0, 2)) :]
    values = [b.param(n, TensorType(s, "int8", QUANT)) for n, s in (("x", shape), ("y", other))]
    if rng.random() < 0.2:
        values = [values[0], values[0]]
    return b.op("add", values, AddAttrs(Quant((0.11,), (2,))), name="add")


def convert(b: GraphBuilder, rng: np.random.Generator) -> Value:
    shape = (int(rng.integers(1, 30)),)
    if rng.random() < 0.5:
        x = b.param("x", TensorType(shape, "int8", QUANT))
        return b.op("dequantize", [x], name="dequantize")
    x = b.param("x", TensorType(shape, "float32"))
    return b.op("quantize", [x], QuantizeAttrs(QUANT), name="quantize")


def variants(make: Make, rng: np.random.Generator) -> Iterator[Variant]:
    b = GraphBuilder()
    made = make(b, rng)
    function = made if isinstance(made, Function) else b.finish([made])
    for core in CORES:
        for group in fuse_groups(function):
            found = lower_group(group, target_for(find_core(core), Options())).variants
            # What the M55 has besides, the M4 has too.
            yield from (v for v in found if core != "cortex-m55" or has_vectors(v.function))


def has_vectors(func: PrimFunc) -> bool:
    calls = (s.callee for s, _ in walk(func.body) if isinstance(s, Call))
    return any(name.endswith(VECTORS) for name in calls)


def random_arrays(variant: Variant, rng: np.random.Generator) -> dict[str, np.ndarray]:
    arrays = dict(variant.constants)
    for param in variant.function.params:
        if param.scope == "arena" and param.name != "out":
            if param.dtype in ("int8", "int16"):
                ends = np.iinfo(param.dtype)
                whole = rng.integers(ends.min, ends.max + 1, param.shape)
                arrays[param.name] = whole.astype(param.dtype)
            else:
                arrays[param.name] = rng.normal(size=param.shape).astype(param.dtype)
    return arrays


#: What microkernels compute, and what none does.
PRODUCTS = (conv2d, pointwise, depthwise, same_depthwise, dense)
MAKERS = (*PRODUCTS, pool, softmax, transpose, add, convert)


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_output_may_share_memory_down_to_the_distance(make: Make) -> None:
    shared = tight = tested = broken = 0
    for seed in range(12):
        rng = np.random.default_rng([seed, MAKERS.index(make)])
        more = np.random.default_rng([seed, MAKERS.index(make), 1])
        for variant in variants(make, rng):
            func = variant.function
            arrays = random_arrays(variant, rng)
            expected, needed = watched_distances(func, arrays, "out")
            for param, distance in overlap_distances(func).items():
                lowest = -param.elements * np.dtype(param.dtype).itemsize
                need = needed[param.name]
                floor = lowest if need is None else max(need, lowest)
                assert floor <= distance < expected.nbytes
                is_exact = not has_vectors(func)
                shared += is_exact
                tight += is_exact and distance == floor
                for farther in (0, 1, 5):
                    got = run_shared(func, arrays, param.name, "out", distance + farther)
                    assert got.tobytes() == expected.tobytes()
                if is_exact and floor > lowest and param.dtype == "int8":
                    tested += 1
                    broken += fails(func, arrays, param.name, distance - 1, expected) or any(
                        fails(func, others, param.name, distance - 1, run_apart(func, others))
                        for others in (random_arrays(variant, more) for _ in range(2))
                    )
    # A microkernel promises no order, and no element of a window for itself; all else is exact.
    assert tight >= (0.8 if make in (*PRODUCTS, transpose) else 1) * shared > 0
    # Now and then the byte that is lost is one that the result does not depend on.
    assert broken >= 0.8 * tested > 0


def test_output_may_be_where_its_input_is_or_some_rows_above() -> None:
    found = raised = 0
    for seed in range(12):
        rng = np.random.default_rng([seed, 99])
        for variant in variants(same_depthwise, rng):
            func = variant.function
            names = {v: p.name for v, p in zip(variant.args, func.params, strict=True)}
            for value in variant.in_place:
                arrays = random_arrays(variant, rng)
                expected, _ = watched_distances(func, arrays, "out")
                for rows in (0, 1, 3, 100) if variant.row_bytes else (0,):
                    above = rows * variant.row_bytes
                    got = run_shared(func, arrays, names[value], "out", -above)
                    assert got.tobytes() == expected.tobytes()
                    raised += rows > 0
                found += 1
    assert found > 10
    assert raised > 10


def test_scratch_may_take_the_place_of_its_input(tmp_path: Path) -> None:
    found = 0
    main = import_model(MODELS["lstm"](tmp_path)).main
    for seed in range(3):
        rng = np.random.default_rng([seed, 98])
        for variant in variants(lambda b, rng: main, rng):
            func = variant.function
            names = {v: p.name for v, p in zip(variant.args, func.params, strict=True)}
            for place, value, distance in variant.scratch_overlaps:
                (offsets,) = (p.offsets for p in variant.scratch if p.name == place)
                arrays = random_arrays(variant, rng)
                expected = run_apart(func, arrays)
                for name, offset in offsets.items():
                    for farther in (0, 4):
                        at = distance + offset + farther
                        got = run_shared(func, arrays, names[value], name, at, result="out")
                        assert got.tobytes() == expected.tobytes()
                    found += 1
    assert found > 0


def run_apart(func: PrimFunc, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The output where no bytes are shared."""
    return watched_distances(func, arrays, "out")[0]


def fails(
    func: PrimFunc, arrays: dict[str, np.ndarray], name: str, distance: int, expected: np.ndarray
) -> bool:
    try:
        got = run_shared(func, arrays, name, "out", distance)
    except ContractError:  # an index into a table, made of destroyed data
        return True
    return got.tobytes() != expected.tobytes()
