"""Kernels of CMSIS-NN for Cortex-M, from the user's checkout.

`runtime_c/external/edgec_cmsis_nn.c` calls its public functions by the header
`Include/arm_nnfunctions.h`. The headers and the C files that a function needs are copied into the
build: in CMSIS-NN each function has a file with its name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from edgec.errors import EdgecError, ScheduleError
from edgec.external.host_libraries import HEADER, sizes_of
from edgec.graph.types import Array
from edgec.loop.ir import Load, Store
from edgec.loop.primitives.call_foreign import Room
from edgec.loop.rewrite import blocks_of, subexpressions
from edgec.loop.schedule import Schedule
from edgec.numerics.fixed_point import quantize_multiplier, requantize_tflm
from edgec.numerics.term import Var
from edgec.ops.softmax import DIFF_INTEGER_BITS, exp_table, scaled_multiplier
from edgec.resources import resource_dir
from edgec.targets.common.described import Products, products_of
from edgec.targets.common.elements import limited, schedule_mul, sum_of_two
from edgec.targets.common.nests import find_param
from edgec.targets.common.rows import schedule_rows
from edgec.targets.common.sums import Kind
from edgec.targets.dsp.pools import schedule_pool
from edgec.targets.external import Kernel, Use
from edgec.targets.rule import Nest

#: Instructions of a call, of a product and of an element, about, on a core with the DSP extension.
CALL, PRODUCT, CHANNEL_PRODUCT, ELEMENT = 300, 2.1, 8.0, 30
#: By which both addends are shifted to the left (TFLite's `kLeftShift` of additions of int8).
ADD_SHIFT = 20
_WORD = re.compile(r"\barm_\w+")
#: The first line of a copied file: warnings in it are not ours.
_SYSTEM = "#pragma GCC system_header\n"

Rule = Callable[[Nest], tuple[list[Any], float] | None]


def cmsis_nn(path: str | Path, cost: float = 1.0) -> tuple[Kernel, ...]:
    """Convolutions, depthwise and dense layers, pools, sums, products and softmax of int8.

    path: a checkout of CMSIS-NN. cost: a factor of the estimated instructions; less than 1 prefers
    them. Raises EdgecError for a folder that is none.
    """
    root = Path(path)
    if not (root / "Include" / "arm_nnfunctions.h").is_file():
        raise EdgecError(
            f"{root} is not a checkout of CMSIS-NN: it has no Include/arm_nnfunctions.h",
            hint="give the folder that `git clone` of CMSIS-NN made",
        )
    source = resource_dir("runtime_c") / "external"
    shared = ((name, (source / name).read_text("utf-8")) for name in ("edgec_cmsis_nn.h", HEADER))
    headers = (*shared, *_headers(root))
    return tuple(
        Kernel(f"edgec_cmsis_{name}_s8", source / f"edgec_cmsis_{name}.c",
               use=partial(_use, rule, cost), isa="thumb",
               files=(*headers, *_sources(root, source / f"edgec_cmsis_{name}.c")))
        for name, rule in _RULES.items()
    )  # fmt: skip


def _use(rule: Rule, cost: float, nest: Nest) -> Use | None:
    if any(dtype != "int8" for dtype in (nest.dtype, nest.out_dtype)):
        return None
    found = rule(nest)
    return None if found is None else Use(found[0], (CALL + found[1]) * cost)


def _headers(root: Path) -> Iterator[tuple[str, str]]:
    """The headers of a checkout, by the names that its files include."""
    include = root / "Include"
    for path in sorted(include.rglob("*.h")):
        yield path.relative_to(include).as_posix(), _SYSTEM + path.read_text("utf-8")


def _sources(root: Path, shim: Path) -> Iterator[tuple[str, str]]:
    """The C files of the functions that a file calls, and that these call: two files for each."""
    known = {path.stem: path for path in (root / "Source").rglob("*.c")}
    wanted: set[str] = set()
    pending = [shim]
    while pending:
        for name in _WORD.findall(pending.pop().read_text("utf-8")):
            if name in known and name not in wanted:
                wanted.add(name)
                pending.append(known[name])
    for name in sorted(wanted):
        yield f"{name}_source.h", _SYSTEM + known[name].read_text("utf-8")
        yield f"{name}.c", f'#include "{name}_source.h"\n'


def _room(found: Products) -> Room:
    """Memory for CMSIS-NN's copies of windows: of four as int16, and the sums of weights."""
    window = prod(found.weights.shape[1:]) if found.sort != "depthwise" else found.weights.size
    return Room(8 * (window + 16) + 4 * found.out[-1], "int8")


