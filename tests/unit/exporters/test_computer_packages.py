"""Packages for computers: several levels of a processor in one, and large weights as bytes."""

from __future__ import annotations

import json
import platform
import sys
import zipfile
from pathlib import Path

import pytest
from package_commands import edgec, run

MODEL = Path("examples", "digits", "digits_int8.onnx")
X86_64 = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="the levels are levels of x86-64"
)
CHECK = """
import sys; sys.path.insert(0, sys.argv[1])
import digits
model = digits.Model()
model.selftest()
"""


def check_wheel(folder: Path, tmp_path: Path) -> None:
    """The model in the wheel in `folder` passes its self-test."""
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    run(sys.executable, "-c", CHECK, tmp_path / "installed", cwd=tmp_path)


@X86_64
def test_wheel_of_several_levels(repo_root: Path, tmp_path: Path) -> None:
    """A folder with code for two levels becomes one wheel, which takes the best at its start."""
    model = repo_root / MODEL
    levels = ("--target", "x86-64-v2,x86-64-v3")
    assert edgec("build", model, *levels, "--name", "digits", "-o", tmp_path / "levels") == 0
    words = ("export", tmp_path / "levels", "--format")
    assert edgec(*words, "python-wheel", "-o", tmp_path / "wheel") == 0
    check_wheel(tmp_path / "wheel", tmp_path)
    assert edgec(*words, "rust", "-o", tmp_path / "rust") == 1, "no flags for each level"
    assert not (tmp_path / "rust").exists()


@X86_64
@pytest.mark.parametrize(("shared", "weights"), [("ON", "blob"), ("OFF", "text")])
def test_cmake_of_several_levels(
    shared: str, weights: str, repo_root: Path, tmp_path: Path
) -> None:
    """Each level is compiled with its own flags; a program that pkg-config links takes the best."""
    folder = tmp_path / "digits"
    words = ("--target", "x86-64-v2,x86-64-v4", "--name", "digits", "--format", "cmake",
             "--weights-form", weights)  # fmt: skip
    assert edgec("export", repo_root / MODEL, *words, "-o", folder) == 0
    build, prefix = tmp_path / "build", tmp_path / "installed"
    run("cmake", "-S", folder, "-B", build, f"-DBUILD_SHARED_LIBS={shared}",
        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", cwd=tmp_path)  # fmt: skip
    run("cmake", "--build", build, cwd=tmp_path)
    assert "100% tests passed" in run("ctest", "--test-dir", build, cwd=tmp_path)
    assert len(list(folder.rglob("*.bin"))) == (2 if weights == "blob" else 0)
    commands = json.loads((build / "compile_commands.json").read_text())
    flags = {Path(each["file"]).name: each["command"].split() for each in commands}
    levels = {"v2": "digits_x86_64_v2.c", "v4": "digits_x86_64_v4.c"}
    for level, file in levels.items():
        assert f"-march=x86-64-{level}" in flags[file]
    assert not any(flag.startswith("-march") for flag in flags["digits.c"])
    run("cmake", "--install", build, "--prefix", prefix, cwd=tmp_path)
    (found,) = prefix.rglob("digits.pc")
    flags_of = run("pkg-config", "--cflags", "--libs", "digits", cwd=tmp_path,
                   PKG_CONFIG_PATH=str(found.parent)).split()  # fmt: skip
    run("cc", folder / "example" / "main.c", *flags_of, f"-Wl,-rpath,{found.parents[1]}",
        "-o", "app", cwd=tmp_path)  # fmt: skip
    assert "self-test passed" in run(tmp_path / "app", cwd=tmp_path)


def test_large_weights_stay_bytes(
    repo_root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A wheel and a package for CMake include them; other packages say what to do."""
    model = repo_root / MODEL
    words = ("export", model, "--name", "digits", "--weights-form", "blob", "--format")
    assert edgec(*words, "python-wheel", "-o", tmp_path / "wheel") == 0
    check_wheel(tmp_path / "wheel", tmp_path)
    folder = tmp_path / "cmake"
    assert edgec(*words, "cmake", "-o", folder) == 0
    assert (folder / "src" / "digits_weights.bin").is_file()
    run("cmake", "-S", folder, "-B", tmp_path / "build", cwd=tmp_path)
    run("cmake", "--build", tmp_path / "build", cwd=tmp_path)
    assert "100% tests passed" in run("ctest", "--test-dir", tmp_path / "build", cwd=tmp_path)
    capfd.readouterr()
    assert edgec(*words, "zephyr", "-o", tmp_path / "zephyr") == 1
    assert "--weights-form text" in capfd.readouterr().err
    assert not (tmp_path / "zephyr").exists()
