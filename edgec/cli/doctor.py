"""`edgec doctor`: which tools and packages are here, and how to get those that are not."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass

import click

from edgec.cli.arguments import json_option, print_json


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for. `needed_for` says what does not work without it."""

    name: str
    found: str
    needed_for: str
    mend: str

    @property
    def ok(self) -> bool:
        """Whether it is there."""
        return bool(self.found)


#: (package, extra or empty, what it is for)
PACKAGES = (
    ("numpy", "", "everything"),
    ("onnx", "", "reading ONNX models"),
    ("tflite", "", "reading TFLite models"),
    ("unicorn", "sim", "the engine `core`"),
    ("capstone", "sim", "checking instructions on the engine `core`"),
    ("ziglang", "toolchain", "building without an installed C compiler"),
    ("tflite_micro", "verify", "comparing with TFLite Micro"),
    ("ai_edge_litert", "verify", "comparing with LiteRT"),
    ("onnxruntime", "verify", "comparing with ONNX Runtime"),
)

#: (program, Debian package, what it is for)
PROGRAMS = (
    ("arm-none-eabi-gcc", "gcc-arm-none-eabi", "building firmware with gcc (clang serves too)"),
    ("qemu-system-arm", "qemu-system-arm", "the engine `qemu`: whole boards"),
    ("openocd", "openocd", "flashing and debugging over a probe"),
    ("st-flash", "stlink-tools", "flashing STM32 boards over ST-Link"),
)


@click.command()
@json_option
def command(as_json: bool) -> None:
    """Check which tools and packages are installed, and say how to mend what is not."""
    findings = [*_packages(), *_programs(), _ports()]
    if as_json:
        print_json([{**asdict(f), "ok": f.ok} for f in findings])
        return
    width = max(len(f.name) for f in findings)
    for finding in findings:
        mark = "ok     " if finding.ok else "missing"
        click.echo(f"{mark}  {finding.name:<{width}}  {finding.found or finding.needed_for}")
        if not finding.ok:
            click.echo(f"{'':<9}{'':<{width}}  -> {finding.mend}")


def _packages() -> list[Finding]:
    version = sys.version.split()[0]
    found = [Finding("python", version, "everything", "install Python 3.11 or newer")]
    for name, extra, purpose in PACKAGES:
        there = importlib.util.find_spec(name) is not None
        text = _version(name) if there else ""
        mend = f'pip install "edgec[{extra}]"' if extra else "pip install edgec"
        found.append(Finding(name, text, purpose, mend))
    return found


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name.replace("_", "-"))
    except importlib.metadata.PackageNotFoundError:
        return "installed"


def _programs() -> list[Finding]:
    found = []
    for program, package, purpose in PROGRAMS:
        path = shutil.which(program)
        text = ""
        if path:
            try:
                done = subprocess.run(
                    [path, "--version"], capture_output=True, text=True, timeout=20, check=False
                )
                lines = (done.stdout or done.stderr).splitlines()
                text = lines[0] if lines else path
            except (OSError, subprocess.TimeoutExpired):
                text = f"{path} (does not answer)"
        found.append(Finding(program, text, purpose, f"apt install {package}"))
    return found


def _ports() -> Finding:
    from serial.tools import list_ports

    ports = [f"{port.device} ({port.description})" for port in list_ports.comports()]
    return Finding(
        "serial ports",
        "; ".join(ports),
        "running on a real board",
        "plug a board in; on Linux your user must be in the group dialout",
    )
