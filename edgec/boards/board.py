"""Boards: one flat TOML file each, read into a frozen `Board`.

A board names a core (`core.py`) and a port (`runtime_c/ports/<port>/`), and states facts: memory,
clock, link, how to emulate and to flash it. Unknown keys are errors, so that a misspelt fact is
never silently ignored. `docs/boards.md` describes every key.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Literal

from edgec.boards.board_text import checked, checked_config, checked_qemu_args
from edgec.boards.flash_waits import FlashWaits, read_flash_waits
from edgec.boards.power import Power, read_power
from edgec.boards.table import Table
from edgec.errors import BoardError
from edgec.resources import parse_toml, plain_file, resource_dir
from edgec.targets.core import Core, find_core

RegionKind = Literal["flash", "ram", "boot"]
_KINDS: tuple[RegionKind, ...] = ("flash", "ram", "boot")
#: Boards with memory regions have cores of 32 bits.
ADDRESSES = 1 << 32
_MOST_UARTS = 32


@dataclass(frozen=True)
class MemoryRegion:
    """A stretch of memory: `length` bytes from address `origin`.

    `kind` is flash, ram, or boot: stored bytes that a boot ROM reads, before the program.

    `access` is the linker's attributes ("rx", "rwx"). A region that is `hardware_only` is absent
    under emulation, so nothing is placed in it unless a build asks for it.

    `fetch_origin` is where the core fetches instructions of the region, if it does so by another
    bus than data, at other addresses: code runs there, and is stored with all else.

    An access of data takes `wait_states` cycles more than in the fastest memory, on average, and
    one that is wider than `width_bytes` is several; a fetched instruction takes
    `fetch_wait_states` more.
    """

    name: str
    origin: int
    length: int
    kind: RegionKind
    access: str
    hardware_only: bool = False
    wait_states: float = 0.0
    fetch_wait_states: float = 0.0
    width_bytes: int = 4
    fetch_origin: int | None = None

    @property
    def code_origin(self) -> int:
        """The address at which the region's first instruction runs."""
        return self.origin if self.fetch_origin is None else self.fetch_origin

    @property
    def end(self) -> int:
        return self.origin + self.length

    def holds(self, address: int, length: int = 0) -> bool:
        """Return whether `length` bytes from `address` lie inside, by whichever bus."""
        starts = {self.origin, self.code_origin}
        return any(s <= address and address + length <= s + self.length for s in starts)


@dataclass(frozen=True)
class SerialLink:
    """The UART that carries the link, its pins and its speed (`baud`, bits per second).

    `usb` are the numbers "vendor:product" (hexadecimal) of the USB devices that lead to it.
    """

    uart: str
    tx: str
    rx: str
    baud: int
    usb: tuple[str, ...] = ()


@dataclass(frozen=True)
class Qemu:
    """QEMU's options for a board: `-M machine`, more `args`, the index of the link's `-serial`."""

    machine: str
    args: tuple[str, ...]
    serial_index: int


@dataclass(frozen=True)
class RunnerConfig:
    """A flashing tool that knows this board, with the tool's own settings."""

    name: str
    options: dict[str, str]


@dataclass(frozen=True)
class Board:
    """Everything edgec knows about a board.

    `clock_hz` is the rate of the core after `ec_port_init`. `code` and `data` name the regions of
    the program and of its variables; `stack_bytes` is the linker script's default reserve. `config`
    becomes `#define EC_<key>` of `ec_board.h`, for the port. `sources` are the documents with these
    facts. `place` has placements for every build: (what, region), see `edgec.memory.placements`.
    `power` is the chip's power, if a data sheet has it; `flash_waits` its flash wait states, if a
    manual has them.
    """

    name: str
    title: str
    core: Core
    port: str
    clock_hz: int
    memory: dict[str, MemoryRegion]
    code: str
    data: str
    stack_bytes: int
    aliases: tuple[str, ...]
    link: SerialLink | None
    config: dict[str, int]
    qemu: Qemu | None
    runners: tuple[RunnerConfig, ...]
    sources: tuple[str, ...]
    place: tuple[tuple[str, str], ...] = ()
    power: Power | None = None
    flash_waits: FlashWaits | None = None

    @property
    def is_host(self) -> bool:
        return not self.core.is_embedded

    @property
    def flash_bytes(self) -> int:
        """Bytes of the region that holds the program; 0 for the host."""
        return self.memory[self.code].length if self.code else 0

    @property
    def ram_bytes(self) -> int:
        """Bytes of the region that holds variables, arena and stack; 0 for the host."""
        return self.memory[self.data].length if self.data else 0

    def region_at(self, address: int, length: int = 0) -> MemoryRegion | None:
        """Return the region that holds `length` bytes from `address`, or None."""
        for region in self.memory.values():
            if region.holds(address, length):
                return region
        return None


