"""Models whose groups an Ethos-U runs, on the emulated Cortex-M55 with a stand-in for its driver.

Command streams are Vela's, and nothing here runs them: `ethos_u_stand_in.c` checks every argument
of the driver's call, then computes the group in C. What is proven are the borders: which operators
a group has, where its inputs and outputs lie, sizes, alignments and what is on the processor.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from shared_folder import find_shared
from test_same_bits import need_tools

from edgec import external
from edgec.boards.board import load_board
from edgec.deploy.project import deploy, deploy_library
from edgec.errors import EdgecError, ImportFailed, RunFailed, ToolMissing
from edgec.external.ethos_u import EthosU
from edgec.frontends.tflite import import_tflite
from edgec.frontends.tflite_reader import RawModel, RawTensor, metadata, read_model
from edgec.graph.ir import Function, Module
from edgec.ops.custom import is_accelerated
from edgec.options import Options
from edgec.oracle.frameworks import open_oracle
from edgec.pipeline import compile_model, compile_module
from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs
from edgec.targets.core import find_core

pytestmark = pytest.mark.skipif(
    find_spec("ethosu") is None, reason="Vela is not installed (edgec[ethos-u])"
)
SHARED = find_shared() / "models"
STAND_IN = Path(__file__).with_name("ethos_u_stand_in.c")
TARGET = "ethos-u55-128"
BOARD = "mps3_an547"
CASES = 2


@dataclass(frozen=True)
class Watched(EthosU):
    """An Ethos-U that keeps what its groups mean."""

    functions: list[Function] = field(default_factory=list)

    def partition(self, model: RawModel, data: bytes, meaning: Callable[[RawModel], Function]):
        def watched(part: RawModel) -> Function:
            self.functions.append(meaning(part))
            return self.functions[-1]

        return super().partition(model, data, watched)


def size_of(tensor: RawTensor) -> int:
    return int(np.prod(tensor.shape)) * np.dtype(tensor.dtype.lower()).itemsize


def place_list(places: list[tuple[int, int]]) -> str:
    return ", ".join(f"{{{offset}u, {size}u}}" for offset, size in places)


def stand_in(folder: Path, model: Path, calls: int) -> tuple[Path, ...]:
    """Files that stand in for the driver: of each group, C of edgec's for the processor."""
    watched = Watched(TARGET, (), ())
    import_tflite(model, partition=watched.partition)
    (compiled,) = watched.made.values()
    graph = read_model(compiled, "").main
    places = np.frombuffer(metadata(compiled, "OfflineMemoryAllocation"), "<i4")[3:]
    operators = [operator for operator in graph.operators if operator.kind == "CUSTOM:ethos-u"]
    files, lines, rows = [STAND_IN], [], []
    memory = load_board(BOARD).memory
    for name, region in (("RAM", memory["dtcm"]), ("FLASH", memory["flash"])):
        lines += [
            f"#define {name}_START {region.origin}u",
            f"#define {name}_BYTES {region.length}u",
        ]
    for n, (operator, function) in enumerate(zip(operators, watched.functions, strict=True)):
        name = f"group{n}"
        module = Module({"main": function}, source=f"{name}.tflite", format="tflite")
        plain = compile_module(module, find_core("cortex-m55"), Options(model_name=name))
        built = deploy_library(plain, folder / name)
        files += [f for f in built.project.glob(f"{name}*.[ch]")]
        sizes = {t: size_of(graph.tensors[t]) for t in (*operator.inputs, *operator.outputs)}
        ins = [(int(places[t]), sizes[t]) for t in operator.inputs[4:]]
        outs = [(int(places[t]), sizes[t]) for t in operator.outputs]
        lines += [
            f'#include "{name}.h"',
            f"static int run_{name}(uint8_t *scratch) {{",
            f"    static {name.upper()}_ARENA(arena);",
            f"    static {name}_context context;",
            f"    const {name}_memory memory = {{.arena = arena, .arena_bytes = sizeof arena}};",
            f"    const place ins[] = {{{place_list(ins)}}}, outs[] = {{{place_list(outs)}}};",
            f"    if ({name}_init(&context, &memory) != EC_OK) {{ return -1; }}",
            f"    for (uint32_t n = 0u; n < {len(ins)}u; ++n) {{",
            f"        (void)memcpy({name}_input(&context, n), scratch + ins[n].offset,",
            "                     ins[n].bytes);",
            "    }",
            f"    if ({name}_run(&context, NULL, NULL) != EC_OK) {{ return -1; }}",
            f"    (void)memset(scratch, SPOILED, {sizes[operator.inputs[2]]}u);",
            f"    for (uint32_t n = 0u; n < {len(outs)}u; ++n) {{",
            f"        (void)memcpy(scratch + outs[n].offset, {name}_output(&context, n),",
            "                     outs[n].bytes);",
            "    }",
            "    return 0;",
            "}",
        ]  # fmt: skip
        row = ", ".join(str(sizes[t]) for t in operator.inputs[:3])
        rows.append(f"{{{row}, run_{name}}}")
    lines += [f"static const group groups[] = {{{', '.join(rows)}}};"]
    lines += [f"#define CALLS_THAT_SUCCEED {calls}"]
    table = folder / "stand_in_groups.h"
    table.write_text("\n".join(lines) + "\n")
    return (*files, table)


