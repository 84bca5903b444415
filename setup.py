"""Copy boards, templates, the C runtime, CMake's package and schedules into the built package.

Everything else is in `pyproject.toml`. An editable install needs no copy: `edgec/resources.py`
finds the folders at the root of the checkout.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

RESOURCE_DIRS = ("boards", "templates", "runtime_c", "cmake", "tuned")


class BuildWithResources(build_py):
    """`build_py`, then the folders that are not Python."""

    def run(self) -> None:
        """Build, then copy; an editable install copies nothing."""
        super().run()
        if self.editable_mode:
            return
        root = Path(__file__).resolve().parent
        for name in RESOURCE_DIRS:
            target = Path(self.build_lib) / "edgec" / "_resources" / name
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(root / name, target)


setup(cmdclass={"build_py": BuildWithResources})
