"""An operator that gives the types its attributes say, for tests of the graph IR's text."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from edgec.errors import TypeMismatch
from edgec.graph import operator as op_registry
from edgec.graph.types import Quant, TensorType
from edgec.ops.op import Op


class Padding(enum.Enum):
    SAME = "same"
    VALID = "valid"


@dataclass(frozen=True)
class Window:
    size: tuple[int, int]
    quant: Quant | None = None


@dataclass(frozen=True)
class KindAttrs:
    types: tuple[TensorType, ...]
    kind: Padding = Padding.VALID
    window: Window | None = None
    factor: float = 1.0
    note: object = None


class StubOp(Op[KindAttrs]):
    name = "test.stub"
    attrs_class = KindAttrs

    def infer(self, attrs: KindAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        if attrs.factor == 13.0:
            raise TypeMismatch("thirteen does not fit", details=("a detail",))
        return attrs.types


@contextmanager
def stub_op() -> Iterator[StubOp]:
    """The operator, registered while the context lasts, so that no other test sees it."""
    op = StubOp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(op_registry._OPS, op.name, op)
        yield op
