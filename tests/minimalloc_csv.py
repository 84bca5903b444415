"""Read placement problems in MiniMalloc's CSV format: id,lower,upper,size[,alignment,...]."""

from __future__ import annotations

import csv
from pathlib import Path

from edgec.errors import PlanError
from edgec.memory.problem import DEFAULT_REGION, Buffer, Problem, Region


def read_csv(path: Path, capacity_bytes: int | None) -> Problem:
    """Return the problem in the file at `path`, with one region of `capacity_bytes`.

    `lower` and `upper` are the half-open lifetime; alignment is 1 byte where no column says
    otherwise. Raises PlanError for a missing file, column or number.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        buffers = tuple(
            Buffer(
                name=row["id"],
                size_bytes=int(row["size"]),
                start=int(row["lower"]),
                stop=int(row["upper"]),
                align_bytes=int(row.get("alignment") or 1),
            )
            for row in rows
        )
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise PlanError(
            f"cannot read the placement problem {path}",
            details=(f"{type(error).__name__}: {error}",),
            hint="the columns are id,lower,upper,size",
        ) from error
    return Problem(buffers, (), (Region(DEFAULT_REGION, capacity_bytes),))