_SIZE = re.compile(r"^(\d+)\s*([KM]?)$")


def parse_size(value: int | str, where: str) -> int:
    """Return bytes from an int or from text like "96K" or "1M" (1024 and 1024 x 1024 bytes)."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    match = _SIZE.match(value) if isinstance(value, str) else None
    if match is None or not int(match[1]):
        raise BoardError(f"{where}: '{value}' is not a size", hint='write bytes, "96K" or "1M"')
    return int(match[1]) * {"": 1, "K": 1024, "M": 1024 * 1024}[match[2]]


def _read_memory(table: Table) -> dict[str, MemoryRegion]:
    regions: dict[str, MemoryRegion] = {}
    for name in table.names():
        entry = table.table(name)
        checked("region", name, table.where)
        kind = next((k for k in _KINDS if k == entry.text("kind")), None)
        if kind is None:
            raise BoardError(
                f"{entry.where}: kind is '{entry.text('kind')}', not {' or '.join(_KINDS)}"
            )
        regions[name] = MemoryRegion(
            name=name,
            origin=entry.integer("origin"),
            length=parse_size(entry.raw("length"), entry.where),
            kind=kind,
            access=checked(
                "access", entry.text("access", "rwx" if kind == "ram" else "rx"), entry.where
            ),
            hardware_only=entry.boolean("hardware_only", False),
            wait_states=entry.number("wait_states", 0.0),
            fetch_wait_states=entry.number("fetch_wait_states", entry.number("wait_states", 0.0)),
            width_bytes=entry.integer("width_bits", 32) // 8,
            fetch_origin=entry.integer("fetch_origin") if "fetch_origin" in entry.names() else None,
        )
        if regions[name].fetch_origin is not None and kind != "flash":
            raise BoardError(f"{entry.where}: only flash has a fetch_origin")
        if regions[name].width_bytes not in (1, 2, 4, 8):
            raise BoardError(f"{entry.where}: width_bits must be 8, 16, 32 or 64")
        entry.finish()
    spans = [(r.origin, r) for r in regions.values()]
    spans += [(r.fetch_origin, r) for r in regions.values() if r.fetch_origin is not None]
    for (at, low), (after, high) in pairwise(sorted(spans, key=lambda span: span[0])):
        if at + low.length > after:
            raise BoardError(f"{table.where}: regions '{low.name}' and '{high.name}' overlap")
    for at, region in spans:
        if at < 0 or at + region.length > ADDRESSES:
            raise BoardError(f"{table.where}: region '{region.name}' has no 32-bit addresses")
    return regions


_USB = re.compile(r"^[0-9a-f]{4}:[0-9a-f]{4}$")


def _usb_numbers(entry: Table) -> tuple[str, ...]:
    numbers = entry.texts("usb")
    for number in numbers:
        if not _USB.match(number):
            raise BoardError(f"{entry.where}: usb: '{number}' is not like \"0483:374b\"")
    return numbers


def _pick_region(
    where: str, regions: dict[str, MemoryRegion], wanted: str, kind: RegionKind
) -> str:
    """Return the region called `wanted`, or the first of `kind` if `wanted` is empty."""
    if wanted and wanted in regions and regions[wanted].kind == kind:
        return wanted
    if wanted:
        raise BoardError(f"{where}: [layout] names '{wanted}', which is not a {kind} region")
    for name, region in regions.items():
        if region.kind == kind and not region.hardware_only:
            return name
    raise BoardError(f"{where}: there is no {kind} region", hint=f"add one with kind = '{kind}'")


def _clock_hz(table: Table) -> int:
    rate = table.integer("clock_hz", 0)
    if not 0 <= rate < ADDRESSES:
        raise BoardError(f"{table.where}: a clock_hz of {rate} is not possible")
    return rate


def _read_link(table: Table) -> SerialLink | None:
    if "link" not in table.names():
        return None
    entry = table.table("link")
    link = SerialLink(
        uart=checked("text", entry.text("uart"), entry.where),
        tx=checked("text", entry.text("tx", ""), entry.where),
        rx=checked("text", entry.text("rx", ""), entry.where),
        baud=entry.integer("baud"),
        usb=_usb_numbers(entry),
    )
    if not 0 < link.baud < ADDRESSES:
        raise BoardError(f"{entry.where}: a baud rate of {link.baud} is not possible")
    entry.finish()
    return link


def _read_qemu(table: Table) -> Qemu | None:
    if "qemu" not in table.names():
        return None
    entry = table.table("qemu")
    qemu = Qemu(
        machine=checked("machine", entry.text("machine"), entry.where),
        args=checked_qemu_args(entry.texts("args"), entry.where),
        serial_index=entry.integer("serial_index", 0),
    )
    if not 0 <= qemu.serial_index < _MOST_UARTS:
        raise BoardError(f"{entry.where}: serial_index is {qemu.serial_index}")
    entry.finish()
    return qemu


def _read_runner(entry: Table) -> RunnerConfig:
    name = entry.text("name")
    options = {key: str(value) for key, value in entry.scalars().items()}
    for value in options.values():
        checked("option", value, entry.where)
    return RunnerConfig(name, options)


def _read_config(table: Table) -> dict[str, int]:
    entry = table.table("config", optional=True)
    return checked_config(entry.scalars(), entry.where)


def _read_layout(table: Table, core: Core, memory: dict[str, MemoryRegion]) -> tuple[str, str, int]:
    """The regions of the program and of its variables, and the bytes of the stack."""
    layout = table.table("layout", optional=True)
    code = data = ""
    stack_bytes = 0
    if core.is_embedded:
        code = _pick_region(table.where, memory, layout.text("code", ""), "flash")
        data = _pick_region(table.where, memory, layout.text("data", ""), "ram")
        stack_bytes = parse_size(layout.raw("stack"), f"{table.where}: [layout] stack")
    layout.finish()
    return code, data, stack_bytes


def parse_board(name: str, text: str, where: str) -> Board:
    """Return the board called `name` from TOML `text`; `where` names the file in errors.

    Raises BoardError for a key that is missing, unknown or of the wrong type.
    """
    try:
        table = Table(where, parse_toml(text))
    except ValueError as error:
        raise BoardError(f"{where} is not TOML: {error}") from error
    core = find_core(table.text("core"))
    memory = _read_memory(table.table("memory", optional=True))
    code, data, stack_bytes = _read_layout(table, core, memory)
    board = Board(
        name=checked("name", name, where),
        title=checked("text", table.text("title"), where),
        core=core,
        port=table.text("port"),
        clock_hz=_clock_hz(table),
        memory=memory,
        code=code,
        data=data,
        stack_bytes=stack_bytes,
        aliases=tuple(checked("name", alias, where) for alias in table.texts("aliases")),
        link=_read_link(table),
        config=_read_config(table),
        qemu=_read_qemu(table),
        runners=tuple(map(_read_runner, table.tables("runner"))),
        sources=table.texts("sources"),
        place=tuple(table.table("place", optional=True).all_texts().items()),
        power=read_power(table),
        flash_waits=read_flash_waits(table),
    )
    table.finish()
    return board


@cache
def _shipped_boards() -> dict[str, Board]:
    boards = {}
    for path in sorted(resource_dir("boards").glob("*.toml")):
        boards[path.stem] = parse_board(path.stem, path.read_text("utf-8"), f"boards/{path.name}")
    names = list(boards) + [alias for board in boards.values() for alias in board.aliases]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BoardError(f"two boards are called {', '.join(twice)}")
    return boards


def all_boards() -> tuple[Board, ...]:
    return tuple(_shipped_boards().values())


def load_board(name_or_path: str | Path) -> Board:
    """Return a shipped board by name or alias, or the board of a TOML file.

    Raises BoardError with the nearest known names, or the fault in the file.
    """
    name = str(name_or_path)
    path = Path(name_or_path)
    if path.suffix == ".toml":
        try:
            text = plain_file(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BoardError(f"cannot read the board file {path}: {error}") from error
        return parse_board(path.stem, text, str(path))
    by_name = dict(_shipped_boards())
    for board in list(by_name.values()):
        by_name.update({alias: board for alias in board.aliases})
    if name in by_name:
        return by_name[name]
    near = difflib.get_close_matches(name, by_name, n=3, cutoff=0.5)
    raise BoardError(
        f"there is no board '{name}'" + (f"; near it: {', '.join(near)}" if near else ""),
        details=("known boards: " + ", ".join(sorted(by_name)),),
        hint="write your own as a TOML file and give its path (see docs/boards.md)",
    )
