"""What scripts rely on: commands, keys, one object on standard output, exit statuses."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from repo_files import REPO_ROOT

from edgec.cli.main import COMMANDS
from edgec.runners.samples import generate_steps, outputs_fnv1a32

BUILD_KEYS = {
    "arena_bytes", "arena_lower_bound", "state_bytes", "stack_bytes", "weights_bytes",
    "code_bytes", "flash_bytes", "ram_bytes", "macs", "elf", "project", "layers",
}  # fmt: skip
RUN_KEYS = {"instructions", "cycles", "cycles_source", "outputs", "output_fnv1a", "layers"}
VERIFY_KEYS = {
    "reference", "cases", "elements", "mismatches", "max_abs_diff", "first_difference",
}  # fmt: skip
BOARD = "mps2_an386"


def test_every_command_has_a_file_and_help(edgec: Callable) -> None:
    listing = edgec("--help")
    assert listing.status == 0
    for name in COMMANDS:
        assert f"\n  {name} " in listing.out
        assert (REPO_ROOT / "edgec" / "cli" / f"{name.replace('-', '_')}.py").is_file()
        ran = edgec(name, "-h")
        assert ran.status == 0 and ran.out.startswith(f"Usage: edgec {name} ")


@pytest.fixture(scope="module")
def project(dense_model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    """A built project with a traced variant, and what `build --json` said; by a real process."""
    folder = tmp_path_factory.mktemp("projects") / "dense"
    done = subprocess.run(
        [sys.executable, "-m", "edgec", "build", dense_model, "--board", BOARD, "-o", folder,
         "--trace", "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return folder, json.loads(done.stdout)


def test_build_tells_every_figure(project: tuple[Path, dict]) -> None:
    folder, report = project
    assert report.keys() >= BUILD_KEYS
    assert report["project"] == str(folder) and report["board"] == BOARD
    assert Path(report["elf"]).read_bytes()[:4] == b"\x7fELF"
    assert report["macs"] == 8 * 16 + 16 * 4
    for key in BUILD_KEYS - {"elf", "project", "layers"}:
        assert isinstance(report[key], int), key
    assert report["arena_bytes"] >= report["arena_lower_bound"] > 0
    assert report["state_bytes"] == 0
    assert report["flash_bytes"] == report["code_bytes"] + report["weights_bytes"]
    assert report["ram_bytes"] >= report["arena_bytes"] + report["stack_bytes"]
    assert [layer["macs"] for layer in report["layers"]] == [128, 64]
    assert [layer["sources"] for layer in report["layers"]]
    assert "hidden" in report["layers"][0]["title"]


def test_run_of_a_project_equals_run_of_its_model(
    project: tuple[Path, dict], dense_model: Path, edgec: Callable
) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    folder, _ = project
    ran = edgec("run", folder, "--engine", "core", "--json")
    assert ran.status == 0 and ran.err == ""
    report = ran.json
    assert report.keys() >= RUN_KEYS
    assert report["outputs"] is None and report["layers"] == []
    assert report["instructions"] > 100
    assert report["cycles"] > report["instructions"] and report["cycles_source"] == "modelled"
    again = edgec("run", dense_model, "--board", BOARD, "--engine", "core", "--json").json
    assert again == {**report, "stack_bytes": again["stack_bytes"]}
    other = edgec("run", folder, "--engine", "core", "--seed", 2, "--json").json
    assert other["output_fnv1a"] != report["output_fnv1a"]


def test_a_profile_has_a_row_for_every_group(project: tuple[Path, dict], edgec: Callable) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    folder, built = project
    report = edgec("run", folder, "--engine", "core", "--profile", "--json").json
    assert [row["macs"] for row in report["layers"]] == [row["macs"] for row in built["layers"]]
    assert sum(row["share"] for row in report["layers"]) == pytest.approx(1)
    ran = edgec("run", folder, "--engine", "core", "--profile")
    assert ran.status == 0
    for word in ("hidden", "instructions", "modelled", "FNV-1a", report["output_fnv1a"]):
        assert word in ran.out


def test_run_on_the_host_writes_outputs(dense_model: Path, edgec: Callable, work: Path) -> None:
    ran = edgec("run", dense_model, "--board", "host", "--output", "y.npz", "--json")
    report = ran.json
    assert report["instructions"] is None and report["cycles"] is None
    assert report["cycles_source"] is None and report["outputs"] == "y.npz"
    with np.load("y.npz") as outputs:
        assert outputs.files == ["y"] and outputs["y"].shape == (1, 4)
        assert outputs_fnv1a32([outputs["y"]]) == report["output_fnv1a"]
    assert [path.name for path in work.iterdir()] == ["y.npz"]


def test_steps_in_a_row(dense_model: Path, edgec: Callable, work: Path) -> None:
    ran = edgec("run", dense_model, "--board", "host", "--output", "y.npz", "--steps", 3, "--json")
    assert ran.json["steps"] == 3
    x = np.stack([step[0] for step in generate_steps(1, [((1, 8), "int8")], 3)])
    np.save("x.npy", x)
    with np.load("y.npz") as outputs:
        steps = outputs["y"]
    assert steps.shape == (3, 1, 4)
    assert outputs_fnv1a32(steps) == ran.json["output_fnv1a"]
    given = edgec("run", dense_model, "--board", "host", "--input", "x.npy", "--steps", 3, "--json")
    assert given.json["output_fnv1a"] == ran.json["output_fnv1a"]
    one = edgec("run", dense_model, "--board", "host", "--json").json
    assert one["steps"] == 1 and one["output_fnv1a"] == outputs_fnv1a32(steps[:1])
    wrong = edgec("run", dense_model, "--board", "host", "--input", "x.npy", "--steps", 4)
    assert wrong.status == 1 and "4 steps need an array whose first axis has 4" in wrong.err
    assert "3 in a row" in edgec("run", dense_model, "--board", "host", "--steps", 3).out


def test_verify_tells_cases_and_elements(dense_model: Path, edgec: Callable) -> None:
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed (edgec[verify])")
    ran = edgec("verify", dense_model, "--board", "host", "--random", 3, "--layers", "--json")
    assert ran.status == 0 and ran.err == ""
    report = ran.json
    assert report.keys() >= VERIFY_KEYS
    assert report["reference"] == "tflm" and report["cases"] == 3
    assert report["mismatches"] == 0 and report["first_difference"] is None
    assert {row["tensor"] for row in report["layers"]} >= {"hidden"}
    assert report["elements"] >= 3 * (16 + 4)
    ran = edgec("verify", dense_model, "--board", "host", "--layers")
    assert "all the same bits" in ran.out and "hidden" in ran.out


def test_an_unfused_build_has_a_value_for_every_operator(example: Path, edgec: Callable) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (edgec[verify])")
    options = ("--board", "host", "--random", 1, "--layers", "--unfused", "--json")
    report = edgec("verify", example, *options).json
    assert report["mismatches"] == 0
    assert len(report["layers"]) >= 9


def test_a_difference_is_named_and_has_status_3(
    dense_model: Path, edgec: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgec.oracle.frameworks import Oracle, OracleResult

    class Wrong(Oracle):
        name = "wrong"

        def run(self, inputs: list, *, tensors: bool = False) -> OracleResult:
            return OracleResult((np.array([[0, 0, 0, 99]], np.int8),))

    monkeypatch.setattr("edgec.oracle.verify.open_oracle", lambda model, *_: Wrong(model))
    ran = edgec("verify", dense_model, "--board", "host", "--random", 1, "--json")
    assert ran.status == 3
    assert ran.json["mismatches"] > 0
    first = ran.json["first_difference"]
    assert first.keys() == {"case", "tensor", "operator", "index", "expected", "found"}
    ran = edgec("verify", dense_model, "--board", "host", "--random", 1)
    assert ran.status == 3
    assert "first difference: case 0, output y[" in ran.out and "expected 0" in ran.out


def test_inspect(dense_model: Path, example: Path, edgec: Callable) -> None:
    report = edgec("inspect", dense_model, "--json").json
    assert report["format"] == "tflite" and report["macs"] == 192
    assert report["inputs"] == [{"name": "x", "type": "int8[1, 8] quant(0.05000000074505806, 3)"}]
    assert [port["name"] for port in report["outputs"]] == ["y"]
    assert report["operators"]["dense"] == 2
    assert report["weights_bytes"] == 16 * 8 + 4 * 16 + 4 * (16 + 4)
    assert sum(node["macs"] for node in report["nodes"]) == 192
    text = edgec("inspect", example).out
    assert "\\x0a" not in text and "\n15 operators on constants alone are left out" in text
    assert "digits_int8.onnx (onnx): 94,464 MACs" in text and "depthwise_conv2d" in text
    assert "module {" in edgec("inspect", example, "--graph").out


def test_ops(edgec: Callable) -> None:
    report = edgec("ops", "--json").json
    rows = {row["op"]: row for row in report["operators"]}
    assert rows["conv2d"]["meaning"] and "CONV_2D" in report["formats"]["tflite"]
    assert {"Attention", "LRN", "com.microsoft.QLinearAdd"} < set(report["formats"]["onnx"])
    assert "aten.convolution.default" in report["formats"]["torch"]
    text = edgec("ops").out
    assert all(op in text for op in rows)
    assert all(kind in text for kinds in report["formats"].values() for kind in kinds)


def test_boards(edgec: Callable) -> None:
    boards = {row["name"]: row for row in edgec("boards", "--json").json["boards"]}
    assert boards["mps2_an386"]["engines"] == ["core", "qemu"]
    assert boards["mps3_an547"]["engines"] == ["qemu"] and boards["host"]["engines"] == ["host"]
    one = edgec("boards", "stm32", "--json").json
    assert one["name"] == "netduinoplus2" and one["flash_bytes"] == 1 << 20
    assert "netduinoplus2 (stm32)" in edgec("boards").out
    text = edgec("boards", "stm32").out
    assert "0x08000000" in text and "source: ST RM0090" in text


def test_doctor_says_what_is_missing(edgec: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    report = edgec("doctor", "--json").json
    rows = {row["name"]: row for row in report["findings"]}
    assert rows["numpy"]["ok"] and rows["python"]["found"] == sys.version.split()[0]
    monkeypatch.setattr("shutil.which", lambda program, path=None: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    ran = edgec("doctor")
    assert ran.status == 0
    assert re.search(r"missing  qemu-system-arm +needed for the engine `qemu`", ran.out)
    assert 'pip install "edgec[sim]"' in ran.out


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("frobnicate",),
        ("build",),
        ("build", "m.onnx", "-o", "out", "--board", "host", "--target", "cortex-m4"),
        ("build", "m.onnx", "-o", "out", "--board", "host", "--optimize", "magic"),
        ("build", "m.onnx", "-o", "out", "--board", "host", "--optimize", "heat=1"),
        ("build", "m.onnx", "-o", "out", "--board", "host", "--max-stack", "1K"),
        ("build", "m.onnx", "-o", "out", "--target", "cortex-m4", "--max-stack", "1K"),
        ("run", "m.onnx", "--board", "host", "--engine", "moon"),
        ("run", "m.onnx", "--board", "host", "--seed", "-1"),
        ("verify", "m.onnx", "--board", "host", "--random", "0"),
        ("verify", "m.onnx", "--board", "host", "--random", "1", "--inputs", "x.npz"),
    ],
    ids=" ".join,
)
def test_usage_errors_have_status_2(arguments: tuple[str, ...], edgec: Callable) -> None:
    ran = edgec(*arguments)
    assert ran.status == 2 and ran.out == "" and "Usage: edgec" in ran.err


@pytest.mark.parametrize("size", ["", "K", "-5", "1.5K", "12G", "²", "0x10", " 5", "9" * 20])
def test_sizes_that_are_none(size: str, edgec: Callable) -> None:
    ran = edgec("build", "m.onnx", "-o", "out", "--board", "host", "--max-ram", size)
    assert ran.status == 2 and "is not a size" in ran.err


def test_compile_options_are_refused_for_a_project(
    project: tuple[Path, dict], edgec: Callable
) -> None:
    ran = edgec("run", project[0], "--optimize", "time", "--dump", "d")
    assert ran.status == 2 and "--optimize, --dump: " in ran.err


def test_every_stage_is_dumped(dense_model: Path, edgec: Callable, work: Path) -> None:
    ran = edgec("build", dense_model, "--target", "cortex-m4", "-o", "out", "--dump", "stages")
    assert ran.status == 0
    names = sorted(path.name for path in (work / "stages").iterdir())
    assert [int(name[:2]) for name in names] == list(range(1, len(names) + 1))
    assert names[0] == "01_import.txt" and names[-1].endswith("_plan.txt")
    assert "hidden" in (work / "stages" / names[0]).read_text()
    assert all((work / "stages" / name).stat().st_size > 40 for name in names)


def test_verify_dumps_too(dense_model: Path, edgec: Callable, work: Path) -> None:
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed (edgec[verify])")
    edgec("verify", dense_model, "--board", "host", "--random", 1, "--dump", "stages")
    assert (work / "stages" / "01_import.txt").is_file()


def test_a_library_for_a_core(dense_model: Path, edgec: Callable, work: Path) -> None:
    ran = edgec("build", dense_model, "--target", "cortex-m7", "-o", "lib", "--name", "Net",
                "--json")  # fmt: skip
    report = ran.json
    assert report["elf"] is None and report["core"] == "cortex-m7" and report["board"] is None
    assert report["stack_bytes"] is None and report["arena_bytes"] > 0
    assert {"Net.c", "Net.h", "Net_weights.c"} <= {path.name for path in (work / "lib").iterdir()}
    ran = edgec("build", dense_model, "--target", "cortex-m7", "-o", "lib")
    assert ran.status == 0 and "for cortex-m7" in ran.out and "lower bound" in ran.out


def test_numbers_that_json_lacks_become_words() -> None:
    from edgec.cli.arguments import _finite

    value = {"a": [float("nan"), 1.5], "b": (float("inf"), -float("inf"))}
    assert _finite(value) == {"a": ["NaN", 1.5], "b": ["Infinity", "-Infinity"]}


def test_wrong_usage_is_json_too(edgec: Callable) -> None:
    ran = edgec("build", "m.onnx", "--nope", "--json")
    assert ran.status == 2 and ran.out == ""
    error = json.loads(ran.err)["error"]
    assert error["status"] == 2 and "No such option" in error["message"]


#: What makes each command fail with status 1; None: nothing can.
WRONG = {
    "build": ("gone.onnx",),
    "new": ("folder", "--model", "gone.onnx", "--board", "stm32"),
    "watch": None,  # it waits for the file
    "export": ("gone.onnx", "--format", "cmake", "-o", "out"),
    "cmake-dir": None,
    "config": ("gone/model.onnx",),
    "run": ("gone.onnx", "--board", "host"),
    "verify": ("gone.onnx", "--board", "host"),
    "flash": ("gone",),
    "quantize": ("gone.onnx", "--calibration", "gone.npz", "-o", "out.onnx"),
    "tune": ("gone.onnx", "--board", "stm32"),
    "inspect": ("gone.onnx",),
    "ops": None,
    "boards": ("no_such_board",),
    "debug": ("gone", "-c", "bt"),
    "monitor": ("--port", "gone", "--seconds", "0"),
    "doctor": None,
    "report": ("gone",),
    "explore": ("gone.onnx",),
    "bench": ("--model", "gone"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_json_and_its_errors_are_json(
    name: str, edgec: Callable, work: Path
) -> None:
    assert " --json " in edgec(name, "--help").out or name == "boards"
    runs = [(2, ("--no-such-option",))]
    if WRONG[name] is not None:
        runs.append((1, WRONG[name]))
    for status, words in runs:
        ran = edgec(name, *words, "--json")
        assert ran.status == status and ran.out == "", ran
        error = json.loads(ran.err)["error"]
        assert error.keys() == {"message", "details", "hint", "status"} and error["message"]
        assert error["status"] == status and "\n" not in ran.err.rstrip("\n")


def test_a_folder_and_a_new_board_as_json(edgec: Callable, work: Path) -> None:
    assert (Path(edgec("cmake-dir", "--json").json["cmake_dir"]) / "edgec-config.cmake").is_file()
    ran = edgec("boards", "new", "mine", "--like", "stm32", "--json")
    assert ran.json == {"board": "mine.toml"} and (work / "mine.toml").is_file()


def test_a_build_says_on_a_terminal_how_long_it_takes(
    edgec: Callable, dense_model: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # to rich, what is written to is a terminal
    ran = edgec("build", dense_model, "-o", "out")
    assert ran.status == 0 and "compiling" in ran.err and "0:00:0" in ran.err
    assert "compiling" not in edgec("build", dense_model, "-o", "out", "--json").err
