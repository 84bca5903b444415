"""The parts of `verify`, each beside stand-ins: what is compared, by whom, and what is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from test_verify_tolerance import quantized

from edgec.boards.board import load_board
from edgec.codegen.versions import special_name
from edgec.errors import EdgecError, RunFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Function, Value
from edgec.graph.provenance import Origin
from edgec.graph.types import TensorType
from edgec.ops.concat import ConcatAttrs
from edgec.ops.reshape import ReshapeAttrs
from edgec.options import Options
from edgec.oracle import verify
from edgec.oracle.frameworks import OracleResult
from edgec.oracle.verify import Comparison, Runner, Verification, verify_model

#: One operator, which no fusion hides.
MODEL = """
<ir_version: 9, opset_import: ["":17]>
g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }
"""


def compared(expected: Any, found: Any, tolerance: float = 0.0, scale: float = 0.0) -> Comparison:
    row = Comparison("t", "op", np.shape(expected), tolerance, scale)
    row.add(0, np.asarray(expected), np.asarray(found))
    return row


def test_arrays_of_another_shape_differ_in_every_element() -> None:
    row = compared(np.zeros((2, 3)), np.zeros(6))
    assert (row.elements, row.mismatches, row.beyond) == (6, 6, 6)
    assert row.first is not None and row.first["index"] == []
    assert (row.first["expected"], row.first["found"]) == ("float64[2, 3]", "float64[6]")
    none = compared(np.zeros((0, 3)), np.zeros((0, 2)))
    assert (none.elements, none.mismatches, none.beyond) == (0, 1, 1)
    nothing = compared(np.zeros(0), np.zeros(0))
    assert (nothing.mismatches, nothing.beyond, nothing.first) == (0, 0, None)


def test_zeros_and_nan_of_any_float() -> None:
    for dtype in (np.float16, np.float32, ml_dtypes.bfloat16):
        row = compared(np.array([0.0, np.nan, 1], dtype), np.array([-0.0, np.nan, 1], dtype))
        assert (row.mismatches, row.max_abs_diff) == (1, 0.0)
    assert compared(np.float32([np.nan, 1]), np.float32([1, np.nan])).beyond == 2
    assert compared(np.uint8([0, 255]), np.uint8([0, 255])).mismatches == 0
    row = compared(np.uint8([1]), np.uint8([3]))
    assert row.max_abs_diff == 2.0


def test_what_may_be_off_is_exact() -> None:
    assert compared(np.float32([1.0]), np.float32([1.5]), 0.5).beyond == 0
    assert compared(np.float32([0.1]), np.float32([0.15]), 0.1).beyond == 1
    wide = np.array([1.0], ml_dtypes.bfloat16)
    assert compared(wide, wide + wide, 1.0).beyond == 0
    # Integers by their dtype's range alone, however large they are.
    for dtype in (np.uint8, np.int16, np.bool_):
        assert compared(np.array([0], dtype), np.array([1], dtype), 0.5, 1.0).beyond == 1
    assert compared(np.uint8([100]), np.uint8([105]), 0.1, 1.0).beyond == 1
    assert compared(np.int16([100]), np.int16([105]), 0.1, 1.0).beyond == 1
    assert compared(np.int16([100]), np.int16([105]), 5.0, 1.0).beyond == 0
    assert compared(np.float32([0.0]), np.float32([np.inf]), 1.0, 1e9).beyond == 1


def test_the_first_difference_is_kept() -> None:
    row = Comparison("t", "op", (2, 2))
    row.add(4, np.array([[1, 2], [3, 4]]), np.array([[1, 2], [5, 6]]))
    row.add(5, np.array([[1, 2], [3, 4]]), np.array([[0, 2], [3, 4]]))
    assert row.first == {
        "case": 4, "tensor": "t", "operator": "op", "index": [1, 0], "expected": 3, "found": 5,
    }  # fmt: skip
    assert (row.elements, row.mismatches, row.beyond, row.max_abs_diff) == (8, 3, 3, 2.0)


def test_a_verification_of_nothing_has_no_difference() -> None:
    found = Verification("onnx", "host").to_dict()
    assert found["max_abs_diff"] == 0.0 and found["first_difference"] is None


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(MODEL), path)
    return path


def test_what_is_done_is_said(model: Path, tmp_path: Path) -> None:
    """And a build of its own is made only for what the first one does not show."""
    told: list[tuple[str, int, int]] = []
    runner = Runner("host", progress=lambda *what: told.append(what))
    cases = [[np.ones((2, 3), np.float32)]] * 2
    board = load_board("host")
    first = [("building m.onnx for host", 0, 0), ("cases on host", 0, 2), ("cases on host", 1, 2)]
    result = verify_model(model, board, Options(), runner, cases, tmp_path / "w")
    assert told == first and result.layers == [] and len(result.outputs) == 1
    told.clear()
    result = verify_model(model, board, Options(), runner, cases, tmp_path / "w", layers=True)
    assert told == first and len(result.layers) == 1 and result.rounded_steps == {}


class Devices:
    """A pool that answers how it was asked."""

    name = "a pool"

    def __init__(self, *engines: str) -> None:
        self.devices = [SimpleNamespace(engine=engine) for engine in engines]

    def run_all(self, *asked: object, trace: bool) -> Iterator[object]:
        yield (*asked, trace)


def test_a_build_comes_to_a_board_or_a_pool() -> None:
    prepared: list[object] = []
    pool: Any = Devices("qemu")
    built: Any = SimpleNamespace(manifest=SimpleNamespace(state_bytes=0))
    runner = Runner("serial", prepare=prepared.append, pool=pool)
    assert list(runner.results(built, [], True)) == [(built, [], True)] and prepared == [built]
    assert runner.name == "a pool" and Runner("host").name == "host"
    Runner("host").tell("to nobody")


@pytest.mark.parametrize(
    ("engine", "engines", "is_prepared", "expected"),
    [
        ("host", None, False, True),
        ("serial", None, False, False),
        ("serial", None, True, True),
        ("serial", ("qemu", "core"), False, True),
        ("host", ("qemu", "serial"), False, False),
    ],
)
def test_which_runners_take_any_build(
    engine: str, engines: tuple[str, ...] | None, is_prepared: bool, expected: bool
) -> None:
    pool: Any = Devices(*engines) if engines else None
    prepare = (lambda built: None) if is_prepared else None
    assert Runner(engine, prepare=prepare, pool=pool).takes_any_build is expected


@pytest.mark.parametrize("state_bytes", [0, 4])
def test_a_session_begins_anew_where_there_is_state(
    state_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    @contextmanager
    def opened(*arguments: object, **options: object) -> Iterator[object]:
        yield SimpleNamespace(
            reset=lambda: calls.append("reset"), run=lambda inputs, trace: calls.append("run")
        )

    monkeypatch.setattr(verify, "open_session", opened)
    built: Any = SimpleNamespace(manifest=SimpleNamespace(state_bytes=state_bytes))
    assert len(list(Runner("host").results(built, [[], []], False))) == 2
    assert calls == ["reset"] * bool(state_bytes) + ["run"] * 2


def module(**parts: Any) -> Any:
    return SimpleNamespace(format="onnx", main=SimpleNamespace(nodes=[]), **parts)


def test_features_have_no_framework() -> None:
    sound = module()
    sound.format = "features"
    with pytest.raises(EdgecError, match="no framework computes the sound features") as caught:
        verify._reference(Path("f.toml"), "onnx", Options(), sound)
    assert "edgec build" in (caught.value.hint or "")


@pytest.fixture
def frameworks(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str | None]]:
    """Sets which frameworks refuse; returns the names that are asked for from then on."""

    def refuse(*names: str | None) -> list[str | None]:
        asked: list[str | None] = []

        def opened(model: Path, name: str | None, values: object = None) -> object:
            asked.append(name)
            if name in names:
                raise RunFailed(f"{name} refuses")
            return SimpleNamespace(name=name)

        monkeypatch.setattr(verify, "open_oracle", opened)
        return asked

    return refuse


def test_who_answers(frameworks: Callable[..., list[str | None]]) -> None:
    asked, lite = frameworks(), Path("m.tflite")
    assert verify._framework(lite, None, Options())[1] == ""
    verify._framework(lite, None, Options(match="litert"))
    verify._framework(lite, "tflm", Options(match="litert"))
    verify._framework(lite, None, Options(match="tflm"))
    assert asked == [None, "litert", "tflm", None]


def test_litert_answers_for_what_tflite_micro_refuses(
    frameworks: Callable[..., list[str | None]],
) -> None:
    asked = frameworks(None)
    oracle, note = verify._framework(Path("m.tflite"), None, Options())
    assert oracle.name == "litert" and note == "None refuses: compared with LiteRT instead"
    with pytest.raises(RunFailed, match="None refuses"):
        verify._framework(Path("m.onnx"), None, Options())
    frameworks("tflm")
    with pytest.raises(RunFailed, match="tflm refuses"):
        verify._framework(Path("m.tflite"), "tflm", Options())
    frameworks(None, "litert")
    with pytest.raises(RunFailed, match="None refuses"):
        verify._framework(Path("m.tflite"), None, Options())
    assert asked == [None, "litert", None]


def joined() -> Function:
    """x, and what is made of a constant alone; `t` stands for the source's tensor "T"."""
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 4), "float32"), Origin("X", (1, 4)))
    fixed = b.op("reshape", [b.constant("c", np.ones((4, 1), np.float32))], ReshapeAttrs((1, 4)),
                 name="fixed", origins=[Origin("F", (1, 4))])  # fmt: skip
    t = b.op("concat", [x, fixed], ConcatAttrs(1), name="t", origins=[Origin("T", (1, 8))])
    u = b.op("reshape", [t], ReshapeAttrs((8,)), name="u")
    return b.finish([b.op("reshape", [u], ReshapeAttrs((2, 4)), name="v",
                          origins=[Origin("V", (2, 4))])])  # fmt: skip