def _sizes(found: Products) -> Array:
    """The numbers of a layer, as the C file names them."""
    height, width = (1, 1, *found.out)[-3:-1]
    return _listed(*sizes_of(found), height, width, _room(found).elements)


def _listed(*numbers: float) -> Array:
    return np.array(numbers, np.int32)


def _rescaled(nest: Nest, *sorts: str) -> Products | None:
    """The products of a nest, if CMSIS-NN rescales them as the nest does."""
    found = products_of(nest)
    return found if found and found.sort in sorts and found.rounding == "tflm" else None


def _products(sort: str, each: float, nest: Nest) -> tuple[list[Any], float] | None:
    found = _rescaled(nest, sort)
    if found is None:
        return None
    given = ["x", "out", found.weights, found.bias, found.multiplier, found.shift, _sizes(found)]
    return [*given, _room(found)], each * found.macs + 20 * prod(found.out)


def _dense(nest: Nest) -> tuple[list[Any], float] | None:
    found = _rescaled(nest, "dense")
    if found is None or found.multiplier is None or found.shift is None:
        return None
    multipliers, shifts = set(found.multiplier.tolist()), set(found.shift.tolist())
    if len(multipliers) != 1 or len(shifts) != 1:
        return None
    numbers = [multipliers.pop(), shifts.pop()]
    given = ["x", "out", found.weights, found.bias, _sizes(found), *numbers, _room(found)]
    return given, PRODUCT * found.macs + 20 * prod(found.out)


def _pool(kind: Kind, kernel: str, nest: Nest) -> tuple[list[Any], float] | None:
    """A pool of complete windows, recognised by our own kernels' meanings."""
    is_pool = nest.sums is not None and nest.sums.kind is kind
    found = schedule_pool(nest, kernel) if is_pool else []
    if not found:
        return None
    sizes = _called_with(found)[1]
    x, out = (find_param(nest.func, name).shape for name in ("x", "out"))
    room = 4 * out[-1] * out[2] + 16
    numbers = _listed(
        *x, out[-1], sizes["kernel_h"], sizes["kernel_w"], *_strides(nest), 1, 1, *[0] * 7,
        sizes.get("minimum", -128), sizes["maximum"], *out[1:3], room,
    )  # fmt: skip
    taps = sizes["kernel_h"] * sizes["kernel_w"]
    return ["x", "out", numbers, Room(room, "int8")], prod(out) * (ELEMENT + 3.0 * taps)


def _called_with(found: list[Schedule]) -> tuple[str, dict[str, int]]:
    """The last kernel that schedules call, and its sizes."""
    steps = [s.args for each in found for s in each.trace if s.primitive == "tensorize"]
    return (steps[-1]["kernel"], steps[-1]["sizes"]) if steps else ("", {})


def _strides(nest: Nest) -> tuple[int, int]:
    """Strides of the windows of the nest's sums: vertical, horizontal."""
    store = blocks_of(nest.func.body)["acc"].body
    assert isinstance(store, Store)
    parts = subexpressions(store.value)
    load = next(e for e in parts if isinstance(e, Load) and e.buffer.name == "x")
    return _factor(load, 1, "h") or 1, _factor(load, 2, "w") or 1


def _factor(load: Load, axis: int, name: str) -> int:
    """The factor of the output's index in an index."""
    parts = load.indices[axis].parts
    return sum(factor for atom, factor in parts if isinstance(atom, Var) and atom.name == name)


def _mul(nest: Nest) -> tuple[list[Any], float] | None:
    found = schedule_mul(nest.func, "dsp") if nest.core.has("dsp") else []
    kernel, n = _called_with(found)
    count = find_param(nest.func, "out").elements
    if kernel != "ec_mul_s8_dsp" or n["count"] != count or not _has_two(nest):
        return None
    numbers = n["first"], n["second"], n["zero_point"], n["multiplier"], n["shift"], count
    return ["x", "x2", "out", _listed(*numbers)], 40.0 * count


