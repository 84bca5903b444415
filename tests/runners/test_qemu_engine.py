"""The qemu and serial engines: whole boards over their UART, and QEMU's own troubles."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgec.boards.board import load_board
from edgec.build.elf import read_elf
from edgec.deploy.project import Built, deploy
from edgec.errors import RunFailed, ToolMissing
from edgec.link.client import LinkClient
from edgec.link.commands import Kind
from edgec.link.errors import (
    DeviceFault,
    NotProven,
    PortUnavailable,
    SilentDevice,
    WrongModel,
)
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.runners import emulator as emulator_module
from edgec.runners import qemu as qemu_module
from edgec.runners.engine import RunResult, open_session
from edgec.runners.qemu import QemuProcess, QemuSession, qemu_command
from edgec.runners.serial import SerialSession

sys.path.insert(0, str(Path(__file__).parents[1] / "link"))
from link_devices import BadLine

Digits = Callable[..., Built]
BOARDS = (
    "bbc_microbit",
    "mps2_an385",
    "netduinoplus2",
    "mps2_an386",
    "mps2_an500",
    "mps2_an505",
    "mps3_an547",
    "qemu_cortex_a7",
    "qemu_cortex_r5",
    "qemu_riscv32",
    "qemu_riscv32_v",
    "qemu_xtensa_lx106",
)


def is_alive(session: QemuSession) -> list[bool]:
    return [p._process is not None and p._process.poll() is None for p in session._processes]


def test_command_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(emulator_module.shutil, "which", lambda program: f"/opt/{program}")
    assert qemu_command(load_board("stm32"), tmp_path / "a.elf", "pty") == [
        "/opt/qemu-system-arm",
        "-M", "netduinoplus2",
        "-icount", "shift=0",
        "-display", "none", "-monitor", "none",
        "-chardev", "pty,id=link",
        "-serial", "null", "-serial", "null", "-serial", "null", "-serial", "null",
        "-serial", "null",
        "-serial", "chardev:link",
        "-kernel", str(tmp_path / "a.elf"),
    ]  # fmt: skip


def test_absent_program_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(emulator_module.shutil, "which", lambda program: None)
    with pytest.raises(ToolMissing, match="qemu-system-arm is not installed"):
        qemu_command(load_board("stm32"), tmp_path, "pty")
    with pytest.raises(ToolMissing, match="qemu-system-riscv32 is not installed") as caught:
        qemu_command(load_board("qemu_riscv32"), tmp_path, "pty")
    assert "qemu-system-misc" in caught.value.hint and "--engine core" in caught.value.hint
    with pytest.raises(RunFailed, match="does not emulate nucleo_f446re"):
        qemu_command(load_board("nucleo_f446re"), tmp_path, "pty")


@pytest.mark.usefixtures("qemu")
@pytest.mark.parametrize("board", BOARDS)
def test_same_bits_and_instructions_as_the_core(
    digits: Digits, images: list[np.ndarray], board: str
) -> None:
    built = digits(board)
    results: dict[str, RunResult] = {}
    # What the simulated core lacks is compared with the host's bits.
    for engine in ("qemu", "core" if load_board(board).core.is_simulated else "host"):
        project = digits("host") if engine == "host" else built
        with open_session(engine, project) as session:
            results[engine] = session.run([images[2]], trace=True)
            plain = [session.run([image]) for image in images[:2]]
            results[engine + "0"], results[engine + "1"] = plain
    emulated = [results["qemu"], results["qemu0"], results["qemu1"]]
    others = [value for key, value in results.items() if not key.startswith("qemu")]
    for found, expected in zip(emulated, others, strict=True):
        assert np.array_equal(found.outputs[0], expected.outputs[0])
        assert found.traces.keys() == expected.traces.keys()
        assert all(np.array_equal(found.traces[i], expected.traces[i]) for i in found.traces)
    for found, expected in zip(emulated[1:], others[1:], strict=True):
        if expected.instructions is not None:
            assert found.instructions is not None
            # One tick of the clock at either end, and the call through a pointer.
            allowed = 2 * found.resolution + 30
            assert abs(found.instructions - expected.instructions) <= allowed
    assert all(layer.instructions is not None for layer in emulated[0].layers)


@pytest.mark.usefixtures("qemu")
def test_profile_is_a_trace_without_values(digits: Digits, images: list[np.ndarray]) -> None:
    built = digits("mps2_an386")
    with open_session("qemu", built) as session:
        traced = session.run([images[0]], trace=True)
        profiled = session.run([images[0]], profile=True)
    assert not profiled.traces
    assert np.array_equal(profiled.outputs[0], traced.outputs[0])
    for one, other in zip(profiled.layers, traced.layers, strict=True):
        # Tracing values is excluded from the counts but for a few instructions at each.
        assert abs((one.instructions or 0) - (other.instructions or 0)) <= 4 * traced.resolution


@pytest.mark.usefixtures("qemu")
def test_counts_are_the_same_every_time(digits: Digits, images: list[np.ndarray]) -> None:
    counts = set()
    for _ in range(2):
        with open_session("qemu", digits("stm32")) as session:
            counts |= {session.run([images[0]]).instructions for _ in range(3)}
    # A tick at either end, and the few instructions by which an interrupt of the link may fall in.
    assert max(counts) - min(counts) <= 2 * 1e9 / 168e6 + 30


@pytest.mark.usefixtures("qemu")
def test_closing_leaves_no_process(digits: Digits, images: list[np.ndarray]) -> None:
    session = QemuSession(digits("mps2_an386"))
    session.run([images[0]])
    assert session.selftest() == 0
    session.reset()
    processes = list(session._processes)
    assert is_alive(session) == [True]
    session.close()
    assert [p._process.returncode is not None for p in processes if p._process] == [True]
    assert not processes[0]._messages.exists()
    session.close()


@pytest.mark.usefixtures("qemu")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's end")
def test_killed_program_leaves_no_process(digits: Digits) -> None:
    program = f"""
