"""QEMU as a flashing tool: the image is loaded into an emulated board, which must answer.

Nothing stays written, so this is a rehearsal: the same ELF boots, says who it is over its UART,
and passes its own self-test.
"""

from __future__ import annotations

import shutil

from edgec.errors import ToolMissing
from edgec.link.client import LinkClient
from edgec.runners.emulator import PROGRAMS
from edgec.runners.flash.runner import Flashed, FlashFailed, FlashTool, Job, Progress
from edgec.runners.qemu import QemuProcess

_HELLO_PATIENCE_S = 20.0
_SELFTEST_TIMEOUT_S = 600.0


class Qemu(FlashTool):
    """No keys: the board's own [qemu] table says how."""

    name = "qemu"

    def missing(self) -> ToolMissing | None:
        programs = [program for program, _ in PROGRAMS.values()]
        if any(map(shutil.which, programs)):
            return None
        packages = " ".join(package for _, package in PROGRAMS.values())
        return ToolMissing(
            f"none of {', '.join(programs)} is installed",
            hint=f"install QEMU (Debian: apt install {packages})",
        )

    def flash(self, job: Job, progress: Progress | None = None) -> Flashed:
        """Boot the image, ask for its identity, run its self-test."""
        with QemuProcess(job.board, job.image.elf) as process:
            assert process.transport is not None
            client = LinkClient(process.transport, patience_s=60.0)
            identity = client.hello(_HELLO_PATIENCE_S)
            client.prove(identity, job.key)
            if identity.has_selftest:
                status = client.selftest(timeout_s=_SELFTEST_TIMEOUT_S)
                if status != 0:
                    raise FlashFailed(f"the program boots, but its self-test returns {status}")
        return Flashed(
            "booted, and its self-test passed" if identity.has_selftest else "booted",
            (f"model '{identity.model}', build {identity.model_hash:08x}",),
        )
