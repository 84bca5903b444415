"""STM32CubeProgrammer: ST's own program, for every STM32 and every way into it."""

from __future__ import annotations

from pathlib import Path

from edgec.runners.flash.runner import Job, Plan, ProgramTool


class Stm32CubeProgrammer(ProgramTool):
    """Keys: `connect`, the text of its option -c, such as "port=SWD mode=UR"."""

    name = "stm32cubeprogrammer"
    programs = ("STM32_Programmer_CLI", "STM32_Programmer.sh")
    keys = frozenset({"connect"})
    get = "install STM32CubeProgrammer from https://www.st.com/stm32cubeprog and put it on PATH"
    verifies = "compared by STM32CubeProgrammer"
    explanations = ((r"No (STM32|ST-LINK|debug probe)", "no ST-Link was found: is it plugged in?"),)

    def plan(self, job: Job, folder: Path) -> Plan:
        """Write, compare and start. A given --port means the boot loader on that UART."""
        if job.port is not None:
            way = [f"port={job.port}", f"br={job.baud or 115200}", "P=EVEN"]
        else:
            way = job.option(self.name, "connect", "port=SWD mode=UR").split()
            way += [f"sn={job.probe}"] if job.probe else []
        start = f"0x{job.image.start:08x}"
        command = ("STM32_Programmer_CLI", "-c", *way, "-w", str(job.image.elf), "-v", "-s", start)
        return Plan((command,))
