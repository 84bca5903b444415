"""docs/loop_ir.md: its Python runs, and its table lists the primitives that there are."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
from repo_files import REPO_ROOT

from edgec.loop.interpret import interpret
from edgec.loop.schedule import Schedule

PAGE = (REPO_ROOT / "docs" / "loop_ir.md").read_text("utf-8")
#: Public methods that are no primitives: what three of them share, the trace as text, and arrays.
OTHERS = {"set_kind", "trace_json", "table", "copy"}


def test_the_example_runs_and_its_schedule_keeps_the_meaning() -> None:
    found: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S):
        exec(compile(block, "docs/loop_ir.md", "exec"), found)
    rng = np.random.default_rng(1)
    arrays = {
        "x": rng.integers(-128, 128, (1, 25, 5, 64), np.int8),
        "w": rng.integers(-128, 128, (64, 3, 3, 64), np.int8),
        "bias": rng.integers(-1000, 1000, 64, np.int32),
        "mult": np.full(64, 1 << 30, np.int32),
        "shift": np.full(64, -8, np.int32),
    }
    wanted = found["b"].evaluate(arrays)["out"]
    assert len(np.unique(wanted)) > 20
    assert np.array_equal(interpret(found["func"], arrays)["out"], wanted)


def test_every_primitive_is_listed_with_its_parameters() -> None:
    rows = re.findall(r"^\| (`.*?) \| ", PAGE, re.M)
    assert len(rows) > 15
    listed = set()
    for name, words in re.findall(r"`(\w+)(?:\(([^)]*)\))?`", " ".join(rows)):
        listed.add(name)
        known = set(inspect.signature(getattr(Schedule, name)).parameters)
        for word in filter(None, re.split(r"[,*\s]+", words)):
            assert word in known, f"{name}({word})"
    own = {name for name, _ in inspect.getmembers(Schedule, inspect.isfunction)}
    assert {name for name in own if not name.startswith("_")} - listed <= OTHERS
