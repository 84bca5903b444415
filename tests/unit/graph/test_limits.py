"""check_limits: extents that are cheap to claim and too large to run are refused with words."""

from __future__ import annotations

import resource
import time
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from one_operator import Operand, one_operator
from tflite_builder import TfliteBuilder

import edgec.ops
from edgec.errors import ImportFailed, TooLarge
from edgec.frontends import import_model
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Function
from edgec.graph.limits import DEFAULT_BUDGET, Budget, Spending, check_limits
from edgec.graph.types import TensorType
from edgec.ops.concat import ConcatAttrs
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.reshape import ReshapeAttrs
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.targets.core import find_core, host_core

edgec.ops.load()


def failure(data: bytes, folder: Path) -> ImportFailed:
    path = folder / "large.tflite"
    path.write_bytes(data)
    with pytest.raises(ImportFailed, match="too large") as caught:
        compile_model(path, host_core(), Options())
    return caught.value


def test_values_with_too_many_elements(tmp_path: Path) -> None:
    shape = (1, 1 << 12, (1 << 12) + 1, 1)
    data = one_operator("ADD", [Operand(shape), Operand(shape)], [Operand(shape)], "AddOptions")
    found = failure(data, tmp_path)
    assert len(found.details) == 3 and f"at most {DEFAULT_BUDGET.elements:,}" in found.details[2]


@pytest.mark.parametrize(
    ("extent", "kernel", "words"), [(4000, 31, "windows read"), (4000, 200, "multiply-accumulates")]
)
def test_convolutions_with_too_much_work(
    extent: int, kernel: int, words: str, tmp_path: Path
) -> None:
    model = TfliteBuilder()
    x = model.tensor("x", (1, extent, extent, 1), "int8", scale=0.1, zero_point=0)
    weights = np.ones((1, kernel, kernel, 1), np.int8)
    w = model.tensor("w", weights.shape, "int8", scale=0.1, data=weights)
    y = model.tensor("y", (1, extent, extent, 1), "int8", scale=9.0, zero_point=0)
    model.operator("CONV_2D", [x, w, -1], [y], "Conv2DOptions", Padding=0, StrideW=1, StrideH=1,
                   DilationWFactor=1, DilationHFactor=1)  # fmt: skip
    (detail,) = failure(model.build([x], [y]), tmp_path).details
    assert words in detail


def save_onnx(text: str, folder: Path) -> Path:
    path = folder / "m.onnx"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["":17]> {text}'), path)
    return path


def refused(path: Path, factor: float = 1.0) -> str:
    with pytest.raises(ImportFailed, match="too large") as caught:
        compile_model(path, host_core(), Options(compile_budget=factor))
    assert "--compile-budget" in caught.value.hint
    return "\n".join((caught.value.message, *caught.value.details))


