"""st-flash, of the stlink tools: STM32 over ST-Link."""

from __future__ import annotations

from pathlib import Path

from edgec.runners.flash.runner import Job, Plan, ProgramTool


class StFlash(ProgramTool):
    """No keys: the image knows its addresses."""

    name = "st-flash"
    programs = ("st-flash",)
    get = "install the stlink tools (Debian: apt install stlink-tools)"
    explanations = (
        (r"Couldn't find any ST-Link", "no ST-Link was found: is the board plugged in?"),
        (r"LIBUSB_ERROR_ACCESS", "your user may not use the probe: install stlink's udev rules"),
    )

    def plan(self, job: Job, folder: Path) -> Plan:
        """Write each segment, read it into a file that is compared here, reset."""
        probe = ("--serial", job.probe) if job.probe else ()
        commands: list[tuple[str, ...]] = []
        files: dict[Path, bytes] = {}
        read_back: dict[int, Path] = {}
        for segment in job.image.segments:
            address = f"0x{segment.address:08x}"
            source = folder / f"write_{segment.address:08x}.bin"
            target = folder / f"read_{segment.address:08x}.bin"
            files[source], read_back[segment.address] = segment.data, target
            commands.append(("st-flash", *probe, "write", str(source), address))
            commands.append(
                ("st-flash", *probe, "read", str(target), address, f"0x{len(segment.data):x}")
            )
        return Plan((*commands, ("st-flash", *probe, "reset")), files, read_back)

    def failed(self, output: str) -> bool:
        """Some versions exit with 0 even without a probe."""
        return "Couldn't find any ST-Link" in output
