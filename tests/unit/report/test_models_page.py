"""docs/models.md: a row for what was measured, a line for what was not."""

from __future__ import annotations

from pathlib import Path

from models_page import models_page

TABLE = """\
[models."old.tflite"]
oracle = "tflm"
macs = 1000
arena_bytes = 64
greedy_bytes = 96
live_bytes = 80
runs_on = ["host"]
mismatches = 0
difference = 0.0

[models."new.onnx"]
oracle = "onnx"
macs = 2000
arena_bytes = 128
arena_lower_bound = 120
proof = "open"
greedy_bytes = 96
live_bytes = 80
runs_on = ["host", "cortex-m4"]
flash_bytes = 5000
instructions = 12345
stack_bound_bytes = 1136
stack_used_bytes = 132
mismatches = 3
difference = 2e-7

[models."missing.onnx"]
problem = "not measured yet"
"""


def test_rows_and_what_is_missing(tmp_path: Path) -> None:
    table = tmp_path / "models.toml"
    table.write_text(TABLE, encoding="utf-8")
    lines = models_page(table).splitlines()
    rows = [line for line in lines if line.startswith("| `")]
    head = next(line for line in lines if line.startswith("| model"))
    assert [row.count("|") for row in rows] == [head.count("|")] * 2
    assert rows[0].startswith("| `new.onnx` | host, cortex-m4 | ONNX Runtime: 2.0e-07 | 2,000 |")
    assert rows[0].endswith("| 5,000 | 12,345 | 132 of 1,136 |")
    assert rows[1].startswith("| `old.tflite` | host | TFLite Micro: every bit |")
    assert rows[1].endswith("| 80 |  |  |  |")
    assert "2 of 3 models run and were measured." in lines
    assert lines[-1] == "- `missing.onnx`: not measured yet"
