"""Exported programs whose dimensions are open: each becomes a term over symbols with ranges.

torch has traced the program with the symbols and knows for which values it holds. It is exported
again at numbers, and `edgec/frontends/open_sizes.py` makes one model of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from edgec.errors import ContractError, ImportFailed
from edgec.frontends.open_sizes import open_module
from edgec.frontends.torch_export import exported, import_program
from edgec.frontends.torch_program import MOST
from edgec.graph.ir import Module
from edgec.numerics.fit_term import Sizes
from edgec.numerics.term import Term, Var, as_term
from edgec.numerics.term_text import read_term


def has_open_sizes(program: Any) -> bool:
    """Whether a dimension of an input is a symbol."""
    shapes = (tensor.shape for _, tensor in _inputs(program))
    return any(not isinstance(extent, int) for shape in shapes for extent in shape)


def import_open(program: Any, module: Any, source: str, dynamic_shapes: Any = None) -> Module:
    """A program with symbols as a module of open sizes.

    module: the exported module, or `program.module()`. dynamic_shapes: as `torch.export` took them,
    for the names of dimensions. Raises ImportFailed.
    """
    names = _names(program, dynamic_shapes)
    variables = {symbol: _variable(range_, names.get(symbol, symbol), source)
                 for symbol, range_ in _ranges(program).items()}  # fmt: skip
    inputs = list(_inputs(program))
    extents = {name: _terms(tensor, variables, f"{source}: input {name!r}")
               for name, tensor in inputs}  # fmt: skip
    return _import_at_sizes(program, extents, module, source)


def import_dynamic(
    module: Any, examples: tuple[Sequence[Any], Any], dynamic_shapes: Any, source: str
) -> Module:
    """Return a module with these open dimensions; examples: its arguments and its keywords.

    If torch can trace it only at numbers, as with recurrent layers, the ranges of
    `torch.export.Dim` are taken unchecked. Raises ImportFailed.
    """
    try:
        program = exported(module, examples[0], kwargs=examples[1], dynamic_shapes=dynamic_shapes)
    except ImportFailed:
        program = exported(module, examples[0], kwargs=examples[1])
        try:
            extents = _given_terms(list(_inputs(program)), dynamic_shapes, source)
        except (IndexError, TypeError):  # of no form that torch takes: its own words say so
            extents = {}
        if not extents:
            raise
        return _import_at_sizes(program, extents, module, source)
    if not has_open_sizes(program):
        return import_program(program, source)
    return import_open(program, module, source, dynamic_shapes)


def _given_terms(
    inputs: Sequence[tuple[str, Any]], dynamic_shapes: Any, source: str
) -> dict[str, tuple[Term, ...]]:
    """The extents of inputs as declared by the user; none if a dimension is not a plain `Dim`."""
    found = {}
    for (name, tensor), dims in zip(inputs, _by_input(dynamic_shapes), strict=False):
        terms = [as_term(int(extent)) for extent in tensor.shape]
        known = {axis: dim for axis, dim in _by_axis(dims) if dim is not None}
        if not all(_is_plain(dim) for dim in known.values()):
            return {}
        for axis, dim in known.items():
            if not isinstance(dim, int):
                range_ = _Range(dim.min, dim.max)
                terms[axis] = as_term(_variable(range_, dim.__name__, source))
        found[name] = tuple(terms)
    return found


def _is_plain(dim: Any) -> bool:
    """Whether a dimension is a number or a `Dim` with a range of its own."""
    return isinstance(dim, int) or (hasattr(dim, "max") and not hasattr(dim, "root"))


class _Range(NamedTuple):
    lower: int
    upper: int


def _import_at_sizes(
    program: Any, extents: Mapping[str, tuple[Term, ...]], module: Any, source: str
) -> Module:
    """The module, exported at numbers as often as it is compared."""
    import torch
    from torch.utils._pytree import tree_unflatten

    known = dict(_inputs(program))
    specs = [s.arg for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]

    def example(spec: Any, values: dict[str, int]) -> Any:
        if spec.name not in known:
            return spec.value
        shape = [term.evaluate(values) for term in extents[spec.name]]
        return torch.zeros(shape, dtype=known[spec.name].dtype)  # which no tracing knows

    def import_at(sizes: Sizes) -> Module:
        values = {var.name: size for var, size in sizes.items()}
        leaves = [example(spec, values) for spec in specs]
        args, kwargs = tree_unflatten(leaves, program.call_spec.in_spec)
        return import_program(exported(module, args, kwargs=kwargs), source)

    return open_module(import_at, extents)


def _inputs(program: Any) -> Iterable[tuple[str, Any]]:
    """Name and traced tensor of each of the user's inputs."""
    nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
    for spec, node in zip(program.graph_signature.input_specs, nodes, strict=True):
        value = node.meta.get("val")
        if spec.kind.name == "USER_INPUT" and hasattr(value, "shape"):
            yield node.name, value


def _ranges(program: Any) -> dict[str, Any]:
    """The least and the largest value of each symbol of an input, by its name."""
    extents = (extent for _, tensor in _inputs(program) for extent in tensor.shape)
    used = {
        s
        for extent in extents
        if not isinstance(extent, int)
        for s in extent.node.expr.free_symbols
    }
    return {str(s): range_ for s, range_ in program.range_constraints.items() if s in used}


def _variable(range_: Any, name: str, source: str) -> Var:
    try:
        least, most = int(str(range_.lower)), int(str(range_.upper))
    except ValueError:  # torch's infinity
        least, most = 0, MOST
    if most >= MOST:
        raise ImportFailed(
            f"{source}: the size {name!r} has no largest value",
            hint="edgec plans memory for that value: torch.export.Dim('batch', min=1, max=8)",
        )
    return Var(name, max(least, 1), most + 1)


def _terms(tensor: Any, variables: Mapping[str, Var], what: str) -> tuple[Term, ...]:
    found = []
    for axis, extent in enumerate(tensor.shape):
        if isinstance(extent, int):
            found.append(as_term(extent))
            continue
        try:
            found.append(read_term(str(extent.node.expr), variables))
        except ContractError as error:
            raise ImportFailed(f"{what}, dimension {axis}: {error.message}") from None
    return tuple(found)


def _names(program: Any, dynamic_shapes: Any) -> dict[str, str]:
    """The user's names of symbols, for dimensions that are a single symbol."""
    found = (
        (str(tensor.shape[axis]), getattr(dim, "__name__", ""))
        for (_, tensor), dims in zip(_inputs(program), _by_input(dynamic_shapes), strict=False)
        for axis, dim in _by_axis(dims)
    )
    return {symbol: name for symbol, name in found
            if name.isidentifier() and symbol.isidentifier()}  # fmt: skip


def _by_input(dynamic_shapes: Any) -> list[Any]:
    """The dimensions of each input, of nested ones too, in order."""
    from torch.utils._pytree import tree_leaves

    def is_of_one(dims: Any) -> bool:
        entries = list(dims) if isinstance(dims, (Mapping, list, tuple)) else []
        return all(not isinstance(entry, (str, Mapping, list, tuple)) for entry in entries)

    given = dynamic_shapes.values() if isinstance(dynamic_shapes, Mapping) else dynamic_shapes
    return [dims for each in given or () for dims in tree_leaves(each, is_leaf=is_of_one)]


def _by_axis(dims: Any) -> Iterable[tuple[int, Any]]:
    """The dynamic shapes of one input in `torch.export`: a mapping, a sequence or nothing."""
    return dims.items() if isinstance(dims, Mapping) else enumerate(dims or ())