def test_small_files_of_large_constants_are_refused(tmp_path: Path) -> None:
    """Each is within the limit of one constant; 3,000 of them took 9.1 GB."""
    nodes = "\n".join(f"c{n} = ConstantOfShape(shape)" for n in range(300))
    path = save_onnx(
        f"g (float[2] x) => (float[2] y) <int64[2] shape = {{1024, 1024}}>"
        f" {{ {nodes} y = Relu(x) }}", tmp_path,
    )  # fmt: skip
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "bytes of constants up to 'ConstantOfShape#127'" in refused(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000_000  # KB
    assert "ConstantOfShape#12'" in refused(path, factor=0.1)


def lstm(steps: int, folder: Path) -> Path:
    return save_onnx(
        f"g (float[{steps},1,1] x) => (float[{steps},1,1,1] y)"
        " <float[1,4,1] w = {1,1,1,1}, float[1,4,1] r = {1,1,1,1}>"
        " { y = LSTM<hidden_size=1>(x, w, r) }", folder,
    )  # fmt: skip


def test_many_steps_are_refused(tmp_path: Path) -> None:
    assert "4,000,0" in refused(lstm(4_000_000, tmp_path))
    assert "steps one after the other; at most 131,072" in refused(lstm(2_000_000, tmp_path))


def test_the_budget_is_an_option(tmp_path: Path) -> None:
    path = lstm(40, tmp_path)
    assert "steps one after the other; at most 13" in refused(path, factor=0.0001)
    assert compile_model(path, host_core(), Options(compile_budget=0.01)).macs


def test_what_is_computed_while_a_file_is_read_counts(tmp_path: Path) -> None:
    steps = "\n".join(f"y{n}, h{n} = LSTM<hidden_size=1>(c, w, r)" for n in range(3))
    path = save_onnx(
        "g (float[2] x) => (float[2] y) <int64[3] shape = {6000, 1, 1},"
        " float[1,4,1] w = {1,1,1,1}, float[1,4,1] r = {1,1,1,1}>"
        f" {{ c = ConstantOfShape(shape) {steps} y = Relu(x) }}", tmp_path,
    )  # fmt: skip
    assert "steps one after the other up to" in refused(path, factor=0.04)


@pytest.mark.parametrize(("text", "words"), [
    # One product of integers, of operands that are small to write down.
    ("big = ConstantOfShape<value : tensor = int64[1] {3}>(square) c = MatMul(big, big)",
     "multiply-accumulates up to"),
    # Perhaps all operands for each output element.
    ("big = ConstantOfShape<value : tensor = int64[1] {3}>(tall)"
     " c = LpNormalization(big)", "multiply-accumulates up to"),
    ("c = RandomUniform<shape = [1000, 1000]>()", "it makes random numbers"),
])  # fmt: skip
def test_what_the_evaluator_would_compute_counts(text: str, words: str, tmp_path: Path) -> None:
    path = save_onnx(
        "g (float[2] x) => (float[2] y) <int64[2] tall = {600000, 1}, int64[2] square ="
        " {1000, 1000}>"
        f" {{ {text} y = Relu(x) }}", tmp_path,
    )  # fmt: skip
    with pytest.raises(ImportFailed) as caught:
        compile_model(path, host_core(), Options())
    assert words in caught.value.render()


def test_many_small_constants_are_steps(tmp_path: Path) -> None:
    """A node takes the evaluator a millisecond, however small it is."""
    nodes = "\n".join(f"c{n + 1} = LpNormalization(c{n})" for n in range(20))
    path = save_onnx(
        f"g (float[2] x) => (float[2] y) <float[1] c0 = {{1}}>"
        f" {{ {nodes} y = Relu(x) }}", tmp_path,
    )  # fmt: skip
    assert compile_model(path, host_core(), Options())
    assert "steps one after the other up to" in refused(path, factor=0.0005)


def test_the_work_of_all_nodes_counts(tmp_path: Path) -> None:
    nodes = "\n".join(f"a{n + 1} = Relu(a{n})" for n in range(60))
    path = save_onnx(
        f"g (float[10000000] x) => (float[10000000] y) {{ a0 = Relu(x) {nodes} y = Relu(a60) }}",
        tmp_path,
    )
    assert "elements in all values; at most 268,435,456" in refused(path)


def two_layers() -> Function:
    """A convolution and a product, of known sizes."""
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 6, 6, 3), "float32"))
    w = b.constant("w", np.ones((4, 3, 3, 3), np.float32))
    bias = b.constant("bias", np.zeros(4, np.float32))
    y = b.op("conv2d", [x, w, bias], Conv2dAttrs(), name="conv")  # [1, 4, 4, 4]
    flat = b.op("reshape", [y], ReshapeAttrs((1, 64)), name="flat")
    dense = b.constant("dense", np.ones((64, 5), np.float32))
    return b.finish([b.op("matmul", [flat, dense], name="product")])


#: Of the two layers: bytes of constants, elements of the largest value and of all, multiply-
#: accumulates of one node and of all, elements that windows read.
EXACT = Budget(
    constant_bytes=4 * (108 + 4 + 320), elements=108, all_elements=64 + 64 + 5, macs=1728,
    all_macs=1728 + 320, reads=432, steps=1, pairs=3,
)  # fmt: skip


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("constant_bytes", "1,728 bytes of constants; at most 1,727"),
        ("elements", 'input "x" has 108 elements'),
        ("all_elements", "133 elements in all values; at most 132"),
        ("macs", 'conv2d  node "conv": 1,728 multiply-accumulates; at most 1,727'),
        ("all_macs", "2,048 multiply-accumulates in all nodes; at most 2,047"),
        ("reads", 'conv2d  node "conv": its windows read 432 elements; at most 431'),
        ("pairs", "3 pairs of values that live together; at most 2"),
    ],
)
def test_each_limit_is_exact(limit: str, words: str) -> None:
    function = two_layers()
    steps = sum(node.steps for node in function.nodes)
    budget = replace(EXACT, steps=steps)
    check_limits(function, budget)
    with pytest.raises(TooLarge) as caught:
        check_limits(function, replace(budget, **{limit: getattr(budget, limit) - 1}))
    assert caught.value.details[0].startswith(words)
    with pytest.raises(TooLarge, match="1 of its values") as caught:
        check_limits(function, replace(budget, steps=steps - 1))
    assert caught.value.details == (
        f"{steps:,} steps one after the other; at most {steps - 1:,} are possible",
    )


