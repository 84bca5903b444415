"""Which serial port leads to a board."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from serial.tools import list_ports

from edgec.boards.board import load_board
from edgec.errors import LinkError, RunFailed
from edgec.link.ports import find_port, list_serial_ports


class Port(SimpleNamespace):
    def __lt__(self, other: Port) -> bool:
        return self.device < other.device


def port(device: str, usb: str = "", serial: str | None = None) -> Port:
    vid, pid = (int(part, 16) for part in usb.split(":")) if usb else (None, None)
    return Port(device=device, description="a port", vid=vid, pid=pid, serial_number=serial)


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch):
    def only(*ports: Port) -> None:
        monkeypatch.setattr(list_ports, "comports", lambda: list(ports))

    return only


def test_port_is_found_by_its_usb_numbers(connected) -> None:
    board = load_board("nucleo_f446re")
    assert board.link is not None and "0483:374b" in board.link.usb
    connected(port("COM1"), port("COM7", "0483:374b", "066A"), port("COM3", "1a86:7523"))
    assert find_port(board) == "COM7"
    assert [p.usb for p in list_serial_ports()] == ["", "1a86:7523", "0483:374b"]
    connected(port("COM3", "1a86:7523"))
    assert find_port(board) == "COM3"  # the only one: an adapter of the user's own


def test_choice_is_the_users_where_it_is_not_clear(connected) -> None:
    board = load_board("nucleo_f446re")
    connected(port("COM7", "0483:374b", "066A"), port("COM8", "0483:374b", "066B"))
    with pytest.raises(RunFailed, match="several serial ports that may be nucleo_f446re") as caught:
        find_port(board)
    assert caught.value.details[1] == "COM8  a port  USB 0483:374b  066B"
    connected(port("COM1"), port("COM2"))
    with pytest.raises(RunFailed, match=r"there are several serial ports\n"):
        find_port(load_board("stm32"))
    connected()
    with pytest.raises(LinkError, match="has no serial port"):
        find_port(None)
