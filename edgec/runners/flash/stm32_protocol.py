"""The USART protocol of the STM32 system boot loader, made safe for a bad line.

Source: ST AN3155 rev. 20, "USART protocol used in the STM32 bootloader". 8 data bits, even
parity, one stop bit; 0x7F finds the rate. A command is its code and the complement; addresses,
counts and data end with the exclusive-or of all their bytes; the device answers ACK or NACK.

The protocol has no frames and no time limits, so after an unexpected answer the device's state is
unknown. `_resynchronize` sends a byte that is invalid in every state until the device refuses it;
then the command is repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import xor
from typing import TypeVar

from edgec.errors import LinkError
from edgec.link.transport import Transport

ACK, NACK, SYNC = 0x79, 0x1F, 0x7F
MOST_BYTES = 256
"""The most bytes of one read or write."""

# AN3155 table 2: codes of the commands.
GET, GET_VERSION, GET_ID = 0x00, 0x01, 0x02
READ, GO, WRITE, ERASE, EXTENDED_ERASE = 0x11, 0x21, 0x31, 0x43, 0x44

# Wrong everywhere: no command's complement, no count's complement; as an address or a count of
# pages its checksum would be 0, and as a count of data bytes, being even, it would not be itself.
_WRONG = b"\x02"
# The longest that a device can wait for: two bytes of count, 0x0202 + 1 pages of two, a checksum.
_FILL_STEPS = (4, 16, 64, 256, 1024)
# One that has just started answers the first 0x7F, and takes the rate from nothing else.
_SILENT_TRIES = 4

T = TypeVar("T")


class BootLoaderError(LinkError):
    """The boot loader does not answer, refuses, or protects the flash."""


class _Failed(Exception):
    """A try of a command failed; `refused`: by a NACK (at once: to the command itself)."""

    def __init__(self, what: str, *, refused: bool = False, at_once: bool = False) -> None:
        super().__init__(what)
        self.refused = refused
        self.at_once = at_once


@dataclass(frozen=True)
class Identity:
    """The boot loader's identity; `version` 0x31 is 3.1, `product_id` names the chip."""

    version: int
    commands: frozenset[int]
    product_id: int


@dataclass(frozen=True)
class Patience:
    """Seconds: for an answer, for erasing one page, for silence to be taken as the end."""

    answer_s: float = 1.0
    erase_s: float = 10.0
    quiet_s: float = 0.03


