"""Cases that only `make test-full` runs, as `full_sweeps.toml` names them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True)
class Sweep:
    """Tests of a file, or cases of one; stays: by what `make test` finds the same faults."""

    tests: str
    stays: str
    cases: tuple[str, ...] = ("*",)

    def has(self, path: str, name: str) -> bool:
        """Whether a test is one of these; path: its file's below tests/, name: with its case."""
        file, _, function = self.tests.partition("::")
        base, _, case = name.rpartition("::")[2].partition("[")
        if not fnmatchcase(path, file) or function not in ("", base):
            return False
        return any(fnmatchcase(case.removesuffix("]"), pattern) for pattern in self.cases)


def _read() -> tuple[Sweep, ...]:
    text = Path(__file__).with_suffix(".toml").read_text("utf-8")
    rows = tomllib.loads(text)["sweep"]
    return tuple(Sweep(r["tests"], r["stays"], tuple(r.get("cases", ("*",)))) for r in rows)


SWEEPS = _read()


@lru_cache
def sweeps_of(path: str) -> tuple[Sweep, ...]:
    """The sweeps of one file's tests; path: below tests/."""
    return tuple(sweep for sweep in SWEEPS if fnmatchcase(path, sweep.tests.partition("::")[0]))
