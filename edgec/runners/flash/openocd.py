"""OpenOCD: debug probes of every kind, by the scripts that it ships."""

from __future__ import annotations

from pathlib import Path

from edgec.runners.flash.runner import Job, Plan, ProgramTool


class OpenOcd(ProgramTool):
    """Keys: `config`, one or more scripts (board/..., or interface/... target/...), by spaces."""

    name = "openocd"
    programs = ("openocd",)
    keys = frozenset({"config"})
    get = "install OpenOCD (Debian: apt install openocd; others: https://openocd.org)"
    verifies = "compared by openocd"
    explanations = (
        (
            r"open failed|unable to find a matching|no device found",
            "no debug probe was found: is the board plugged in, and may your user use it "
            "(`edgec doctor`)?",
        ),
        (r"LIBUSB_ERROR_ACCESS", "your user may not use the probe: install OpenOCD's udev rules"),
        (r"Can't find .*\.cfg", "this OpenOCD lacks the board's script: take a newer one"),
    )

    def plan(self, job: Job, folder: Path) -> Plan:
        """Write, compare, reset and run, in one call; Tcl's braces keep any path whole."""
        scripts = job.option(self.name, "config").split()
        probe = ["-c", f"adapter serial {job.probe}"] if job.probe else []
        command = f"program {{{job.image.elf}}} verify reset exit"
        files = [word for script in scripts for word in ("-f", script)]
        return Plan((("openocd", *files, *probe, "-c", command),))
