"""Results of `edgec tune`: measured figures of scheduled nests, and the traces of the best.

A file holds groups. Each is for one nest (by a digest of its text), one core and one compiler; it
has the figures of every measured schedule, by a digest of the scheduled function, and the traces of
the winners, which `edgec build` replays. A brief file, such as those that ship with edgec, has only
the figures of the winners and of the rules' schedules.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from edgec.errors import EdgecError
from edgec.resources import plain_file

FORMAT, VERSION = "edgec-tuned", 1
#: How a file is called that lies beside a model.
SUFFIX = ".tune.json"
_HINT = "`edgec tune MODEL -o FILE` writes such a file"


@dataclass(frozen=True)
class Figures:
    """The cost of one run of a function on a simulated core.

    cycles are modelled (docs/sim.md). code_bytes: of the function and its callees. stack_bytes:
    below the stack pointer of its caller; None in older files.
    """

    instructions: int
    cycles: int
    code_bytes: int
    scratch_bytes: int
    stack_bytes: int | None = None


@dataclass(frozen=True)
class Winner:
    """A trace that a menu offers.

    rescaling: how sums are rescaled in the nest that it starts from. made: the digest of the
    scheduled function, whose figures the group has.
    """

    rescaling: str
    trace: str
    made: str


@dataclass(frozen=True)
class TunedGroup:
    """One nest on one core by one compiler.

    title: the operators and shapes, for people. default: the digest of the schedule without the
    file. figures: by digest; None for a function that could not be measured. tried: the digests in
    the order of the search. trials: their number before the figures were made brief, else 0.
    """

    nest: str
    core: str
    compiler: str
    title: str = ""
    default: str = ""
    figures: Mapping[str, Figures | None] = field(default_factory=dict)
    tried: tuple[str, ...] = ()
    winners: tuple[Winner, ...] = ()
    trials: int = 0

    @property
    def key(self) -> tuple[str, str, str]:
        """The key that groups of the same nest, core and compiler share."""
        return self.nest, self.core, self.compiler


@dataclass(frozen=True)
class Tuned:
    """The groups of a file, by key.

    shipped: groups that ship with edgec (`edgec.boards.compiler_name.with_usable`). is_alone: do
    not use these.
    """

    groups: Mapping[tuple[str, str, str], TunedGroup] = field(default_factory=dict)
    shipped: Mapping[tuple[str, str, str], TunedGroup] = field(default_factory=dict)
    is_alone: bool = False

    def of_nest(self, nest: str) -> TunedGroup | None:
        """The group of a nest; for one core and one compiler, see `usable`."""
        return next((g for g in self.groups.values() if g.nest == nest), None)

    def shipped_of(self, nest: str) -> TunedGroup | None:
        """The group of a nest that comes with edgec."""
        return next((g for g in self.shipped.values() if g.nest == nest), None)

    def usable(self, core: str, compiler: str | None) -> Tuned:
        """The groups for this core and compiler; for any compiler, where it is not known."""
        known = (core,) if compiler is None else (core, compiler)
        return Tuned({k: g for k, g in self.groups.items() if k[1 : 1 + len(known)] == known})

    def with_group(self, group: TunedGroup) -> Tuned:
        """A copy in which a group replaces the one with its key."""
        return Tuned({**self.groups, group.key: group})


def beside(model: Path) -> Path | None:
    """The file of a model that lies beside it, if there is one."""
    path = model.with_suffix(SUFFIX) if model.name else model
    return path if path.is_file() else None


def digest(text: str) -> str:
    """The key of a text: 16 bytes of its SHA-256, as hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def merged(several: Iterable[Tuned]) -> Tuned:
    """All groups of several; of equal keys the one whose best winner takes fewer instructions,
    with the figures of both."""
    groups: dict[tuple[str, str, str], TunedGroup] = {}
    for tuned in several:
        for key, group in tuned.groups.items():
            known = groups.get(key)
            groups[key] = group if known is None else _joined(known, group)
    return Tuned(groups)


def _joined(first: TunedGroup, second: TunedGroup) -> TunedGroup:
    best, other = sorted((first, second), key=best_instructions)
    tried = dict.fromkeys((*best.tried, *other.tried))
    return TunedGroup(
        best.nest, best.core, best.compiler, best.title, best.default,
        {**other.figures, **best.figures}, tuple(tried), best.winners,
        max(first.trials, second.trials),
    )  # fmt: skip


def brief(group: TunedGroup, trials: int, offered: Iterable[str]) -> TunedGroup:
    """The group without losing trials. offered: the digests of the rules' schedules."""
    kept = dict.fromkeys((*(winner.made for winner in group.winners), *offered))
    figures = {key: group.figures[key] for key in kept if key in group.figures}
    return replace(group, figures=figures, tried=tuple(figures), trials=trials)


def best_instructions(group: TunedGroup) -> float:
    """The instructions of the best winner, or of the default if nothing beats it."""
    digests = (*(winner.made for winner in group.winners), group.default)
    found = (group.figures.get(each) for each in digests)
    return min((figures.instructions for figures in found if figures), default=float("inf"))


def to_json(tuned: Tuned) -> str:
    """The text of a file: groups and figures in the order of their digests."""
    groups = []
    for _, group in sorted(tuned.groups.items()):
        figures = {
            key: None if found is None else [n for n in asdict(found).values() if n is not None]
            for key, found in sorted(group.figures.items())
        }
        groups.append({**asdict(group), "figures": figures})
    columns = [each.name for each in fields(Figures)]
    head = {"format": FORMAT, "version": VERSION, "columns": columns, "groups": groups}
    return json.dumps(head, indent=1) + "\n"


def read_tuned(path: Path) -> Tuned:
    """The groups of a file; "none", if there is no such file, disables the groups that ship with
    edgec.

    Raises EdgecError where it cannot be read or says nothing useful.
    """
    if path.name == "none" and not path.exists():
        return Tuned(is_alone=True)
    try:
        data = json.loads(plain_file(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise EdgecError(f"{path} cannot be read: {problem}", hint=_HINT) from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise EdgecError(f"{path} is not a file that edgec tune wrote", hint=_HINT)
    if data.get("version") != VERSION:
        raise EdgecError(
            f"{path} has version {data.get('version')!r}; this edgec reads {VERSION}", hint=_HINT
        )
    try:
        groups = [_group(each) for each in data["groups"]]
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise EdgecError(f"{path} is damaged: {problem!r}", hint=_HINT) from None
    return Tuned({group.key: group for group in groups})


def _group(data: Mapping[str, Any]) -> TunedGroup:
    for name in ("nest", "core", "compiler", "title", "default"):
        _require(data[name], str)
    winners = tuple(Winner(**each) for each in data["winners"])
    for winner in winners:
        for each in asdict(winner).values():
            _require(each, str)
    figures = {
        key: None if row is None else Figures(*(_count(number) for number in row))
        for key, row in data["figures"].items()
    }  # rows of older files are shorter
    tried = tuple(_require(each, str) for each in data["tried"])
    return TunedGroup(
        data["nest"], data["core"], data["compiler"], data["title"], data["default"], figures,
        tried, winners, _count(data.get("trials", 0)),
    )  # fmt: skip


def _require(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{value!r} must be of type {kind.__name__}")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise ValueError(f"{value!r} is not a count")
    return value
