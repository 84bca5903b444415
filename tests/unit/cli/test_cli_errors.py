"""Bad input: one clear error, status 1, no traceback, and nothing half-written."""

from __future__ import annotations

import errno
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.codegen.manifest import MANIFEST_FORMAT

COMMANDS = (
    ("inspect", "{}"),
    ("build", "{}", "--board", "host", "-o", "out"),
    ("run", "{}", "--board", "host"),
    ("verify", "{}", "--board", "host"),
)


def names(folder: Path) -> set[str]:
    """All that is in a folder and in the folder of temporary files beside it."""
    return {path.name for path in (*folder.iterdir(), *(folder.parent / "tmp").iterdir())}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("absent.tflite", None, "No such file"),
        ("empty.tflite", b"", "no TFL3 identifier"),
        ("empty.onnx", b"", "no ONNX graph"),
        ("empty", b"", "is empty"),
        ("text.txt", b"hello\n", "neither TFLite, ONNX nor PyTorch"),
        ("text.tflite", b"hello world\n", "no TFL3 identifier"),
        ("text.onnx", b"hello world\n", "not a readable ONNX model\n"),
        ("head.tflite", b"\x1c\0\0\0TFL3", "damaged"),
    ],
)
def test_what_is_no_model(
    command: tuple[str, ...], name: str, data: bytes | None, said: str,
    refused: Callable[..., str], work: Path,
) -> None:  # fmt: skip
    if data is not None:
        (work / name).write_bytes(data)
    text = refused(*(word.format(name) for word in command))
    assert name in text and said in text and "\nhint: " in text
    assert names(work) <= {name}


@pytest.mark.parametrize("share", [0.02, 0.3, 0.7, 0.99])
def test_truncated_models(
    share: float, dense_model: Path, example: Path, refused: Callable[..., str], work: Path
) -> None:
    for path in (dense_model, example):
        data = path.read_bytes()
        (work / path.name).write_bytes(data[: int(len(data) * share)])
        text = refused("build", path.name, "--target", "cortex-m4", "-o", "out")
        assert path.name in text
        assert names(work) == {path.name}
        (work / path.name).unlink()


def test_damaged_models_are_refused_or_read(
    dense_model: Path, example: Path, edgec: Callable, work: Path
) -> None:
    rng = np.random.default_rng(3)
    for path in (dense_model, example):
        data = path.read_bytes()
        for _ in range(60):
            damaged = bytearray(data)
            for place in rng.integers(0, len(data), rng.integers(1, 6)):
                damaged[place] = rng.integers(256)
            (work / path.name).write_bytes(damaged)
            ran = edgec("inspect", path.name)
            assert ran.status == 0 or (ran.status == 1 and ran.err.startswith("error: ")), ran


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_folder_is_no_model(
    command: tuple[str, ...], refused: Callable[..., str], work: Path
) -> None:
    (work / "folder").mkdir()
    takes_projects = command[0] in ("run", "verify")
    said = "folder is not an edgec project" if takes_projects else "folder: Is a directory"
    assert said in refused(*(word.format("folder") for word in command))


def test_folders_that_are_no_projects(
    refused: Callable[..., str], edgec: Callable, dense_model: Path, work: Path
) -> None:
    (work / "empty").mkdir()
    assert "empty is not an edgec project" in refused("run", "empty")
    edgec("build", dense_model, "--target", "cortex-m4", "-o", "library")
    text = refused("run", "library", "--board", "stm32")
    assert "library is a library for cortex-m4" in text and "hint: " in text
    (work / "library" / "manifest.json").write_text(f'{{"format": {MANIFEST_FORMAT}}}')
    assert "manifest.json is not readable" in refused("run", "library")


def test_a_project_for_another_board(
    refused: Callable[..., str], edgec: Callable, dense_model: Path, work: Path
) -> None:
    assert edgec("build", dense_model, "--board", "host", "-o", "out").status == 0
    assert "was built for host, not for netduinoplus2" in refused("run", "out", "--board", "stm32")
    assert "build_trace" in refused("run", "out", "--profile")
    for path in (work / "out" / "build").iterdir():
        path.write_bytes(path.read_bytes()[:100])
    refused("run", "out")


