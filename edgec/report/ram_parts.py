"""The parts of a board's RAM, whose bytes add up to all of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgec.deploy.project import Built
    from edgec.pipeline import Compiled


def ram_figures(compiled: Compiled, built: Built) -> dict[str, int | None]:
    """The figures of a build's RAM that its program does not know; None without an image."""
    image = built.image
    return {
        "weights_in_ram_bytes": _copied_bytes(built, ".ec_weights_"),
        "code_in_ram_bytes": _copied_bytes(built, ".ec_code_"),
        "variables_bytes": _variables_bytes(compiled, built),
        "stack_reserved_bytes": image.stack_reserved_bytes if image else None,
    }


def ram_rows(report: Mapping[str, Any]) -> list[tuple[str, int, str]]:
    """(name, bytes, remark) of each known part, and last the total RAM."""
    stack, reserved = report["stack_bytes"], report["stack_reserved_bytes"]
    parts = [
        ("arena", report["arena_bytes"],
         _bound_note(report["arena_bytes"], report["arena_lower_bound"])),
        *((f"arena in {area['region']}", area["bytes"],
           _bound_note(area["bytes"], area["lower_bound"])) for area in report["areas"]),
        ("state", report["state_bytes"], ""),
        ("weights in RAM", report["weights_in_ram_bytes"] or None, "copied from flash"),
        ("code in RAM", report["code_in_ram_bytes"] or None, "copied from flash"),
        ("variables", report["variables_bytes"], "contexts, link, port"),
        ("stack", stack, "bound from the call graph") if stack is not None else
        ("stack", reserved, "reserved: no bound is known"),
        ("RAM in all", report["ram_bytes"], ""),
    ]  # fmt: skip
    return [(what, size, note) for what, size, note in parts if size is not None]


def _bound_note(size: int, bound: int) -> str:
    return f"lower bound {bound:,}: {'optimal' if size == bound else f'gap {size - bound:,}'}"


def _variables_bytes(compiled: Compiled, built: Built) -> int | None:
    """RAM that no other figure has: contexts, buffers of the link, the port's."""
    image, program = built.image, compiled.program
    if image is None:
        return None
    stack = image.stack_reserved_bytes if image.stack_bytes is None else image.stack_bytes
    areas = sum(area.nbytes for area in program.areas)
    copies = _copied_bytes(built, ".ec_weights_") + _copied_bytes(built, ".ec_code_")
    return image.ram_bytes - stack - program.arena_bytes - areas - program.state_bytes - copies


def _copied_bytes(built: Built, prefix: str) -> int:
    """RAM for code and data that the program copies there from flash: sections `prefix` and a
    region.
    """
    if built.image is None or built.board is None:
        return 0
    memory = built.board.memory
    return sum(
        section.bytes
        for section in built.image.sections
        if section.name.startswith(prefix)
        and section.region in memory
        and memory[section.region].kind == "ram"
    )
