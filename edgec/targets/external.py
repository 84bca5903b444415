"""Functions of the user's that replace ours: how they are declared, and the rules they make.

A `Kernel` computes a whole group: it reads the nest and returns the arguments of its C function. A
`NestKernel` has a nest as its meaning, as edgec's kernels have, and a schedule calls it wherever
that nest occurs. Both are chosen by cost, and `edgec.external.check` compares each use with the
nest that it replaces.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.errors import EdgecError, ScheduleError
from edgec.loop.foreign import Foreign, register_foreign, register_source, runs_as_c
from edgec.loop.ir import BufferRef, Call, Const, PrimFunc
from edgec.loop.microkernel import Microkernel, register_again
from edgec.loop.primitives.call_foreign import Argument
from edgec.loop.schedule import Schedule
from edgec.targets.rule import Nest, Rule, as_defined

if TYPE_CHECKING:
    from edgec.frontends.tflite_reader import Meaning, RawModel

#: The name of the list of kernels in a file.
LIST_NAME = "KERNELS"
_HINT = f"it is Python that sets {LIST_NAME} to a list of edgec.external.Kernel"


@dataclass(frozen=True)
class Use:
    """One way to call a C function. arguments: in its order, see `call_foreign`: names of inputs
    and outputs ("x", "x2", "out"), arrays, `Room`, numbers. instructions: about how many it takes;
    blocks: of a GPU, which share them.
    """

    arguments: Sequence[Argument]
    instructions: float
    blocks: int = 1


@dataclass(frozen=True, eq=False)
class _Source:
    """symbol: the C function. source: its file, .c or .S, which is copied into every build. needs:
    features that a core must have (docs/boards.md), `isa`: its instruction set, "" for any. files:
    further C files and headers to copy, by name. libraries: that builds link, by the names of the
    linker's `-l`. on_gpu: the host C of a model on a GPU calls it, to start kernels of a library.
    """

    symbol: str
    source: Path
    needs: frozenset[str] = field(default=frozenset(), kw_only=True)
    isa: str = field(default="", kw_only=True)
    files: tuple[tuple[str, str], ...] = field(default=(), kw_only=True)
    libraries: tuple[str, ...] = field(default=(), kw_only=True)
    on_gpu: bool = field(default=False, kw_only=True)

    @cached_property
    def text(self) -> str:
        """The C file. Raises EdgecError where it cannot be read."""
        try:
            return Path(self.source).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise EdgecError(
                f"cannot read {self.source}, which has the kernel {self.symbol}: {error}"
            ) from error

    def fits(self, nest: Nest) -> bool:
        """Whether the core runs it."""
        is_there = self.on_gpu == nest.core.has_gpu and self.isa in ("", nest.core.isa)
        return is_there and frozenset(self.needs) <= nest.core.features


@dataclass(frozen=True, eq=False)
class Kernel(_Source):
    """A C function that computes a group of operators.

    use: how to call it for a nest, or None if it cannot compute it. `edgec.external.products`
    describes a nest as a convolution or a dense layer.
    """

    use: Callable[[Nest], Use | None] = field(kw_only=True)

    @cached_property
    def costs(self) -> dict[tuple[Any, ...], Use]:
        """The cost of calls, by their arguments."""
        return {}

    def register(self) -> None:
        """Make the C function known; it replaces an older one of the same name."""
        register_foreign(
            Foreign(self.symbol, Path(self.source), self.text, runs_as_c, partial(_cost_of, self),
                    self.files, self.libraries, on_gpu=self.on_gpu,
                    blocks=partial(_blocks_of, self))
        )  # fmt: skip

    def schedules(self, nest: Nest) -> list[Schedule]:
        """The schedule that replaces the nest by a call, or none."""
        found = self.use(nest)
        if found is None:
            return []
        schedule = Schedule(nest.func)
        schedule.call_foreign(self.symbol, found.arguments)
        assert isinstance(schedule.func.body, Call)
        self.costs[_key(schedule.func.body)] = found
        return [schedule]


@dataclass(frozen=True, eq=False)
class NestKernel(_Source):
    """A C function that computes a nest: it takes the nest's parameters, then the sizes.

    meaning: the nest for sizes, written with `edgec.loop.define.Definition`. use: schedules of a
    nest that end in `tensorize(loop, symbol, sizes)`. instructions: of one call, by its sizes; by
    default the nest's. alignment: bytes, by parameter.
    """

    meaning: Callable[..., PrimFunc] = field(kw_only=True)
    use: Callable[[Nest], list[Schedule]] = field(kw_only=True)
    sizes: tuple[str, ...] = field(default=(), kw_only=True)
    instructions: Callable[..., float] | None = field(default=None, kw_only=True)
    alignment: tuple[tuple[str, int], ...] = field(default=(), kw_only=True)

    def register(self) -> None:
        """Make the kernel known; it replaces an older one of the same name."""
        register_source(
            Foreign(self.symbol, Path(self.source), self.text, runs_as_c, 0.0, self.files,
                    self.libraries)
        )  # fmt: skip
        register_again(
            Microkernel(
                self.symbol,
                self.meaning,
                self.sizes,
                needs=frozenset(self.needs),
                alignment=self.alignment,
                instructions=self.instructions,
            )
        )

    def schedules(self, nest: Nest) -> list[Schedule]:
        """The user's schedules that call the kernel, or none."""
        return list(self.use(nest))


