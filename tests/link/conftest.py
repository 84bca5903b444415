from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from link_devices import (
    BadLine,
    MemoryDevice,
    ProcessTransport,
    build_memory_device,
    build_process_device,
)

from edgec.link.client import LinkClient


@pytest.fixture(scope="session")
def device_programs(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    folder = tmp_path_factory.mktemp("device")
    return {traced: build_process_device(folder, traced=traced) for traced in (True, False)}


@pytest.fixture(scope="session")
def memory_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_memory_device(tmp_path_factory.mktemp("memory_device"))


@pytest.fixture
def device(memory_library: Path) -> MemoryDevice:
    return MemoryDevice(memory_library)


@pytest.fixture
def connect(device_programs: dict[bool, Path]) -> Iterator[Callable[..., LinkClient]]:
    """Start a device; returns a client on a line with a share of bad bytes."""
    clients: list[LinkClient] = []

    def start(share: float = 0.0, seed: int = 1, traced: bool = True) -> LinkClient:
        line = BadLine(ProcessTransport(device_programs[traced]), share, seed)
        clients.append(LinkClient(line))
        return clients[-1]

    yield start
    for client in clients:
        client.close()
