"""What a definition computes on arrays, as a list of calls: traced once, run for every sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.errors import ContractError

Array = npt.NDArray[Any]
#: A function of arrays, the slots of its arguments, the slot of its result.
Call = tuple[Callable[..., Array], tuple[int, ...], int]


class Tape:
    """Calls in order, while they are traced. Values have slots; those of constants are filled."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.slots: list[Array | None] = []

    def slot(self, array: Array | None = None) -> int:
        """A new slot, of a constant array or of what each run computes."""
        self.slots.append(array)
        return len(self.slots) - 1

    def note(self, function: Callable[..., Array], arguments: Sequence[int]) -> int:
        """Add a call and return the slot of its result."""
        made = self.slot()
        self.calls.append((function, tuple(arguments), made))
        return made


@dataclass(frozen=True)
class Port:
    """An array that a run is given: its slot, its name, and what it must be if anybody reads it."""

    slot: int
    name: str
    shape: tuple[int, ...] = ()
    dtype: np.dtype[Any] | None = None

    def check(self, array: Array) -> None:
        """Raise ContractError for an array that does not fit."""
        if self.dtype is not None and (array.shape != self.shape or array.dtype != self.dtype):
            raise ContractError(
                f"{self.name} is {array.dtype}{list(array.shape)}, "
                f"not {self.dtype}{list(self.shape)}"
            )


class Program:
    """A finished tape, from arrays to arrays."""

    def __init__(self, tape: Tape, inputs: Sequence[Port], outputs: Sequence[int]) -> None:
        self.slots, self.inputs, self.outputs = tape.slots, inputs, outputs
        read = {*outputs}  # never emptied: the outputs and the constants
        read |= {slot for slot, array in enumerate(tape.slots) if array is not None}
        calls = []
        for function, arguments, made in reversed(tape.calls):
            if made in read:  # else nobody reads it
                last = [slot for slot in {*arguments} if slot not in read]
                read.update(last)
                calls.append((function, arguments, made, last))
        #: Each call with the slots that nobody reads after it.
        self.calls = calls[::-1]

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """The outputs for these inputs. Raises ContractError for one that does not fit."""
        slots: list[Any] = self.slots.copy()
        for port, array in zip(self.inputs, arrays, strict=True):
            port.check(array)
            slots[port.slot] = array if array.flags.c_contiguous else array.copy()
        with np.errstate(all="ignore"):
            for function, arguments, made, dead in self.calls:
                slots[made] = function(*[slots[slot] for slot in arguments])
                for slot in dead:
                    slots[slot] = None
        return [slots[slot] for slot in self.outputs]
