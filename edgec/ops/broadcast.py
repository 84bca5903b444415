"""Operands of element-wise operators: shapes that broadcast, and constants as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgec.errors import ContractError, TypeMismatch
from edgec.graph.ir import Constant
from edgec.graph.types import Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering


def broadcast_shape(op: str, inputs: Types) -> tuple[int, ...]:
    """NumPy's broadcast of all shapes; TypeMismatch where there is none."""
    try:
        return np.broadcast_shapes(*(x.shape for x in inputs))
    except ValueError:
        shapes = " and ".join(str(list(x.shape)) for x in inputs)
        raise TypeMismatch(f"{op} of {shapes}") from None


def broadcast_index(shape: tuple[int, ...], indices: tuple[Any, ...]) -> tuple[Any, ...]:
    """Indices into a tensor that is broadcast: aligned at the last axis, 0 where extent is 1."""
    own = indices[len(indices) - len(shape) :]
    return tuple(0 if extent == 1 else at for extent, at in zip(shape, own, strict=True))


def tensor_of(operand: Tensor | Constant, target: Lowering | None = None) -> Tensor:
    """An operand as a tensor; one that is a constant is a table of `target`.

    Raises ContractError for a constant without a `target`.
    """
    if isinstance(operand, Constant):
        if target is not None:
            return target.table("x", operand.data)
        raise ContractError(f"{operand} is a constant, where a tensor is needed")
    return operand


def tensors_of(
    operands: Sequence[Tensor | Constant], target: Lowering | None = None
) -> list[Tensor]:
    """Operands as tensors, see `tensor_of`."""
    return [tensor_of(operand, target) for operand in operands]


def constant_of(operand: Tensor | Constant) -> Constant:
    """An operand that is a constant. Raises ContractError for one that is none."""
    if not isinstance(operand, Constant):
        raise ContractError(f"{operand.name} is computed, where a constant is needed")
    return operand


def operand_tensors(target: Lowering, inputs: Sequence[Tensor | Constant]) -> list[Tensor]:
    """The inputs of a node as tensors; a constant becomes the table `b`."""
    return [
        target.table("b", value.data) if isinstance(value, Constant) else value for value in inputs
    ]