def test_outputs_count_and_not_all_problems_are_listed() -> None:
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 9), "float32"))
    ys = [b.op("concat", [x, x], ConcatAttrs(1), name=f"y{n}") for n in range(30)]
    with pytest.raises(TooLarge, match="30 of its values") as caught:
        check_limits(b.finish(ys), replace(DEFAULT_BUDGET, elements=17))
    assert len(caught.value.details) == 20
    assert caught.value.details[0] == ('concat  node "y0": 18 elements; at most 17 are possible')


def test_what_is_spent_while_reading_is_exact() -> None:
    node = two_layers().nodes[0]
    budget = Budget(constant_bytes=600, all_macs=2 * 1728, steps=2 * node.steps + 1)
    spending = Spending(budget)
    spending.take(88, "c")
    spending.evaluate(node)
    spending.evaluate(node)
    spending.work(0, 1, "step")
    with pytest.raises(TooLarge, match=r"601 bytes of constants up to 'more'; at most 600"):
        spending.take(1, "more")
    with pytest.raises(TooLarge, match="3,457 multiply-accumulates up to 'w'; at most 3,456"):
        spending.work(1, 0, "w")
    spending = Spending(budget)
    with pytest.raises(TooLarge, match="steps one after the other up to 's'"):
        spending.work(0, budget.steps + 1, "s")
    assert Budget().times(0.5) == Budget(*(n // 2 for n in astuple(Budget())))


def test_elements_that_are_compared_with_each_other_are_steps(tmp_path: Path) -> None:
    """A row of 1,048,576 took nine gigabytes, and did not end. Rows over 15,000 were refused
    though they are merged in order, and five of 200,000 were 200,000 steps of the reference.
    """
    text = (
        "g (float[{0}] x) => (float[{1}] y, int64[{1}] i) <int64[1] k = {{{1}}}>"
        " {{ y, i = TopK(x, k) }}"
    )
    found = refused(save_onnx(text.format(1 << 20, 1 << 20), tmp_path))
    assert "steps one after the other; at most 131,072" in found
    for count in (100_000, 5):
        start = time.process_time()
        path = save_onnx(text.format(100_000, count), tmp_path)
        assert compile_model(path, host_core(), Options())
        assert time.process_time() - start < 20


def test_many_elements_of_float_functions_take_little_memory(tmp_path: Path) -> None:
    """Of 1,048,576 elements: 600 MB before; each is no channel, and computed in parts."""
    names = ["Erf", "Sin", "Tanh", "Log", "Sigmoid", "Atan"]
    nodes = "\n".join(f"a{n + 1} = {name}(a{n})" for n, name in enumerate(names))
    path = save_onnx(
        f"g (float[1048576] x) => (float[1048576] y) {{ a0 = Neg(x) {nodes} y = Neg(a6) }}",
        tmp_path,
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert compile_model(path, host_core(), Options())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 250_000  # KB


def test_sums_of_all_before_are_steps(tmp_path: Path) -> None:
    """Ten in a row of 16,777,216 elements took three gigabytes."""
    text = "g (float[{0}] x) => (float[{0}] y) <int64[1] k = {{0}}> {{ y = CumSum(x, k) }}"
    assert "131,073 steps one after the other" in refused(save_onnx(text.format(131_073), tmp_path))
    assert compile_model(save_onnx(text.format(100), tmp_path), host_core(), Options())


@pytest.mark.parametrize("kind", ["Sin(x)", "Gather<axis = 0>(x, at)"])
def test_many_values_at_once_take_time_that_grows_with_them(kind: str, tmp_path: Path) -> None:
    """2,000 took over 70 seconds: a plan for each step, and a walk for each input of the last."""
    seconds = []
    for count in (60, 240):
        nodes = "\n".join(f"a{n} = {kind}" for n in range(count))
        names = ", ".join(f"a{n}" for n in range(count))
        path = save_onnx(
            f"g (float[4] x) => (float[{4 * count}] y)"
            f" <int64[4] at = {{3, 2, 1, 0}}> {{ {nodes} y = Concat<axis = 0>({names}) }}",
            tmp_path,
        )  # fmt: skip
        start = time.process_time()
        assert compile_model(path, host_core(), Options())
        seconds.append(time.process_time() - start)
    assert seconds[1] < 9 * seconds[0] + 1


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("MaxPool", "kernel_shape = [900, 900]"),
        ("AveragePool", "kernel_shape = [900, 900]"),
        ("MaxPool", "kernel_shape = [700, 700], dilations = [2, 2]"),
    ],
)
def test_windows_that_read_too_much_are_refused(kind: str, attributes: str, tmp_path: Path) -> None:
    """A file of 150 bytes: 900 x 900 windows over 1,800 x 1,800 took minutes and gigabytes."""
    path = save_onnx(
        f"g (float[1,1,1800,1800] x) => (float[1,1,h,w] y) {{ y = {kind} <{attributes}> (x) }}",
        tmp_path,
    )
    assert "steps one after the other" in refused(path)


def test_values_of_too_many_dimensions(tmp_path: Path) -> None:
    shape = ",".join("1" * 65)
    path = save_onnx(f"g (float[{shape}] x) => (float[{shape}] y) {{ y = Relu(x) }}", tmp_path)
    with pytest.raises(ImportFailed, match="'x' has 65 dimensions; at most 32 are possible"):
        compile_model(path, host_core(), Options())


def test_pairs_of_values_that_live_together_are_counted(tmp_path: Path) -> None:
    """A thousand outputs took the memory plan minutes."""
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 9), "float32"))
    one, two = (b.op("concat", [x, x], ConcatAttrs(1), name=f"y{n}") for n in range(2))
    last = b.op("concat", [one, two], ConcatAttrs(1), name="z")
    function = b.finish([last, one])
    # x with each of both; these with each other; the last one with both that it reads.
    check_limits(function, replace(DEFAULT_BUDGET, pairs=5))
    with pytest.raises(TooLarge) as caught:
        check_limits(function, replace(DEFAULT_BUDGET, pairs=4))
    assert caught.value.details == ("5 pairs of values that live together; at most 4 are possible",)
    names = [f"y{n}" for n in range(1000)]
    nodes = "\n".join(f"{name} = Sin(x)" for name in names)
    outputs = ", ".join(f"float[8] {name}" for name in names)
    path = save_onnx(f"g (float[8] x) => ({outputs}) {{ {nodes} }}", tmp_path)
    assert "500,500 pairs of values that live together; at most 262,144" in refused(path)


