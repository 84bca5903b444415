"""All flashing tools, and which of them a board takes."""

from __future__ import annotations

import importlib

from edgec.boards.board import Board
from edgec.errors import BoardError, ToolMissing
from edgec.runners.flash.runner import FlashTool, settings

#: Name of a tool -> its file and class. A file is imported when its tool is used.
TOOLS = {
    "openocd": ("openocd", "OpenOcd"),
    "pyocd": ("pyocd", "PyOcd"),
    "st-flash": ("st_flash", "StFlash"),
    "stm32-uart": ("stm32_uart", "Stm32Uart"),
    "stm32flash": ("stm32flash", "Stm32Flash"),
    "stm32cubeprogrammer": ("stm32cubeprogrammer", "Stm32CubeProgrammer"),
    "dfu-util": ("dfu_util", "DfuUtil"),
    "jlink": ("jlink", "JLink"),
    "esptool": ("esptool", "EspTool"),
    "uf2": ("uf2", "Uf2"),
    "qemu": ("qemu", "Qemu"),
}


def load_tool(name: str) -> FlashTool:
    """Return a tool. Raises BoardError for a name that nothing has."""
    if name not in TOOLS:
        raise BoardError(f"there is no flashing tool '{name}'", hint=f"known: {', '.join(TOOLS)}")
    module, kind = TOOLS[name]
    tool: FlashTool = getattr(importlib.import_module(f"edgec.runners.flash.{module}"), kind)()
    return tool


def tools_of(board: Board) -> tuple[str, ...]:
    named = [runner.name for runner in board.runners]
    return tuple([*named, *(["qemu"] if board.qemu is not None else [])])


def choose_tool(board: Board, name: str | None, port: str | None) -> FlashTool:
    """Return the tool that is named; else the first of the board's that can be used.

    With `port` tools over a serial port are looked at, unless the board has none; without it only
    the others. QEMU is taken unasked only for a board that no tool writes. Raises BoardError when
    the board does not know the named tool, ToolMissing when none can be used, naming how to get
    each.
    """
    names = tools_of(board)
    if name is not None:
        if name not in names:
            load_tool(name)  # a name that nothing has is another mistake
            raise BoardError(
                f"{board.name} is not flashed with {name}",
                details=(f"its tools: {', '.join(names) or 'none'}",),
                hint="name another with --runner, or add a [[runner]] to the board's file",
            )
        tool = load_tool(name)
        tool.check_options(settings(board, name), board.name)
        return tool
    reasons = []
    tools = [load_tool(candidate) for candidate in names if candidate != "qemu" or len(names) == 1]
    over_port = port is not None and any(tool.uses_port for tool in tools)
    for tool in tools:
        candidate = tool.name
        tool.check_options(settings(board, candidate), board.name)
        if tool.uses_port != over_port:
            reasons.append(f"{candidate}: " + ("needs --port" if tool.uses_port else "takes none"))
            continue
        problem = tool.missing()
        if problem is None:
            return tool
        reasons.append(f"{candidate}: {problem.message}; {problem.hint}")
    if not names:
        raise BoardError(
            f"no flashing tool knows {board.name}",
            hint="add a [[runner]] to the board's file (docs/flashing.md)",
        )
    raise ToolMissing(
        f"no tool that can flash {board.name} is ready",
        details=tuple(reasons),
        hint="install one of them, or name one with --runner",
    )
