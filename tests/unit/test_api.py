"""`edgec.compile(...)` gives in Python what the command line gives."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from tflite_builder import TfliteBuilder

import edgec
import edgec.api
from edgec.errors import BudgetExceeded, EdgecError, ImportFailed
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.loop.tuned import Tuned, to_json
from edgec.options import CompileOptions, Options
from edgec.runners.samples import generate_inputs

TYPES = [((1, 2, 3), "int8")] * 2


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """(a, b) -> (a + b, a + b + b), int8[1,2,3] each."""
    builder = TfliteBuilder()
    a, b, total, twice = (
        builder.tensor(name, (1, 2, 3), "int8", scale=0.1 * (number + 1), zero_point=number)
        for number, name in enumerate(("a", "b", "sum", "twice"))
    )
    builder.operator("ADD", [a, b], [total], "AddOptions")
    builder.operator("ADD", [total, b], [twice], "AddOptions")
    path = tmp_path_factory.mktemp("models") / "two.tflite"
    path.write_bytes(builder.build([a, b], [total, twice]))
    return path


def test_a_run_gives_the_bits_of_the_reference(model: Path) -> None:
    inputs = generate_inputs(3, TYPES)
    expected = interpret(import_model(model).main, inputs)
    with edgec.compile(model) as compiled:
        found = compiled.run(*inputs)
        assert compiled.engine == "host" and compiled.report["model"] == "two"
        again = compiled.run(*inputs)
    assert isinstance(found, tuple) and len(found) == 2
    for want, got, repeated in zip(expected, found, again, strict=True):
        assert got.dtype == np.int8 and got.tobytes() == want.tobytes() == repeated.tobytes()


def test_a_path_may_be_text_and_options_are_fields(model: Path) -> None:
    with edgec.compile(str(model), io="caller", unfused=True, model_name="net") as compiled:
        assert compiled.report["model"] == "net"
        assert len(compiled.run(*generate_inputs(1, TYPES))) == 2


def test_an_engine_with_costs(model: Path) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    with edgec.compile(model, board="mps2_an386", engine="core") as compiled:
        result = compiled.run_all(generate_inputs(1, TYPES))
    assert result.instructions > 50 and result.cycles > result.instructions
    assert result.cycles_source == "modelled" and result.stack_bytes > 0


def test_leading_ones_may_be_left_out(model: Path) -> None:
    a, b = generate_inputs(1, TYPES)
    with edgec.compile(model) as compiled:
        whole = compiled.run(a, b)
        for shape in ((2, 3), (1, 1, 2, 3), (6,)):
            short = compiled.run(a.reshape(shape), b)
            assert all(x.tobytes() == y.tobytes() for x, y in zip(whole, short, strict=True))


def test_wrong_inputs_are_refused(model: Path) -> None:
    a, b = generate_inputs(1, TYPES)
    with edgec.compile(model) as compiled:
        for inputs, said in (
            ((a,), "2 inputs are needed, 1 were given"),
            ((a, b, b), "2 inputs are needed, 3 were given"),
            ((a, b.astype(np.float32)), "float32"),
            ((a, b.reshape(1, 3, 2)), "int8\\[1, 3, 2\\] was given"),
            ((a, b[:, :1]), "int8\\[1, 1, 3\\] was given"),
        ):
            with pytest.raises(EdgecError, match=said):
                compiled.run(*inputs)


def test_temporary_projects_go_and_named_ones_stay(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    compiled = edgec.compile(model)
    project = compiled.built.project
    assert (project / "two.c").is_file()
    compiled.close()
    compiled.close()
    assert not project.exists()
    with edgec.compile(model, output=tmp_path / "kept"):
        pass
    assert (tmp_path / "kept" / "two.c").is_file()
    with pytest.raises(BudgetExceeded):
        edgec.compile(model, max_ram_bytes=1)
    with pytest.raises(ImportFailed):
        edgec.compile(tmp_path / "absent.onnx")
    with pytest.raises(EdgecError, match="cannot run a project built for host"):
        edgec.compile(model, engine="core")
    assert list((tmp_path / "tmp").iterdir()) == []


def test_inputs_and_outputs_by_name(model: Path) -> None:
    a, b = generate_inputs(1, TYPES)
    with edgec.compile(model) as compiled:
        want = compiled.run(a, b)
        assert [(port.name, port.dtype, port.shape) for port in compiled.inputs] == [
            (name, dtype, shape) for name, (shape, dtype) in zip("ab", TYPES, strict=True)
        ]
        assert [port.name for port in compiled.outputs] == ["sum", "twice"]
        for got in (compiled.run(a=a, b=b), compiled.run(b=b, a=a), compiled.run(a, b=b)):
            assert all(x.tobytes() == y.tobytes() for x, y in zip(want, got, strict=True))
        named = compiled.run_named(a, b)
        assert [*named] == ["sum", "twice"] and named["twice"].tobytes() == want[1].tobytes()
        for words in ({"c": b}, {"a": a}):
            with pytest.raises(EdgecError, match="is not an input"):
                compiled.run(a, **words)
        with pytest.raises(EdgecError, match="2 inputs are needed"):
            compiled.run(b=b)
        shown = compiled._repr_html_()
        assert "int8[1, 2, 3]</td>" in shown and "RAM in all" not in shown
        assert "<figcaption>two.tflite for host (" in compiled.report._repr_html_()


def test_a_closed_model_says_so(model: Path) -> None:
    compiled = edgec.compile(model)
    compiled.close()
    with pytest.raises(EdgecError, match="is closed"):
        compiled.run(*generate_inputs(1, TYPES))


@pytest.mark.parametrize(
    ("words", "said"),
    [({"optimise": "time"}, "near it: optimize"), ({"optimize": "speed"}, "'time'"),
     ({"compiler": "tcc"}, "'gcc'")],
)  # fmt: skip
def test_options_are_checked(model: Path, words: dict[str, str], said: str) -> None:
    with pytest.raises(EdgecError) as caught:
        edgec.compile(model, **words)
    assert said in str(caught.value), "the text of an error has its hint"


def test_what_was_tuned_may_be_a_path(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    path.write_text(to_json(Tuned()))
    assert Options.of_words({"tuned": path}) == Options.of_words({"tuned": str(path)}) == Options()
    with pytest.raises(EdgecError, match="cannot be read"):
        Options.of_words({"tuned": tmp_path / "none.json"})


def test_the_typed_keywords_are_the_options() -> None:
    """Editors and mypy know every option of `edgec.compile`, and no other."""
    names = {field.name for field in dataclasses.fields(Options)}
    assert set(CompileOptions.__annotations__) == names
    for function in (edgec.compile, edgec.api.compile):
        parameters = inspect.signature(function).parameters
        assert list(parameters) == [
            "path", "board", "engine", "output", "calibration", "progress", "options",
        ]  # fmt: skip
        assert parameters["options"].annotation == "Unpack[CompileOptions]"


def test_progress_and_what_a_notebook_shows(tmp_path: Path) -> None:
    """Of a float model that is quantized, built and verified; names are escaped."""
    graph = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]>
        g (float[1,4] x) => (float[1,2] y)
        <float[4,2] w = {1, -2, 3, 4, -5, 6, 7, 8}, float[2] b = {0.5, -0.5}>
        { h = MatMul(x, w) s = Add(h, b) y = Relu(s) }
    """)
    for node in graph.graph.node:
        node.input[:] = ["<b>h" if name == "h" else name for name in node.input]
        node.output[:] = ["<b>h" if name == "h" else name for name in node.output]
    onnx.save(graph, tmp_path / "float.onnx")
    random = np.random.default_rng(0)
    samples = [[random.normal(size=(1, 4)).astype(np.float32)] for _ in range(5)]
    told: list[tuple[str, int, int]] = []
    made = edgec.quantize(tmp_path / "float.onnx", samples, output=tmp_path / "int8.onnx",
                              progress=lambda *step: told.append(step))  # fmt: skip
    assert told == [*(("calibrating", n, 5) for n in range(1, 6)), ("choosing ranges", 0, 0)]
    shown = made._repr_html_() + made.explain(samples)._repr_html_()
    assert "<b>h" not in shown and "<figcaption>5 samples: y " in shown and "int8</td>" in shown
    told.clear()
    found = edgec.verify(tmp_path / "int8.onnx", random=3, layers=True,
                         progress=lambda *step: told.append(step))  # fmt: skip
    assert not found.beyond and found.cases == 3
    assert ("cases on host", 2, 3) in told and told[0] == ("building int8.onnx for host", 0, 0)
    shown = found._repr_html_()
    assert "<figcaption>verified: " in shown and '<td style="text-align: right" class="n">' in shown


def test_progress_in_an_event_loop(model: Path) -> None:
    """The loop goes on while a thread compiles; an exception of the callback ends the work."""

    async def build() -> tuple[list[str], int]:
        loop, steps, beats = asyncio.get_running_loop(), [], 0

        def tell(what: str, done: int, total: int) -> None:
            loop.call_soon_threadsafe(steps.append, what)

        work = asyncio.create_task(asyncio.to_thread(edgec.compile, model, progress=tell))
        while not work.done():
            await asyncio.sleep(0.001)
            beats += 1
        work.result().close()
        return steps, beats

    steps, beats = asyncio.run(build())
    assert steps == ["reading two.tflite", "compiling two.tflite", "building for host"]
    assert beats > 5

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        edgec.compile(model, progress=stop)


def test_every_name_of_the_package_is_there() -> None:
    for name in edgec.__all__:
        assert getattr(edgec, name) is not None and name in dir(edgec)
    with pytest.raises(AttributeError, match="no attribute 'quantise'"):
        edgec.quantise  # noqa: B018
    words = "import sys, edgec, edgec.cli.main; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", words], check=False).returncode == 0
