"""An operator in the graph: its attributes, type relation, exact meaning and traits.

`edgec.ops.op` adds how an operator lowers and how file formats name it.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar, cast

from edgec.errors import EdgecError, TypeMismatch
from edgec.graph.traits import (
    Arithmetic,
    Channels,
    IntegerForm,
    Interval,
    Movement,
    Operand,
    Products,
    Storage,
    StoredAs,
)
from edgec.graph.types import Array, Arrays, Quant, TensorType, Types
from edgec.numerics.fit_term import Sizes, value_at
from edgec.numerics.term import Term

AttrsT = TypeVar("AttrsT")


class Fusion(enum.Enum):
    """Class of operators by possible fusion with neighbours, as in Relay."""

    ELEMENTWISE = "elementwise"  # one output element from the same element of each input
    BROADCAST = "broadcast"  # elementwise after broadcasting
    INJECTIVE = "injective"  # moves elements: transpose, slice, concat
    REDUCTION = "reduction"
    COMPLEX = "complex"  # has a fusible epilogue: convolution, dense
    VIEW = "view"  # the same bytes with another shape: no code at all
    OPAQUE = "opaque"


@dataclass(frozen=True)
class RowWindow:
    """Output row r reads the rows from r * stride - top on, `reach` of them, where they exist."""

    reach: int = 1
    stride: int = 1
    top: int = 0


@dataclass(frozen=True)
class Signature:
    """The types of a function's parameters and results."""

    params: tuple[TensorType, ...]
    results: tuple[TensorType, ...]


#: How many rounds tolerances allow for where data decide how many there are.
UNKNOWN_ROUNDS = 100
#: Runs one body of a node.
RunBody = Callable[[Sequence[Array]], Sequence[Array]]


@dataclass(frozen=True)
class NoAttrs:
    """The attributes of an operator without attributes."""


