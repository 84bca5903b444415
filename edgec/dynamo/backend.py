"""The backend `edgec` of `torch.compile`, found by its entry point in `pyproject.toml`.

1. torch passes one graph for each part of a program that it can trace, with guards on its
   assumptions; another shape or dtype is another graph.
2. Parameters and buffers are constants, as in the first call. If a graph is called with others, or
   with other sizes where torch leaves these open, it is compiled again.
3. The graph becomes C that runs on the host, reads and writes the tensors' memory in place. Only a
   tensor that is not contiguous is copied before or after.
4. An output that is a view of an input is a view here too, so that a write changes both.
5. An input or buffer that the graph writes to is updated with a new value, which the C computes
   separately.
6. Recurrent layers are in the graphs (torch's `allow_rnn`; by default they are not).
7. A graph that edgec cannot import, or that needs gradients, runs in PyTorch, with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.api import from_torch
from edgec.dynamo.outputs import Output, outputs_of
from edgec.errors import EdgecError
from edgec.runners.host import HostModel

try:
    from torch._dynamo import config

    # By default torch leaves LSTM and GRU out of graphs. The setting is for all backends.
    config.allow_rnn = True
except ImportError:  # `explain` says so
    pass

#: A graph is compiled for at most this many sets of constants and sizes; then PyTorch runs it.
MOST_VERSIONS = 4
#: An address for tensors without elements.
_NOWHERE = np.zeros(16, np.uint8)


class FallsBack(UserWarning):
    """A part of a program that PyTorch runs, since edgec cannot."""


@dataclass(frozen=True)
class Part:
    """One graph: its traced operators, and why PyTorch runs it ("" if edgec does)."""

    operators: tuple[str, ...]
    why: str


def compile(graph: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """torch calls this for each graph. Returns a function of the graph's inputs."""
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


