"""The commands of pages work, in the order they are written; so do the calls of docs/python.md.

Left out is what needs a board, a program of another maker, or hours.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from repo_files import REPO_ROOT

from edgec.cli.main import main

PAGES = [
    *sorted(
        path.stem
        for kind in ("from_*", "package_*")
        for path in (REPO_ROOT / "docs").glob(f"{kind}.md")
    ),
    "boards", "cuda", "export", "index", "memory", "pytorch", "quantization", "report",
    "sounds_and_pictures", "tune",
]  # fmt: skip
#: Pages whose commands take two seconds.
SHORT = ("custom_operators", "own_kernels", "pools")
#: A board at the end of a cable; another generator of C; models that nobody has here.
LEFT_OUT = ("edgec flash", "--port", "--peers", "detector.tflite")
#: Sample models, by the names that pages give them.
SAMPLES = {
    "kws.tflite": "mlperf_kws_dscnn_int8.tflite",
    "kws_int8.tflite": "mlperf_kws_dscnn_int8.tflite",
    "model.tflite": "mlperf_kws_dscnn_int8.tflite",
    "faces.onnx": "ultraface_slim320_nopost.onnx",
}
DIGITS = REPO_ROOT / "examples" / "digits"


def commands_of(page: str) -> list[str]:
    text = (REPO_ROOT / "docs" / f"{page}.md").read_text("utf-8")
    lines = re.findall(r"^ {4}(edgec .*)$", text, re.M)
    # A search that is as short as can be is a search, too.
    lines = [
        re.sub(r"( --trials \d+|$)", " --trials 2", line, count=1)
        if line.startswith("edgec tune") and "--merge" not in line
        else line
        for line in lines
    ]
    return [line for line in lines if not any(word in line for word in LEFT_OUT)]


def rename_input(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    old = model.graph.input[0].name
    model.graph.input[0].name = name
    for node in model.graph.node:
        node.input[:] = [name if each == old else each for each in node.input]
    return model


def fill(folder: Path, page: str, sample_model: Callable[[str], Path]) -> None:
    """Put the files that pages speak of into a folder."""
    for name, sample in SAMPLES.items():
        shutil.copy(sample_model(sample), folder / name)
    digits = onnx.load(DIGITS / "digits_int8.onnx")
    onnx.save(rename_input(digits, "x"), folder / "model.onnx")
    shutil.copy(DIGITS / "digits_int8.onnx", folder / "trained.onnx")
    shutil.copy(DIGITS / "digits_float.onnx", folder / "float.onnx")
    with np.load(DIGITS / "digits_test.npz") as data:
        images = next(data[name] for name in data.files if data[name].ndim > 1)
        labels = next(data[name] for name in data.files if data[name].ndim == 1)
    np.savez(folder / "samples.npz", image=images[:40].astype(np.float32))
    np.savez(folder / "other.npz", image=images[40:90].astype(np.float32))
    np.save(folder / "labels.npy", labels[40:90])
    np.save(folder / "sample.npy", np.full((1, 1, 8, 8), 0.5, np.float32))
    if page == "sounds_and_pictures":
        image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
        image.fromarray(np.full((96, 96, 3), 90, np.uint8)).save(folder / "photo.jpg")
        shutil.copy(sample_model("../data/tflm_yes_1000ms.wav"), folder / "yes.wav")
        text = (REPO_ROOT / "docs" / f"{page}.md").read_text("utf-8")
        features = re.search(r"```toml\n(kind.*?)```", text, re.S)
        assert features is not None
        (folder / "kws_features.toml").write_text(features[1], "utf-8")
        (folder / "words.txt").write_text("".join(f"word {n}\n" for n in range(12)), "utf-8")
    if page in OTHERS:
        OTHERS[page](folder, sample_model)
    if any(".pt2" in command for command in commands_of(page)):
        torch = pytest.importorskip("torch", reason="PyTorch is not installed (edgec[torch])")

        class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.dense = torch.nn.Linear(64, 10)

            def forward(self, image: Any) -> Any:
                return self.dense(image.flatten(1)).relu()

        program = torch.export.export(Net().eval(), (torch.ones(1, 1, 8, 8),))
        for name in ("model.pt2", "kws.pt2"):
            torch.export.save(program, folder / name)


def _blocks(page: str, language: str) -> list[str]:
    text = (REPO_ROOT / "docs" / f"{page}.md").read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def _small(folder: Path, sample_model: Callable[[str], Path]) -> None:
    """A model of three layers, where a search, emulators or CUDA's compiler take long."""
    shutil.copy(sample_model("tflm_hello_world_int8.tflite"), folder / "model.tflite")


