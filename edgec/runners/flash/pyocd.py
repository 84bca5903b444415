"""pyOCD: CMSIS-DAP, ST-Link and J-Link probes, from Python's package index."""

from __future__ import annotations

from pathlib import Path

from edgec.runners.flash.runner import Job, Plan, ProgramTool


class PyOcd(ProgramTool):
    """Keys: `target`, a name of `pyocd list --targets`."""

    name = "pyocd"
    programs = ("pyocd",)
    keys = frozenset({"target"})
    get = "pip install pyocd"
    explanations = (
        (
            r"No (target )?device available|No available debug probes|No connected debug probes",
            "no debug probe was found: is the board plugged in, and may your user use it "
            "(`edgec doctor`)?",
        ),
        (r"Target type .* not recognized", "pyOCD needs a pack: `pyocd pack install TARGET`"),
    )

    def plan(self, job: Job, folder: Path) -> Plan:
        """Load, then read each segment into a file that is compared here."""
        target = job.option(self.name, "target")
        # Without -W pyOCD would wait for a probe for ever.
        common = ("-W", "--target", target, *(("--probe", job.probe) if job.probe else ()))
        read_back = {s.address: folder / f"read_{s.address:08x}.bin" for s in job.image.segments}
        reads = [
            word
            for s in job.image.segments
            for word in ("-c", f"savemem 0x{s.address:x} {len(s.data)} '{read_back[s.address]}'")
        ]
        load = ("pyocd", "load", *common, "--format", "elf", "--no-reset", str(job.image.elf))
        reset = ("pyocd", "reset", *common)
        return Plan((load, ("pyocd", "commander", *common, *reads), reset), read_back=read_back)

    def failed(self, output: str) -> bool:
        """pyOCD exits with 0 even without a probe."""
        return "No connected debug probes" in output or "No available debug probes" in output
