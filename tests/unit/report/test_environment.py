"""What `edgec doctor` finds, and what it says about mending."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest

from edgec.link.ports import SerialPort
from edgec.report import environment


def plug(described: Path, opened: Path, name: str, usb: str, device: int) -> Path:
    folder = described / name
    folder.mkdir(parents=True)
    vendor, product = usb.split(":")
    words = {"idVendor": vendor, "idProduct": product, "busnum": "1", "devnum": str(device)}
    for key, value in {**words, "serial": f"S{device}"}.items():
        (folder / key).write_text(value + "\n")
    path = opened / "001" / f"{device:03d}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    return path


def test_probes_on_usb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described, opened = tmp_path / "sys", tmp_path / "dev"
    plug(described, opened, "1-1", "0483:374b", 4)
    plug(described, opened, "1-2", "1d6b:0002", 1)  # a hub
    closed = plug(described, opened, "1-3", "0d28:0204", 9)
    (described / "usb1").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != closed)
    first, second = environment.usb_devices(described, opened)
    assert first.ok and first.found == "ST-LINK/V2-1 (USB 0483:374b, S4)"
    assert not second.ok and second.found.startswith("DAPLink")
    assert second.problem == f"your user may not open {closed}" and "udev rules" in second.remedy
    assert environment.usb_devices(tmp_path / "none", opened) == []


def test_ports_name_their_boards_and_permissions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = tmp_path / "ttyACM0"
    device.write_bytes(b"")
    port = SerialPort(str(device), "STM32 STLink", "0483:374b", "066A")
    found = environment.port_finding(port)
    assert found.ok and "nucleo_f446re" in found.found and "nucleo_l4r5zi" in found.found
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    found = environment.port_finding(port)
    assert not found.ok and "usermod -aG" in found.remedy and "log in again" in found.remedy


def test_every_package_that_edgec_asks_for_is_looked_for() -> None:
    declared = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))
    project = declared["project"]
    words = {"": project["dependencies"], **project["optional-dependencies"]}
    # `flash` holds programs, `all` other extras; the others are for other work.
    wanted = {
        (re.split("[<>=]", text)[0], extra)
        for extra, texts in words.items()
        for text in texts
        if extra not in ("all", "docs", "flash", "packages", "test", "torch")
    }
    assert {(distribution, extra) for _, distribution, extra, _ in environment.PACKAGES} == wanted


@pytest.mark.parametrize(
    ("name", "text", "is_old"),
    [
        ("qemu-system-arm", "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+b3)", False),
        ("qemu-system-arm", "QEMU emulator version 5.2.0 (Debian 1:5.2+dfsg-11)", True),
        ("arm-none-eabi-gcc", "arm-none-eabi-gcc (15:12.2.rel1-1) 12.2.1 20221205", False),
        ("arm-none-eabi-gcc", "arm-none-eabi-gcc (GNU Tools) 9.2.1 20191025", True),
        ("openocd", "Open On-Chip Debugger 0.11.0", True),
        ("esptool", "esptool.py v4.8.1", True),
        ("gcc", "gcc 4.1", False),  # nothing is known of it
        ("cmake", "who knows", False),
    ],
)
def test_old_versions_are_named(name: str, text: str, is_old: bool) -> None:
    assert bool(environment._too_old(name, text)) == is_old


def test_a_program_that_does_not_answer(tmp_path: Path) -> None:
    program = tmp_path / "openocd"
    program.write_text("no program\n")
    program.chmod(0o755)
    assert "openocd" in environment._first_line(str(program), ("--version",))
    assert environment._first_line("/x/stm32flash", None) == "/x/stm32flash"