def test_which_tensors_depend_on_the_inputs() -> None:
    function = joined()
    assert verify._computed_tensors(function) == ["T", "V"]
    assert verify._tensors(function) == {"F", "T", "V"}


def comparing(
    function: Function, *, only: set[str] | None = None, layers: bool = True,
    in_floats: bool = False, special: Sequence[Any] = (),
) -> verify._Comparing:  # fmt: skip
    oracle: Any = SimpleNamespace(some_in_floats=in_floats)
    compiled: Any = SimpleNamespace(
        module=SimpleNamespace(main=function), special_functions=special
    )
    return verify._Comparing(
        Verification("onnx", "host"), oracle, compiled, Runner("host"), layers, only
    )


def test_values_are_known_by_the_names_of_their_traces() -> None:
    found = comparing(joined(), special=[("n=4", joined())])
    assert {"x", "t", "u", special_name("n=4", "u"), special_name("n=4", "v")} <= {*found.values}
    assert found.operators["t"] == "concat" == found.operators[special_name("n=4", "t")]


def test_the_most_steps_that_integers_may_be_off() -> None:
    assert comparing(quantized("int16"), in_floats=True).result.rounded_steps == {"int16": 16}
    assert comparing(quantized("int16")).result.rounded_steps == {}


def test_a_row_of_a_value_inside_has_no_tolerance() -> None:
    made, inside = comparing(joined()), Value("inside", TensorType((2,), "float32"))
    row = made._row(inside, "add", (2,))
    assert (row.tensor, row.tolerance, row.scale, row.shape) == ("inside", 0.0, 0.0, (2,))
    assert made._row(made.values["t"], "concat", (1, 8)).tensor == "T"


