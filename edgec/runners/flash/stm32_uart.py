"""Our own client of the STM32 system boot loader: it needs only pyserial."""

from __future__ import annotations

import time

from edgec.errors import BoardError
from edgec.link.transport import SerialTransport
from edgec.runners.flash.runner import Flashed, FlashFailed, FlashTool, Job, Progress
from edgec.runners.flash.stm32_protocol import BootLoader
from edgec.runners.flash.stm32_write import ImageWriter, parse_sectors

_RESET_S = 0.05
_BOOT_S = 0.1  # AN2606: from reset until the loader listens, at most some tens of ms


class ControlLines:
    """DTR and RTS, where a board connects them to reset and BOOT0.

    A setting is the line's name. The line is on while the chip is held in reset, or while BOOT0 is
    high; with a "!" before the name it is off then. No setting: the user presses the buttons.
    """

    def __init__(self, reset: str, boot0: str, where: str) -> None:
        self._parts = {"reset": reset, "boot0": boot0}
        for key, value in self._parts.items():
            if value.removeprefix("!") not in ("", "dtr", "rts"):
                raise BoardError(f"{where}: {key} is '{value}', not dtr or rts")

    def levels(self, *, reset: bool, boot0: bool) -> dict[str, bool]:
        """Return the required levels of DTR and RTS."""
        wanted = {"reset": reset, "boot0": boot0}
        return {
            value.removeprefix("!"): wanted[key] != value.startswith("!")
            for key, value in self._parts.items()
            if value
        }

    def restart(self, transport: SerialTransport, *, boot0: bool) -> bool:
        """Restart the chip with this level of BOOT0; False if no line is connected to its reset."""
        if not self._parts["reset"]:
            return False
        for is_held in (True, False):
            for line, is_on in self.levels(reset=is_held, boot0=boot0).items():
                transport.set_line(line, is_on)
            time.sleep(_RESET_S)
        time.sleep(_BOOT_S)
        return True


class Stm32Uart(FlashTool):
    """Keys: `sectors`, such as "4x16K 64K 7x128K"; `product_id`, the chip's number (AN2606);
    `pins`, of its boot loader's UART, for a hint; `reset` and `boot0`, the lines of
    `ControlLines`; `parity`, even (the chip's own) or none (for adapters without parity)."""

    name = "stm32-uart"
    keys = frozenset({"sectors", "product_id", "pins", "reset", "boot0", "parity"})
    uses_port = True

    def flash(self, job: Job, progress: Progress | None = None) -> Flashed:
        """Connect, write, compare, start."""
        where = f"{job.board.name}: the runner '{self.name}'"
        origin = job.board.memory[job.board.code].origin
        sectors = parse_sectors(job.option(self.name, "sectors"), origin, where)
        lines = ControlLines(job.options.get("reset", ""), job.options.get("boot0", ""), where)
        parity = job.option(self.name, "parity", "even")
        if parity not in ("even", "none"):
            raise BoardError(f"{where}: parity is '{parity}', not even or none")
        transport = SerialTransport(
            job.serial_port(self.name),
            job.baud or 115200,
            parity="E" if parity == "even" else "N",
            lines=lines.levels(reset=False, boot0=False),
        )
        try:
            lines.restart(transport, boot0=True)
            loader = BootLoader(transport)
            pins = job.options.get("pins")
            hint = "set BOOT0 to 1 and press reset" + (f"; its UART is on {pins}" if pins else "")
            identity = loader.connect(hint=hint)
            self._check_chip(job, identity.product_id)
            done = ImageWriter(loader, job.image, sectors, progress).write()
            if not lines.restart(transport, boot0=False):
                loader.go(job.image.start)
        finally:
            transport.close()
        notes = []
        if done.was_interrupted:
            notes.append("an earlier write was interrupted: the whole image was written again")
        if done.redone_sectors:
            notes.append(f"{done.redone_sectors} sectors had to be written again")
        if loader.repeated:
            notes.append(f"{loader.repeated} commands had to be repeated: the serial line is noisy")
        return Flashed("read back and compared", tuple(notes))

    def _check_chip(self, job: Job, found: int) -> None:
        wanted = int(job.options.get("product_id", "0"), 0)
        if wanted and wanted != found:
            raise FlashFailed(
                f"the chip at {job.port} has product ID 0x{found:03x}, but {job.board.name} has"
                f" 0x{wanted:03x}",
                hint="another board is connected, or --port names another board's port",
            )
