"""The C compiler's name in files of `edgec tune`, and the parts of such a file that apply to it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from edgec.boards.toolchain import find_toolchain
from edgec.errors import ToolMissing
from edgec.loop.tuned import SUFFIX, Tuned, read_tuned
from edgec.options import Options
from edgec.resources import resource_dir
from edgec.targets.core import Core, find_core


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
    """The options with the schedules tuned for this core and, if one is installed, its compiler.

    Schedules that ship with edgec apply only to the compiler that they were measured with.
    """
    given = options.tuned
    ours = Tuned() if given.is_alone else _offered(core)
    if not given.groups and not ours.groups:
        return options
    try:
        compiler = compiler_of(core, options)
    except ToolMissing:
        compiler = None
    usable = given.usable(core.name, compiler).groups
    known = {} if compiler is None else ours.usable(core.name, compiler).groups
    return replace(options, tuned=replace(given, groups=usable, shipped=known))


#: Cores without a file, by a core with the same instructions for the rules: its float schedules
#: save as much on them (`tests/models/budgets.toml`, `time`).
ALIKE = dict.fromkeys(("cortex-m7", "cortex-m7+nofp.dp", "cortex-m33"), "cortex-m4")


@cache
def shipped(core: Core) -> Tuned:
    """The tuned schedules that ship with edgec for a core."""
    path = resource_dir("tuned") / f"{core.name}{SUFFIX}"
    return read_tuned(path) if path.is_file() else Tuned()


def _offered(core: Core) -> Tuned:
    """The file that ships for a core, or for a similar core."""
    like = ALIKE.get(core.name)
    if like is None:
        return shipped(core)
    groups = shipped(find_core(like)).groups.values()
    return Tuned({g.key: g for g in (replace(group, core=core.name) for group in groups)})
