"""Serial ports of this computer, and which of them leads to a board."""

from __future__ import annotations

from dataclasses import dataclass

from edgec.boards.board import Board
from edgec.errors import LinkError, RunFailed, ToolMissing


@dataclass(frozen=True)
class SerialPort:
    """A port: its path, the system's description, and "vendor:product" if it is on USB."""

    device: str
    description: str
    usb: str = ""
    serial_number: str = ""


def list_serial_ports() -> tuple[SerialPort, ...]:
    """Return every serial port. Raises ToolMissing without pyserial."""
    try:
        from serial.tools import list_ports
    except ImportError as error:
        raise ToolMissing(
            "the Python package pyserial is not installed", hint="pip install pyserial"
        ) from error
    return tuple(
        SerialPort(
            device=port.device,
            description=port.description or "",
            usb="" if port.vid is None else f"{port.vid:04x}:{port.pid:04x}",
            serial_number=port.serial_number or "",
        )
        for port in sorted(list_ports.comports())
    )


def find_port(board: Board | None) -> str:
    """Return the port that leads to `board`: by its USB numbers where its file has them.

    Without such numbers, or where no port has them, the only port there is. Raises LinkError
    where there is none, RunFailed where there are several.
    """
    ports = list_serial_ports()
    if not ports:
        raise LinkError(
            "this computer has no serial port",
            hint="plug the board in; `edgec doctor` lists ports and permissions",
        )
    known = board.link.usb if board is not None and board.link is not None else ()
    fitting = [port for port in ports if port.usb in known] or list(ports)
    if len(fitting) > 1:
        name = f" that may be {board.name}" if board is not None and known else ""
        raise RunFailed(
            f"there are several serial ports{name}",
            details=tuple(describe_port(port) for port in fitting),
            hint="choose one with --port",
        )
    return fitting[0].device


def find_board_port(board: Board, device: str) -> SerialPort | None:
    """Return the port `device` if it is one of the USB devices in the board's file."""
    known = board.link.usb if board.link is not None else ()
    return next((p for p in list_serial_ports() if p.device == device and p.usb in known), None)


def describe_port(port: SerialPort) -> str:
    """Return one line about a port."""
    words = [port.device, port.description, port.usb and f"USB {port.usb}", port.serial_number]
    return "  ".join(word for word in words if word)
