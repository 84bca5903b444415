"""PyTorch's own operator samples (`op_db`): what passes and what is refused is listed.

`torch_op_db.txt` has a line for each entry that was swept: "pass NAME", "refused NAME" or
"outside NAME" (not of Core ATen, complex, random, or of sizes that depend on data). An entry whose
verdict is another one fails here. `python tests/ops/test_torch_op_db.py NAME...` sweeps entries and
writes their lines again; without names it sweeps all, which takes an hour or more.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (edgec[torch])")

from torch_samples import Verdict, name_of, op_db, verdict_of  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
LIST = Path(__file__).with_name("torch_op_db.txt")
#: Samples of an entry: more find what the first ones do not, and take their time.
SAMPLES = 5
#: Entries are divided among this many tests.
PARTS = 16
#: What `make test` sweeps: logic, shapes, a refusal, and one that is no Core ATen.
QUICK = ("logical_xor", "diagonal", "rot90", "masked_scatter", "lcm")


def listed() -> dict[str, str]:
    """The verdict of each entry that was swept."""
    lines = (line.split() for line in LIST.read_text("utf-8").splitlines())
    return {name: kind for kind, name in lines}


def others(names: set[str]) -> list[str]:
    """Entries whose verdict is not the listed one, with why."""
    known = listed()
    found: list[str] = []
    for entry in op_db():
        name = name_of(entry)
        if name in names and name in known:
            verdict: Verdict = verdict_of(entry, SAMPLES)
            if verdict.kind != known[name]:
                found.append(f"{name}: {verdict.kind}, not {known[name]}: {verdict.why}")
    return found


def test_a_few_entries() -> None:
    assert not others(set(QUICK))


@pytest.mark.full
@pytest.mark.parametrize("part", range(PARTS))
def test_all_entries(part: int) -> None:
    assert not others(set(sorted(listed())[part::PARTS]))


def test_nothing_is_listed_as_wrong() -> None:
    assert set(listed().values()) <= {"pass", "refused", "outside"}
    assert set(QUICK) <= set(listed())


if __name__ == "__main__":
    chosen = set(sys.argv[1:])
    lines = listed()
    for swept in op_db():
        if not chosen or name_of(swept) in chosen:
            verdict = verdict_of(swept, SAMPLES)
            lines[name_of(swept)] = verdict.kind
            print(verdict.kind, name_of(swept), verdict.why, flush=True)
    LIST.write_text("".join(f"{k} {n}\n" for n, k in sorted(lines.items())), "utf-8")
    print(Counter(lines.values()))
    sys.exit("wrong" in lines.values())
