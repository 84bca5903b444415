"""dfu-util: boot loaders that speak USB Device Firmware Upgrade, with ST's DfuSe addresses."""

from __future__ import annotations

from pathlib import Path

from edgec.runners.flash.runner import Job, Plan, ProgramTool


class DfuUtil(ProgramTool):
    """Keys: `device`, "vendor:product" in hexadecimal; `alt`, the number of the flash (0)."""

    name = "dfu-util"
    programs = ("dfu-util",)
    keys = frozenset({"device", "alt"})
    get = "install dfu-util (Debian: apt install dfu-util)"
    explanations = (
        (
            r"No DFU capable USB device",
            "no boot loader is on USB: set BOOT0, press reset, connect the chip's own USB",
        ),
        (r"LIBUSB_ERROR_ACCESS|Cannot open DFU device", "your user may not use the device (udev)"),
    )

    def plan(self, job: Job, folder: Path) -> Plan:
        """Write the segments, read each into a file that is compared here, leave the loader."""
        common = (
            *("dfu-util", "-d", job.option(self.name, "device")),
            *("-a", job.option(self.name, "alt", "0")),
            *(("-S", job.probe) if job.probe else ()),
        )
        writes: list[tuple[str, ...]] = []
        reads: list[tuple[str, ...]] = []
        files: dict[Path, bytes] = {}
        read_back: dict[int, Path] = {}
        last = job.image.segments[-1]
        for segment in job.image.segments:
            source = folder / f"write_{segment.address:08x}.bin"
            target = folder / f"read_{segment.address:08x}.bin"
            files[source], read_back[segment.address] = segment.data, target
            place = f"0x{segment.address:08x}"
            leave = ":leave" if segment is last else ""
            writes.append((*common, "-s", place, "-D", str(source)))
            reads.append((*common, "-s", f"{place}:{len(segment.data)}{leave}", "-U", str(target)))
        return Plan((*writes, *reads), files, read_back)
