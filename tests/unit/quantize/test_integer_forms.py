"""Which operators of a float function become operators on integers."""

from __future__ import annotations

import numpy as np

from edgec import ops
from edgec.graph.builder import GraphBuilder
from edgec.graph.types import TensorType
from edgec.ops.add import AddAttrs
from edgec.ops.mul import MulAttrs
from edgec.quantizer.integer_forms import IntegerForms

ops.load()


def test_floats_with_constants_stay_floats() -> None:
    b = GraphBuilder()
    rng = np.random.default_rng(1)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    x = b.param("x", TensorType((3, 8), "float32"))
    y = b.op("mul", [x, b.constant("c0", normal(8))], MulAttrs(), name="of_the_input")
    y = b.op("dense", [y, b.constant("w0", normal(8, 8)), b.constant("b0", normal(8))], name="one")
    y = b.op("add", [y, b.constant("c1", normal(3, 8))], AddAttrs(), name="of_integers")
    kept = b.op("log_softmax", [y], name="log_softmax")
    z = b.op("mul", [kept, b.constant("c2", normal(8))], MulAttrs(), name="of_floats")
    z = b.op("add", [z, b.constant("c3", normal(8))], AddAttrs(), name="of_floats_too")
    z = b.op("dense", [z, b.constant("w1", normal(8, 8)), b.constant("b1", normal(8))], name="two")
    z = b.op("add", [z, kept], AddAttrs(), name="of_both")
    forms = IntegerForms(b.finish([z]))
    found = [node.name for node in forms.function.nodes if forms.has_integer_form(node)]
    assert found == ["of_the_input", "one", "of_integers", "two", "of_both"]