def test_all_unsupported_operators_are_named(
    unsupported_model: Path, refused: Callable[..., str], work: Path
) -> None:
    text = refused("build", unsupported_model, "--board", "host", "-o", "out")
    assert "2 operators of strange.tflite are not supported" in text
    assert 'CUSTOM:Mystery  node "first"' in text or 'Mystery  node "first"' in text
    assert 'CUMSUM  node "second"' in text and "edgec ops" in text
    assert names(work) == set()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--board", "moon"), "there is no board 'moon'"),
        (("--board", "."), "there is no board '.'"),
        (("--target", "cortex-x9"), "there is no core 'cortex-x9'"),
    ],
    ids=str,
)
def test_unknown_boards_and_cores(
    arguments: tuple[str, ...], said: str, dense_model: Path, refused: Callable[..., str],
    work: Path,
) -> None:  # fmt: skip
    text = refused("build", dense_model, *arguments, "-o", "out")
    assert said in text and "known " in text
    assert names(work) == set()


@pytest.mark.parametrize(
    ("board", "engine", "said"),
    [
        ("nucleo_f446re", "qemu", "QEMU does not emulate nucleo_f446re"),
        ("host", "qemu", "the qemu engine cannot run a project built for host"),
        ("host", "core", "the core engine cannot run a project built for host"),
        ("stm32", "host", "the host engine cannot run a project built for netduinoplus2"),
        ("mps3_an547", "core", "does not simulate the cortex-m55"),
    ],
)
@pytest.mark.parametrize("command", ["run", "verify"])
def test_engines_that_cannot_be_the_board(
    command: str, board: str, engine: str, said: str, dense_model: Path,
    refused: Callable[..., str],
) -> None:  # fmt: skip
    text = refused(command, dense_model, "--board", board, "--engine", engine)
    assert said in text and "hint: " in text


def test_a_serial_port_that_is_not_there(
    dense_model: Path, refused: Callable[..., str], work: Path
) -> None:
    text = refused("run", dense_model, "--board", "host", "--engine", "serial", "--port", "/no")
    assert "the serial engine cannot run a project built for host" in text


def test_no_compiler(
    dense_model: Path, refused: Callable[..., str], work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(work))
    monkeypatch.setattr("edgec.boards.toolchain.zig_program", lambda: None)
    for board, program in (("host", "gcc"), ("stm32", "arm-none-eabi-gcc")):
        text = refused("build", dense_model, "--board", board, "-o", "out")
        assert "no C compiler for " in text and f"install {program} " in text
        assert "edgec[toolchain]" in text
    assert names(work) == set()


def test_no_simulators(
    dense_model: Path, refused: Callable[..., str], work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda program: None)
    text = refused("run", dense_model, "--board", "stm32", "--engine", "qemu")
    assert "qemu-system-arm is not installed" in text and "--engine core" in text
    hide(monkeypatch, "unicorn")
    text = refused("run", dense_model, "--board", "stm32")
    assert "the Python package unicorn" in text and "edgec[sim]" in text


