"""limited_work: what one compile does is counted where it is done, up to its limit and no further.

The models took over a minute or 2 GB each, in files of 60 to 250 bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import edgec.ops
from edgec.errors import ImportFailed, TooLarge
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.loop.define import Definition
from edgec.numerics.work import current_work, limited_work
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.targets.core import host_core

edgec.ops.load()


def test_each_limit_is_exact() -> None:
    with limited_work(3, 10):
        work = current_work()
        assert work is not None
        work.at = "here"
        work.spend(3, 10)
        with pytest.raises(TooLarge, match="up to 'here' the reference takes more than 10 bytes"):
            work.spend(0, 1)
        with pytest.raises(TooLarge, match="more than 3 computations one after the other") as found:
            work.spend(1)
        assert "--compile-budget" in found.value.hint
    assert current_work() is None


def test_the_outer_limit_counts() -> None:
    with limited_work(3, 10):
        outer = current_work()
        with limited_work(1000, 1000):
            assert current_work() is outer
        assert current_work() is outer


def doubled(rows: int, columns: int) -> Definition:
    b = Definition("f")
    x = b.input("x", (rows, columns), "float32")
    b.compute(b.output("out", (rows, columns), "float32"), lambda i, j: x[i, j] + x[i, j])
    return b


def test_large_arrays_count_as_several_calls() -> None:
    counts = []
    for rows, columns in ((4, 4), (1024, 1024)):
        with limited_work(1 << 20, 1 << 30):
            doubled(rows, columns).program(["x"], ["out"], {})
            work = current_work()
            assert work is not None
            counts.append(work.calls)
    assert counts[1] - counts[0] == 2 * 16  # the sum, and its copy as the output


def test_each_run_counts() -> None:
    with limited_work(1 << 20, 1 << 30):
        program = doubled(4, 4).program(["x"], ["out"], {})
        work = current_work()
        assert work is not None
        traced = work.calls
        for _ in range(3):
            program.run([np.ones((4, 4), np.float32)])
        assert work.calls == traced + 3


def test_arrays_that_calls_keep_are_counted() -> None:
    """Places that are no view of the input are kept as numbers: 8 bytes for each."""
    b = Definition("f")
    x = b.input("x", (100,), "float32")
    b.compute(b.output("out", (50,), "float32"), lambda i: x[i * i % 97])
    with limited_work(1 << 20, 1 << 20):
        b.program(["x"], ["out"], {})
        work = current_work()
        assert work is not None and work.kept_bytes >= 50 * 8
    with limited_work(1 << 20, 100), pytest.raises(TooLarge, match="100 bytes"):
        b.program(["x"], ["out"], {})


MODELS = {
    "argmax": "g (float[2,{0}] x) => (int64[2,1] y) {{ y = ArgMax<axis=1>(x) }}",
    "hardmax": "g (float[2,{0}] x) => (float[2,{0}] y) {{ y = Hardmax<axis=1>(x) }}",
    "dft": "g (float[{0},16,1] x) => (float[{0},16,2] y) {{ y = DFT<axis=1>(x) }}",
    "stft": "g (float[1,{0},1] x) => (float[1,n,16,2] y) <int64 s = {{1}}, float[30] w = {{"
            + ",".join("1" * 30) + "}}> {{ y = STFT(x, s, w) }}",
    "scatter_nd": "g (float[9] x, int64[{0},1] i, float[{0}] u) => (float[9] y)"
                  " {{ y = ScatterND(x, i, u) }}",
    "unique": "g (float[{0}] x) => (float[n] y) {{ y = Unique(x) }}",
}  # fmt: skip


@pytest.mark.parametrize("kind", MODELS)
def test_small_files_of_much_work_are_refused(
    kind: str, tmp_path: Path, refused_model: Callable[[str, float], ImportFailed]
) -> None:
    found = refused_model(MODELS[kind].format(4000), 0.01)
    assert "the reference takes more than 10,485 computations one after the other" in found.message
    assert "--compile-budget" in found.hint
    compile_model(saved(MODELS[kind].format(40), tmp_path), host_core(), Options())


def test_constants_that_are_computed_count(
    refused_model: Callable[[str, float], ImportFailed],
) -> None:
    text = (
        "g (float[2] x) => (float[2] y) <int64[3] n = {2000, 1, 1}, float[1,3,1] w = {1,1,1}> {"
        " c = ConstantOfShape(n) all, last = GRU<hidden_size=1>(c, w, w) y = Relu(x) }"
    )
    found = refused_model(text, 0.02).message
    assert "up to 'GRU#" in found and "more than 20,971 computations" in found


def test_weights_of_an_image_that_grows_count(
    refused_model: Callable[[str, float], ImportFailed],
) -> None:
    """Weights of 16,000,000 places took 2.9 GB while the file was read."""
    text = (
        "g (float[1,1,1,4] x) => (float[1,1,1,n] y) <int64[4] s = {1, 1, 1, 160000}>"
        ' { y = Resize<mode="cubic">(x, , , s) }'
    )
    found = refused_model(text, 0.02).message
    assert "up to 'Resize#0' the reference takes more than 21,474,836 bytes" in found


def test_loops_in_loops_are_counted(refused_model: Callable[[str, float], ImportFailed]) -> None:
    """What computes nothing counts as a step, too: 2 ** 14 of them."""
    body = "y = Relu(x)"
    for depth in range(14):
        body = (
            f"y = Loop(two, yes, x) <body = b{depth} (int64 i{depth}, bool c{depth}, float[2] x)"
            f" => (bool d{depth}, float[2] y) {{ d{depth} = Identity(c{depth}) {body} }}>"
        )
    text = f"g (float[2] x) => (float[2] y) <int64 two = {{2}}, bool yes = {{1}}> {{ {body} }}"
    assert "too large" in refused_model(text, 0.05).message


def saved(text: str, folder: Path) -> Path:
    path = folder / "m.onnx"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["":17]> {text}'), path)
    return path


@pytest.fixture
def refused_model(tmp_path: Path) -> Callable[[str, float], ImportFailed]:
    """Compile the text of a model within a part of the budget; the error."""

    def refuse(text: str, factor: float) -> ImportFailed:
        with pytest.raises(ImportFailed) as caught:
            compile_model(saved(text, tmp_path), host_core(), Options(compile_budget=factor))
        return caught.value

    return refuse


def test_nothing_is_counted_where_nothing_limits(tmp_path: Path) -> None:
    path = saved(MODELS["argmax"].format(4000), tmp_path)
    (found,) = interpret(import_model(path).main, [np.eye(2, 4000, dtype=np.float32)])
    assert found.tolist() == [[0], [1]]
