"""The checks of `edgec doctor`: packages, programs with their versions, ports, USB devices."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from edgec.boards.board import all_boards
from edgec.errors import ToolMissing
from edgec.link.ports import SerialPort, describe_port, list_serial_ports
from edgec.runners.flash.runner import ProgramTool
from edgec.runners.flash.tools import TOOLS, load_tool


@dataclass(frozen=True)
class Finding:
    """One tool or package. needed_for: what does not work without it; problem: if it exists but is
    unusable; remedy: what to do.
    """

    name: str
    found: str
    needed_for: str
    remedy: str
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Whether it is there and can be used."""
        return bool(self.found) and not self.problem


#: (module, its distribution, extra or empty, purpose)
PACKAGES = (
    ("numpy", "numpy", "", "everything"),
    ("click", "click", "", "everything"),
    ("ml_dtypes", "ml_dtypes", "", "types of few bits"),
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
    ("distributed", "distributed", "farm", "tuning on several machines"),
    ("ethosu", "ethos-u-vela", "ethos-u", "layers for Arm's Ethos-U"),
    ("siphash24", "siphash24", "keyed", "links with a key"),
    ("starlette", "starlette", "serve", "`edgec explore --serve`"),
    ("uvicorn", "uvicorn", "serve", "`edgec explore --serve`"),
    ("nvidia.cuda_nvrtc", "nvidia-cuda-nvrtc-cu12", "cuda", "kernels for GPUs"),
    ("nvidia.cuda_nvcc", "nvidia-cuda-nvcc-cu12", "cuda", "machine code for GPUs"),
    ("nvidia.cu13", "nvidia-cuda-nvcc", "cuda", "machine code for Jetson Thor"),
)

#: (program, Debian package, purpose)
PROGRAMS = (
    ("gcc", "gcc", "building for this computer with gcc (clang serves too)"),
    ("arm-none-eabi-gcc", "gcc-arm-none-eabi", "building firmware with gcc (clang serves too)"),
    ("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf", "RISC-V firmware with gcc (likewise)"),
    ("qemu-system-arm", "qemu-system-arm", "the engine `qemu`: whole boards"),
    ("xtensa-lx106-elf-gcc", "gcc-xtensa-lx106", "firmware for the Xtensa LX106"),
    ("qemu-system-riscv32", "qemu-system-misc", "the engine `qemu`: RISC-V boards"),
    ("qemu-system-xtensa", "qemu-system-misc", "the engine `qemu`: Xtensa boards"),
    ("gdb-multiarch", "gdb-multiarch", "`edgec debug`"),
    ("cmake", "cmake", "building a project in a larger one"),
)

#: Oldest versions that this edgec is known to work with.
OLDEST = {
    "arm-none-eabi-gcc": (10, 0),
    "riscv64-unknown-elf-gcc": (11, 1),
    "qemu-system-arm": (7, 0),
    "qemu-system-riscv32": (7, 0),
    "qemu-system-xtensa": (7, 0),
    "cmake": (3, 13),
    "openocd": (0, 12),
    "esptool": (5, 0),
}

#: How a program reports its version, where that is not --version; None: it does not.
_VERSION_WORDS: dict[str, tuple[str, ...] | None] = {
    "stm32flash": None,
    "jlink": None,
    "esptool": ("version",),
}

#: "vendor:product" of flashing tools' USB devices -> description. From OpenOCD's
#: contrib/60-openocd.rules and the chips' own documents.
USB_DEVICES = {
    "0483:3748": "ST-LINK/V2",
    "0483:374b": "ST-LINK/V2-1",
    "0483:3752": "ST-LINK/V2-1",
    "0483:374e": "ST-LINK/V3",
    "0483:374f": "ST-LINK/V3",
    "0483:3753": "ST-LINK/V3",
    "0483:3754": "ST-LINK/V3",
    "0483:df11": "an STM32 in its USB boot loader",
    "0d28:0204": "DAPLink",
    "1366:0101": "J-Link",
    "1366:0105": "J-Link",
    "2e8a:0003": "an RP2040 in its USB boot loader",
}
_USB_ROOTS = (Path("/sys/bus/usb/devices"), Path("/dev/bus/usb"))


def examine() -> list[Finding]:
    return [
        *_packages(), *_programs(), *_gpu(), *_flash_tools(), *_ports(), *usb_devices(*_USB_ROOTS),
    ]  # fmt: skip


def _packages() -> list[Finding]:
    version = sys.version.split()[0]
    found = [Finding("python", version, "everything", "install Python 3.11 or newer")]
    for module, distribution, extra, purpose in PACKAGES:
        text = _package_version(distribution) if _is_there(module) else ""
        remedy = f'pip install "edgec[{extra}]"' if extra else f"pip install {distribution}"
        found.append(Finding(distribution, text, purpose, remedy))
    return found


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its whole is missing too
        return False


def _package_version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "installed"


def _programs() -> list[Finding]:
    return [
        _program(program, shutil.which(program), purpose, f"install it (Debian: apt install {deb})")
        for program, deb, purpose in PROGRAMS
    ]


