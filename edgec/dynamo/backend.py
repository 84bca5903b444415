"""The backend `edgec` of `torch.compile`, found by its entry point in `pyproject.toml`.

1. torch hands over one graph for each part of a program that it can trace, with guards on whatever
   it assumed; another shape or dtype is another graph.
2. Parameters and buffers are what they are in the first call: constants. A graph that is called
   with others is compiled again.
3. The graph becomes C that runs on the host. One that edgec cannot import, that changes its inputs
   or that needs gradients runs as PyTorch does it, and a warning says why.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.api import Model, from_torch
from edgec.errors import EdgecError

#: How often the constants of one graph may change before it is left to PyTorch.
MOST_VERSIONS = 4


class FallsBack(UserWarning):
    """A part of a program that PyTorch runs, since edgec cannot."""


@dataclass(frozen=True)
class Part:
    """What became of one graph: its operators as traced, and why PyTorch runs it ("" if not)."""

    operators: tuple[str, ...]
    why: str


def compile(graph: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """What torch calls for each graph. Returns a function of the graph's inputs."""
    return _Lazy(graph, lambda part: None)


def explain(module: Any, inputs: Sequence[Any]) -> tuple[Part, ...]:
    """Run a module once, compiled; return each of its graphs: who runs it, and if not edgec, why.

    inputs: tensors, as the module takes them.
    """
    import torch

    parts: list[Part] = []
    compiler: Any = torch.compiler
    compiler.reset()
    compiled: Any = torch.compile(module, backend=lambda graph, _: _Lazy(graph, parts.append))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore", FallsBack)
        compiled(*inputs)
    return tuple(parts)


class _Lazy:
    """A graph that is compiled when it is first called: only then its constants are known."""

    def __init__(self, graph: Any, tell: Callable[[Part], None]) -> None:
        self.graph = graph
        self.tell = tell
        self.model: Model | None = None
        self.why = ""
        self.free: list[int] = []
        self.versions: tuple[tuple[int, int], ...] | None = None
        self.compiled = 0
        self.is_tuple = True

    def __call__(self, *inputs: Any) -> Any:
        """The graph's outputs, by C where that is possible."""
        if not self.why and self._is_stale(inputs):
            self._compile(inputs)
        if self.why or self.model is None:
            return self.graph(*inputs)
        import torch

        answers = self.model.run_all([_array(inputs[place]) for place in self.free]).outputs
        return tuple(torch.from_numpy(np.array(answer)) for answer in answers)

    def _is_stale(self, inputs: Sequence[Any]) -> bool:
        return self.model is None or self.versions != self._versions(inputs)

    def _versions(self, inputs: Sequence[Any]) -> tuple[tuple[int, int], ...]:
        """Which tensors the constants are, and how often they were written."""
        fixed = [x for place, x in enumerate(inputs) if place not in self.free]
        return tuple((x.data_ptr(), x._version) for x in fixed if hasattr(x, "data_ptr"))

    def _compile(self, inputs: Sequence[Any]) -> None:
        import torch

        nodes = [node for node in self.graph.graph.nodes if node.op == "placeholder"]
        self.free = [place for place, node in enumerate(nodes)
                     if not _is_constant(node, inputs[place])]  # fmt: skip
        self.versions = self._versions(inputs)
        self.compiled += 1
        self.why = self._refusal(inputs)
        if not self.why:
            try:
                with torch.no_grad():
                    closed = _closed(self.graph, inputs, self.free)
                    imported = from_torch(closed, [inputs[place].clone() for place in self.free])
                if imported.module.main.states:
                    raise EdgecError("it changes a buffer, which is the module's own")
                self.model = imported.build(board="host")
            except EdgecError as error:
                self.why = "; ".join((error.message, *error.details[:3]))
        if self.why:
            warnings.warn(f"PyTorch runs this part, not edgec: {self.why}", FallsBack, stacklevel=4)
        calls = (node for node in self.graph.graph.nodes if node.op.startswith("call_"))
        self.tell(Part(tuple(str(node.target) for node in calls), self.why))

    def _refusal(self, inputs: Sequence[Any]) -> str:
        """Why this graph is not compiled, "" if it may be."""
        import torch

        if self.compiled > MOST_VERSIONS:
            return "its parameters change from call to call"
        if not all(isinstance(x, torch.Tensor) for x in inputs):
            return "an input is a number"
        if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
            return "it needs gradients: call it under torch.no_grad()"
        return ""


def _is_constant(node: Any, value: Any) -> bool:
    """Whether an input of a graph is a parameter or buffer of a module."""
    import torch

    source = getattr(node, "_dynamo_source", None)
    kind = source.guard_source if source is not None else None
    kind = kind() if callable(kind) else kind
    of_module = any(
        getattr(kind, test, lambda: False)()
        for test in ("is_unspecialized_nn_module", "is_specialized_nn_module")
    )
    return isinstance(value, torch.nn.Parameter) or of_module


def _closed(graph: Any, inputs: Sequence[Any], free: Sequence[int]) -> Any:
    """The graph as a module of its free inputs, the others being buffers."""
    import torch

    class Closed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.graph = graph
            for place, value in enumerate(inputs):
                if place not in free:
                    self.register_buffer(f"fixed{place}", value.detach().clone())

        def forward(self, *given: Any) -> Any:
            values = iter(given)
            return self.graph(*(
                next(values) if place in free else getattr(self, f"fixed{place}")
                for place in range(len(inputs))
            ))  # fmt: skip

    return Closed()


def _array(tensor: Any) -> np.ndarray[Any, Any]:
    return np.asarray(tensor.detach().cpu().contiguous().numpy())