@pytest.mark.parametrize(
    ("expected", "found", "said"),
    [
        (2, 1, "the compiled model answered 1 outputs of 2"),
        (1, 2, "the engine host answered 2 outputs of 1"),
        (1, 0, "the engine host answered 0 outputs of 1"),
    ],
)
def test_outputs_are_counted(expected: int, found: int, said: str) -> None:
    run: Any = SimpleNamespace(outputs=[None] * found)
    with pytest.raises(RunFailed, match=said) as caught:
        comparing(joined())._check(OracleResult((np.zeros(1),) * expected), run)
    assert caught.value.hint == "this is a bug in edgec"


class Shown:
    """A manifest: what it is asked for, and what it then shows."""

    def __init__(self, *, sizes: tuple[int, ...] = (), start: int = 0, gpu: bool = False) -> None:
        self.sizes = tuple(SimpleNamespace(maximum=n) for n in sizes)
        self.without_gpu = "others" if gpu else None
        self.start, self.traces = start, "all"

    def traces_shown(self, sizes: object, ids: object) -> object:
        return ("shown", sizes, ids)

    def traces_at(self, sizes: object) -> object:
        return ("at", sizes)

    def steps_at(self, sizes: object) -> range:
        return range(self.start, 9)


@pytest.mark.parametrize(
    ("manifest", "sizes", "layers", "traces"),
    [
        (Shown(), (), False, ()),
        (Shown(), (), True, "all"),
        (Shown(gpu=True), (), True, ("shown", (), "ids")),
        (Shown(sizes=(7, 9)), (7, 9), True, ("at", (7, 9))),
        (Shown(sizes=(7, 9)), (7, 8), True, ()),
        (Shown(sizes=(7, 9), start=1), (7, 8), True, ("at", (7, 8))),
        (Shown(sizes=(7, 9), start=5), (7, 9), True, ("at", (7, 9))),
    ],
)
def test_which_values_a_run_shows(
    manifest: Any, sizes: tuple[int, ...], layers: bool, traces: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(verify, "chosen_sizes", lambda manifest, inputs: sizes)
    found: Any = SimpleNamespace(traces="ids")
    assert comparing(joined(), layers=layers)._traces(manifest, [], found) == traces


def trace(value: str, *, number: int = 1, inside: bool = False, count: int = 8) -> Any:
    return SimpleNamespace(value=value, id=number, is_inside=inside, bytes=4 * count)


def traced(made: verify._Comparing, entry: Any, tensors: dict[str, Any], *raw: Any) -> None:
    found: Any = SimpleNamespace(traces={1: np.concatenate(raw).view(np.uint8)} if raw else {})
    made._add_trace(0, entry, OracleResult((), tensors), found)


ROW = np.arange(8, dtype=np.float32)


def test_a_trace_is_compared_with_its_tensor() -> None:
    made, tensors = comparing(joined()), {"T": ROW.reshape(1, 8)}
    traced(made, trace("t"), tensors, ROW)
    traced(made, trace("t", inside=True), tensors, ROW + 1, ROW)  # the last round of a body
    assert [(r.tensor, r.operator, r.elements, r.mismatches) for r in made.rows.values()] == [
        ("T", "concat", 16, 0)
    ]
    assert made.compared == {"T"}
    traced(made, trace("t"), tensors, ROW + 1)
    assert made.rows["t"].mismatches == 8


def test_what_is_not_compared() -> None:
    made = comparing(joined())
    traced(made, trace("a copy", inside=True), {"T": ROW}, ROW)  # the compiler's own
    traced(made, trace("t", inside=True), {"T": ROW})  # a body that did not run
    traced(made, trace("u"), {"u": ROW}, ROW)  # no tensor of the source
    traced(made, trace("t"), {}, ROW)  # one that the framework does not show
    assert made.rows == {}
    with pytest.raises(RunFailed, match="the host engine did not trace t"):
        traced(made, trace("t"), {"T": ROW})
    some = comparing(joined(), only={"V"})
    traced(some, trace("t"), {"T": ROW.reshape(1, 8)}, ROW)
    assert some.rows == {}
    traced(some, trace("v"), {"V": ROW.reshape(2, 4)}, ROW)
    assert some.compared == {"V"}


def kept(shape: tuple[int, ...], origin: Origin) -> Function:
    b = GraphBuilder()
    x = b.param("x", TensorType(shape, "float32"))
    return b.finish([b.op("reshape", [x], ReshapeAttrs(shape), name="y", origins=[origin])])


@pytest.mark.parametrize(
    ("shape", "permutation"), [((2, 3), None), ((3, 2), (1, 0)), ((3, 4, 2), (2, 1, 0))]
)
def test_channels_that_nobody_computes_are_the_reference_s_own(
    shape: tuple[int, ...], permutation: tuple[int, ...] | None
) -> None:
    """Of the value's last axis, of 3, the middle one was removed."""
    origin = Origin("T", shape, permutation=permutation, kept_channels=(0, 2))
    tensor = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    value = (tensor.T if permutation else tensor)[..., [0, 2]]
    made = comparing(kept(value.shape, origin))
    raw = np.ascontiguousarray(value).reshape(-1)
    traced(made, trace("y", count=raw.size), {"T": tensor}, raw)
    assert made.rows["y"].mismatches == 0
    traced(made, trace("y", count=raw.size), {"T": tensor}, raw + 1)
    assert made.rows["y"].mismatches == tensor.size * 2 // 3
    traced(made, trace("y", count=raw.size), {"T": np.zeros(1, np.float32)}, raw)  # another shape
    assert made.rows["y"].mismatches == tensor.size * 2 // 3 + 1


def test_a_scalar_is_compared_and_has_no_channels() -> None:
    made = comparing(kept((), Origin("T", ())))
    traced(made, trace("y", count=1), {"T": np.float32(3)}, np.float32([3]))
    assert (made.rows["y"].elements, made.rows["y"].mismatches) == (1, 0)


def test_tensors_that_share_a_name_are_told_apart_by_number() -> None:
    expected = OracleResult((), {"T": np.zeros(1)}, {4: np.ones(1)})

    def found(origin: Origin | None) -> Any:
        return verify._source_tensor(expected, Value("v", TensorType((1,), "float32"), origin))

    assert found(None) is None and found(Origin("U", (1,))) is None
    assert found(Origin("T", (1,), index=4)).tolist() == [1.0]
    assert found(Origin("U", (1,), index=4)).tolist() == [1.0]
    assert found(Origin("T", (1,), index=5)).tolist() == [0.0]
    assert found(Origin("T", (1,))).tolist() == [0.0]
