"""What runs by prices costs no more than what any named level takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from edgec.errors import EdgecError
from edgec.memory.objective import flash_bytes
from edgec.options import Optimize, Options, Prices, read_optimize
from edgec.pipeline import Compiled, compile_model
from edgec.targets.core import find_core
from tests.onnx_builder import OnnxBuilder

VECTORS = ("time=1", "flash=1", "ram=1", "time=1,flash=1,ram=1", "time=1,ram=5", "flash=3,ram=1")


def network(path: Path) -> Path:
    """Quantized layers that differ in what kernels save and cost, with a wide one in between."""
    b = OnnxBuilder(3, (1, 8, 20, 20))
    value = b.qdq("x", 0.05, 3)
    for inputs, outputs, kernel in ((8, 32, 1), (32, 8, 3), (8, 8, 3)):
        weights, bias, _ = b.weights((outputs, inputs, kernel, kernel), 0.05)
        value = b.add("Conv", [value, weights, bias], pads=[kernel // 2] * 4)
        value = b.qdq(b.add("Relu", [value]), 0.05, -128)
    return b.save(value, path)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Compiled]:
    """The network on M4 for a word of `--optimize`, each compiled once."""
    model = network(tmp_path_factory.mktemp("prices") / "net.onnx")
    core, known = find_core("cortex-m4"), dict[str, Compiled]()

    def get(word: str) -> Compiled:
        if word not in known:
            known[word] = compile_model(model, core, Options(optimize=read_optimize(word)))
        return known[word]

    return get


def amounts(compiled: Compiled) -> tuple[int, int, int]:
    instructions = sum(variant.instructions for variant in compiled.chosen)
    return instructions, flash_bytes(compiled.chosen), compiled.program.arena_bytes


@pytest.mark.parametrize("word", VECTORS)
def test_no_name_costs_less(word: str, compiled: Callable[[str], Compiled]) -> None:
    prices = Prices.of_text(word)
    cost = prices.cost(*amounts(compiled(word)))
    for level in get_args(Optimize):
        assert cost <= prices.cost(*amounts(compiled(level))) + 1e-9, level


def test_prices_change_what_runs(compiled: Callable[[str], Compiled]) -> None:
    fast, small, low = (amounts(compiled(f"{name}=1")) for name in ("time", "flash", "ram"))
    assert fast[0] < small[0] and fast[0] <= low[0]
    assert small[1] < fast[1]
    assert low[2] < fast[2]


def test_a_limit_comes_before_prices(compiled: Callable[[str], Compiled], tmp_path: Path) -> None:
    low, fast = compiled("ram=1").program.arena_bytes, compiled("time=1").program.arena_bytes
    limit = (low + fast) // 2
    model, core = network(tmp_path / "net.onnx"), find_core("cortex-m4")
    options = Options(optimize=Prices(time=1))
    found = compile_model(model, core, options, arena_limit_bytes=limit)
    assert found.program.arena_bytes <= limit < fast


def test_prices_of_a_text() -> None:
    assert Prices.of_text("time=1,flash=0.2,ram=0.1") == Prices(1, 0.2, 0.1)
    assert [str(Prices.of_text(text)) for text in VECTORS] == [*VECTORS]
    assert Prices.of_text("ram=2") == Prices(ram=2)
    assert read_optimize("size") == "size"
    assert Options.of_words({"optimize": "time=1,ram=2"}).optimize == Prices(time=1, ram=2)
    assert Options.of_words({"optimize": "ram"}).optimize == "ram"


@pytest.mark.parametrize(
    "text",
    ["", "speed", "time=", "time=x", "time=-1", "time=nan", "time=inf", "heat=1", "time=0",
     "time=1,time=2", "time=1,", "time:1"],
)  # fmt: skip
def test_no_prices(text: str) -> None:
    with pytest.raises(ValueError, match="price"):
        read_optimize(text)
    if "=" in text:
        with pytest.raises(EdgecError, match="price"):
            Options.of_words({"optimize": text})
