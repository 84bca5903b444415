"""A small report as `edgec build` writes it, for the tests of what reads one."""

from __future__ import annotations

import copy
from typing import Any

#: Two steps in place of one another, and a view; 1,000 bytes of arena.
_REPORT: dict[str, Any] = {
    "format": 3, "edgec_version": "0.1.0", "model": "net", "source": "net.tflite",
    "board": "some_board", "board_title": "Some Board", "core": "cortex-m4", "elf": None,
    "options": {"optimize": "balanced", "match": None, "unfused": False},
    "areas": [], "weights_in_ram_bytes": 0, "code_in_ram_bytes": 0,
    "macs": 5000, "arena_bytes": 1000, "arena_lower_bound": 900, "state_bytes": 40,
    "weights_bytes": 2100, "stack_bytes": 300, "stack_notes": ["a note"], "code_bytes": 1500,
    "flash_bytes": 3600, "ram_bytes": 1460, "variables_bytes": 120,
    "stack_reserved_bytes": 4096, "board_ram_bytes": 65536, "board_flash_bytes": 262144,
    "sections": [{"name": ".text", "bytes": 1400, "region": "flash"}],
    "functions": [
        {"name": "net_conv2d.constprop.0", "file": "net.c", "code_bytes": 700,
         "frame_bytes": 80, "stack_bytes": 80},
        {"name": "main", "file": "", "code_bytes": 444, "frame_bytes": 8, "stack_bytes": None},
    ],
    "layers": [
        {"step": 0, "title": 'conv2d "block/conv_1/Relu;block/bn"',
         "name": "block/conv_1/Relu;block/bn",
         "function": "net_conv2d", "shapes": "[1,4,4,1] -> [1,4,4,2]", "macs": 4000,
         "weights_bytes": 1777, "scratch_bytes": 100, "sources": []},
        {"step": 1, "title": 'add "sum"', "name": "sum", "function": "net_add",
         "shapes": "[1,4,4,2] -> [1,4,4,2]", "macs": 0, "weights_bytes": 0, "scratch_bytes": 0,
         "sources": []},
    ],
    "buffers": [
        {"name": "x", "tensor": "x", "kind": "input", "region": "arena", "offset": 600,
         "bytes": 400, "start": 0, "stop": 1},
        {"name": "a", "tensor": "block/conv_1/Relu;block/bn", "kind": "activation",
         "region": "arena", "offset": 0, "bytes": 512, "start": 0, "stop": 2},
        {"name": "y", "tensor": "sum", "kind": "output", "region": "arena", "offset": 0,
         "bytes": 512, "start": 1, "stop": 2},
        {"name": "scratch.0", "tensor": "", "kind": "scratch", "region": "arena", "offset": 512,
         "bytes": 88, "start": 0, "stop": 1},
    ],
    "overlaps": [{"first": "a", "second": "y", "distance_bytes": 0}],
    "graph": [
        {"step": None, "operators": "input", "name": "x", "inputs": [], "output": "x",
         "tensor": "x", "shape": [1, 16], "dtype": "int8"},
        {"step": None, "operators": "reshape", "name": "view", "inputs": ["x"], "output": "v",
         "tensor": "v", "shape": [1, 4, 4, 1], "dtype": "int8"},
        {"step": 0, "operators": "conv2d+requantize", "name": "block/conv_1/Relu;block/bn",
         "inputs": ["v"], "output": "a", "tensor": "block/conv_1/Relu;block/bn",
         "shape": [1, 4, 4, 2], "dtype": "int8"},
        {"step": 1, "operators": "add", "name": "sum", "inputs": ["a", "x"], "output": "y",
         "tensor": "sum", "shape": [1, 4, 4, 2], "dtype": "int8"},
    ],
    "results": ["y"],
    "front": [
        {"arena_bytes": 1000, "instructions": 9000, "streamed": [], "taken": True},
        {"arena_bytes": 700, "instructions": 9900, "streamed": [[0, 1]], "taken": False},
    ],
    "removed_channels": [
        {"value": "block/conv_1/Relu", "channels": 8, "constant": {"1": -128, "2": -128, "6": 5},
         "duplicate": {"7": 3}, "unread": [4]},
    ],
    "idle_clamps": [{"value": "sum", "minimum": -128, "maximum": 90, "low": -128, "high": 71}],
    "certificate": {"solver": "own", "nodes": 12345, "optimal": False, "regions": [
        {"region": "arena", "peak_bytes": 1000, "lower_bound_bytes": 900, "gap_bytes": 100,
         "optimal": False, "proof": "open", "peak_step": 0,
         "live_at_peak": [{"buffer": "a", "bytes": 512}, {"buffer": "x", "bytes": 400},
                          {"buffer": "scratch.0", "bytes": 88}]}]},
    "profile": {
        "schema_hash": 1, "engine": "core", "instructions": 12468, "cycles": 15000,
        "cycles_source": "modelled", "stack_bytes": 96, "energy_mj": 0.012,
        "layers": [{"instructions": 11000, "cycles": None},
                   {"instructions": 1357, "cycles": None}],
    },
}  # fmt: skip


def make_report(**changes: Any) -> dict[str, Any]:
    """A report of its own, with some of its keys replaced."""
    return {**copy.deepcopy(_REPORT), **changes}
