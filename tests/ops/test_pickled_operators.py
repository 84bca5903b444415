"""Operators and their attributes, sent to other processes: `edgec explore` builds models there."""

from __future__ import annotations

import pickle

import pytest

from edgec import ops
from edgec.graph.operator import all_ops, get_op
from edgec.ops.row import RowOp

ops.load()


def test_operators_are_the_same_objects() -> None:
    for op in all_ops():
        assert pickle.loads(pickle.dumps(op)) is op


@pytest.mark.parametrize(
    "name", [op.name for op in all_ops() if isinstance(op, RowOp) and op.row.parameters]
)
def test_parameters_of_rows(name: str) -> None:
    attrs = get_op(name).attrs_class()
    assert pickle.loads(pickle.dumps(attrs)) == attrs
