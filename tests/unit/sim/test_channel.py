"""A worker that dies, lies or sleeps is an error, never a hang."""

import io
import sys
import time

import pytest

from edgec.errors import RunFailed, ToolMissing
from edgec.sim.channel import Channel
from edgec.sim.protocol import ProtocolError, read_frame, write_frame

ANSWER = (
    "import sys; from edgec.sim.protocol import *; i, o = sys.stdin.buffer, "
    "sys.stdout.buffer; read_frame(i); "
)


def ask(program: str, timeout_s: float = 20) -> None:
    channel = Channel([sys.executable, "-c", program])
    try:
        channel.request({"command": "read"}, timeout_s=timeout_s)
    finally:
        channel.close()


def test_worker_that_dies_at_once():
    with pytest.raises(RunFailed, match="process died") as caught:
        ask("import sys; sys.exit('no luck')")
    assert "no luck" in caught.value.details[-1]


def test_worker_that_dies_in_a_frame():
    with pytest.raises(RunFailed, match="garbage: the stream ended"):
        ask(ANSWER + "o.write(b'ECSM' + bytes([4, 0, 0, 0, 9, 0, 0, 0]) + b'{}'); o.flush()")


@pytest.mark.parametrize(
    "text",
    ["b'hello, world'", "bytes(100)", r"b'ECSM\2\0\0\0\0\0\0\0[]'", r"b'ECSM\2\0\0\0\0\0\0\0{{'"],
)
def test_worker_that_sends_garbage(text):
    with pytest.raises(RunFailed, match="garbage"):
        ask(ANSWER + f"o.write({text}); o.flush(); sys.stdin.read()")


def test_worker_that_is_silent():
    start = time.monotonic()
    with pytest.raises(RunFailed, match=r"did not answer `read` within 0\.5 s"):
        ask(ANSWER + "import time; time.sleep(60)", timeout_s=0.5)
    assert time.monotonic() - start < 20


def test_missing_package():
    with pytest.raises(ToolMissing, match="Python package unicorn") as caught:
        ask(ANSWER + "write_frame(o, {'missing': 'unicorn', 'reason': 'No module'})")
    assert caught.value.hint == 'pip install "edgec[sim]"'


def test_worker_says_what_is_missing():
    hide = "import sys; sys.modules['unicorn'] = None; from edgec.sim.worker import main; main()"
    channel = Channel([sys.executable, "-c", hide])
    with pytest.raises(ToolMissing, match="Python package unicorn"):
        channel.request({"command": "open"}, timeout_s=20)


def test_no_such_program():
    with pytest.raises(ToolMissing, match="cannot start"):
        Channel(["/nonexistent/python"])


def test_closed_channel_and_refused_request():
    channel = Channel()
    with pytest.raises(RunFailed, match=r"refused `read`.*`open`"):
        channel.request({"command": "read"}, timeout_s=20)
    channel.close()
    channel.close()
    with pytest.raises(RunFailed, match="is closed"):
        channel.request({"command": "read"}, timeout_s=20)


def test_frames():
    stream = io.BytesIO()
    write_frame(stream, {"a": [1, "ü"]}, b"\0\1\2")
    write_frame(stream, {})
    stream.seek(0)
    assert read_frame(stream) == ({"a": [1, "ü"]}, b"\0\1\2")
    assert read_frame(stream) == ({}, b"")
    assert read_frame(stream) is None
    for cut in (3, 13, 20):
        with pytest.raises(ProtocolError):
            read_frame(io.BytesIO(stream.getvalue()[:cut]))


def test_the_client_does_not_import_the_simulator():
    import subprocess

    program = (
        "import sys, edgec.sim.core; "
        "sys.exit(bool({'unicorn', 'capstone', 'edgec.sim.machine'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
