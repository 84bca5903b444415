"""Flash a built project: choose the tool, load the image, write it."""

from __future__ import annotations

from edgec.errors import BoardError
from edgec.link.ports import find_board_port
from edgec.link.seal import project_key
from edgec.runners.engine import Project
from edgec.runners.flash.image import load_image
from edgec.runners.flash.runner import Flashed, FlashTool, Job, Progress, settings
from edgec.runners.flash.tools import choose_tool


def plan_flash(
    project: Project,
    *,
    runner: str | None = None,
    port: str | None = None,
    baud: int | None = None,
    probe: str | None = None,
    traced: bool = False,
) -> tuple[FlashTool, Job]:
    """Return the tool and its job, without doing it.

    A port that is the board's own debug probe (by its USB numbers) means a tool over that probe,
    unless another is named. Raises the errors of `choose_tool` and `load_image`, and BoardError for
    a project that was built for this computer.
    """
    board = project.board
    elf = project.traced if traced else project.artefact
    if board is None or board.is_host or elf is None:
        raise BoardError(
            f"{project.project} was built for this computer, there is nothing to flash",
            hint="build it for a microcontroller board",
        )
    found = find_board_port(board, port) if port is not None and runner is None else None
    if found is not None:
        port, probe = None, probe or found.serial_number or None
    tool = choose_tool(board, runner, port)
    image = load_image(elf, board)
    return tool, Job(
        board, image, settings(board, tool.name), port=port, baud=baud, probe=probe,
        key=project_key(project.project),
    )  # fmt: skip


def flash_project(
    project: Project,
    *,
    runner: str | None = None,
    port: str | None = None,
    traced: bool = False,
    progress: Progress | None = None,
) -> Flashed:
    """Flash a project whose link is at `port`: the tool uses the port only if it is named, since a
    boot loader is rarely at the link's port. Raises the tool's errors.
    """
    named = port if runner is not None else None
    tool, job = plan_flash(project, runner=runner, port=named, traced=traced)
    return tool.flash(job, progress)
