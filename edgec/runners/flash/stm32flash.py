"""stm32flash: the STM32 system boot loader over a serial port, by Debian's program.

`stm32_uart.py` does the same without a program; this one also knows chips by their names.
"""

from __future__ import annotations

from pathlib import Path

from edgec.runners.flash.runner import Job, Plan, ProgramTool


class Stm32Flash(ProgramTool):
    """Keys: `gpio`, the text of its option -i, for boards whose DTR and RTS set BOOT0 and reset."""

    name = "stm32flash"
    programs = ("stm32flash",)
    keys = frozenset({"gpio"})
    uses_port = True
    get = "install stm32flash (Debian: apt install stm32flash), or use --runner stm32-uart"
    verifies = "compared by stm32flash"
    explanations = (
        (r"Failed to init device", "no boot loader answers: set BOOT0 and press reset"),
        (r"Permission denied", "your user may not use the port: add it to the group dialout"),
    )

    def plan(self, job: Job, folder: Path) -> Plan:
        """Write and compare each segment, then start the program."""
        port = job.serial_port(self.name)
        gpio = ("-i", job.options["gpio"]) if "gpio" in job.options else ()
        rate = ("-b", str(job.baud or 115200))
        commands: list[tuple[str, ...]] = []
        files: dict[Path, bytes] = {}
        for number, segment in enumerate(job.image.segments):
            source = folder / f"write_{segment.address:08x}.bin"
            files[source] = segment.data
            # -f: the file is binary, whatever its first bytes look like. -c: in step already.
            again = ("-c",) if number else gpio
            place = ("-S", f"0x{segment.address:08x}")
            commands.append(
                ("stm32flash", *rate, *again, "-f", "-v", "-w", str(source), *place, port)
            )
        commands.append(("stm32flash", *rate, "-c", "-g", f"0x{job.image.start:08x}", port))
        return Plan(tuple(commands), files)
