"""A firmware project's files for its board: port sources, `ec_board.h`, the linker script.

Decisions are made here; `templates/link.ld.j2` and `templates/ec_board.h.j2` only arrange.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgec.boards.board import Board, MemoryRegion
from edgec.errors import BoardError
from edgec.resources import resource_dir, text_templates

_COMMON = ("common/start.c", "common/rx_queue.c", "common/memory.c")
_CORTEX_M = ("cortex_m/startup.c", *_COMMON)
_CORTEX_AR = ("cortex_ar/startup.c", *_COMMON)
_RISCV = ("riscv/startup.c", *_COMMON)
_XTENSA = ("xtensa/startup.c", "xtensa/arithmetic.c", *_COMMON)
_SYSTICK = (*_CORTEX_M, "cortex_m/systick.c")

PORT_SOURCES: dict[str, tuple[str, ...]] = {
    "host": (),
    "esp32c3": (*_RISCV, "esp32c3/port.c"),
    "riscv_virt": (*_RISCV, "riscv_virt/port.c"),
    "xtfpga": (*_XTENSA, "xtfpga/port.c"),
    "vexpress": (*_CORTEX_AR, "vexpress/port.c"),
    "cmsdk_uart": (*_SYSTICK, "cmsdk_uart/port.c"),
    "stm32f1": (*_SYSTICK, "stm32/usart_sr.c", "stm32f1/port.c"),
    "stm32f4": (*_SYSTICK, "stm32/usart_sr.c", "stm32f4/port.c"),
    "stm32g0": (*_SYSTICK, "stm32/usart_isr.c", "stm32g0/port.c"),
    "stm32h7": (*_SYSTICK, "stm32/usart_isr.c", "stm32h7/port.c"),
    "stm32l4": (*_SYSTICK, "stm32/usart_isr.c", "stm32l4/port.c"),
    "stm32u5": (*_SYSTICK, "stm32/usart_isr.c", "stm32u5/port.c"),
    # The nRF51 has no SysTick: its port counts ticks with TIMER0.
    "nrf51": (*_CORTEX_M, "nordic/uart.c", "nrf51/port.c"),
    "nrf52": (*_SYSTICK, "nordic/uart.c", "nrf52/port.c"),
    "nrf53": (*_SYSTICK, "nrf53/port.c"),
    "rp2040": (*_SYSTICK, "rp2/port.c", "rp2040/boot2.c"),
    "rp2350": (*_SYSTICK, "rp2/port.c", "rp2350/image_def.c"),
}
"""C files of each port, below `runtime_c/ports/`."""


#: Bytes, by instruction set; elsewhere 8. The calling conventions of RISC-V and Xtensa ask for 16.
_STACK_ALIGNMENT = {"rv32": 16, "xtensa": 16}

FETCH_REGION = "fetch"
"""The linker's name for the program's region where instructions are fetched by another bus."""


@dataclass(frozen=True)
class _RegionText:
    name: str
    origin: str
    length: str
    access: str


@dataclass(frozen=True)
class _Define:
    key: str
    value: str


def _ports_dir() -> Path:
    return resource_dir("runtime_c") / "ports"


def port_sources(board: Board) -> tuple[Path, ...]:
    """Return the C files that make `ec_port.h` work on `board`; none for the host.

    Raises BoardError if the board names a port that does not exist.
    """
    if board.port not in PORT_SOURCES:
        raise BoardError(
            f"board {board.name}: there is no port '{board.port}'",
            details=("known ports: " + ", ".join(PORT_SOURCES),),
        )
    return tuple(_ports_dir() / name for name in PORT_SOURCES[board.port])


def port_headers(board: Board) -> tuple[Path, ...]:
    """Return the headers that `port_sources` and programs of `board` include by name.

    They are `ec_port.h` and every header in a folder that has sources of the port.
    """
    folders = dict.fromkeys(path.parent for path in port_sources(board))
    beside = [header for folder in folders for header in sorted(folder.glob("*.h"))]
    return (_ports_dir() / "ec_port.h", *beside)


def port_include_dirs(board: Board) -> tuple[Path, ...]:
    """Return the folders to search for `port_headers`, when they are not copied."""
    return tuple(dict.fromkeys(path.parent for path in port_headers(board)))


def _render(template: str, values: dict[str, object]) -> str:
    return text_templates().get_template(template).render(values)


def _c_value(value: int) -> str:
    # Addresses read better in hexadecimal; sizes, pins and rates in decimal.
    return f"0x{value:08X}u" if value >= 0x0100_0000 and value % 1000 else f"{value}u"


def board_header(board: Board) -> str:
    """Return the text of `ec_board.h`: the board's clock, speed and `[config]` as macros."""
    values: dict[str, int] = {"CLOCK_HZ": board.clock_hz}
    if board.link is not None:
        values["BAUD"] = board.link.baud
    values.update(board.config)
    return _render(
        "ec_board.h.j2",
        {
            "name": board.name,
            "title": board.title,
            "defines": [_Define(key, _c_value(value)) for key, value in values.items()],
        },
    )


def _region_text(region: MemoryRegion) -> _RegionText:
    return _RegionText(region.name, f"0x{region.origin:08X}", f"0x{region.length:X}", region.access)


def _fetch_text(region: MemoryRegion) -> _RegionText:
    """The memory at the addresses that the core fetches instructions from."""
    at = f"0x{region.code_origin:08X}"
    return _RegionText(FETCH_REGION, at, f"0x{region.length:X}", region.access)


@dataclass(frozen=True)
class _PartText:
    kind: str
    region: str
    flags: int
    is_copied: bool


def _part_text(board: Board, kind: str, region: str) -> _PartText:
    return _PartText(kind, region, 5 if kind == "code" else 4, board.memory[region].kind == "ram")


def linker_script(
    board: Board, *, hardware_only: bool = False, placed: Sequence[tuple[str, str]] = ()
) -> str:
    """Return the linker script of `board`.

    The board's `stack_bytes` are reserved, rounded up to the stack's alignment; `hardware_only`
    includes the regions that an emulator lacks. `placed` are ("weights", RAM
    region), of weights that are copied there, and ("code", region), of code outside of the
    program's region. Raises BoardError for the host.
    """
    if not board.core.is_embedded:
        raise BoardError(f"board {board.name} has no linker script: it is not a microcontroller")
    regions = [r for r in board.memory.values() if hardware_only or not r.hardware_only]
    extra = [r for r in regions if r.name not in (board.code, board.data)]
    alignment = _STACK_ALIGNMENT.get(board.core.isa, 8)
    home = board.memory[board.code]
    fetch = [] if home.fetch_origin is None else [_fetch_text(home)]
    return _render(
        "link.ld.j2",
        {
            "fetch": fetch,
            "run": f"{FETCH_REGION} AT > {board.code}" if fetch else board.code,
            "name": board.name,
            "title": board.title,
            "has_literals": board.core.isa == "xtensa",
            "regions": [*map(_region_text, regions), *fetch],
            "code": board.code,
            "data": board.data,
            "boot": [_region_text(r) for r in regions if r.kind == "boot"],
            "extra_flash": [_region_text(r) for r in extra if r.kind == "flash"],
            "extra_ram": [_region_text(r) for r in extra if r.kind == "ram"],
            "placed": [_part_text(board, kind, region) for kind, region in placed],
            "stack_bytes": (board.stack_bytes + alignment - 1) // alignment * alignment,
            "stack_alignment": alignment,
        },
    )
