"""One table of compiler options, which feeds the command line, `compile` and the docs; and the
figures of a build that its limits are for."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypedDict, get_args, get_origin, get_type_hints

from edgec.errors import EdgecError
from edgec.loop.tuned import Tuned, read_tuned

Optimize = Literal["time", "ram", "size", "balanced"]
Io = Literal["arena", "caller", "rows"]
Compiler = Literal["gcc", "clang"]
Harness = Literal["link", "mlperf-tiny", "own"]
FloatSums = Literal["ordered", "free"]
WeightsForm = Literal["auto", "text", "blob"]
Driver = Literal["auto", "graph", "block", "grid"]
#: "auto", "all", "none", or names of layers.
Offload = str | tuple[str, ...]

#: Names of resources, as errors and reports have them, and the fields of `Limits` and `Figures`.
RESOURCES = {
    "RAM": "ram_bytes",
    "flash": "flash_bytes",
    "stack": "stack_bytes",
    "instructions": "instructions",
}


#: Names in a price vector of `--optimize`.
PRICED = ("time", "flash", "ram")


@dataclass(frozen=True)
class Prices:
    """Prices of instructions, flash and the arena, and limits of the trade.

    With time 1 and flash 0.5, one percent fewer instructions are worth two percent of the flash.

    weights: the price of the weights of all layers as bytes; fewer bytes cost in proportion.
    slowdown: at most this many times the fewest instructions. least_gain: scratch that
    lies beside values must save this many instructions. frames: kernels that rescale integers on an
    FPU, which makes the frames of interrupts larger, must save this many, or half of all where the
    arena stays as small. least_streamed: layers stream where that saves this part of the arena.
    growth: an algorithm may store weights in at most this many times their bytes.
    """

    time: float = 0.0
    flash: float = 0.0
    ram: float = 0.0
    weights: float = 0.0
    slowdown: float = math.inf
    least_gain: int = 0
    frames: int = 0
    least_streamed: float = 0.0
    growth: float = math.inf

    @property
    def is_fast(self) -> bool:
        """Whether instructions alone count."""
        return not (self.flash or self.ram or self.weights)

    @property
    def is_small(self) -> bool:
        """Whether flash alone counts, except where very much time is saved."""
        return self.flash >= MANY_TIMES * self.time and not self.ram

    @property
    def weighs_weights(self) -> bool:
        """Whether bytes of weights are weighed against instructions."""
        return bool(self.time and (self.flash or self.weights))

    def __str__(self) -> str:
        """The text that `of_text` reads."""
        prices = (self.time, self.flash, self.ram)
        given = {n: str(p).removesuffix(".0") for n, p in zip(PRICED, prices, strict=True) if p}
        return ",".join("=".join(pair) for pair in given.items())

    def cost(self, instructions: float, flash_bytes: float, ram_bytes: float) -> float:
        """The cost of a choice; only differences have a meaning."""
        pairs = (self.time, instructions), (self.flash, flash_bytes), (self.ram, ram_bytes)
        return sum(price * math.log(max(amount, 1.0)) for price, amount in pairs)

    @staticmethod
    def of_text(text: str) -> Prices:
        """`time=1,flash=0.2,ram=0.1`; missing prices are 0. Raises ValueError."""
        found: dict[str, float] = {}
        for part in text.split(","):
            name, _, word = part.partition("=")
            try:
                found[name] = float(word)
            except ValueError:
                found[name] = math.nan
        is_good = set(found) <= set(PRICED) and len(found) == text.count("=")
        if not is_good or not all(0 <= price < math.inf for price in found.values()):
            levels = ", ".join(get_args(Optimize))
            raise ValueError(
                f"{text!r} is not a price vector: use {levels}, or prices such as "
                "time=1,flash=0.2,ram=0.1"
            )
        if not any(found.values()):
            raise ValueError(f"{text!r}: at least one price must be above 0")
        return Prices(found.get("time", 0.0), found.get("flash", 0.0), found.get("ram", 0.0))


#: A price decides alone if all other prices are at least this many times smaller.
MANY_TIMES = 20.0
#: The named levels of `--optimize`: nothing else in the compiler knows their names.
#: Prices of `balanced` are fitted to the sample models, whose figures `budgets.toml` pins. With a
#: slowdown below 1.031 the int8 ResNet8 would stream fewer layers, for 18,240 bytes, not 17,088.
LEVELS: dict[str, Prices] = {
    "time": Prices(time=1, growth=1),
    "balanced": Prices(
        time=1, flash=0.04, ram=0.3, weights=0.66, slowdown=1.031, least_gain=1_000_000,
        frames=300_000, least_streamed=1 / 3,
    ),
    "ram": Prices(time=1, ram=1, slowdown=1.1),
    "size": Prices(time=0.01, flash=1),
}  # fmt: skip
FAST, SMALL = LEVELS["time"], LEVELS["size"]


def read_optimize(text: str) -> Optimize | Prices:
    """A level by name, or prices. Raises ValueError."""
    for level in get_args(Optimize):
        if text == level:
            return level  # type: ignore[no-any-return]
    return Prices.of_text(text)


@dataclass(frozen=True)
class Limits:
    """Limits of a build; None means no limit. Bytes; instructions of one inference."""

    ram_bytes: int | None = None
    flash_bytes: int | None = None
    stack_bytes: int | None = None
    instructions: int | None = None

    def of(self, resource: str) -> int | None:
        """The limit of one of RESOURCES."""
        limit: int | None = getattr(self, RESOURCES[resource])
        return limit


@dataclass(frozen=True)
class Figures:
    """The known figures of a build. Bytes; instructions of one inference.

    Without an image (for the host, or a library) only the model's share is known: RAM is arena and
    state, flash is the weights, and the stack is unknown.
    """

    ram_bytes: int
    flash_bytes: int
    stack_bytes: int | None = None
    instructions: int | None = None

    def of(self, resource: str) -> int | None:
        """The figure of one of RESOURCES."""
        used: int | None = getattr(self, RESOURCES[resource])
        return used

    def over(self, limits: Limits) -> dict[str, int]:
        """Return by how much each limit is exceeded, by resource."""
        pairs = {what: (self.of(what), limits.of(what)) for what in RESOURCES}
        return {
            what: used - limit
            for what, (used, limit) in pairs.items()
            if limit is not None and used is not None and used > limit
        }

    def excess(self, limits: Limits) -> float:
        """The sum of relative excesses over the limits; 0 if they are kept."""
        return sum(over / (limits.of(what) or 1) for what, over in self.over(limits).items())

    def words(self) -> list[str]:
        """The known figures, except the stack."""
        known = {what: self.of(what) for what in RESOURCES if what != "stack"}
        return [f"{what} {used:,}" for what, used in known.items() if used is not None]


class CompileOptions(TypedDict, total=False):
    """Keywords of `edgec.compile`, which become the fields of `Options` of the same names."""

    optimize: Optimize | Prices | str
    match: Literal["tflm", "litert", "onnx"] | None
    io: Io
    unfused: bool
    no_asm: bool
    compiler: Compiler | None
    c_optimize: str | None
    float_sums: FloatSums | None
    offload: Offload
    driver: Driver
    threads: int
    weights_form: WeightsForm
    trace: bool
    model_name: str | None
    max_ram_bytes: int | None
    max_flash_bytes: int | None
    max_stack_bytes: int | None
    max_instructions: int | None
    verify: bool
    harness: Harness
    main: Path | None
    link_key: bytes | None
    input_shapes: Any
    input_values: Any
    specialize: Any
    placements: Any
    compile_budget: float
    plan_nodes: int
    tuned: Tuned | str | Path
    kernels: Any


@dataclass(frozen=True)
class Options:
    """Options of a compilation. Sizes in bytes; None means no limit or the default.

    optimize: what to prefer when variants differ, by name or by prices. match: whose rounding to
    follow instead of the source format's own. io: whether inputs and outputs live in the arena or
    in the caller's memory; "rows": outputs in the arena, and the caller feeds the input row by row.
    unfused: every node becomes a function of its own, so that all values exist.
    no_asm: C without assembly, for compilers that do not take GNU's.
    compiler: gcc or clang; None takes what is installed. c_optimize: the C compiler's level; None
    is -O3 on this computer, where code size hardly counts, and -O2 elsewhere.
    float_sums: "ordered" adds floats in one order and rounds each product, with the same bits on
    every machine; "free" adds in other orders and rounds a product and a sum once: faster, and as
    close to the framework. None is "free" for what PCs and 64-bit Arm compute in floats, and else
    "ordered"; see `with_float_sums` of `edgec.pipeline`.
    offload: what runs on the GPU of a core that has one: "all", "none", "auto" (what is faster
    there by a model of costs), or layers by name. With "auto" and names the rest runs on the
    processor, and everything does where there is no GPU.
    driver: how a GPU runs kernels: "graph", each on its own; "block", all of them as one, of one
    block of threads with the arena in its shared memory; "grid", as one whose blocks wait for each
    other; "auto", what is fastest by a model of costs.
    threads: that share long loops, on PCs and Linux boards; results are the same for every number.
    weights_form: "text" writes constants as numbers in C, "blob" as bytes in a file that the
    assembler includes, much faster for large models; "auto": the bytes from 4 MB on.
    trace: build with the EC_TRACE hook. max_*: budgets; over them a build fails with status 3.
    harness: which program of a board serves the model; "own" is the C file `main`. link_key: 16
    bytes; the program's link answers only to who holds them.
    input_shapes: (name, shape) of inputs whose extents the file leaves open; a range stays open.
    input_values: (name, number) of its inputs that are no inputs of the program, but always this
    number. specialize: (name, values) of sizes that are open: each choice of values gets code of
    its own, as fast as a build with closed sizes; in Python a dictionary. placements: (what,
    region) of a board, see `edgec.memory.placements`. compile_budget: by how much a model may be
    larger than the limits of `edgec.graph.limits.Budget`. plan_nodes: how many partial plans the
    final search for a memory plan visits: the same plan on every machine. kernels: functions of the
    user's that may take the place of ours (`edgec.external.Kernel`), and Python files that list
    some; in Python one of them, too.
    """

    optimize: Optimize | Prices = "balanced"
    match: Literal["tflm", "litert", "onnx"] | None = None
    io: Io = "arena"
    unfused: bool = False
    no_asm: bool = False
    compiler: Compiler | None = None
    c_optimize: str | None = None
    float_sums: FloatSums | None = None
    offload: Offload = "all"
    driver: Driver = "auto"
    threads: int = 1
    weights_form: WeightsForm = "auto"
    trace: bool = False
    model_name: str | None = None
    max_ram_bytes: int | None = None
    max_flash_bytes: int | None = None
    max_stack_bytes: int | None = None
    max_instructions: int | None = None
    verify: bool = False
    harness: Harness = "link"
    main: Path | None = None
    link_key: bytes | None = field(default=None, repr=False)
    input_shapes: tuple[tuple[str, tuple[int | range, ...]], ...] = ()
    input_values: tuple[tuple[str, float], ...] = ()
    specialize: tuple[tuple[str, tuple[int, ...]], ...] = ()
    placements: tuple[tuple[str, str], ...] = ()
    compile_budget: float = 1.0
    plan_nodes: int = 40_000
    tuned: Tuned = field(default_factory=Tuned, repr=False, hash=False)
    kernels: tuple[Any, ...] = ()

    @property
    def shares_out(self) -> bool:
        """Whether a part of the model may run on the GPU and another on the processor beside it."""
        return self.offload not in ("all", "none")

    def on_processor(self) -> Options:
        """The same options where no GPU is, but one could be: with its bits."""
        sums = self.float_sums or "ordered"
        return replace(self, offload="all", driver="auto", float_sums=sums)

    @property
    def prices(self) -> Prices:
        """The prices that `optimize` means."""
        return self.optimize if isinstance(self.optimize, Prices) else LEVELS[self.optimize]

    def where_ram_is_plenty(self) -> Options:
        """The same options; the default is the fastest there."""
        return replace(self, optimize="time") if self.optimize == "balanced" else self

    @property
    def limits(self) -> Limits:
        """The budgets."""
        return Limits(
            self.max_ram_bytes, self.max_flash_bytes, self.max_stack_bytes, self.max_instructions
        )

    def with_limits(self, limits: Limits) -> Options:
        """The same options with these budgets."""
        return replace(
            self, max_ram_bytes=limits.ram_bytes, max_flash_bytes=limits.flash_bytes,
            max_stack_bytes=limits.stack_bytes, max_instructions=limits.instructions,
        )  # fmt: skip

    @staticmethod
    def of_words(words: Mapping[str, Any]) -> Options:
        """Options from a caller's keywords.

        Raises EdgecError for an unknown name, and for a word that is not one of its choices.
        """
        hints = get_type_hints(Options)
        words = _with_tuned(_with_kernels(_with_pairs(_with_prices(words))))
        for name, value in words.items():
            if name not in hints:
                near = difflib.get_close_matches(name, hints, n=3, cutoff=0.4) or sorted(hints)
                raise EdgecError(f"there is no option '{name}'", hint=f"near it: {', '.join(near)}")
            choices = tuple(_choices(hints[name]))
            if isinstance(value, Prices) or value is None:
                continue
            if choices and value not in choices:
                known = ", ".join(map(repr, choices))
                raise EdgecError(f"{name}={value!r} is not a choice", hint=f"use one of {known}")
        return Options(**words)


def _with_prices(words: Mapping[str, Any]) -> Mapping[str, Any]:
    """The keywords, with prices in place of their text."""
    text = words.get("optimize")
    if not isinstance(text, str) or "=" not in text:
        return words
    try:
        return {**words, "optimize": Prices.of_text(text)}
    except ValueError as error:
        raise EdgecError(str(error)) from None


def _with_pairs(words: Mapping[str, Any]) -> Mapping[str, Any]:
    """The keywords, with pairs in place of the dictionary of `specialize`."""
    given = words.get("specialize")
    if not isinstance(given, Mapping):
        return words
    try:
        pairs = tuple(
            (str(name), (values,) if isinstance(values, int) else tuple(map(int, values)))
            for name, values in given.items()
        )
    except (TypeError, ValueError):
        raise EdgecError(
            f"specialize={given!r} has no numbers", hint='use specialize={"batch": (1, 8)}'
        ) from None
    return {**words, "specialize": pairs}


def _with_kernels(words: Mapping[str, Any]) -> Mapping[str, Any]:
    """The keywords, with a tuple of kernels and files in place of one, or of a list."""
    if "kernels" not in words:
        return words
    given = words["kernels"]
    several = tuple(given) if isinstance(given, (list, tuple)) else (given,)
    files = (Path(each) if isinstance(each, str) else each for each in several)
    return {**words, "kernels": tuple(files)}


def _with_tuned(words: Mapping[str, Any]) -> Mapping[str, Any]:
    """The keywords, with the file's content in place of its path."""
    path = words.get("tuned")
    return {**words, "tuned": read_tuned(Path(path))} if isinstance(path, (str, Path)) else words


def _choices(hint: Any) -> Iterator[Any]:
    """The words of a Literal, or of one inside a union."""
    if get_origin(hint) is Literal:
        yield from get_args(hint)
        return
    for part in get_args(hint):
        yield from _choices(part)
