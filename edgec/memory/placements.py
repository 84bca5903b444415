"""The user's placements in regions, from a board's file, another file, or `--place`.

| what | stands for |
|---|---|
| `arena` `state` `weights` `code` | all values and scratch; all states; all weights; all steps |
| `tensor:PATTERN` | values by their names here or in the model file, scratch as `scratch.N` |
| `weights:PATTERN` | weights and tables, by the names that the weights' C file shows |
| `code:PATTERN` | steps by the names of their C functions, or by their numbers |

Patterns have `*` and `?`. A pattern beats a word for everything, and the later entry the earlier.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from edgec.boards.board import Board
from edgec.errors import PlanError
from edgec.resources import parse_toml

Kind = Literal["tensor", "state", "weights", "code"]

#: The word that stands for everything of a kind.
_WORDS: dict[Kind, str] = {
    "tensor": "arena", "state": "state", "weights": "weights", "code": "code",
}  # fmt: skip
#: Kinds that take patterns.
_PATTERNS: tuple[Kind, ...] = ("tensor", "weights", "code")


@dataclass(frozen=True)
class Placements:
    """(what, region) in the order in which they were given.

    The first `general` ones are the board's: these need not fit every model.
    """

    entries: tuple[tuple[str, str], ...] = ()
    general: int = 0

    def region(self, kind: Kind, names: Iterable[str]) -> str | None:
        """The region that something of these names is to lie in, None if it is free."""
        known = tuple(names)
        for what, region in reversed(self.entries):
            if any(_matches(what, kind, name) for name in known):
                return region
        for what, region in reversed(self.entries):
            if what == _WORDS[kind]:
                return region
        return None

    def require_matches(self, kind: Kind, names: Sequence[str]) -> None:
        """Raise PlanError for a pattern of this kind that fits none of all names."""
        for what, _ in self.entries[self.general :]:
            if not what.startswith(f"{kind}:") or any(_matches(what, kind, n) for n in names):
                continue
            pattern = what.partition(":")[2]
            near = difflib.get_close_matches(pattern, names, n=5, cutoff=0.3) or list(names)[:5]
            raise PlanError(
                f"--place {what}: the model has no part of that name",
                details=("there are: " + ", ".join(near),) if near else (),
                hint="`*` stands for any letters; edgec report lists all names",
            )


def _matches(what: str, kind: Kind, name: str) -> bool:
    found, colon, pattern = what.partition(":")
    return bool(colon) and found == kind and fnmatchcase(name, pattern)


def make_placements(board: Board, given: Sequence[tuple[str, str]]) -> Placements:
    """The board's placements and the user's, which take precedence.

    Raises PlanError for an unknown name, a region that the board lacks, or a region of the wrong
    kind.
    """
    entries = (*board.place, *given)
    for what, region in entries:
        kind = _kind_of(what)
        _require_region(board, what, region, kind)
    return Placements(entries, len(board.place))


def _kind_of(what: str) -> Kind:
    for kind, word in _WORDS.items():
        if what == word:
            return kind
    for kind in _PATTERNS:
        if what.startswith(f"{kind}:") and len(what) > len(kind) + 1:
            return kind
    raise PlanError(
        f"--place: '{what}' cannot be placed",
        hint="use arena, state, weights, code, tensor:NAME, weights:NAME or code:NAME",
    )


def _require_region(board: Board, what: str, name: str, kind: Kind) -> None:
    region = board.memory.get(name)
    if region is None:
        known = ", ".join(board.memory) or "none: it is not a microcontroller"
        raise PlanError(
            f"--place {what}={name}: board {board.name} has no region '{name}'",
            hint=f"its regions: {known}",
        )
    if kind in ("tensor", "state") and region.kind != "ram":
        raise PlanError(
            f"--place {what}={name}: {name} is {region.kind}, but data that changes needs ram"
        )
    if region.kind == "boot":
        raise PlanError(f"--place {what}={name}: {name} is reserved for the boot ROM")
    if kind == "code" and "x" not in region.access:
        raise PlanError(f"--place {what}={name}: the core cannot execute from {name}")
    if region.hardware_only:
        raise PlanError(
            f"--place {what}={name}: emulators lack {name}",
            hint="for a program on hardware alone, remove hardware_only from the board's file",
        )


def read_placements(path: Path) -> tuple[tuple[str, str], ...]:
    """The entries of the table [place] of a TOML file. Raises PlanError if it is not one."""
    try:
        values = parse_toml(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise PlanError(f"cannot read the placements in {path}: {error}") from None
    table = values.pop("place", None)
    if values or not isinstance(table, dict) or not all(isinstance(v, str) for v in table.values()):
        raise PlanError(
            f"{path} is not a file of placements",
            hint='it has one table, [place], with lines such as "tensor:input" = "sram2"',
        )
    return tuple(table.items())
