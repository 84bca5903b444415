"""Models of open sizes, made from the same model at numbers.

An importer handles only numbers: shapes of constants, axes and windows depend on them. So a model
is imported at its largest sizes, its inputs are opened, and the operators' type relations determine
the other types. The result is compared with the model imported at other sizes: both must compute
the same numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, starmap

import numpy as np

from edgec.errors import ImportFailed
from edgec.graph.extents import function_at, open_type, symbols_of
from edgec.graph.interpret import initial_state, interpret
from edgec.graph.ir import Constant, Function, Module, Node, Value
from edgec.graph.open_function import HINT, opened_function
from edgec.graph.types import Array
from edgec.numerics.fit_term import Sizes, fit_term
from edgec.numerics.term import Term, Var, as_term
from edgec.numerics.term import product as multiplied
from edgec.ops.open_constant import cut_of, with_cuts

#: Tolerance of floats if a size makes an importer choose another form.
RTOL, ATOL = 1e-4, 1e-5

#: By input its dimensions; a range is an open size.
Shapes = Mapping[str, Sequence[int | range]]
#: Imports the model with its symbols at numbers.
ImportAt = Callable[[Sizes], Module]


def open_module(import_at: ImportAt, extents: Mapping[str, tuple[Term, ...]]) -> Module:
    """A module whose inputs have these extents, by name.

    Raises ImportFailed where an operator's sizes do not follow, or answers differ at other sizes.
    """
    symbols = symbols_of(open_type("float32", *terms) for terms in extents.values())
    largest = import_at({var: var.stop - 1 for var in symbols})
    least, middle, *others = sizes_to_compare(symbols)
    between = import_at(middle).main
    function = _with_cuts(largest.main, between, middle, import_at, extents)
    function = opened_function(function, extents, between)
    require_same(function, between, middle)
    for sizes in (least, *others):
        require_same(function, import_at(sizes).main, sizes)
    return replace(largest, functions={**largest.functions, "main": function})


def _with_cuts(
    largest: Function, between: Function, middle: Sizes, import_at: ImportAt,
    extents: Mapping[str, tuple[Term, ...]],
) -> Function:  # fmt: skip
    """The largest function, whose constants and repeats that follow from sizes say so."""
    some = multiplied(*list(middle)[:2]) if len(middle) > 1 else as_term(1)  # as batch * time
    probe = _sized(largest, [between], lambda values: some)
    has_terms = any(node.op.terms(node.attrs) for each in probe.walk() for node in each.nodes)
    if not has_terms and not _changed(largest, [between]):
        return largest
    most = {var: var.stop - 1 for var in middle}
    points = [most, middle]
    for var in (
        most
    ):  # consecutive sizes distinguish n // 2 from n / 2; one size alone shows which size decides
        alone = (middle[var],) if len(most) > 1 else ()
        points += [{**most, var: size} for size in (*alone, max(var.start, var.stop - 2))]
    functions = [between, *(import_at(sizes).main for sizes in points[2:])]
    opened = dict.fromkeys(t for terms in extents.values() for t in terms if t.constant is None)
    bases = [*map(as_term, most), *opened, *starmap(multiplied, combinations(opened, 2))]
    found = {value: cut_of(arrays, points, bases)
             for value, arrays in _changed(largest, functions).items()}  # fmt: skip
    sized = _sized(largest, functions, lambda values: fit_term(values, points, bases))
    return with_cuts(sized, {value: cut for value, cut in found.items() if cut is not None})


def _sized(
    largest: Function, others: Sequence[Function], fit: Callable[[Sequence[int]], Term | None]
) -> Function:
    """The function whose attributes are terms where they differ with the sizes."""
    functions = (largest, *others)
    if not _are_alike(functions):
        return largest
    nodes = list(largest.nodes)
    for number, versions in enumerate(zip(*(each.nodes for each in functions), strict=True)):
        if any(node.attrs != versions[0].attrs for node in versions):
            attrs = versions[0].op.attrs_of_samples([node.attrs for node in versions], fit)
            nodes[number] = replace(versions[0], attrs=attrs)
        bodies = tuple(_sized(first, rest, fit) for first, *rest in _bodies_of(versions))
        nodes[number] = replace(nodes[number], bodies=bodies)
    return replace(largest, nodes=tuple(nodes))


def _changed(largest: Function, others: Sequence[Function]) -> dict[Value, list[Array]]:
    """Constants that are not the same in all functions of the same nodes, by the largest's."""
    functions = (largest, *others)
    if not _are_alike(functions):
        return {}
    uses = [[*(v for node in f.nodes for v in node.inputs), *f.results] for f in functions]
    found: dict[Value, list[Array]] = {}
    for first, *rest in zip(*uses, strict=True):
        arrays = [value.data for value in (first, *rest) if isinstance(value, Constant)]
        alike = all(np.array_equal(each, arrays[0], equal_nan=True) for each in arrays)
        if len(arrays) == len(uses) and not alike:
            found[first] = arrays
    for versions in zip(*(each.nodes for each in functions), strict=True):
        for body, *more in _bodies_of(versions):
            found |= _changed(body, more)
    return found