class Operator(Generic[AttrsT]):
    """One operator of the graph IR. Subclasses are stateless and registered by `register`.

    tolerance: the largest difference of float results from the source framework's, for equal
    inputs, relative to the tensor's largest magnitude; 0 for equal bits. Integers always have equal
    bits, and so have floats between our own engines. storage, movement, computes, products,
    integer_form: traits for passes and quantizer. clamps: the integers of its result lie between
    `attrs.minimum` and `attrs.maximum`. is_limit: it bounds real numbers by `attrs.minimum` and
    `attrs.maximum`, and does nothing else. rescales: on integers it computes with a multiplier,
    several instructions for each element. keeps_factors: positive factors of its first input's
    channels are factors of its result's. numbers: the field of the attributes whose numbers may
    depend on open sizes, with `terms`. steering: the inputs that select elements, such as indices.
    integer_dtypes: of its integer form. normalizes: its results are fractions of 1 or their
    logarithms, monotonic functions of its input. along_last_axis: each of its rows depends only on
    the same row of its first input. approximates: its integers approximate floats; a framework that
    computes floats, or has other tables, may differ by one. is_foreign: the user's function
    computes it, in C and here.
    """

    name: ClassVar[str]
    attrs_class: ClassVar[type] = NoAttrs
    fusion: ClassVar[Fusion] = Fusion.OPAQUE
    numbers: ClassVar[str] = ""
    tolerance: ClassVar[float] = 0.0
    storage: ClassVar[Storage | None] = None
    movement: ClassVar[Movement | None] = None
    computes: ClassVar[Arithmetic | None] = None
    products: ClassVar[Products | None] = None
    integer_form: ClassVar[IntegerForm | None] = None
    clamps: ClassVar[bool] = False
    is_limit: ClassVar[bool] = False
    rescales: ClassVar[bool] = False
    keeps_factors: ClassVar[bool] = False
    steering: ClassVar[tuple[int, ...]] = ()
    integer_dtypes: ClassVar[tuple[str, ...]] = ("int8", "int16")
    normalizes: ClassVar[bool] = False
    approximates: ClassVar[bool] = False
    is_foreign: ClassVar[bool] = False
    along_last_axis: ClassVar[bool] = False

    @property
    def weight_inputs(self) -> tuple[int, ...]:
        return () if self.products is None else (1,)

    @property
    def rearranges(self) -> bool:
        """Whether the result is all elements of its only input, in another shape or order."""
        return self.movement in (Movement.RESHAPE, Movement.PERMUTE)

    @property
    def dot_products(self) -> Products | None:
        """`products`, where each output is one sum of products."""
        return None if self.products is None or self.products.scatters else self.products

    @property
    def reads_alike(self) -> bool:
        """Whether all operands have the result's parameters, where it has a shared integer form."""
        return self.movement is Movement.JOIN

    def form_of(self, attrs: AttrsT) -> IntegerForm | None:
        """`integer_form`, or the form for these attributes if it depends on them."""
        return self.integer_form

    @property
    def is_elementwise(self) -> bool:
        """Whether an output element is made of one element of each input, broadcast or not."""
        return self.fusion in (Fusion.ELEMENTWISE, Fusion.BROADCAST)

    def infer(self, attrs: AttrsT, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Type relation: output types, or TypeMismatch saying what does not fit."""
        raise NotImplementedError

    def evaluate(
        self, attrs: AttrsT, inputs: Arrays, input_types: Types, output_types: Types
    ) -> tuple[Array, ...]:
        """The exact meaning, on `edgec.numerics.fixed_point`; C must equal it in every bit."""
        raise NotImplementedError

    def attrs_at(self, attrs: AttrsT, largest: Types, inputs: Types) -> AttrsT:
        """The attributes for smaller inputs: other ones only where they hold sizes of inputs.

        largest: the types of the inputs that `attrs` belongs to.
        """
        return attrs

    def attrs_of(self, numbers: tuple[int, ...], terms: tuple[Term, ...]) -> AttrsT:
        """Attributes of `numbers`, and of the terms that say the same of open sizes."""
        return cast(AttrsT, self.attrs_class(numbers, terms))

    def terms(self, attrs: AttrsT) -> tuple[Term, ...]:
        """The terms of open sizes in the attributes, whatever the inputs are."""
        return getattr(attrs, "terms", ()) if self.numbers else ()

    def attrs_of_sizes(self, attrs: AttrsT, sizes: Sizes) -> AttrsT:
        """The attributes where these symbols have these values."""
        values = tuple(value_at(term, sizes) for term in self.terms(attrs))
        return self.attrs_of(values, ()) if values else attrs

    def attrs_of_samples(
        self, samples: Sequence[AttrsT], fit: Callable[[Sequence[int]], Term | None]
    ) -> AttrsT:
        """The first attributes, with terms for numbers that differ; fit: a term for numbers."""
        every = [getattr(attrs, self.numbers, ()) for attrs in samples]
        if len(set(map(len, every))) > 1 or not every[0]:
            return samples[0]
        terms = tuple(filter(None, map(fit, zip(*every, strict=True))))
        return self.attrs_of(every[0], terms if len(terms) == len(every[0]) else ())

    def attrs_of_two(self, attrs: AttrsT, other: AttrsT, largest: Types, inputs: Types) -> AttrsT:
        """The attributes for the largest inputs, with terms that fit another size's attributes."""
        return attrs

    def infer_bodies(
        self, attrs: AttrsT, bodies: Sequence[Signature], *inputs: TensorType
    ) -> tuple[TensorType, ...]:
        """The type relation of a node with bodies; by default the one without."""
        if bodies:
            raise TypeMismatch(f"{self.name} takes no bodies, {len(bodies)} are given")
        return self.infer(attrs, *inputs)

    def given_to_bodies(self, attrs: AttrsT, inputs: Types) -> tuple[TensorType, ...]:
        """The types of each body's arguments, from the node's inputs."""
        return tuple(inputs)

    def evaluate_bodies(
        self, attrs: AttrsT, bodies: Sequence[RunBody], inputs: Sequence[Array]
    ) -> tuple[Array, ...]:
        """The exact meaning of a node with bodies."""
        raise NotImplementedError

    def ends(self, attrs: AttrsT) -> bool:
        """Whether it ends after this many steps, whatever its inputs are."""
        return True

    def most_rounds(self, attrs: AttrsT) -> int:
        """Most runs of each body of a node; UNKNOWN_ROUNDS if data decide."""
        return 1

    def macs_of_bodies(self, attrs: AttrsT, macs: Sequence[int], inputs: Types) -> int:
        """Multiply-accumulates of a node whose bodies have these each."""
        raise NotImplementedError

    def steps(self, attrs: AttrsT, inputs: Types) -> int:
        """Number of computations in sequence in `evaluate`: many for recurrent operators."""
        if self.integer_form is IntegerForm.RECURRENT:
            return math.prod(inputs[0].shape[:-1])
        return 1

    def index_limit(self, attrs: AttrsT, inputs: Types) -> int | None:
        """Below which number the indices, its second operand, must be; None where all will do."""
        return None

    def macs(self, attrs: AttrsT, inputs: Types) -> int:
        """Multiply-accumulates of one run, as the field counts them (0 for most operators)."""
        return 0

    def tolerance_of(self, inputs: Types) -> float:
        """`tolerance`, or the tolerance for these input types if it depends on them."""
        return self.tolerance

    def scale(self, attrs: AttrsT, *scales: float) -> float:
        """The magnitude to which errors of float results are relative, whatever the results are.

        0: the largest result. scales: of the inputs.
        """
        return max(scales, default=0.0) if self.fusion in (Fusion.VIEW, Fusion.INJECTIVE) else 0.0

    def row_window(self, attrs: AttrsT, inputs: Types) -> RowWindow | None:
        """The rows of [N, H, W, C] inputs that an output row depends on; None if there is no such
        window.

        The same for all inputs that are not constants.
        """
        return RowWindow() if self.fusion is Fusion.ELEMENTWISE else None

    def attrs_for_rows(self, attrs: AttrsT, top: int, bottom: int) -> AttrsT:
        """The attributes that make one output row of a slab of input rows.

        The slab has the rows of the window that exist; `top` and `bottom` are padding instead.
        """
        return attrs

    def attrs_for_channels(self, attrs: AttrsT, kept: Sequence[int]) -> AttrsT:
        """The attributes of a node that makes these channels alone, in this order."""
        return attrs

    def attrs_for_permutation(self, attrs: AttrsT, order: Sequence[int]) -> AttrsT | None:
        """The attributes for x, from those for transpose(x): its axis i is axis order[i] of x.

        None if the operator cannot work on x.
        """
        return attrs if self.is_elementwise else None

    def attrs_for_samples(self, attrs: AttrsT, count: int) -> AttrsT:
        """The attributes for `count` samples along the first axis, from the attributes for one."""
        return attrs

    def attrs_for_integers(self, attrs: AttrsT, inputs: Types, result: StoredAs) -> AttrsT | None:
        """The attributes of a float operator's form on stored integers; None if it has none such.

        inputs: the types of the integers that it reads.
        """
        return attrs

    def integer_op(self, dtype: str) -> Operator[Any]:
        """The operator that a float one is on stored integers of this dtype, with the attributes
        of `attrs_for_integers`: itself, for most."""
        return self

    def fixed_quant(self, dtype: str) -> Quant | None:
        """The only parameters that integer results of this dtype can have; None: any."""
        return None

    def attrs_within(self, attrs: AttrsT, low: int, high: int) -> AttrsT | None:
        """The attributes of a node whose stored results are clamped; None if it has none such."""
        if not self.clamps:
            return None
        known: Any = attrs
        minimum, maximum = (min(max(end, low), high) for end in (known.minimum, known.maximum))
        return cast(AttrsT, replace(known, minimum=minimum, maximum=maximum))

    def axis_after(
        self, attrs: AttrsT, inputs: Types, position: int, axis: int, result: TensorType
    ) -> int | None:
        """The axis of the results that the axis of an input becomes; None if there is none.

        Each index of the results along it is made of the same index of that input alone. An axis of
        an input that is repeated along the result's has none.
        """
        shape = inputs[position].shape
        if self.movement is Movement.PERMUTE:
            permuted: Any = attrs
            return tuple(permuted.permutation).index(axis)
        if self.movement is Movement.RESHAPE:
            return _axis_of_view(shape, axis, result.shape)
        after, whole = (
            axis + len(result.shape) - len(shape),
            self.whole_axes(attrs, inputs, position),
        )
        is_own = self.is_elementwise or self.movement is Movement.COPY
        if whole is not None:
            is_own = axis not in whole
        return after if is_own and result.shape[after] == shape[axis] else None

    def whole_axes(self, attrs: AttrsT, inputs: Types, position: int) -> Collection[int] | None:
        """Axes of an input whose elements each result needs completely; it keeps the others.

        None if unknown.
        """
        if not self.along_last_axis:
            return None
        rank = len(inputs[position].shape)
        return range(rank) if position else (rank - 1,)

    def filled_axis(self, attrs: AttrsT) -> int | None:
        """The axis of the first input that is filled up to its end, where data decide its size."""
        return None

    def does_nothing(self, attrs: AttrsT) -> bool:
        """Whether a node of one input that has the type of its output changes nothing."""
        return False

    def channels(self, attrs: AttrsT, inputs: Types, output: TensorType) -> Channels:
        """Which input channels an output channel depends on; constants have none of their own."""
        if self.dot_products is not None:
            return Channels.SAME if self.dot_products.is_depthwise else Channels.MIXED
        return Channels.SAME if self.is_elementwise else Channels.UNKNOWN

    def channel_facts(self, attrs: AttrsT, channels: int) -> Sequence[Hashable] | None:
        """The attributes of each output channel; None if all channels have the same."""
        return None

    def interval(
        self, attrs: AttrsT, operands: Sequence[Operand], output: TensorType
    ) -> Interval | None:
        """The interval of each output channel's stored integers; None if unknown."""
        return None

    def sums(self, attrs: AttrsT, operands: Sequence[Operand]) -> Sequence[Interval]:
        """The int32 sums that it accumulates apart from its result, with the interval of each.

        operands: the memory that it reads has the intervals of its filters.
        """
        return ()

    def neutral(self, x: TensorType) -> float | None:
        """The stored number that adds nothing to a window of x; None if there is no window."""
        if self.dot_products is None or not self.dot_products.window:
            return None
        return 0 if x.quant is None else x.quant.zero_point[0]

    def error_growth(self, attrs: AttrsT, inputs: int, reach: float) -> float:
        """The factor of an error of its inputs, as a part of the largest, on the way through it.

        reach: the largest magnitude of an input, as far as it is known.
        """
        return max(reach, 1.0) if self.scale(attrs, *(0.0,) * inputs) else 1.0

    def steps_off(self, attrs: AttrsT) -> int:
        """Return by how many steps integers may differ from floats, apart from rounding."""
        return 0

    def sums_rows(self, attrs: AttrsT, inputs: Types) -> bool:
        """Whether the output is a sum over all rows of the only input, finished at the end."""
        return False


def _axis_of_view(before: Sequence[int], axis: int, after: Sequence[int]) -> int | None:
    """Index of an axis in a view of another shape; None if it is split or joined."""
    for place, extent in enumerate(after):
        same = math.prod(after[:place]) == math.prod(before[:axis])
        if same and extent == before[axis]:
            return place
    return None


_OPS: dict[str, Operator[Any]] = {}

OpClass = TypeVar("OpClass", bound=type[Operator[Any]])


def register(cls: OpClass) -> OpClass:
    """Class decorator: make an operator known by its name."""
    if cls.name in _OPS:
        raise EdgecError(f"operator {cls.name} is registered twice")
    _OPS[cls.name] = cls()
    return cls


def get_op(op: str | Operator[Any] | type[Operator[Any]]) -> Operator[Any]:
    """The operator of this name or class; KeyError if unknown. Call `edgec.ops.load` first."""
    if isinstance(op, Operator):
        return op
    return _OPS[op if isinstance(op, str) else op.name]


def all_ops() -> tuple[Operator[Any], ...]:
    """Every registered operator, by name."""
    return tuple(_OPS[name] for name in sorted(_OPS))
