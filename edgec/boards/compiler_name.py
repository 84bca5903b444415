"""The C compiler by name, as files of `edgec tune` have it, and what of such a file is for it."""

from __future__ import annotations

from dataclasses import replace

from edgec.boards.toolchain import find_toolchain
from edgec.errors import ToolMissing
from edgec.options import Options
from edgec.targets.core import Core


def level_of(options: Options) -> str:
    """The level of the C compiler of microcontrollers."""
    return options.c_optimize or "-O2"


def compiler_of(core: Core, options: Options) -> str:
    """The C compiler of a core in words that change with all that decides its code.

    Raises ToolMissing where none is installed.
    """
    toolchain = find_toolchain(core, options.compiler)
    return f"{toolchain.family} {toolchain.version} {level_of(options)}"


def with_usable(options: Options, core: Core) -> Options:
    """The options with what was tuned for this core and, where one is installed, its compiler."""
    if not options.tuned.groups:
        return options
    try:
        compiler = compiler_of(core, options)
    except ToolMissing:
        compiler = None
    return replace(options, tuned=options.tuned.usable(core.name, compiler))
