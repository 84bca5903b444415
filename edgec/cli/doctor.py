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


#: (module, its distribution, extra or empty, what it is for)
PACKAGES = (
    ("numpy", "numpy", "", "everything"),
    ("jinja2", "jinja2", "", "writing C"),
    ("elftools", "pyelftools", "", "measuring firmware"),
    ("rich", "rich", "", "printing tables"),
    ("onnx", "onnx", "", "reading ONNX models"),
    ("tflite", "tflite", "", "reading TFLite models"),
    ("flatbuffers", "flatbuffers", "", "reading TFLite models"),
    ("serial", "pyserial", "", "talking to boards"),
    ("unicorn", "unicorn", "sim", "the engine `core`"),
    ("capstone", "capstone", "sim", "checking instructions on the engine `core`"),
    ("ziglang", "ziglang", "toolchain", "building without an installed C compiler"),
    ("tflite_micro", "tflite-micro", "verify", "comparing with TFLite Micro"),
    ("ai_edge_litert", "ai-edge-litert", "verify", "comparing with LiteRT"),
    ("onnxruntime", "onnxruntime", "verify", "comparing with ONNX Runtime"),
)

#: (program, Debian package, what it is for)
PROGRAMS = (
    ("gcc", "gcc", "building for this computer with gcc (clang serves too)"),
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
        print_json({"findings": [{**asdict(f), "ok": f.ok} for f in findings]})
        return
    width = max(len(f.name) for f in findings)
    for finding in findings:
        mark = "ok     " if finding.ok else "missing"
        text = finding.found or f"needed for {finding.needed_for}"
        click.echo(f"{mark}  {finding.name:<{width}}  {text}")
        if not finding.ok:
            click.echo(f"{'':<9}{'':<{width}}  -> {finding.mend}")


def _packages() -> list[Finding]:
    version = sys.version.split()[0]
    found = [Finding("python", version, "everything", "install Python 3.11 or newer")]
    for module, distribution, extra, purpose in PACKAGES:
        there = importlib.util.find_spec(module) is not None
        text = _version(distribution) if there else ""
        mend = f'pip install "edgec[{extra}]"' if extra else f"pip install {distribution}"
        found.append(Finding(distribution, text, purpose, mend))
    return found


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
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
        mend = f"install it (Debian: apt install {package})"
        found.append(Finding(program, text, purpose, mend))
    return found


def _ports() -> Finding:
    try:
        from serial.tools import list_ports
    except ImportError:
        return Finding("serial ports", "", "running on a real board", "pip install pyserial")

    ports = [f"{port.device} ({port.description})" for port in list_ports.comports()]
    return Finding(
        "serial ports",
        "; ".join(ports),
        "running on a real board",
        "plug a board in; on Linux your user must be in the group dialout",
    )