@dataclass(frozen=True)
class _Program:
    """A graph as C, for inputs of one kind.

    free: the inputs that it reads at each call. written: inputs that it writes to; their new values
    are the C's last outputs. host: None if all outputs are views. kept: objects that must live as
    long.
    """

    free: tuple[int, ...]
    outputs: tuple[Output, ...]
    host: HostModel | None
    written: tuple[int, ...] = ()
    kept: object = None

    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        made = iter(self.computed(inputs) if self.host is not None else ())
        answers: list[Any] = []
        for output in self.outputs:
            if output.of_input is not None:
                answers.append(output.view(inputs[output.of_input]))
            elif output.of_output is not None:
                answers.append(output.view(answers[output.of_output]))
            else:
                answers.append(_with_strides(next(made), output))
        return tuple(answers)

    def computed(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs that are not views, from the C; written inputs are updated."""
        import torch

        assert self.host is not None
        # Kept until C has run: nothing else owns the contiguous copy of a tensor.
        given = [inputs[place].contiguous() for place in self.free]
        own = [torch.empty(each.shape, dtype=each.dtype) for each in self.outputs if each.is_own]
        changed = [
            torch.empty(inputs[place].shape, dtype=inputs[place].dtype) for place in self.written
        ]
        status = self.host.run_at(_addresses(given), _addresses([*own, *changed]))
        if status:
            raise EdgecError(f"the C of a graph failed with status {status}")
        for place, value in zip(self.written, changed, strict=True):
            inputs[place].copy_(value)
        return own


class _Lazy:
    """A graph that is compiled when it is first called: only then its constants are known."""

    def __init__(self, graph: Any, tell: Callable[[Part], None]) -> None:
        self.graph = graph
        self.tell = tell
        self.why = ""
        self.programs: dict[Any, _Program] = {}
        #: The inputs that are constants, and whether torch left sizes open, which are numbers among
        #: the inputs then; known from the first call on.
        self.fixed: tuple[int, ...] | None = None
        self.has_open_sizes = False

    def __call__(self, *inputs: Any) -> Any:
        """The graph's outputs, by C where that is possible."""
        if self.why:
            return self.graph(*inputs)
        if self.fixed is None:
            self._look_at(inputs)
        program = self.programs.get(self._key(inputs))
        if program is None:
            program = self._compile(inputs)
        return self.graph(*inputs) if program is None else program(inputs)

    def _look_at(self, inputs: Sequence[Any]) -> None:
        nodes = [node for node in self.graph.graph.nodes if node.op == "placeholder"]
        self.fixed = tuple(
            place
            for place, (node, value) in enumerate(zip(nodes, inputs, strict=True))
            if not hasattr(value, "data_ptr") or _is_constant(node, value)
        )
        self.has_open_sizes = any(not hasattr(value, "data_ptr") for value in inputs)

    def _key(self, inputs: Sequence[Any]) -> Any:
        """The key of the compiled C: the identities of the constant tensors and their versions."""
        fixed = [inputs[place] for place in self.fixed or ()]
        if not self.has_open_sizes:
            return tuple([(x.data_ptr(), x._version) for x in fixed])
        numbers = [x if not hasattr(x, "data_ptr") else (x.data_ptr(), x._version) for x in fixed]
        free = [inputs[place] for place in self._free(inputs)]
        return (*numbers, *((x.shape, x.stride()) for x in free))

    def _free(self, inputs: Sequence[Any]) -> tuple[int, ...]:
        """The inputs that are read at each call."""
        return tuple(n for n in range(len(inputs)) if n not in (self.fixed or ()))

    def _compile(self, inputs: Sequence[Any]) -> _Program | None:
        """The C for such inputs; None where PyTorch runs the graph."""
        program = None
        self.why = self._refusal(inputs)
        if not self.why:
            try:
                program = self._program(inputs)
                self.programs[self._key(inputs)] = program
            except EdgecError as error:
                self.why = "; ".join((error.message, *error.details[:3]))
        if self.why:
            warnings.warn(f"PyTorch runs this part, not edgec: {self.why}", FallsBack, stacklevel=4)
        calls = (node for node in self.graph.graph.nodes if node.op.startswith("call_"))
        self.tell(Part(tuple(str(node.target) for node in calls), self.why))
        return program

    def _program(self, inputs: Sequence[Any]) -> _Program:
        """The C for such inputs. Raises EdgecError where there is none."""
        import torch

        outputs, written = outputs_of(self.graph, inputs)
        self.fixed = tuple(place for place in self.fixed or () if place not in written)
        own = [number for number, output in enumerate(outputs) if output.is_own]
        free = self._free(inputs)
        if not own and not written:
            return _Program((), outputs, None)
        with torch.no_grad():
            closed = _closed(self.graph, inputs, free, own, written)
            imported = from_torch(closed, [inputs[place].detach().clone() for place in free])
        if imported.module.main.states:  # torch does not report that these are written to
            raise EdgecError("a layer changes its statistics: call .eval() unless you train")
        model = imported.build(board="host", io="caller", optimize="time", float_sums="free")
        assert model.built.artefact is not None
        host = HostModel(model.built.artefact, model.built.manifest)
        # Its constants live as long, so that no other tensor gets their addresses.
        kept = model, [x for place, x in enumerate(inputs) if place not in free]
        return _Program(free, outputs, host, written, kept)

    def _refusal(self, inputs: Sequence[Any]) -> str:
        """Why this graph is not compiled, "" if it may be."""
        import torch

        if len(self.programs) > MOST_VERSIONS:
            return "its parameters or sizes change from call to call"
        tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
        if not all(isinstance(x, (torch.Tensor, int, float)) for x in inputs):
            return "an input is neither a tensor nor a number"
        if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
            return "it needs gradients: call it under torch.no_grad()"
        return ""


def _addresses(tensors: Sequence[Any]) -> list[int]:
    """Addresses of tensors; a tensor without elements has no memory, and is never read."""
    return [tensor.data_ptr() or _NOWHERE.ctypes.data for tensor in tensors]


def _with_strides(tensor: Any, output: Output) -> Any:
    """A contiguous tensor in the layout that PyTorch would have made."""
    import torch

    if tensor.stride() == output.strides or not tensor.numel():
        return tensor
    strided = torch.empty_strided(output.shape, output.strides, dtype=output.dtype)
    return strided.copy_(tensor)


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


def _closed(
    graph: Any,
    inputs: Sequence[Any],
    free: Sequence[int],
    kept: Sequence[int],
    written: Sequence[int],
) -> Any:
    """The graph as a module of its free inputs, with the others fixed, and of some outputs.

    It writes to copies, which are outputs too.
    """
    import torch

    class Closed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.graph = graph
            fixed = {n: x for n, x in enumerate(inputs) if n not in free}
            self.numbers = {n: x for n, x in fixed.items() if not isinstance(x, torch.Tensor)}
            self.places = [n for n in fixed if n not in self.numbers]
            for place in self.places:
                self.register_buffer(f"fixed{place}", fixed[place].detach().clone())

        def forward(self, *given: Any) -> Any:
            values = {n: getattr(self, f"fixed{n}") for n in self.places} | self.numbers
            values |= dict(zip(free, given, strict=True))
            values |= {place: values[place].clone() for place in written}
            results = self.graph(*(values[place] for place in range(len(inputs))))
            results = results if isinstance(results, (tuple, list)) else (results,)
            return (*(results[number] for number in kept), *(values[place] for place in written))

    return Closed()
