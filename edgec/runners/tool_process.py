"""Run an external tool to its end, or end it, with the processes that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress

#: Number of last bytes of a tool's output that are kept.
_MOST_SAID = 1 << 20
#: Seconds for a tool to let its probe and the chip go.
_STOP_S = 5.0


def run_tool(command: Sequence[str], timeout_s: float) -> tuple[int, str]:
    """Run a tool; its exit status and output.

    The output goes to a file: a server that it started may hold a pipe open for ever. It runs in a
    separate session: Ctrl-C, or another end of the wait, asks it to terminate. Raises OSError if it
    cannot be started, TimeoutExpired after `timeout_s`.
    """
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(timeout_s)
        except BaseException:
            _end(process)
            raise
        said.seek(max(0, said.seek(0, os.SEEK_END) - _MOST_SAID))
        return status, said.read().decode("utf-8", "replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the tool and its children to terminate, then kill them."""
    if sys.platform == "win32":
        process.kill()
    else:
        end = time.monotonic() + _STOP_S
        with suppress(ProcessLookupError):  # none is left
            os.killpg(process.pid, signal.SIGTERM)
            while time.monotonic() < end:
                process.poll()
                os.killpg(process.pid, 0)
                time.sleep(0.02)
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