def test_no_reference(
    dense_model: Path, example: Path, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for model, package in ((dense_model, "tflite_micro"), (example, "onnxruntime")):
        hide(monkeypatch, package)
        text = refused("verify", model, "--board", "host")
        assert package in text and "edgec[verify]" in text
    assert "cannot run dense.tflite" in refused(
        "verify", dense_model, "--board", "host", "--reference", "onnx"
    )


def hide(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Make a package look as if it were not installed."""
    real = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == package else real(name)
    )
    monkeypatch.setitem(sys.modules, package, None)


def test_a_broken_installation(
    example: Path, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert "the Python package onnx is not installed" in refused("inspect", example)


def test_folders_that_are_not_edgecs(
    dense_model: Path, refused: Callable[..., str], work: Path
) -> None:
    (work / "mine").mkdir()
    (work / "mine" / "thesis.txt").write_text("text")
    (work / "file").write_text("text")
    for out, said in (
        ("mine", "was not made by edgec"),
        ("file", "is a file, not a folder"),
        ("file/out", "cannot write to"),
        ("/dev/null/out", "cannot write to"),
    ):
        text = refused("build", dense_model, "--target", "cortex-m4", "-o", out)
        assert said in text and "hint: " in text
    assert (work / "mine" / "thesis.txt").read_text() == "text"
    assert names(work) == {"mine", "file"}


def test_a_folder_that_cannot_be_written(
    dense_model: Path, refused: Callable[..., str], work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: Any, **__: Any) -> None:  # root may write anywhere, so chmod is no test
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("tempfile.mkdtemp", forbidden)
    text = refused("build", dense_model, "--target", "cortex-m4", "-o", "out")
    assert f"cannot write to {work}: Permission denied" in text and "hint: " in text


def test_outputs_that_cannot_be_written(
    dense_model: Path, refused: Callable[..., str], work: Path
) -> None:
    (work / "folder.npz").mkdir()
    for output, said in (("absent/y.npz", "no folder absent"), ("folder.npz", "it is a folder")):
        text = refused("run", dense_model, "--board", "host", "--output", output)
        assert said in text and "choose another --output" in text
    assert names(work) == {"folder.npz"}


def test_dumps_that_cannot_be_written(
    dense_model: Path, refused: Callable[..., str], work: Path
) -> None:
    (work / "file").write_text("")
    build = ("build", dense_model, "--target", "cortex-m4", "-o", "out", "--dump")
    assert "cannot write the dump" in refused(*build, "file/stages")
    (work / "stages" / "01_import.txt").mkdir(parents=True)
    assert "Is a directory" in refused(*build, "stages")
    assert names(work) == {"file", "stages"}


def full_disk(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk(
    dense_model: Path, refused: Callable[..., str], edgec: Callable, work: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    build = ("build", dense_model, "--target", "cortex-m4", "-o", "out")
    assert edgec(*build).status == 0
    before = {path: path.stat().st_mtime_ns for path in (work / "out").iterdir()}
    monkeypatch.setattr("edgec.codegen.project.write_files", full_disk)
    text = refused(*build)
    assert f"cannot write to {work}: No space left on device" in text
    assert {path: path.stat().st_mtime_ns for path in (work / "out").iterdir()} == before
    monkeypatch.undo()
    monkeypatch.setattr("numpy.savez", full_disk)
    run = ("run", dense_model, "--board", "host", "--output", work / "y.npz")
    assert "y.npz: No space left on device" in refused(*run)
    assert names(work) - {"tmp"} == {"out"}


def test_names_that_no_c_file_can_have(
    dense_model: Path, refused: Callable[..., str], edgec: Callable, work: Path
) -> None:
    for name in ("../x", "two words", "main", "ec_thing", "1st", "ünïcode", "while"):
        text = refused("build", dense_model, "--target", "cortex-m4", "-o", "out", "--name", name)
        assert "cannot name a model" in text and "would do" in text
    (work / "main.tflite").write_bytes(dense_model.read_bytes())
    assert edgec("build", "main.tflite", "--target", "cortex-m4", "-o", "out").status == 0
    assert (work / "out" / "model_main.c").is_file()
    assert names(work) == {"main.tflite", "out"}


def test_baselines_that_are_none(refused: Callable[..., str], work: Path) -> None:
    assert "hint: " in refused("bench", "--baselines", "absent.json")
    for text, said in (("no json", "is not a file of baselines"), ("{}", "'models' is missing"),
                       ("[]", "is not a file of baselines")):  # fmt: skip
        (work / "b.json").write_text(text)
        assert said in refused("bench", "--baselines", "b.json")
    parts = ("tflm_cmsis_nn", "tflm_reference_kernels", "published_ms", "layers_instructions")
    stated = {"models": {"kws": {"file": "kws.tflite"}}, **{part: {} for part in parts}}
    (work / "b.json").write_text(repr(stated).replace("'", '"'))
    assert "has no model moon" in refused("bench", "--baselines", "b.json", "--model", "moon")
    assert "cannot be measured" in refused("bench", "--baselines", "b.json", "--board", "host")
    assert "kws.tflite: No such file" in refused("bench", "--baselines", "b.json")
