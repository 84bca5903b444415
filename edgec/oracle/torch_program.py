"""The oracle of PyTorch's exported programs: torch itself, one operator after the other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgec.errors import ImportFailed
from edgec.frontends.torch_archive import checked_archive
from edgec.frontends.torch_export import load_program
from edgec.frontends.torch_program import is_number, numpy_of
from edgec.graph.types import Array
from edgec.oracle.frameworks import Oracle, OracleResult


class TorchOracle(Oracle):
    """A `.pt2` file run by torch on the CPU, as Core ATen; tensors are named as in its graph.

    The file is opened as the importer opens it: nothing in it is executed but known operators.
    """

    name = "torch"

    def __init__(self, model_file: Path) -> None:
        super().__init__(model_file)
        self._program = load_program(checked_archive(model_file), model_file.name)
        self._placeholders = [n for n in self._program.graph.nodes if n.op == "placeholder"]
        self._buffers: dict[str, Any] = {}
        self.reset()

    def input_types(self) -> tuple[tuple[str, tuple[int, ...], np.dtype[Any]], ...]:
        found = []
        for spec, node in zip(
            self._program.graph_signature.input_specs, self._placeholders, strict=True
        ):
            if spec.kind.name == "USER_INPUT" and not is_number(spec):
                value = node.meta["val"]
                dtype = np.dtype(str(value.dtype).removeprefix("torch."))
                shape = tuple(e if isinstance(e, int) else -1 for e in value.shape)
                found.append((node.name, shape, dtype))
        return tuple(found)

    def reset(self) -> None:
        """Reset the buffers that the program changes to the file's values."""
        stored = {**self._program.state_dict, **self._program.constants}
        changed = self._program.graph_signature.buffers_to_mutate.values()
        self._buffers = {name: stored[name].detach().clone() for name in changed}

    def _run(self, inputs: Sequence[Array], tensors: bool) -> OracleResult:
        import torch

        signature = self._program.graph_signature
        stored = {**self._program.state_dict, **self._program.constants, **self._buffers}
        given = iter(torch.from_numpy(np.array(value)) for value in inputs)
        arguments = [
            spec.arg.value
            if is_number(spec)
            else next(given)
            if spec.kind.name == "USER_INPUT"
            else stored[spec.target]
            for spec in signature.input_specs
        ]
        found: dict[str, Array] = {}

        class Watched(torch.fx.Interpreter):
            """Records the results of each operator."""

            def run_node(self, node: Any) -> Any:
                result = super().run_node(node)
                first = result[0] if isinstance(result, (tuple, list)) and result else result
                if tensors and node.op == "call_function" and isinstance(first, torch.Tensor):
                    found[node.name] = numpy_of(first)
                return result

        try:
            with torch.no_grad():
                results = Watched(self._program.graph_module).run(*arguments)
        except Exception as error:  # torch's operators raise errors of many classes
            raise RuntimeError(str(error)) from error
        outputs = []
        for spec, value in zip(signature.output_specs, results, strict=True):
            if spec.kind.name == "BUFFER_MUTATION":
                self._buffers[spec.target] = value.detach().clone()
            elif spec.kind.name == "USER_OUTPUT":
                outputs += [numpy_of(value)] if isinstance(value, torch.Tensor) else []
            else:
                raise ImportFailed(f"a result of kind {spec.kind.name} is not supported")
        return OracleResult(tuple(outputs), found)