def test_choices_among_many_boxes_are_steps(tmp_path: Path) -> None:
    """20,000 of 20,000 boxes did not end; to choose looked at one box after the other."""
    text = (
        "g (float[1,{0},4] b, float[1,1,{0}] s) => (int64[n,3] y) <int64[1] k = {{{1}}}>"
        " {{ y = NonMaxSuppression(b, s, k) }}"
    )
    found = refused(save_onnx(text.format(20_000, 20_000), tmp_path))
    assert "steps one after the other; at most 131,072" in found
    assert compile_model(save_onnx(text.format(3000, 20), tmp_path), host_core(), Options())


def test_bodies_that_double_are_steps(tmp_path: Path) -> None:
    """23 subgraphs, each of which has the next one as both branches, would be read 2**23 times."""
    model = TfliteBuilder()
    x, y = (model.tensor(name, (1,), "float32") for name in "xy")
    k = model.tensor("k", (1,), "bool")
    model.operator("IF", [k, x], [y], "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=1)
    for depth in range(1, 24):
        inner = model.subgraph()
        p, r = (inner.tensor(name, (1,), "float32") for name in "pr")
        is_less = inner.tensor("c", (1,), "bool")
        inner.operator("LESS", [p, p], [is_less], "LessOptions")
        if depth < 23:
            inner.operator("IF", [is_less, p], [r], "IfOptions", ThenSubgraphIndex=depth + 1,
                           ElseSubgraphIndex=depth + 1)  # fmt: skip
        else:
            inner.operator("ADD", [p, p], [r], "AddOptions")
        inner.ends = [p], [r]
    path = tmp_path / "m.tflite"
    path.write_bytes(model.build([x, k], [y]))
    assert "steps one after the other up to 'subgraph" in refused(path, factor=0.01)


def test_reading_many_outputs_of_a_node_takes_linear_time(tmp_path: Path) -> None:
    """5,000 pieces took minutes: each was given its name in all nodes."""
    pieces = ", ".join(f"p{n}" for n in range(3000))
    path = save_onnx(
        f"g (float[3000] x) => (float[1] p0) {{ {pieces} = Split<axis=0>(x) }}",
        tmp_path,
    )  # fmt: skip
    start = time.process_time()
    assert len(import_model(path).main.nodes) == 3000
    assert time.process_time() - start < 5


def test_rows_among_which_a_pivot_is_looked_for_are_steps(tmp_path: Path) -> None:
    """The determinant of one matrix of 1,000,000 elements did not end."""
    text = "g (float[{0},{0}] x) => (float y) {{ y = Det(x) }}"
    found = refused(save_onnx(text.format(1000), tmp_path))
    assert "4,000,000 steps one after the other; at most 131,072" in found
    assert compile_model(save_onnx(text.format(8), tmp_path), host_core(), Options())


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("g (float[{0}] x, int64[{0}] i) => (float[{0}] y)"
         " {{ y = ScatterElements<reduction=\"add\">(x, i, x) }}", 134_217_729),
        ("g (float[1,1,8,8] x, float[60,4] r, int64[60] b) => (float[60,1,500,500] y)"
         " {{ y = RoiAlign<output_height=500, output_width=500, sampling_ratio=200>(x, r, b) }}",
         4_577_637),
    ],
    ids=["scatter", "roi_align"],
)  # fmt: skip
def test_updates_and_places_of_each_element_are_steps(
    text: str, least: int, tmp_path: Path
) -> None:
    """Files of 200 bytes took over a minute and 3 GB."""
    found = refused(save_onnx(text.format(1 << 22), tmp_path))
    assert f"{least:,} steps one after the other; at most 131,072" in found


