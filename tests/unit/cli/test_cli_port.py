"""`run`, `verify` and `monitor` at a serial port, and all that can be wrong there.

The board is QEMU behind a pseudo-terminal; what is no board of ours is a thread that talks.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tflite_builder import TfliteBuilder

from edgec.boards.board import load_board
from edgec.deploy.project import Built, deploy
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.runners.qemu import QemuProcess

if os.name != "posix":
    pytest.skip("pseudo-terminals are POSIX's", allow_module_level=True)

import tty

BOARD = "mps2_an386"
LARGE = 8192


@pytest.fixture(scope="module", autouse=True)
def qemu() -> None:
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed (Debian package qemu-system-arm)")


@pytest.fixture(scope="module")
def large_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """y = (x + x) x, int8[1,8192] each."""
    model = TfliteBuilder()
    x, h, y = (
        model.tensor(name, (1, LARGE), "int8", scale=0.1, zero_point=0)
        for name in ("the_input", "the_sum", "the_output")
    )
    model.operator("ADD", [x, x], [h], "AddOptions")
    model.operator("MUL", [h, x], [y], "MulOptions")
    path = tmp_path_factory.mktemp("large") / "large.tflite"
    path.write_bytes(model.build([x], [y]))
    return path


def build(model: Path, folder: Path) -> Built:
    board = load_board(BOARD)
    compiled = compile_model(model, board.core, Options(), board_name=board.name)
    return deploy(compiled, board, folder, traced=True)


@pytest.fixture(scope="module")
def project(large_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(large_model, tmp_path_factory.mktemp("project") / "large")


@contextmanager
def plugged(built: Built) -> Iterator[tuple[str, QemuProcess]]:
    """A board with the traced program at a port."""
    assert built.traced is not None
    with QemuProcess(load_board(BOARD), built.traced, uart="pty") as process:
        assert process.transport is not None
        port = process.transport.name
        process.transport.close()
        yield port, process


@pytest.fixture
def board_port(project: Built) -> Iterator[str]:
    with plugged(project) as (port, _):
        yield port


@contextmanager
def talking(text: bytes) -> Iterator[str]:
    """A port at which something says `text` to everything that it hears."""
    master, slave = os.openpty()
    tty.setraw(slave)

    def talk() -> None:
        try:
            while os.read(master, 4096):
                os.write(master, text)
        except OSError:
            pass  # both ends are closed

    thread = threading.Thread(target=talk, daemon=True)
    thread.start()
    try:
        yield os.ttyname(slave)
    finally:
        os.close(slave)
        thread.join(10)
        os.close(master)


def test_large_tensors_show_how_far_they_are(
    edgec: Callable, project: Built, board_port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    quiet = edgec("run", project.project, "--port", board_port)
    assert quiet.status == 0 and quiet.err == ""
    # What rich takes as a terminal.
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = edgec("run", project.project, "--port", board_port)
    outputs = [ran.out.partition("the_output")[2] for ran in (quiet, shown)]  # not the time
    assert shown.status == 0 and outputs[0] == outputs[1] != ""
    assert "the_input" in shown.err and "of 8,192" in shown.err
    assert edgec("run", project.project, "--port", board_port, "--json").err == ""


def test_every_layer_is_compared(
    edgec: Callable, large_model: Path, board_port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed (edgec[verify])")
    ran = edgec("verify", large_model, "--board", BOARD, "--engine", "serial", "--port", board_port,
                "--layers", "--random", "1")  # fmt: skip
    assert ran.status == 0, ran
    said = " ".join(ran.out.split())
    assert "mps2_an386 on serial against tflm: 1 case, 24,576 elements: all the same" in said
    assert "the_sum" in ran.err  # on its way


def test_the_port_is_held_by_one_program(
    project: Built, board_port: str, refused: Callable
) -> None:
    from edgec.link.transport import SerialTransport

    transport = SerialTransport(board_port, 115200)
    said = refused("run", project.project, "--port", board_port)
    transport.close()
    assert "another program uses the port" in said


@pytest.mark.parametrize(
    ("name", "words"),
    [("text.txt", "it is not a serial port"), ("absent", "is the board plugged in"),
     (".", "it is not a serial port")],
)  # fmt: skip
def test_what_is_no_port(
    project: Built, refused: Callable, work: Path, name: str, words: str
) -> None:
    Path("text.txt").write_text("not a port\n")
    assert words in refused("run", project.project, "--port", name)
    assert words in refused("monitor", "--port", name, "--seconds", "1")


@pytest.mark.parametrize(
    ("says", "words"),
    [
        (b"", "nothing arrives at all"),
        (b"Welcome to another program\r\n> ", "another program runs on the device"),
        (bytes(range(128, 256)), "wrong baud rate"),
    ],
    ids=["silent", "foreign", "noise"],
)
def test_what_is_no_board_of_ours(
    project: Built, refused: Callable, says: bytes, words: str
) -> None:
    with talking(says) as port:
        assert words in refused("run", project.project, "--port", port)


def test_the_host_hears_itself(project: Built, refused: Callable) -> None:
    """TX and RX are connected: a terminal that echoes is the same."""
    master, slave = os.openpty()
    tty.setraw(slave)
    stop = threading.Event()

    def echo() -> None:
        while not stop.is_set():
            try:
                os.write(master, os.read(master, 4096))
            except OSError:
                return

    thread = threading.Thread(target=echo, daemon=True)
    thread.start()
    said = refused("run", project.project, "--port", os.ttyname(slave))
    stop.set()
    os.close(slave)
    thread.join(10)
    os.close(master)
    assert "echoes the host's own bytes" in said


def test_a_device_of_another_model(
    refused: Callable, example: Path, board_port: str, tmp_path: Path
) -> None:
    other = build(example, tmp_path / "digits")
    said = refused("run", other.project, "--port", board_port)
    assert "holds a program for the model 'large', not 'digits_int8'" in said
    assert "flash the project" in said


@contextmanager
def busy(project: Built, port: str) -> Iterator[subprocess.Popen[bytes]]:
    """`run` in a process of its own, in the middle of a transfer."""
    command = [sys.executable, "-m", "edgec", "run", str(project.project), "--port", port,
               "--steps", "1000"]  # fmt: skip
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "FORCE_COLOR": "1"},
        # Who runs the tests may ignore the signal.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        assert process.stderr is not None
        seen = b""
        while b"the_input" not in seen:
            data = os.read(process.stderr.fileno(), 4096)
            assert data, seen
            seen += data
        yield process
    finally:
        process.kill()
        process.communicate()


def test_unplugged_in_the_middle(project: Built) -> None:
    with plugged(project) as (port, emulator), busy(project, port) as process:
        emulator.close()
        _, said = process.communicate(timeout=60)
    text = said.decode()
    assert process.returncode == 1
    assert f"the serial port {port} is gone" in text and "was the board unplugged?" in text
    assert "Traceback" not in text


def test_stopped_in_the_middle(edgec: Callable, project: Built, board_port: str) -> None:
    """Ctrl-C leaves a port and a board that work."""
    with busy(project, board_port) as process:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.decode().endswith("stopped\n") and b"Traceback" not in said
    ran = edgec("run", project.project, "--port", board_port, "--json")
    assert ran.status == 0
    on_host = edgec("run", project.project, "--engine", "core", "--json")
    assert ran.json["output_fnv1a"] == on_host.json["output_fnv1a"]


def test_profile_in_cycles(edgec: Callable, project: Built, board_port: str, work: Path) -> None:
    ran = edgec("run", project.project, "--port", board_port, "--profile", "--repeat", "3",
                "--chrome-trace", "t.json", "--speedscope", "s.json", "--json")  # fmt: skip
    assert ran.status == 0, ran
    rows = ran.json["layers"]
    assert [np.sign(row["cycles"]) for row in rows] == [1, 1]
    assert Path("t.json").is_file() and Path("s.json").is_file()


def test_dead_member_of_a_pool_is_named(
    edgec: Callable, project: Built, board_port: str, work: Path
) -> None:
    pool = work / "pool.toml"
    pool.write_text(f'[[device]]\nport = "{board_port}"\n[[device]]\nport = "/dev/ttyNone"\n')
    ran = edgec("run", project.project, "--pool", pool, "--steps", "3", "--json")
    assert ran.status == 0, ran
    assert ran.err == "left out: /dev/ttyNone: cannot open the serial port /dev/ttyNone: " \
                      "No such file or directory\n"  # fmt: skip
