"""A definition's computation on arrays as a list of calls: traced once, run for every sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.numerics.work import ELEMENTS_PER_CALL, current_work

Array = npt.NDArray[Any]
#: A function of arrays, the slots of its arguments, the slot of its result.
Call = tuple[Callable[..., Array], tuple[int, ...], int]

#: The number of calls that run in the time it takes to trace one.
CALLS_OF_RUN = 8


class Tape:
    """Calls in order, while they are traced. Values have slots; constants' slots are filled.

    elements: of the arrays being computed.
    """

    def __init__(self) -> None:
        self.elements = self.spent = 0
        self.work = current_work()
        self.calls: list[Call] = []
        self.slots: list[Array | None] = []

    def slot(self, array: Array | None = None) -> int:
        """A new slot, for a constant array or for a computed one."""
        if array is not None:
            self._keep(array)
        self.slots.append(array)
        return len(self.slots) - 1

    def note(self, function: Callable[..., Array], arguments: Sequence[int]) -> int:
        """Add a call and return the slot of its result. Raises TooLarge where they don't end."""
        made = self.slot()
        self.calls.append((function, tuple(arguments), made))
        large = self.elements // ELEMENTS_PER_CALL
        self.spent += 1 + large * CALLS_OF_RUN
        if self.work is not None:
            self.work.spend(1 + large)
            for given in function.args if isinstance(function, partial) else ():
                if isinstance(given, np.ndarray):
                    self._keep(given)
        return made

    def _keep(self, array: Array) -> None:
        """Count the bytes of an array that the tape keeps."""
        if self.work is not None and array.base is None:
            self.work.spend(0, array.nbytes)


class Program:
    """A finished tape, from arrays to arrays."""

    def __init__(self, tape: Tape, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        self.slots, self.inputs, self.outputs, self.work = tape.slots, inputs, outputs, tape.spent
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
        """The outputs for these inputs, which must have the traced shapes and dtypes."""
        work = current_work()
        if work is not None:
            work.spend(1 + self.work // CALLS_OF_RUN)
        slots: list[Any] = self.slots.copy()
        for slot, array in zip(self.inputs, arrays, strict=True):
            slots[slot] = array if array.flags.c_contiguous else array.copy()
        with np.errstate(all="ignore"):
            for function, arguments, made, dead in self.calls:
                slots[made] = function(*[slots[slot] for slot in arguments])
                for slot in dead:
                    slots[slot] = None
        return [slots[slot] for slot in self.outputs]
