"""Models that are too large: for a limit that the user set (status 3), or for the board (1)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tflite_builder import TfliteBuilder

BOARD = "mps2_an386"


def names(folder: Path) -> set[str]:
    """All that is in a folder and in the folder of temporary files beside it."""
    return {path.name for path in (*folder.iterdir(), *(folder.parent / "tmp").iterdir())}


def test_every_broken_limit_is_named(dense_model: Path, edgec: Callable, work: Path) -> None:
    limits = ("--max-ram", 100, "--max-flash", "1K", "--max-stack", 8)
    ran = edgec("build", dense_model, "--board", BOARD, "-o", "out", *limits)
    assert ran.status == 3 and ran.out == ""
    first, *details = ran.err.splitlines()
    assert first == "error: dense.tflite is over its budget"
    assert details[0].startswith("  RAM: ") and details[0].endswith("bytes used, 100 allowed")
    assert details[1].startswith("  flash: ") and details[1].endswith("bytes used, 1,024 allowed")
    assert details[2].startswith("  stack: ") and details[2].endswith("bytes used, 8 allowed")
    assert "live together at the arena's peak of" in details[3]
    # The buffers of the step where the arena is fullest, with their sizes.
    assert "       16 hidden" in ran.err
    assert details[-1].startswith("hint: ")
    assert names(work) == set()


def test_ways_out_are_named(dense_model: Path, edgec: Callable, work: Path) -> None:
    ran = edgec("build", dense_model, "--board", BOARD, "-o", "out", "--max-flash", "1K")
    assert ran.status == 3
    lines = ran.err.splitlines()
    start = lines.index("  no tried options keep the limits; the nearest:")
    ways = [line for line in lines[start + 1 :] if line.startswith("    --")]
    assert len(ways) == 3
    assert all("RAM " in way and "flash " in way and "instructions" in way for way in ways)
    # What the linker needs beside the model is there in any case.
    flash = int(ways[0].split("flash ")[1].split(",  ")[0].replace(",", "").split()[0])
    ran = edgec("build", dense_model, "--board", BOARD, "-o", "out", "--max-flash", flash - 1)
    assert ran.status == 3 or "options that keep the limits" not in ran.err
    assert names(work) == set() or ran.status == 0


def test_instructions_are_counted(dense_model: Path, edgec: Callable, work: Path) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    ran = edgec("run", dense_model, "--board", BOARD, "--engine", "core", "--json")
    count = ran.json["instructions"]
    for limit, status in ((count, 0), (count - 1, 3)):
        ran = edgec("build", dense_model, "--board", BOARD, "-o", f"out{status}",
                    "--max-instructions", limit)  # fmt: skip
        assert ran.status == status
    assert f"instructions: {count:,} used, {count - 1:,} allowed" in ran.err
    ran = edgec("build", dense_model, "--board", "host", "-o", "out", "--max-instructions", 9)
    assert ran.status == 2


def test_json_of_a_broken_limit_leaves_standard_output_empty(
    dense_model: Path, edgec: Callable, work: Path
) -> None:
    ran = edgec("build", dense_model, "--target", "cortex-m4", "-o", "out", "--max-ram", 1,
                "--json")  # fmt: skip
    assert ran.status == 3 and ran.out == "" and "over its budget" in ran.err
    assert names(work) == set()


def test_limits_that_hold(dense_model: Path, edgec: Callable, work: Path) -> None:
    limits = ("--max-ram", "64K", "--max-flash", "1M")
    # Plain C: on vectors there is a smaller form to fall back to.
    plain = ("--board", "host", "--target", "host", "-o", "out")
    report = edgec("build", dense_model, *plain, *limits, "--json").json
    # The limit is the most that may be used, not the least that may not.
    for given, status in ((report["arena_bytes"], 0), (report["arena_bytes"] - 1, 3)):
        ran = edgec("build", dense_model, *plain, "--max-ram", given)
        assert ran.status == status
    target = ("--target", "cortex-m0", "-o", "out")
    weights = edgec("build", dense_model, *target, "--json").json["weights_bytes"]
    for given, status in ((weights, 0), (weights - 1, 3)):
        ran = edgec("build", dense_model, *target, "--max-flash", given)
        assert ran.status == status
    assert names(work) == {"out"}


@pytest.fixture
def large_model(tmp_path: Path) -> Path:
    """24 KiB of input and output together, and 300 KiB of weights."""
    model = TfliteBuilder()
    x = model.tensor("x", (1, 64, 64, 3), "int8", scale=0.05, zero_point=0)
    y = model.tensor("wide", (1, 64, 64, 3), "int8", scale=0.05, zero_point=0)
    model.operator("ADD", [x, x], [y], "AddOptions")
    flat = model.tensor("flat", (1, 64 * 64 * 3), "int8", scale=0.05, zero_point=0)
    model.operator("RESHAPE", [y], [flat])
    weights = np.random.default_rng(1).integers(-127, 128, (25, 64 * 64 * 3)).astype(np.int8)
    w = model.tensor("w", weights.shape, "int8", scale=0.01, data=weights)
    out = model.tensor("out", (1, 25), "int8", scale=1.0, zero_point=0)
    model.operator("FULLY_CONNECTED", [flat, w, -1], [out], "FullyConnectedOptions")
    path = tmp_path / "large.tflite"
    path.write_bytes(model.build([x], [out]))
    return path


def test_a_model_larger_than_its_board(
    large_model: Path, refused: Callable[..., str], work: Path
) -> None:
    text = refused("build", large_model, "--board", "bbc_microbit", "-o", "out")
    assert "does not fit bbc_microbit" in text
    assert "flash" in text and "the board has 262144" in text
    # What is large in flash, and the buffers that are live together where it is RAM.
    assert "large_weights" in text or "_w" in text
    assert "live together at the arena's peak" in text and "hint: " in text
    assert names(work) == set()


def test_layers_stream_where_a_board_has_too_little_ram(
    edgec: Callable, tmp_path: Path, work: Path
) -> None:
    """Two whole images take 18 KB; of the second one a few rows are enough."""
    model = TfliteBuilder()
    image, window = (1, 48, 48, 4), {"FilterHeight": 3, "FilterWidth": 3}
    x, y, sums = (model.tensor(n, image, "int8", scale=0.05, zero_point=0) for n in "xys")
    z = model.tensor("z", (1, 24, 24, 4), "int8", scale=0.05, zero_point=0)
    for given, made, stride in ((x, y, 1), (sums, z, 2)):
        strides = {"StrideH": stride, "StrideW": stride}
        model.operator("MAX_POOL_2D", [given], [made], "Pool2DOptions", **window, **strides)
        if made == y:
            model.operator("ADD", [x, y], [sums], "AddOptions")
    path = tmp_path / "pools.tflite"
    path.write_bytes(model.build([x], [z]))
    roomy = edgec("build", path, "--board", "sim_m0", "-o", "out", "--json").json
    small = edgec("build", path, "--board", "bbc_microbit", "-o", "out", "--json").json
    assert roomy["arena_bytes"] > 16 << 10 > small["ram_bytes"]
    ran = edgec("verify", path, "--board", "bbc_microbit", "--engine", "core", "--random", "1")
    assert ran.status == 0 and "all the same bits" in ran.out


DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_int8.onnx"


def _figure(part: str) -> tuple[str, int]:
    """`flash 17,680`, or `302,331 instructions` for an estimate."""
    words = part.split(" ")
    name, number = words if not words[0][0].isdigit() else words[::-1]
    return name, int(number.replace(",", ""))


def ways_of(text: str) -> list[tuple[list[str], dict[str, int]]]:
    """The ways out: words of the command line, and the figures by their names."""
    if text.startswith("{"):  # with --json
        text = "\n".join(f"  {line}" for line in json.loads(text)["error"]["details"])
    lines = text.splitlines()
    start = lines.index("  options that keep the limits, the cheapest first:")
    ways = []
    for line in lines[start + 1 :]:
        if line.startswith("    --"):
            words, _, figures = line.strip().partition(": ")
            parts = figures.replace("about ", "").split(", ")
            ways.append((words.split(), dict(map(_figure, parts))))
    return ways


@pytest.mark.parametrize(
    ("limit", "figure", "base", "way"),
    [
        ("--max-flash", "flash_bytes", (), ("--optimize", "size", "--c-optimize", "-Os")),
        # Streaming drivers have frames of their own.
        ("--max-stack", "stack_bytes", ("--optimize", "ram"), ("--optimize", "size")),
        ("--max-instructions", "instructions", (), ("--optimize", "time", "--c-optimize", "-O3")),
    ],
)
def test_ways_out_hold_what_they_promise(
    limit: str, figure: str, base: tuple[str, ...], way: tuple[str, ...], edgec: Callable,
    work: Path,
) -> None:  # fmt: skip
    """A limit that a build breaks and a way keeps: following the way builds, as it was told."""
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    target = ("--board", BOARD, "-o", "out", "--json")

    def measured(*words: str) -> int:
        if figure == "instructions":
            ran = edgec("run", DIGITS, "--board", BOARD, "--engine", "core", "--json", *words)
        else:
            ran = edgec("build", DIGITS, *target, *words)
        return int(ran.json[figure])

    most = measured(*way)
    assert most < measured(*base)
    ran = edgec("build", DIGITS, *target, *base, limit, most)
    assert ran.status == 3
    assert "live together at the arena's peak of" in ran.err
    ways = ways_of(ran.err)
    assert 1 <= len(ways) <= 3
    assert all(figures[figure.removesuffix("_bytes")] <= most for _, figures in ways)
    for words, figures in ways[:1]:
        ran = edgec("build", DIGITS, *target, limit, most, *words)
        assert ran.status == 0
        for key in ("ram", "flash", "stack"):
            name = "RAM" if key == "ram" else key
            assert ran.json[f"{key}_bytes"] == figures[name], (words, key)


def test_a_way_out_of_a_limit_of_ram(dense_model: Path, edgec: Callable, work: Path) -> None:
    """The front has nothing below the limit; inputs of the caller do not count."""
    target = ("--target", "cortex-m4", "-o", "out", "--json")
    caller = ("--io", "caller")
    most = edgec("build", dense_model, *target, *caller).json["arena_bytes"]
    ran = edgec("build", dense_model, *target, "--max-ram", most)
    assert ran.status == 3
    assert "build with one of these options, or raise the limit" in ran.err
    ways = ways_of(ran.err)
    assert list(caller) in [words for words, _ in ways]
    for words, figures in ways:
        assert words[-2:] == list(caller) and figures["RAM"] <= most
        assert edgec("build", dense_model, *target, "--max-ram", most, *words).status == 0


def test_limits_together(edgec: Callable, work: Path) -> None:
    """A way must keep all limits at once, also those that are not broken."""
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    target = ("--board", BOARD, "-o", "out", "--json")
    small = edgec("build", DIGITS, *target, "--optimize", "size", "--c-optimize", "-Os").json
    flash = ("--max-flash", small["flash_bytes"])
    ran = edgec("build", DIGITS, *target, *flash, "--max-stack", 4096, "--max-ram", "64K",
                "--max-instructions", 10_000_000)  # fmt: skip
    assert ran.status == 3
    assert all(figures["flash"] <= small["flash_bytes"] for _, figures in ways_of(ran.err))
    ran = edgec("build", DIGITS, *target, *flash, "--max-instructions", 1000)
    assert ran.status == 3 and "no tried options keep the limits; the nearest:" in ran.err
    assert "flash: " in ran.err and "instructions: " in ran.err
    roomy = ("--max-ram", "64K", "--max-flash", "1M", "--max-stack", "4K",
             "--max-instructions", 10_000_000)  # fmt: skip
    assert edgec("build", DIGITS, *target, *roomy).status == 0