def _are_alike(functions: Sequence[Function]) -> bool:
    """Whether all have the same operators and numbers of results."""
    shapes = {(tuple(node.op.name for node in f.nodes), len(f.results)) for f in functions}
    return len(shapes) == 1


def _bodies_of(versions: Sequence[Node]) -> Iterator[tuple[Function, ...]]:
    """Each body of a node, with the same one of the node in other functions."""
    return zip(*(node.bodies for node in versions), strict=True)


def given_extents(
    shapes: Shapes, names: Mapping[tuple[str, int], str]
) -> dict[str, tuple[Term, ...]]:
    """Extents from shapes; a range is an open size.

    names: the file's names of dimensions, by input and axis: one name is one size.
    """
    variables: dict[str, Var] = {}

    def term(name: str, axis: int, extent: int | range) -> Term:
        if not isinstance(extent, range):
            return as_term(extent)
        called = re.sub(r"\W", "_", names.get((name, axis)) or f"{name}_{axis}")
        called = f"n{called}" if called[0].isdigit() else called
        var = variables.setdefault(called, Var(called, extent.start, extent.stop))
        if (var.start, var.stop) != (extent.start, extent.stop):
            raise ImportFailed(
                f"the size {called!r} of input {name!r} has two ranges:"
                f" {var.start}..{var.stop - 1} and {extent.start}..{extent.stop - 1}"
            )
        return as_term(var)

    return {
        name: tuple(term(name, axis, extent) for axis, extent in enumerate(shape))
        for name, shape in shapes.items()
    }


def sizes_to_compare(symbols: Sequence[Var]) -> list[Sizes]:
    """All at their least, all in the middle, and each at its least while the others are large."""
    found: list[Sizes] = [
        {var: var.start for var in symbols},
        {var: (var.start + var.stop - 1) // 2 for var in symbols},
    ]
    if len(symbols) > 1:
        most = {var: var.stop - 1 for var in symbols}
        found += [{**most, var: var.start} for var in symbols]
    return found


def require_same(opened: Function, fixed: Function, sizes: Sizes) -> None:
    """Raise ImportFailed unless a function at these sizes computes the same as the fixed one."""
    mine = function_at(opened, sizes)
    words = ", ".join(f"{var.name}={value}" for var, value in sizes.items())
    if mine.signature != fixed.signature:
        raise ImportFailed(
            f"at {words} the shapes of the inputs and outputs differ from their sizes",
            details=(f"by its sizes: {_words(mine)}", f"in the model: {_words(fixed)}"), hint=HINT,
        )  # fmt: skip
    inputs = [*_random_inputs(fixed.inputs), *initial_state(fixed)]
    for result, answer, wanted in zip(
        fixed.results, interpret(mine, inputs), interpret(fixed, inputs), strict=True
    ):
        if not np.allclose(answer, wanted, RTOL, ATOL, equal_nan=True):
            raise ImportFailed(
                f"{result.name!r} at {words} differs from the model at that size",
                details=("one of its constants depends on a size",), hint=HINT,
            )  # fmt: skip


def _words(function: Function) -> str:
    """The types of a function, such as `float32[4, 3] -> float32[3]`."""
    signature = function.signature
    given, made = (", ".join(map(str, types)) for types in (signature.params, signature.results))
    return f"{given} -> {made}"


def _random_inputs(params: Sequence[Value]) -> list[Array]:
    """Normal numbers, or zeros and ones for integers: they may be places in small tensors."""
    random = np.random.default_rng(0)
    found = []
    for param in params:
        is_float = param.type.is_float
        shape = param.type.shape
        numbers = random.normal(size=shape) if is_float else random.integers(0, 2, shape)
        found.append(numbers.astype(param.type.dtype))
    return found
