"""Choose what runs: variants of single groups and segments that stream, over the whole network.

A cover is a way from the first group to the last in pieces. What a piece needs is needed at its
own step, so under a limit in bytes the fastest cover is a shortest path over the pieces
within the limit, found exactly. Lowering the limit to just below what a cover needs, again and
again, gives the Pareto front of memory against instructions.

A piece's need is first a lower bound; pieces that are chosen are planned on their own, and chosen
again if they turn out to need more. So there are at most as many searches as pieces, whose number
is limited, and no clock decides anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgec.memory.pieces import Piece, Pieces


@dataclass(frozen=True)
class Cover:
    """Pieces side by side: what the hungriest needs, and what all take together."""

    pieces: tuple[Piece, ...]
    need_bytes: int
    instructions: int


def pareto_front(pieces: Pieces) -> tuple[Cover, ...]:
    """Covers that no other beats in both memory and instructions, the fastest first."""
    front: list[Cover] = []
    limit: int | None = None
    while (cover := fastest_cover(pieces, limit)) is not None:
        front.append(cover)
        if not cover.need_bytes:
            break  # nothing runs, or nothing of it lies in the arena
        limit = cover.need_bytes - 1
    return tuple(front)


def fastest_cover(pieces: Pieces, limit_bytes: int | None) -> Cover | None:
    """The fastest cover of which no piece needs more than the limit; None if there is none."""
    while True:
        path = _shortest_path(pieces, limit_bytes)
        if path is None:
            return None
        need = max((piece.settle() for piece in path), default=0)
        if limit_bytes is None or need <= limit_bytes:
            return Cover(path, need, sum(piece.instructions for piece in path))


def _shortest_path(pieces: Pieces, limit_bytes: int | None) -> tuple[Piece, ...] | None:
    count = len(pieces.starting)
    # From each group to the end: (instructions and what code counts as, need, first piece).
    best: list[tuple[int, int, Piece | None] | None] = [None] * count + [(0, 0, None)]
    for position in reversed(range(count)):
        for piece in pieces.starting[position]:
            rest = best[piece.last + 1]
            if rest is None or (limit_bytes is not None and piece.need_bytes > limit_bytes):
                continue
            found = (
                piece.instructions + piece.code + rest[0],
                max(piece.need_bytes, rest[1]),
                piece,
            )
            known = best[position]
            if known is None or found[:2] < known[:2]:
                best[position] = found
    path: list[Piece] = []
    position = 0
    while position < count:
        entry = best[position]
        if entry is None or entry[2] is None:
            return None
        path.append(entry[2])
        position = entry[2].last + 1
    return tuple(path)