def _gpu() -> list[Finding]:
    """CUDA's driver and GPUs, and the libraries of `--external cudnn` and `tensorrt`."""
    purpose = "running models on a GPU (without one: --engine gpu_emulation)"
    count = count_gpus()
    driver = "" if count is None else "libcuda.so.1"
    gpus = f"{count} found" if count else ""
    return [
        Finding("CUDA driver", driver, purpose, "install NVIDIA's driver"),
        Finding("GPU", gpus, purpose, "use a computer with an NVIDIA GPU"),
        Finding(
            "cuDNN", _first_library("libcudnn.so.9", "libcudnn.so.8"),
            "models built with --external cudnn", "install NVIDIA's cuDNN 9 or 8",
        ),
        Finding(
            "TensorRT", _first_library(*(f"libnvinfer.so.{n}" for n in (11, 10, 8))),
            "models built with --external tensorrt", "install NVIDIA's TensorRT, 8.6 or newer",
        ),
    ]  # fmt: skip


def _first_library(*names: str) -> str:
    """The first of these shared libraries that this computer has; "" if none."""
    for name in names:
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return name
    return ""


def count_gpus() -> int | None:
    """Number of GPUs that the CUDA driver reports; None without a driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    count = ctypes.c_int(0)
    works = driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
    return count.value if works else 0


def gpu_capability() -> int:
    """The first GPU's compute capability, such as 87; needs a GPU."""
    driver, parts = ctypes.CDLL("libcuda.so.1"), []
    for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
        part = ctypes.c_int(0)
        driver.cuDeviceGetAttribute(ctypes.byref(part), attribute, 0)
        parts.append(part.value)
    return parts[0] * 10 + parts[1]


def _flash_tools() -> list[Finding]:
    """The programs of `edgec flash`, each found by its flash tool's class."""
    found = []
    for name in TOOLS:
        tool = load_tool(name)
        if isinstance(tool, ProgramTool):
            boards = sum(any(r.name == name for r in board.runners) for board in all_boards())
            purpose = f"`edgec flash --runner {name}`: {boards} board" + "s" * (boards != 1)
            found.append(_program(name, tool.find(), purpose, tool.get))
    return found


def _program(name: str, path: str | None, purpose: str, remedy: str) -> Finding:
    if path is None:
        return Finding(name, "", purpose, remedy)
    text = _first_line(path, _VERSION_WORDS.get(name, ("--version",)))
    return Finding(name, text, purpose, remedy, _too_old(name, text))


def _first_line(path: str, words: tuple[str, ...] | None) -> str:
    """The first line of a program's version output, or its path."""
    if words is None:
        return path
    try:
        done = subprocess.run(
            [path, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return f"{path} (does not answer)"
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return lines[0] if lines else path


def _too_old(name: str, text: str) -> str:
    oldest = OLDEST.get(name)
    numbers = re.findall(r"(\d+)\.(\d+)", text)
    if oldest is None or not numbers:
        return ""
    # The last version in a line such as "gcc (15:12.2.rel1-1) 12.2.1" is the program's; for QEMU,
    # the first.
    found = tuple(map(int, numbers[0 if name.startswith("qemu") else -1]))
    if found >= oldest:
        return ""
    return f"older than {oldest[0]}.{oldest[1]}, the oldest known to work"


def _ports() -> list[Finding]:
    purpose = "running on a real board"
    try:
        ports = list_serial_ports()
    except ToolMissing as missing:
        return [Finding("serial ports", "", purpose, missing.hint)]
    if not ports:
        remedy = "plug a board in; a cable that only charges shows nothing"
        return [Finding("serial ports", "", purpose, remedy)]
    return [port_finding(port) for port in ports]


def port_finding(port: SerialPort) -> Finding:
    """A serial port: the boards that it may be, and whether this user may open it."""
    boards = [b.name for b in all_boards() if b.link is not None and port.usb in b.link.usb]
    text = describe_port(port) + (f" (may be {', '.join(boards)})" if boards else "")
    problem, remedy = _forbidden(Path(port.device))
    return Finding(f"port {port.device}", text, "running on a real board", remedy, problem)


def usb_devices(described: Path, opened: Path) -> list[Finding]:
    """Probes and boot loaders on USB: Linux lists them below `described` and opens them below
    `opened`; nothing elsewhere."""
    found = []
    for folder in sorted(described.glob("*")) if described.is_dir() else ():
        words = [_word(folder / name) for name in ("idVendor", "idProduct", "busnum", "devnum")]
        kind = USB_DEVICES.get(f"{words[0]}:{words[1]}")
        if kind is None or not (words[2].isdigit() and words[3].isdigit()):
            continue
        device = opened / f"{int(words[2]):03d}" / f"{int(words[3]):03d}"
        problem, remedy = _forbidden(device)
        remedy = remedy and (
            "install the udev rules of your flashing tool (Debian: they come with apt install "
            "openocd), then plug it in again"
        )
        text = f"{kind} (USB {words[0]}:{words[1]}, {_word(folder / 'serial') or 'no number'})"
        found.append(Finding(f"USB {folder.name}", text, "flashing", remedy, problem))
    return found


def _word(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError:
        return ""


def _forbidden(device: Path) -> tuple[str, str]:
    """Why this user cannot open a device file, and how to change that; empty if he can."""
    if os.name != "posix" or not device.exists() or os.access(device, os.R_OK | os.W_OK):
        return "", ""
    import grp

    try:
        group = grp.getgrgid(device.stat().st_gid).gr_name
    except KeyError:
        group = "dialout"
    return (
        f"your user may not open {device}",
        f"sudo usermod -aG {group} $USER, then log in again",
    )