def _has_two(nest: Nest) -> bool:
    """Whether two inputs are read element by element."""
    arena = [p for p in nest.func.params if p.scope == "arena"]
    return [p.name for p in arena] == ["x", "x2", "out"] and len({p.shape for p in arena}) == 1


def _add(nest: Nest) -> tuple[list[Any], float] | None:
    """A sum of two. Ours is a line: this is TFLite's sum if both agree for all pairs of int8."""
    total = sum_of_two(nest.func)
    if total is None or limited(nest.func) is None or not _has_two(nest):
        return None
    is_plain = total.is_of_bytes and [b.name for b in total.buffers] == ["x", "x2"]
    if not is_plain or set(nest.scales) != {"x", "x2", "out"}:
        return None
    numbers = _add_numbers(*(nest.scales[name] for name in ("x", "x2", "out")))
    a, b = np.meshgrid(np.arange(-128, 128), np.arange(-128, 128), indexing="ij")
    line = total.linear
    ours = (a * line.first + line.constant + b * line.second) >> line.shift
    if not np.array_equal(np.clip(ours, -128, 127), _added(a, b, *numbers)):
        return None
    count = find_param(nest.func, "out").elements
    return ["x", "x2", "out", _listed(*numbers, count)], 80.0 * count


def _add_numbers(*scales: tuple[float, int]) -> tuple[int, ...]:
    """The arguments of `arm_elementwise_add_s8`. Source: TFLite's `AddParams`."""
    (first, first_zero), (second, second_zero), (out, out_zero) = scales
    twice = 2 * max(first, second)
    return (
        -first_zero, *quantize_multiplier(first / twice),
        -second_zero, *quantize_multiplier(second / twice), ADD_SHIFT,
        out_zero, *quantize_multiplier(twice / ((1 << ADD_SHIFT) * out)),
    )  # fmt: skip


def _added(a: Array, b: Array, *n: int) -> Array:
    """The sum's parameters for two int8 operands."""
    numbers = np.array(n)
    first, second = (
        requantize_tflm((each + n[at]) << n[6], numbers[at + 1], numbers[at + 2])
        for each, at in ((a, 0), (b, 3))
    )
    return np.clip(requantize_tflm(first + second, numbers[8], numbers[9]) + n[7], -128, 127)


def _softmax(nest: Nest) -> tuple[list[Any], float] | None:
    """Rows of softmax, whose table of exponentials says that beta is 1."""
    out, table = find_param(nest.func, "out"), nest.tables.get("exp")
    if table is None or "x" not in nest.scales or not _is_softmax(nest, out.shape):
        return None
    scale = nest.scales["x"][0]
    if not np.array_equal(table, exp_table(1.0, scale)):
        return None
    multiplier, shift = quantize_multiplier(scaled_multiplier(1.0, scale), 31)
    most = ((1 << DIFF_INTEGER_BITS) - 1) * 2.0 ** (31 - DIFF_INTEGER_BITS)
    rows, count = prod(out.shape[:-1]), out.shape[-1]
    least = -math.floor(most / 2.0**shift)
    return ["x", "out", rows, count, multiplier, shift, least], 150.0 * out.elements


def _is_softmax(nest: Nest, shape: tuple[int, ...]) -> bool:
    """Whether the loops equal the meaning of our softmax kernels."""
    schedule, count = Schedule(nest.func), shape[-1]
    try:
        schedule_rows(schedule, 1)
        schedule.simplify()
        for loop, kernel in (
            ("largest_k", "largest"), ("total_k", "sum_exponentials"),
            (f"out_d{len(shape) - 1}", "softmax"),
        ):  # fmt: skip
            schedule.tensorize(loop, f"ec_{kernel}_s8_dsp", {"count": count})
    except ScheduleError:
        return False
    return True


#: Keyed by the name of the C function and of its file.
_RULES: dict[str, Rule] = {
    "conv": partial(_products, "conv", PRODUCT),
    "depthwise": partial(_products, "depthwise", CHANNEL_PRODUCT),
    "dense": _dense,
    "max_pool": partial(_pool, Kind.LARGEST, "ec_max_pool_s8_dsp"),
    "avg_pool": partial(_pool, Kind.TOTAL, "ec_mean_s8_dsp"),
    "mul": _mul,
    "add": _add,
    "softmax": _softmax,
}
