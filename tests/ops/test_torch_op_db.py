"""PyTorch's own operator samples (`op_db`): what passes and what is refused is listed.

`torch_op_db.txt` has a line for each entry: its verdict, its name, and the reason where it does not
pass. "outside" are those that no edgec can import: not of Core ATen, complex, random, or of sizes
that depend on data. An entry whose verdict is another one fails here.
`python tests/ops/test_torch_op_db.py NAME...` sweeps entries, writes their lines again and prints
the share that passes; without names it sweeps all, which takes half an hour. `--most` before the
names takes up to 40 samples of each entry and shows what does not pass; the list stays.
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
#: Characters of a reason.
MOST_WHY = 100
#: What `make test` sweeps: prefixes, logic, numbers, shapes, a refusal, one that is no Core ATen.
QUICK = ("cummax", "logical_xor", "angle", "diagonal", "rot90", "masked_scatter", "lcm")


def lines() -> dict[str, tuple[str, str, str]]:
    """By name what the list says: verdict, name, reason."""
    parts = (f"{line}  ".split(" ", 2) for line in LIST.read_text("utf-8").splitlines())
    return {name: (kind, name, why.strip()) for kind, name, why in parts}


def listed() -> dict[str, str]:
    """The verdict of each entry that was swept."""
    return {name: kind for kind, name, _ in lines().values()}


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


def passing(verdicts: dict[str, str]) -> float:
    """The share that passes of what edgec could import."""
    kinds = Counter(verdicts.values())
    return kinds["pass"] / (kinds.total() - kinds["outside"])


def test_a_few_entries() -> None:
    assert not others(set(QUICK))


@pytest.mark.full
@pytest.mark.parametrize("part", range(PARTS))
def test_all_entries(part: int) -> None:
    assert not others(set(sorted(listed())[part::PARTS]))


def test_every_entry_is_listed_and_nearly_all_pass() -> None:
    assert set(listed().values()) <= {"pass", "refused", "outside"}
    assert set(listed()) == {name_of(entry) for entry in op_db()}
    assert passing(listed()) >= 0.99
    unexplained = [name for kind, name, why in lines().values() if kind != "pass" and not why]
    assert not unexplained


def sweep_most(chosen: set[str]) -> int:
    """Up to MOST_SAMPLES of listed entries that pass; how many of these do not."""
    failed = 0
    for entry in op_db():
        name = name_of(entry)
        if listed().get(name) == "pass" and (not chosen or name in chosen):
            found = verdict_of(entry)
            failed += found.kind != "pass"
            print(found.kind, name, " ".join(found.why.split())[:MOST_WHY], flush=True)
    return failed


if __name__ == "__main__":
    if sys.argv[1:2] == ["--most"]:
        sys.exit(min(sweep_most(set(sys.argv[2:])), 1))
    chosen = set(sys.argv[1:])
    known = lines()
    for swept in op_db():
        if not chosen or name_of(swept) in chosen:
            verdict = verdict_of(swept, SAMPLES)
            why = " ".join(verdict.why.split())[:MOST_WHY]
            known[name_of(swept)] = (verdict.kind, name_of(swept), why)
            print(*known[name_of(swept)], flush=True)
    LIST.write_text("".join(f"{' '.join(e).strip()}\n" for _, e in sorted(known.items())), "utf-8")
    print(Counter(listed().values()), f"{passing(listed()):.1%}")
    sys.exit("wrong" in listed().values())
