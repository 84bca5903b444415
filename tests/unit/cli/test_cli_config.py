"""`edgec.toml` beside a model, and what commands do where nothing is said."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from edgec.cli.config_file import _commands, _options, _word


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def model(dense_model: Path, tmp_path: Path) -> Path:
    """A copy in a folder of its own, for an edgec.toml beside it."""
    (tmp_path / "models").mkdir()
    return Path(shutil.copy(dense_model, tmp_path / "models"))


def test_a_model_alone_is_built_for_the_host(edgec: Callable, model: Path, work: Path) -> None:
    assert edgec("build", model).status == 0
    (folder,) = (work / "build").iterdir()
    assert folder.name == model.stem
    assert json.loads((folder / "manifest.json").read_text())["board"] == "host"
    assert edgec("run", folder, "--json").json["engine"] == "host"
    assert edgec("run", model, "--json").json["engine"] == "host"
    assert edgec("verify", model).status == 0


def write(model: Path, text: str) -> None:
    (model.parent / "edgec.toml").write_text(text)


def test_the_file_says_the_board_and_a_limit(edgec: Callable, model: Path, work: Path) -> None:
    write(model, 'board = "sim_m0"\n[build]\nmax-ram = "64K"\noptimize = "size"\n')
    assert edgec("build", model).status == 0
    report = json.loads((work / "build" / "dense" / "report.json").read_text())
    assert report["board"] == "sim_m0" and report["options"]["optimize"] == "size"
    write(model, 'board = "sim_m0"\n[build]\nmax-ram = 16\n')
    assert edgec("build", model, "-o", "small").status == 3
    assert edgec("run", model, "--json").json["engine"] == "core"


def test_the_command_line_is_stronger(edgec: Callable, model: Path, work: Path) -> None:
    write(model, 'board = "sim_m0"\noptimize = "size"\n')
    assert edgec("build", model, "--optimize", "time", "--board", "host").status == 0
    report = json.loads((work / "build" / "dense" / "report.json").read_text())
    assert report["board"] == "host" and report["options"]["optimize"] == "time"
    assert edgec("build", model, "--target", "cortex-m4", "-o", "library").status == 0


def test_paths_are_relative_to_the_file(
    edgec: Callable, model: Path, work: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write(model, '[run]\noutput = "out.npz"\n')
    assert edgec("run", model).status == 0
    assert (model.parent / "out.npz").is_file()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bord = 1\n", "board"),
        ("[biuld]\n", "build"),
        ("[build]\nport = 'x'\n", "no option --port"),
        ("board = {}\n", "is not a command"),
        ("board = 1979-05-27\n", "neither text"),
        ("board = \n", "cannot be read"),
    ],
)
def test_faults_in_the_file(
    refused: Callable, model: Path, work: Path, text: str, said: str
) -> None:
    write(model, text)
    assert said in refused("build", model)
    assert said in refused("config", model)


def test_a_wrong_value_is_told_as_on_the_command_line(
    edgec: Callable, model: Path, work: Path
) -> None:
    write(model, 'optimize = "speed"\n')
    ran = edgec("build", model)
    assert ran.status == 2 and "speed" in ran.err


def test_true_is_no_value(refused: Callable, model: Path, work: Path) -> None:
    """It would be a limit of one byte."""
    write(model, "max-ram = true\n")
    assert "max-ram takes a value, not true or false" in refused("build", model)


@pytest.mark.parametrize("key", ["custom-ops", "kernels"])
def test_a_file_beside_a_model_runs_no_python(
    key: str, refused: Callable, model: Path, work: Path
) -> None:
    (model.parent / "evil.py").write_text("raise SystemExit('it ran')", "utf-8")
    write(model, f'{key} = ["evil.py"]\n')
    for command in ("build", "inspect"):
        said = refused(command, model)
        assert f"--{key} runs Python" in said and "it ran" not in said


def test_a_list_is_for_options_that_may_be_given_several_times(
    refused: Callable, model: Path, work: Path
) -> None:
    write(model, 'optimize = ["size", "time"]\n')
    assert "optimize takes one value here, not a list" in refused("build", model)


def test_config_of_a_path_that_does_not_exist(refused: Callable, work: Path) -> None:
    assert "cannot read absent: No such file" in refused("config", "absent")


def test_config_shows_it(edgec: Callable, model: Path, work: Path) -> None:
    assert "there is no" in edgec("config", work).out
    write(model, 'board = "stm32"\n[build]\ninput-shape = ["x=1,2"]\n')
    told = edgec("config", model).out
    assert "every command" in told and "input-shape" in told
    found = edgec("config", model, "--json").json["options"]
    assert found == {"": {"board": "stm32"}, "build": {"input_shape": ["x=1,2"]}}


def test_errors_as_json(edgec: Callable, work: Path) -> None:
    ran = edgec("build", "absent.onnx", "--json")
    found = json.loads(ran.err)["error"]
    assert ran.status == found["status"] == 1 and ran.out == ""
    assert "absent.onnx" in found["message"] and found["hint"] is not None


def test_an_option_is_the_same_parameter_of_every_command() -> None:
    """A key of the file that is for all commands is looked up once, by its option's word."""
    parameters: dict[str, set[str]] = {}
    for _, command in _commands():
        for option in _options(command):
            parameters.setdefault(_word(option), set()).add(str(option.name))
    assert {word: names for word, names in parameters.items() if len(names) > 1} == {}
