"""SEGGER's J-Link Commander."""

from __future__ import annotations

import sys
from pathlib import Path

from edgec.runners.flash.runner import Job, Plan, ProgramTool


class JLink(ProgramTool):
    """Keys: `device`, SEGGER's name of the chip; `interface` (SWD); `speed_khz` (4000)."""

    name = "jlink"
    # On Windows `JLink`; elsewhere that name may be Java's linker.
    programs = ("JLink.exe",) if sys.platform == "win32" else ("JLinkExe",)
    keys = frozenset({"device", "interface", "speed_khz"})
    get = "install the J-Link software from https://www.segger.com/downloads/jlink"
    verifies = "compared by J-Link"
    explanations = ((r"Cannot connect to (J-Link|target)", "is the probe connected and powered?"),)

    def plan(self, job: Job, folder: Path) -> Plan:
        """One script for the commander: write and compare each segment, reset, go."""
        files: dict[Path, bytes] = {}
        lines = ["r"]
        for segment in job.image.segments:
            source = folder / f"write_{segment.address:08x}.bin"
            files[source] = segment.data
            lines.append(f"loadbin {source}, 0x{segment.address:x}")
            lines.append(f"verifybin {source}, 0x{segment.address:x}")
        script = folder / "flash.jlink"
        files[script] = "\n".join([*lines, "r", "g", "exit", ""]).encode()
        probe = ("-SelectEmuBySN", job.probe) if job.probe else ()
        command = (
            self.programs[0],
            *("-NoGui", "1", "-ExitOnError", "1", "-AutoConnect", "1"),
            *probe,
            *("-Device", job.option(self.name, "device")),
            *("-If", job.option(self.name, "interface", "SWD")),
            *("-Speed", job.option(self.name, "speed_khz", "4000")),
            *("-CommandFile", str(script)),
        )
        return Plan((command,), files)
