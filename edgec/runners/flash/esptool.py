"""esptool: the boot loader of Espressif's chips (version 5, a program: its licence is the GPL)."""

from __future__ import annotations

from pathlib import Path

from edgec.runners.flash.runner import Job, Plan, ProgramTool


class EspTool(ProgramTool):
    """Keys: `chip` (auto); `address`, where in its flash chip the program's start goes (0x0)."""

    name = "esptool"
    programs = ("esptool", "esptool.py")
    keys = frozenset({"chip", "address"})
    uses_port = True
    get = "pip install esptool"
    verifies = "compared by esptool"
    explanations = (
        (r"Failed to connect", "hold BOOT while you press reset, then flash again"),
        (r"could not open|Permission", "is this the port, and may your user use it?"),
    )

    def plan(self, job: Job, folder: Path) -> Plan:
        """Write the segments at their distance from the image's start, then compare and reset."""
        base = int(job.option(self.name, "address", "0x0"), 0)
        chip = job.option(self.name, "chip", "auto")
        rate = ("--baud", str(job.baud or 460800))
        common = ("esptool", "--chip", chip, "--port", job.serial_port(self.name), *rate)
        segments: list[str] = []
        files: dict[Path, bytes] = {}
        for segment in job.image.segments:
            source = folder / f"write_{segment.address:08x}.bin"
            files[source] = segment.data
            segments += [f"0x{base + segment.address - job.image.start:x}", str(source)]
        write = (*common, "--after", "no-reset", "write-flash", *segments)
        return Plan((write, (*common, "verify-flash", *segments)), files)