class BootLoader:
    """A conversation with the boot loader. Every method does its command again until it works.

    `repeated` counts how often that was needed. Methods raise BootLoaderError when a command
    fails `tries` times, PortUnavailable when the port has gone.
    """

    def __init__(
        self, transport: Transport, *, patience: Patience | None = None, tries: int = 12
    ) -> None:
        self._transport = transport
        self._patience = patience or Patience()
        self._tries = tries
        self._arrived = bytearray()
        self.repeated = 0

    def connect(self, *, hint: str = "") -> Identity:
        """Let the device detect the rate, and return its identity.

        A boot loader that has detected it before takes 0x7F for half a command and refuses the next
        byte, which also proves that it works. Raises BootLoaderError, with `hint`, for silence.
        """
        self._drain(0.0)
        for number in range(self._tries):
            if number == _SILENT_TRIES:
                self._fill()  # it may wait for the rest of an interrupted write
            self._transport.write(bytes([SYNC]))
            answer = self._take_some(self._patience.answer_s / 4)
            if answer and answer[-1] in (ACK, NACK):
                break
        else:
            raise BootLoaderError(
                f"no boot loader answers at {self._transport.name}",
                details=("an STM32 starts its boot loader with BOOT0 high at reset",),
                hint=hint or "set BOOT0, press reset, and check which pins the boot loader uses",
            )
        self._resynchronize()
        version, commands = self._agreed("get", self._get)
        if not {READ, WRITE} <= commands or not commands & {ERASE, EXTENDED_ERASE}:
            raise BootLoaderError(
                f"the boot loader {version >> 4}.{version & 15} at {self._transport.name} cannot "
                "read, write and erase",
                details=("its commands: " + " ".join(f"{c:02x}" for c in sorted(commands)),),
            )
        self._erase_code = EXTENDED_ERASE if EXTENDED_ERASE in commands else ERASE
        return Identity(version, commands, self._agreed("get ID", self._get_id))

    def read(self, address: int, length: int) -> bytes:
        """Return `length` bytes, at most 256."""

        def once() -> bytes:
            self._command(READ)
            self._send(_with_checksum(address.to_bytes(4, "big")), "the address")
            self._send(bytes([length - 1, (length - 1) ^ 0xFF]), "the length")
            return self._take(length, self._patience.answer_s)

        return self._again(f"read {length} bytes at 0x{address:08x}", once, protected=True)

    def write_once(self, address: int, data: bytes) -> bool:
        """Write at most 256 bytes, a multiple of 4; False if it may have failed.

        Not repeated here: programmed flash cannot be written again, so the caller must read it
        first.
        """
        try:
            self._command(WRITE)
            self._send(_with_checksum(address.to_bytes(4, "big")), "the address")
            self._send(_with_checksum(bytes([len(data) - 1]) + data), "the data")
            return True
        except _Failed:
            self.repeated += 1
            self._resynchronize()
            return False

    def erase(self, pages: Sequence[int]) -> None:
        """Erase pages (sectors) by number."""
        if self._erase_code == EXTENDED_ERASE:
            numbers = b"".join(page.to_bytes(2, "big") for page in pages)
            data = (len(pages) - 1).to_bytes(2, "big") + numbers
        else:
            data = bytes([len(pages) - 1, *pages])

        def once() -> None:
            self._command(self._erase_code)
            self._send(_with_checksum(data), "the pages", busy_s)

        busy_s = self._patience.erase_s * len(pages)
        self._again(f"erase {len(pages)} pages from {pages[0]}", once, busy_s, protected=True)

    def go(self, address: int) -> None:
        """Start the program whose vector table is at `address`; the boot loader is gone then."""
        for _ in range(self._tries):
            try:
                self._command(GO)
                self._send(_with_checksum(address.to_bytes(4, "big")), "the address")
                return
            except _Failed:
                self.repeated += 1
            try:
                self._resynchronize()
            except BootLoaderError:
                return  # its ACK was lost: it has started the program and hears no more
        raise BootLoaderError(f"the boot loader at {self._transport.name} starts no program")

    # --- one try ---------------------------------------------------------------------------

    def _get(self) -> tuple[int, frozenset[int]]:
        self._command(GET)
        count = self._take(1, self._patience.answer_s)[0]
        data = self._take(count + 1, self._patience.answer_s)
        self._expect_ack("the list", self._patience.answer_s)
        return data[0], frozenset(data[1:])

    def _get_id(self) -> int:
        self._command(GET_ID)
        count = self._take(1, self._patience.answer_s)[0]
        if count != 1:
            raise _Failed(f"an ID of {count + 1} bytes")
        data = self._take(2, self._patience.answer_s)
        self._expect_ack("the ID", self._patience.answer_s)
        return int.from_bytes(data, "big")

    def _command(self, code: int) -> None:
        self._transport.write(bytes([code, code ^ 0xFF]))
        try:
            self._expect_ack(f"command {code:02x}", self._patience.answer_s)
        except _Failed as failed:
            raise _Failed(str(failed), refused=failed.refused, at_once=failed.refused) from None

    def _send(self, data: bytes, what: str, patience_s: float | None = None) -> None:
        self._transport.write(data)
        self._expect_ack(what, self._patience.answer_s if patience_s is None else patience_s)

    def _expect_ack(self, what: str, patience_s: float) -> None:
        answer = self._take(1, patience_s)[0]
        if answer != ACK:
            reason = "refused" if answer == NACK else f"answered by {answer:02x}"
            raise _Failed(f"{what}: {reason}", refused=answer == NACK)

    # --- repeating -------------------------------------------------------------------------

    def _again(
        self, what: str, once: Callable[[], T], busy_s: float = 0.0, *, protected: bool = False
    ) -> T:
        """Return the result of `once`, at the first try that works.

        busy_s: how long the device may be deaf after a failure. protected: a command that read
        protection refuses; that is named, since GET still works.
        """
        reasons: list[str] = []
        refusals = 0
        for number in range(self._tries):
            try:
                return once()
            except _Failed as failed:
                reasons.append(str(failed))
                refusals += failed.at_once
                self.repeated += 1
            self._resynchronize(busy_s)
            # A refusal is the device's word; damage of a line would not choose one place.
            if protected and refusals == number + 1 >= 4:
                self._explain_refusal(what)
        raise BootLoaderError(
            f"the boot loader at {self._transport.name} failed {self._tries} times to {what}",
            details=tuple(dict.fromkeys(reasons[-4:])),
            hint="check the wiring, or take a lower --baud",
        )

    def _agreed(self, what: str, once: Callable[[], T]) -> T:
        """Return the result that two tries in a row agree on: for answers without a checksum."""
        last = self._again(what, once)
        for _ in range(self._tries):
            now = self._again(what, once)
            if now == last:
                return now
            last = now
        raise BootLoaderError(
            f"the boot loader at {self._transport.name} answers differently each time to '{what}'",
            hint="check the wiring, or take a lower --baud",
        )

    def _explain_refusal(self, what: str) -> None:
        self._again("get", self._get)  # it is there and understands
        raise BootLoaderError(
            f"the boot loader at {self._transport.name} refuses to {what}: the chip's read "
            "protection is on",
            details=("while it is on, only the commands that identify the chip are allowed",),
            hint="taking it off erases the whole flash: `stm32flash -k PORT` or "
            "STM32CubeProgrammer (-ob RDP=0xAA) does that",
        )

    def _resynchronize(self, busy_s: float = 0.0) -> None:
        """Bring the device to where it waits for a command, wherever it is now."""
        end = time.monotonic() + max(busy_s, 4 * self._patience.answer_s)
        self._drain(self._patience.quiet_s)
        self._fill()
        # Now it is at a command, or after the first byte of one: the next NACK shows which.
        while time.monotonic() < end:
            self._transport.write(_WRONG)
            answer = self._drain(self._patience.quiet_s)
            if answer and answer[-1] == NACK:
                return
        raise BootLoaderError(
            f"the boot loader at {self._transport.name} no longer answers",
            hint="reset the board with BOOT0 high and flash again: this writes the whole image",
        )

    def _fill(self) -> None:
        """Send an invalid byte until it is refused."""
        for step in _FILL_STEPS:
            self._transport.write(_WRONG * step)
            if NACK in self._drain(self._patience.quiet_s + 12.0 * step / (self._baud())):
                return

    def _baud(self) -> int:
        return self._transport.baud or 1_000_000

    def _drain(self, quiet_s: float) -> bytes:
        """Return everything that arrives until nothing does for `quiet_s`."""
        seen = bytes(self._arrived)
        self._arrived.clear()
        end = time.monotonic() + quiet_s + self._patience.answer_s  # another program may not stop
        while (data := self._transport.read(quiet_s)) and time.monotonic() < end:
            seen += data
        return seen

    def _take_some(self, patience_s: float) -> bytes:
        """Return the first bytes that arrive, b"" for none."""
        if not self._arrived:
            return self._transport.read(patience_s)
        data = bytes(self._arrived)
        self._arrived.clear()
        return data

    def _take(self, count: int, patience_s: float) -> bytes:
        """Return exactly `count` bytes; more stay for the next call."""
        end = time.monotonic() + patience_s + 12.0 * count / self._baud()
        while len(self._arrived) < count:
            left = end - time.monotonic()
            data = self._transport.read(max(left, 0.0))
            if not data and left <= 0:
                raise _Failed(f"{count - len(self._arrived)} of {count} bytes did not arrive")
            self._arrived += data
        data = bytes(self._arrived[:count])
        del self._arrived[:count]
        return data


def _with_checksum(data: bytes) -> bytes:
    """Return `data` and the exclusive-or of its bytes."""
    return data + bytes([reduce(xor, data)])