def _pool(folder: Path, sample_model: Callable[[str], Path]) -> None:
    """The page's pool without the farm, and without the board at the end of a cable."""
    _small(folder, sample_model)
    text = (REPO_ROOT / "docs" / "pools.md").read_text("utf-8")
    first = text.index('    [[device]]\n    engine = "qemu"')
    pool = text[first : text.index("    [[device]]", first + 1)]
    (folder / "pool.toml").write_text(pool.replace("    ", ""), "utf-8")


def _custom_operator(folder: Path, _: Callable[[str], Path]) -> None:
    """The page's operator, and a model that has it between two others."""
    (declared,), (source,) = (_blocks("custom_operators", name) for name in ("python", "c"))
    (folder / "ops.py").write_text(declared, "utf-8")
    (folder / "scale.c").write_text(source, "utf-8")
    make = onnx.helper
    nodes = [
        make.make_node("Relu", ["x"], ["a"]),
        make.make_node("Scale", ["a"], ["b"], domain="com.example", factor=0.5),
        make.make_node("Abs", ["b"], ["y"]),
    ]
    ports = [[make.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, 8))] for name in "xy"]
    sets = [make.make_opsetid("", 17), make.make_opsetid("com.example", 1)]
    graph = make.make_graph(nodes, "scaled", *ports)
    onnx.save(make.make_model(graph, opset_imports=sets, ir_version=9), folder / "model.onnx")


def _own_kernel(folder: Path, sample_model: Callable[[str], Path]) -> None:
    """The page's kernel, and a float model that has a dense layer for it."""
    (kernels, _), (source,) = (_blocks("own_kernels", name) for name in ("python", "c"))
    (folder / "kernels.py").write_text(kernels, "utf-8")
    (folder / "dense_f32.c").write_text(source, "utf-8")
    shutil.copy(sample_model("tflm_hello_world_f32.tflite"), folder / "model.tflite")


def _searched(folder: Path, sample_model: Callable[[str], Path]) -> None:
    """Two files of searches to be merged."""
    _small(folder, sample_model)
    for name, core in (("mine", "cortex-m3"), ("yours", "cortex-m0")):
        assert run(f"edgec tune model.tflite --target {core} --trials 2 -o {name}.tune.json") == 0


#: What pages need besides the files of all.
OTHERS = {
    "cuda": _small, "pools": _pool, "tune": _searched, "custom_operators": _custom_operator,
    "own_kernels": _own_kernel,
}  # fmt: skip


def run(command: str) -> int | str | None:
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(command, comments=True)[1:])
    return stop.value.code


@pytest.mark.parametrize(
    "page", [*SHORT, *(pytest.param(page, marks=pytest.mark.full) for page in PAGES)]
)
def test_commands_of_a_page(
    page: str, sample_model: Callable[[str], Path], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    monkeypatch.chdir(tmp_path)
    fill(tmp_path, page, sample_model)
    commands = commands_of(page)
    assert commands
    if page == "cuda":
        pytest.importorskip("nvidia.cuda_nvrtc", reason="edgec[cuda] is not installed")
        monkeypatch.setenv("EDGEC_CACHE", str(tmp_path / "cache"))
    if page == "export":
        commands.insert(0, "edgec build kws.tflite")
    for command in commands:
        assert run(command) == 0, f"{command}\n{capsys.readouterr().err}"


def test_calls_of_the_python_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    text = (REPO_ROOT / "docs" / "python.md").read_text("utf-8").replace(".tflite", ".onnx")
    calls, progress, loop = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    for name in ("model", "float"):
        kind = "int8" if name == "model" else name
        shutil.copy(DIGITS / f"digits_{kind}.onnx", tmp_path / f"{name}.onnx")
    monkeypatch.chdir(tmp_path)
    x = np.full((1, 1, 8, 8), 0.5, np.float32)
    names: dict[str, Any] = {"x": x, "samples": [[x * n / 8] for n in range(8)], "asyncio": asyncio}
    exec(calls, names)
    assert names["y"].shape == (1, 10) and list(names["named"]) == ["logits"]
    assert (tmp_path / "int8.onnx").is_file()
    exec(progress + loop, names)
    with asyncio.run(names["build"]("int8.onnx")) as model:
        assert model.run(x).shape == (1, 10)
