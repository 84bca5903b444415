"""The meaning of product kernels: sums of products of integers, rescaled, limited and stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from edgec.loop.define import Definition, Tensor
from edgec.loop.ir import PrimFunc
from edgec.loop.schedule import Schedule
from edgec.loop.values import Value, cast, clamp, int32
from edgec.targets.common.kernels.rescaling import Rescaling


@dataclass(frozen=True)
class Results:
    """The conversion of rescaled sums to results.

    limits: minimum and maximum, if not the results' dtype's. added: they are added to the stored
    results and limited again. factors: the period of the rescaling factors in channels; 0 for
    never.
    """

    zero_point: int = 0
    limits: tuple[int, int] | None = None
    added: bool = False
    factors: int = 0
    first: int = 0

    @classmethod
    def within(cls, minimum: int = 0, maximum: int = 0, zero_point: int = 0) -> Results:
        """Return the limits by the names of kernels' sizes."""
        return cls(zero_point, (minimum, maximum))

    def stored(self, out: Tensor, at: tuple[Any, ...], rounded: Value) -> Value:
        """A rescaled sum in the dtype of `out` at an index; unchanged if it is int32."""
        if out.dtype == "int32":
            return rounded
        info = np.iinfo(out.dtype)
        limits = self.limits or (int(info.min), int(info.max))
        value = clamp(rounded + self.zero_point, *limits)
        return cast(clamp(int32(out[at]) + value, *limits) if self.added else value, out.dtype)


def rescaled_sums(
    definition: Definition,
    rescaling: Rescaling,
    out: Tensor,
    steps: Mapping[str, int],
    x: Callable[..., Value],
    w: Callable[..., Value],
    results: Results,
    dtype: str = "int32",
) -> PrimFunc:
    """out[at] = rescaled bias[c] + sum over the steps of x(*at, *step) * w(*at, *step).

    c is the last of `at`, which are all indices of `out`. steps: extents by name. dtype: of sums.
    The loops over `at` are `result_d0` and so on: a nest has none of these names, of whose
    variables an index argument may be made.
    """
    channels = results.first or out.shape[-1]
    shape = (*out.shape[:-1], channels)
    bias = definition.constant("bias", (channels,), dtype)
    tables = rescaling.declare(definition, results.factors or channels)
    acc = definition.reduce(
        "acc",
        [(name, 0, extent) for name, extent in steps.items()],
        init=lambda *at: bias[at[-1]],
        update=lambda acc, *at: acc + cast(x(*at), dtype) * cast(w(*at), dtype),
        shape=shape,
        dtype=dtype,
    )

    def result(*at: Any) -> Value:
        channel = at[-1] % results.factors if results.factors else at[-1]
        return results.stored(out, at, rescaling.rounded(acc[at], tables, channel))

    definition.compute(out, result, shape=shape, at=lambda *at: at, name="result")
    schedule = Schedule(definition.build())
    schedule.compute_at("acc", f"result_d{len(out.shape) - 1}")
    if prod(steps.values()) > 1:
        schedule.decompose_reduction("acc", f"acc_{next(iter(steps))}")
    schedule.simplify()
    return schedule.func


def dense_sums(
    definition: Definition, rescaling: Rescaling, x: Tensor, out: Tensor, results: Results
) -> PrimFunc:
    """out[p, o] = rescaled bias[o] + sum over k of x[k] * w[o, k]."""
    (depth,), (_, channels) = x.shape, out.shape
    w = definition.constant("w", (channels, depth), "int8")
    return rescaled_sums(
        definition, rescaling, out, {"k": depth}, lambda p, c, k: x[k], lambda p, c, k: w[c, k],
        results,
    )  # fmt: skip