import time
from pathlib import Path
from edgec.runners.qemu import QemuProcess
from edgec.boards.board import load_board
process = QemuProcess(load_board("stm32"), Path({str(digits("stm32").artefact)!r}))
print(process._process.pid, flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        parent.kill()
    end = time.monotonic() + 5.0
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.usefixtures("qemu")
def test_wrong_firmware_is_named_and_leaves_no_process(digits: Digits) -> None:
    built = digits("mps2_an386")
    other = replace(built.manifest, build_hash=1)
    with pytest.raises(WrongModel, match="another build"):
        QemuSession(replace(built, manifest=other))


@pytest.mark.usefixtures("qemu")
def test_firmware_of_another_board_is_silent(
    digits: Digits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qemu_module, "_HELLO_PATIENCE_S", 1.0)
    built = replace(digits("mps2_an386"), artefact=digits("stm32").artefact)
    with pytest.raises((SilentDevice, RunFailed)):
        QemuSession(built)


@pytest.mark.usefixtures("qemu")
def test_unusable_image_shows_what_qemu_says(digits: Digits, tmp_path: Path) -> None:
    wrong = tmp_path / "firmware.elf"
    wrong.write_bytes(bytes(1 << 20))  # no ELF, and more than the board's memory holds
    with pytest.raises(RunFailed, match="QEMU ended with status 1") as caught:
        QemuSession(replace(digits("bbc_microbit"), artefact=wrong))
    assert "firmware.elf" in caught.value.render()


@pytest.mark.usefixtures("qemu")
@pytest.mark.parametrize(
    ("board", "undefined", "name"),
    [
        ("mps2_an386", "00de", "HardFault"),  # udf 0
        ("bbc_microbit", "00de", "HardFault"),
        ("qemu_cortex_a7", "00de", r"abort \(undefined instruction\)"),
        ("qemu_cortex_r5", "00de", r"abort \(undefined instruction\)"),
        ("qemu_riscv32", "0000", r"trap \(illegal instruction\)"),  # c.unimp
        ("qemu_xtensa_lx106", "6df0", r"exception \(illegal instruction\)"),  # ill.n
    ],
)
def test_program_that_faults_is_named(
    digits: Digits, images: list[np.ndarray], tmp_path: Path, board: str, undefined: str, name: str
) -> None:
    """The model's function is an undefined instruction: the port says so, and nobody waits."""
    built = digits(board)
    assert built.artefact is not None
    elf = tmp_path / "firmware.elf"
    data = bytearray(built.artefact.read_bytes())
    run = next(f for f in read_elf(built.artefact).functions() if f.name == "digits_int8_run")
    section = next(s for s in read_elf(built.artefact).sections if s.holds(run.address))
    code = section.content[run.address - section.address :][: run.length]
    at = bytes(data).index(code)
    data[at : at + 2] = bytes.fromhex(undefined)
    elf.write_bytes(data)
    with QemuSession(replace(built, artefact=elf)) as session:
        with pytest.raises(DeviceFault, match=f"stopped by a {name}") as caught:
            session.run([images[0]])
        assert f"pc 0x{run.address:08x} is in digits_int8_run + 0" in caught.value.render()


@pytest.mark.usefixtures("qemu")
def test_qemu_that_dies_is_named(digits: Digits, images: list[np.ndarray]) -> None:
    with QemuSession(digits("mps2_an386")) as session:
        session.run([images[0]])
        process = session._processes[0]._process
        assert process is not None
        process.kill()
        with pytest.raises(RunFailed, match="QEMU ended with status -9"):
            session.run([images[0]])


@pytest.mark.usefixtures("qemu")
@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are POSIX's")
@pytest.mark.parametrize("board", ["stm32", "qemu_riscv32"])
def test_serial_engine_on_a_pseudo_terminal(
    digits: Digits, images: list[np.ndarray], board: str
) -> None:
    """The real board's code, pyserial included, with QEMU in the board's place."""
    built = digits(board)
    assert built.traced is not None
    process = QemuProcess(load_board(board), built.traced, uart="pty")
    with process:
        assert process.transport is not None
        port = process.transport.name
        process.transport.close()
        with open_session("host", digits("host")) as host, SerialSession(built, port) as session:
            for image in images[:3]:
                result = session.run([image])
                assert np.array_equal(result.outputs[0], host.run([image]).outputs[0])
                assert result.cycles_source == "measured" and result.cycles
            traced = session.run([images[0]], trace=True)
            assert len(traced.traces) == len(built.manifest.traces)
            assert session._models[False] is not None
            assert session._models[False].client.stack().receiver_losses == 0
    with pytest.raises(PortUnavailable, match="cannot open the serial port"):
        SerialSession(built, port + "absent")


@pytest.mark.usefixtures("qemu")
@pytest.mark.parametrize("board", ["netduinoplus2", "mps2_an386", "qemu_riscv32"])
def test_one_percent_of_bad_bytes(digits: Digits, images: list[np.ndarray], board: str) -> None:
    built = digits(board)
    assert built.artefact is not None
    with (
        open_session("host", digits("host")) as host,
        QemuProcess(load_board(board), built.artefact) as process,
    ):
        assert process.transport is not None
        client = LinkClient(BadLine(process.transport, 0.01, 3))
        client.hello(20.0)
        for number in range(20):
            image = images[number % len(images)]
            client.write_input(0, image.tobytes())
            assert client.run().status == 0
            found = client.read(Kind.OUTPUT, 0, built.manifest.outputs[0].bytes)
            assert found == host.run([image]).outputs[0].tobytes()
        assert client.counts.repeated > 20


@pytest.mark.usefixtures("qemu")
def test_start_is_quick(digits: Digits, images: list[np.ndarray]) -> None:
    built = digits("mps2_an386")
    started = time.monotonic()
    with open_session("qemu", built) as session:
        session.run([images[0]])
    assert time.monotonic() - started < 10.0


@pytest.mark.usefixtures("qemu")
@pytest.mark.parametrize("board", ["netduinoplus2", "qemu_riscv32"])
def test_a_link_with_a_key(
    digits: Digits, images: list[np.ndarray], tmp_path: Path, board: str
) -> None:
    """The project runs; a copy of it with another key is told so."""
    pytest.importorskip("siphash24", reason="the extra `keyed` is not installed")
    model, chosen = (
        Path(__file__).parents[2] / "examples/digits/digits_int8.onnx",
        load_board(board),
    )
    options = Options(link_key=bytes(range(16)))
    compiled = compile_model(model, chosen.core, options, board_name=board)
    built = deploy(compiled, chosen, tmp_path / "keyed")
    with open_session("qemu", built) as session, open_session("host", digits("host")) as host:
        expected = host.run([images[0]]).outputs[0]
        assert session.run([images[0]]).outputs[0].tobytes() == expected.tobytes()
    header = built.project / "link" / "ec_link_key.h"
    header.write_text(header.read_text("utf-8").replace("0x0f", "0x0e"), "utf-8")
    with pytest.raises(NotProven, match="does not hold the project's key"):
        open_session("qemu", built)
    header.unlink()
    with pytest.raises(NotProven, match="this project has no key"):
        open_session("qemu", built)