def with_names(model: Path, folder: Path) -> Path:
    """The model with a name of its own for every tensor."""
    import flatbuffers

    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    made = schema.ModelT.InitFromObj(schema.Model.GetRootAs(model.read_bytes(), 0))
    for number, tensor in enumerate(made.subgraphs[0].tensors):
        tensor.name = f"tensor{number}".encode()
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(made.Pack(builder), b"TFL3")
    path = folder / f"named_{model.name}"
    path.write_bytes(builder.Output())
    return path


@dataclass(frozen=True)
class Subject:
    """groups: how many Vela makes. rest: operators that stay on the processor."""

    file: str
    groups: int
    rest: frozenset[str] = frozenset()
    named: bool = True


SUBJECTS = (
    Subject("mlperf_kws_dscnn_int8.tflite", 1),
    Subject("tflm_keyword_scrambled_int8.tflite", 6, frozenset({"svdf_time"}), named=False),
    Subject("mww_hey_jarvis_int8.tflite", 1),
)


@pytest.mark.parametrize(
    "subject",
    [pytest.param(s, id=s.file.split(".")[0], marks=() if s.rest else pytest.mark.full)
     for s in SUBJECTS],
)  # fmt: skip
def test_the_bits_of_tflite_micro(subject: Subject, tmp_path: Path) -> None:
    need_tools("qemu", "gcc", BOARD)
    model = SHARED / subject.file
    if not model.is_file():
        pytest.skip("the sample models are not here")
    model = model if subject.named else with_names(model, tmp_path)
    driver = stand_in(tmp_path, model, CASES * subject.groups)
    board = load_board(BOARD)
    options = Options(kernels=external.ethos_u(TARGET, driver))
    compiled = compile_model(model, board.core, options, board=board)
    nodes = compiled.imported.main.nodes
    assert len([node for node in nodes if is_accelerated(node)]) == subject.groups
    assert subject.rest <= {node.op.name for node in nodes}
    built = deploy(compiled, board, tmp_path / "project")
    oracle = open_oracle(model, "tflm")
    types = [(port.shape, port.dtype) for port in built.manifest.inputs]
    with open_session("qemu", built) as session:
        for seed in range(1, 1 + CASES):
            inputs = generate_inputs(seed, types)
            wanted, found = oracle.run(inputs).outputs, session.run(inputs).outputs
            assert [a.tobytes() for a in found] == [a.tobytes() for a in wanted]
        with pytest.raises(RunFailed, match="EC_ERR_NPU"):
            session.run(inputs)


def test_the_constants_are_those_of_velas_raw_output(tmp_path: Path) -> None:
    """Vela's other format says the same: command stream, weights, sizes, places."""
    model = SHARED / "mlperf_kws_dscnn_int8.tflite"
    if not model.is_file():
        pytest.skip("the sample models are not here")
    command = [sys.executable, "-m", "ethosu.vela", str(model), "--accelerator-config", TARGET,
               "--output-format", "raw", "--output-dir", str(tmp_path)]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    with np.load(next(tmp_path.glob("*.npz")), allow_pickle=True) as raw:
        compiled = compile_model(model, find_core("cortex-m55"),
                                 Options(kernels=external.ethos_u(TARGET)))  # fmt: skip
        stored = {array.tobytes() for array in compiled.program.constants.values()}
        assert stored == {raw["cmd_data"].tobytes(), raw["weight_data"].tobytes()}
        (scratch,) = (b for b in compiled.problem.buffers if b.name.startswith("scratch"))
        assert scratch.size_bytes == raw["scratch_size"]
        assert compiled.plan.offsets[scratch.name] % 16 == 0
        text = next(iter(compiled.program.steps)).function
        assert text.params[-1].elements == raw["scratch_size"]


def test_what_cannot_be_shared_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = external.ethos_u(TARGET)
    digits = Path(__file__).parents[2] / "examples" / "digits" / "digits_int8.onnx"
    with pytest.raises(ImportFailed, match="takes TFLite models"):
        compile_model(digits, find_core("cortex-m55"), Options(kernels=kernels))
    with pytest.raises(EdgecError, match="cannot read the driver"):
        external.ethos_u(TARGET, [tmp_path / "absent.c"])
    with pytest.raises(EdgecError, match="one accelerator"):
        compile_model(digits, find_core("cortex-m55"), Options(kernels=kernels * 2))
    model = SHARED / "tflm_hello_world_int8.tflite"
    if not model.is_file():
        pytest.skip("the sample models are not here")
    for core in ("x86-64-v3", "cortex-a7", "cortex-r5", "rv32imc", "rv32imc_zve32x", "lx106"):
        with pytest.raises(EdgecError, match=f"{core} has no Ethos-U"):
            compile_model(model, find_core(core), Options(kernels=kernels))
    with pytest.raises(EdgecError, match="cannot compile the model for ethos-u9"):
        compile_model(model, find_core("cortex-m55"), Options(kernels=external.ethos_u("ethos-u9")))
    monkeypatch.setattr(sys.modules[EthosU.__module__], "find_spec", lambda name: None)
    with pytest.raises(ToolMissing, match="Vela") as caught:
        compile_model(model, find_core("cortex-m55"), Options(kernels=external.ethos_u(TARGET)))
    assert "edgec[ethos-u]" in caught.value.hint
