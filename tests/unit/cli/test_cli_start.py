"""Commands start fast: they import no heavy package that they do without."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

#: Packages that take long to import, and those parts of edgec that need them.
HEAVY = ("numpy", "onnx", "tflite", "flatbuffers", "jinja2", "sympy", "serial", "elftools", "rich",
         "unicorn", "capstone", "ml_dtypes", "edgec.pipeline", "edgec.deploy.project")  # fmt: skip

SCRIPT = """
import json, sys
from edgec.cli.main import main
try:
    main({arguments})
except SystemExit as stop:
    assert stop.code in (0, None), stop.code
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def imported_by(*arguments: str) -> tuple[set[str], str]:
    """Modules that a command imported, and what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(arguments=list(arguments))],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(json.loads(done.stderr)), done.stdout


@pytest.mark.parametrize("arguments", [("--help",), ("--version",)], ids=" ".join)
def test_nothing_heavy_is_imported(arguments: tuple[str, ...]) -> None:
    modules, text = imported_by(*arguments)
    assert not [name for name in HEAVY if name in modules]
    assert not [name for name in modules if name.startswith("edgec.cli.") and name[10:] != "main"]
    assert "edgec" in text


@pytest.mark.parametrize("command", ["build", "run", "verify", "inspect", "doctor"])
def test_the_help_of_a_command_needs_no_package(command: str) -> None:
    modules, text = imported_by(command, "--help")
    assert not [name for name in HEAVY if name in modules]
    assert text.startswith("Usage: edgec")


@pytest.mark.parametrize("arguments", [("boards",), ("boards", "mps2_an386")], ids=" ".join)
def test_boards_need_no_package(arguments: tuple[str, ...]) -> None:
    modules, _ = imported_by(*arguments)
    assert not [name for name in HEAVY if name in modules]


def test_a_library_is_built_without_simulator_and_readers_of_other_formats(
    tmp_path: Path, shared_dir: Path
) -> None:
    model = shared_dir / "models" / "mww_vad_int8.tflite"
    out = str(tmp_path / "project")
    modules, _ = imported_by("build", str(model), "--target", "cortex-m4", "-o", out)
    unused = ("edgec.sim", "edgec.external", "edgec.oracle", "elftools", "onnx", "unicorn")
    assert not [name for name in unused if name in modules]


def test_help_takes_less_than_0_3_s_of_a_core() -> None:
    resource = pytest.importorskip("resource", reason="CPU time of a child is a POSIX matter")

    def cpu_seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "edgec", "--help"], capture_output=True,
                       check=True)  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # The best of a few: the first may still write byte code, another may wait for the disk.
    assert min(cpu_seconds() for _ in range(4)) < 0.3