AnyKernel = Kernel | NestKernel


class Accelerator:
    """An accelerator that runs groups of a model by its own command streams, found at import."""

    def partition(self, model: RawModel, data: bytes, meaning: Meaning) -> RawModel:
        """A TFLite model with an operator for each group; `meaning` reads one as a function."""
        raise NotImplementedError


def _key(call: Call) -> tuple[Any, ...]:
    return tuple(
        (arg.buffer.shape, arg.buffer.dtype) if isinstance(arg, BufferRef) else arg.value
        for arg in call.args
        if isinstance(arg, (BufferRef, Const))
    )


def _cost_of(kernel: Kernel, call: Call) -> float:
    found = kernel.costs.get(_key(call))
    return found.instructions if found else 0.0


def _blocks_of(kernel: Kernel, call: Call) -> int:
    found = kernel.costs.get(_key(call))
    return found.blocks if found else 1


def rules_of(given: Iterable[AnyKernel | Path]) -> tuple[Rule, ...]:
    """The rules of kernels and of files that list some, in their order.

    Raises EdgecError for a file that fails, and for an object that is not a kernel.
    """
    return tuple(_rule(kernel) for kernel in kernels_of(given))


def kernels_of(given: Iterable[AnyKernel | Path]) -> Iterator[AnyKernel]:
    """The kernels themselves, and the kernels of files. Raises EdgecError as `rules_of`."""
    for kernel in _listed(given):
        if isinstance(kernel, (Kernel, NestKernel)):
            kernel.register()
            yield kernel


def accelerator_of(given: Iterable[AnyKernel | Accelerator | Path]) -> Accelerator | None:
    """The accelerator among kernels and files. Raises EdgecError as `rules_of`, and for two."""
    found = [each for each in _listed(given) if isinstance(each, Accelerator)]
    if len(found) > 1:
        raise EdgecError("a model can use only one accelerator", hint="list one of them")
    return found[0] if found else None


def _listed(given: Iterable[AnyKernel | Accelerator | Path]) -> Iterator[AnyKernel | Accelerator]:
    for each in given:
        found = _loaded(each.resolve()) if isinstance(each, Path) else (each,)
        for kernel in found:
            if not isinstance(kernel, (Kernel, NestKernel, Accelerator)):
                raise EdgecError(f"{kernel!r} is not a kernel", hint=_HINT)
            yield kernel


@cache
def _loaded(path: Path) -> tuple[AnyKernel | Accelerator, ...]:
    """The kernels that a file lists; it runs once in a process."""
    try:
        names = runpy.run_path(str(path))
    except EdgecError:
        raise
    except (Exception, SystemExit) as error:  # the user's own code
        raise EdgecError(f"{path} failed: {type(error).__name__}: {error}", hint=_HINT) from error
    listed = names.get(LIST_NAME)
    if not isinstance(listed, (list, tuple)):
        raise EdgecError(f"{path} lists no kernels", hint=_HINT)
    return tuple(listed)


def _rule(kernel: AnyKernel) -> Rule:
    return Rule(
        kernel.symbol, partial(_is_for, kernel), partial(_apply, kernel),
        needs=frozenset(kernel.needs), kernels=(kernel.symbol,), prepare=as_defined,
    )  # fmt: skip


def _is_for(kernel: AnyKernel, nest: Nest) -> bool:
    return kernel.fits(nest) and not nest.in_rows


def _apply(kernel: AnyKernel, nest: Nest) -> list[Schedule]:
    try:
        return kernel.schedules(nest)
    except ScheduleError:
        return []
    except EdgecError:
        raise
    except Exception as error:  # the user's own code
        raise EdgecError(
            f"the kernel {kernel.symbol} failed on a nest of {nest.func.name}:"
            f" {type(error).__name__}: {error}"
        ) from error
