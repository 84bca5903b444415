"""What `edgec run` and `edgec bench` print."""

from __future__ import annotations

from typing import Any

import pytest

from edgec.report.bench import print_bench
from edgec.report.bench_layers import layer_table
from edgec.report.figures import short_shapes, short_title
from edgec.report.run import print_run

LAYER = {
    "title": 'conv2d+requantize "model/block_1/Relu;model/bn"', "function": "net_conv2d",
    "sources": [], "launches": [], "shapes": "[1,8,8,16], [1,8,8,16] -> [1,64]", "macs": 2_000_000,
    "instructions": 10_769_277, "cycles": 12_345_678, "share": 1.0,
    "least": 10_769_270, "most": 10_770_000,
}  # fmt: skip
RUN: dict[str, Any] = {
    "model": "net", "board": "stm32", "engine": "core", "steps": 1, "instructions": 10_769_270,
    "cycles": 12_345_678, "cycles_source": "modelled", "cycles_range": (12_000_000, 20_000_000),
    "time_ms": [73.5, 71.4, 119.0], "energy_mj": 9.7, "stack_bytes": 136, "outputs": None,
    "output_fnv1a": "0123abcd", "layers": [LAYER], "repeat": 5,
    "measuring": {"unit": "instructions", "clock_overhead": 12, "hook_overhead": 33.62},
    "values": [
        {"name": "y", "dtype": "int8", "shape": [1, 64], "first": list(range(16)), "real": None}
    ],
}  # fmt: skip


def test_short_names_and_shapes() -> None:
    assert short_title(LAYER["title"]) == "block_1/Relu"
    assert short_shapes(LAYER["shapes"]) == "8x8x16, 8x8x16 -> 64"
    assert short_shapes("[1] -> [2, 3]") == "1 -> 2x3"


def test_modelled_time_has_ends(capsys: pytest.CaptureFixture[str]) -> None:
    print_run(RUN, profile=False)
    shown = capsys.readouterr().out
    assert "12,345,678 (modelled, 12,000,000 to 20,000,000)" in shown
    assert "73.5 ms (71.4 to 119)" in shown


@pytest.mark.parametrize("width", ["60", "80", "200"])
def test_a_profile_keeps_its_numbers(
    width: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    print_run(RUN, True)
    text = capsys.readouterr().out
    for word in ("10,769,277", "10,769,270", "12,345,678 (modelled", "2,000,000", "5.38",
                 "medians of 5 runs", "33.6 for each look", "12 for each reading",
                 "100.0 %", "136 bytes", "9.7 mJ", "0123abcd", "14 15 ..."):  # fmt: skip
        assert word in text


def test_what_an_engine_does_not_count_has_no_column(capsys: pytest.CaptureFixture[str]) -> None:
    nothing = {"instructions": None, "cycles": None, "least": None, "most": None}
    host = {
        **RUN,
        **nothing,
        "engine": "host",
        "measuring": None,
        "layers": [{**LAYER, **nothing, "share": None}],
    }
    print_run(host, True)
    text = capsys.readouterr().out
    assert "instructions" not in text and "cycles" not in text and "share" not in text
    unit = {"measuring": {"unit": "cycles", "clock_overhead": 0, "hook_overhead": 0.0}}
    measured = {**RUN, **unit, "instructions": None, "layers": [{**LAYER, "instructions": None}]}
    print_run(measured, True)
    text = capsys.readouterr().out
    assert "instructions" not in text and "12,345,678" in text and "share" in text
    assert "10,770,000" in text  # the most


@pytest.mark.parametrize("width", ["80", "100", "200"])
def test_a_benchmark_keeps_its_numbers(
    width: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    detail = {"layer": "block_1/Relu", "function": "net_conv2d", "shapes": "[1,8] -> [1,4]",
              "macs": 99, "operators": [0], "instructions": 10_769_277,
              "cmsis_nn_instructions": None, "ratio": None}  # fmt: skip
    row = {
        "model": "person_detect", "board": "mps2_an386", "core": "cortex-m4",
        "instructions": 110_769_277, "cycles": 9_123_456, "cmsis_nn_ratio": 0.4321,
        "per_mac": 1.5, "cycles_per_mac": None, "ram_bytes": 46_148,
        "cmsis_nn_ram_bytes": 73_728, "code_bytes": 12_345, "flash_bytes": 234_567,
        "cmsis_nn_flash_bytes": 343_600, "modelled_ms": 76.03,
        "published_ms": {"x_cube_ai_9_v1_2": 88.9, "plumerai_v1_1": 98.8},
        "stack_bytes": None, "compile_s": 1.234, "layers": [detail],
    }  # fmt: skip
    other = {**row, "board": "sim_m0", "core": "cortex-m0", "cmsis_nn_ratio": None,
             "published_ms": {"m0plus_64mhz_bosch": 1414}, "layers": []}  # fmt: skip
    for name in ("cmsis_nn_ram_bytes", "cmsis_nn_flash_bytes", "modelled_ms"):
        del other[name]
    broken = {"model": "huge", "board": "mps2_an386", "error": "it does not fit",
              "compile_s": 2.345, "layers": []}  # fmt: skip
    print_bench([row, other, broken], 0.0912)
    text = capsys.readouterr().out
    (m4,) = (line.split() for line in text.splitlines() if " M4 " in line[:30])
    shown = ("0.432", "46,148", "73,728", "234,567", "343,600")
    if int(width) >= 100:
        shown = ("0.432", "9.12", "76.0", "88.9", *shown[1:])
    assert [word for word in m4 if word in shown] == list(shown)
    for word in ("110,769,277", "0.432", "46,148", "73,728", "234,567", "M0", "10,769,277",
                 "huge on mps2_an386: it does not fit",
                 "edgec --help: 0.09 s; slowest compilation: 2.35 s"):  # fmt: skip
        assert word in text
    assert max(len(line) for line in text.splitlines()) <= int(width)


def measured_layers(core: str, *layers: tuple[list[int], int, int | None]) -> dict[str, Any]:
    """A row of the benchmark: (operators, instructions, the baseline's) of each layer."""
    return {
        "core": core,
        "layers": [
            {"layer": f"op{operators[0]}", "shapes": "[8] -> [8]", "macs": 10 * len(operators),
             "operators": operators, "instructions": ours, "cmsis_nn_instructions": theirs,
             "ratio": ours / theirs if theirs else None}
            for operators, ours, theirs in layers
        ],
    }  # fmt: skip


def test_a_benchmarks_layers_stand_beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one core runs as one layer is one row; branches may run in another order."""
    monkeypatch.setenv("COLUMNS", "200")
    rows = [
        measured_layers("cortex-m4", ([0], 100, 400), ([2], 70, 100), ([1, 3], 30, 60)),
        measured_layers("cortex-m0", ([0], 900, None), ([1], 500, None), ([2], 600, None),
                        ([3], 50, None)),
    ]  # fmt: skip
    head, _, *lines = layer_table(rows)
    assert head.split() == ["layer", "shapes", "MACs", "M4", "ratio", "M0"]
    assert [line.split() for line in lines] == [
        ["op0", "8", "->", "8", "10", "100", "0.250", "900"],
        ["op1,", "op3", "20", "30", "0.500", "550"],
        ["op2", "8", "->", "8", "10", "70", "0.700", "600"],
    ]
