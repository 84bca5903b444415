"""edgec's own interpreter as the reference: of files with operators that a user declared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgec.graph.interpret import Interpretation
from edgec.graph.ir import Module
from edgec.graph.types import Array
from edgec.ops.custom import is_accelerated
from edgec.oracle.frameworks import Oracle, OracleResult


class OwnReference(Oracle):
    """The imported model, as it is in the file; custom operators by their declared references.

    No framework has these operators. It knows outputs only.
    """

    name = "edgec"

    def __init__(self, model_file: Path, module: Module) -> None:
        super().__init__(model_file)
        self._main = module.main
        self.reset()

    def input_types(self) -> tuple[tuple[str, tuple[int, ...], np.dtype[Any]], ...]:
        return tuple(
            (v.origin.tensor if v.origin else v.name, v.type.shape, np.dtype(v.type.dtype))
            for v in self._main.inputs
        )

    def reset(self) -> None:
        """Begin from the initial state."""
        self._interpretation = Interpretation(self._main)

    def _run(self, inputs: Sequence[Array], tensors: bool) -> OracleResult:
        return OracleResult(tuple(self._interpretation.run(inputs)))


def has_declared(module: Module) -> bool:
    """Whether a user declared an operator of a model."""
    return any(node.op.is_foreign and not is_accelerated(node) for node in module.main.nodes)