def test_copies_of_one_constant_count_when_they_are_made(tmp_path: Path) -> None:
    """900 products by one computed matrix took 3.5 GB: each had its own in another order."""
    lines = [f"s{n + 1} = MatMul(s{n}, w)" for n in range(150)]
    found = refused(save_onnx(
        "g (float[1,1000] s0) => (float[1,1000] s150) <int64[2] shape = {1000, 1000}>"
        f" {{ w = ConstantOfShape(shape) {' '.join(lines)} }}",
        tmp_path,
    ))  # fmt: skip
    assert "540,540,000 bytes of constants up to 'MatMul#135'" in found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("g (float[1,400000,1] x) => (float[1,n,2001,2] y) <int64 s = {8}, int64 f = {4000}>"
         " { y = STFT(x, s, , f) }", "49501 frames of 4000: at most 16,777,216 elements"),
        ("g (int64[9] x) => (float[9,n] y) <int64 d = {1000000000}, float[2] v = {0, 1}>"
         " { y = OneHot(x, d, v) }", "a depth of 1,000,000,000: at most 16,777,216 are possible"),
    ],
    ids=["STFT", "OneHot"],
)  # fmt: skip
def test_large_tables_are_refused_before_they_are_made(
    text: str, words: str, tmp_path: Path
) -> None:
    """Files of 120 bytes took 2.3 and 7.9 GB."""
    with pytest.raises(ImportFailed) as caught:
        import_model(save_onnx(text, tmp_path))
    assert words in caught.value.details[0]


def test_a_long_chain_of_one_function_takes_linear_time(tmp_path: Path) -> None:
    """5,000 were one function, whose schedule looked at all of it for each: minutes and 4 GB."""
    lines = [f"s{n + 1} = Erf(s{n})" for n in range(1000)]
    path = save_onnx(f"g (float[8] s0) => (float[8] s1000) {{ {' '.join(lines)} }}", tmp_path)
    start = time.process_time()
    assert compile_model(path, find_core("cortex-m4"), Options())
    assert time.process_time() - start < 15
