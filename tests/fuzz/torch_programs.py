"""Small programs of PyTorch, exported: what the fuzzer damages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.export import Dim, export


class Counts(nn.Module):
    """A state, inputs in a dict, and a constant."""

    seen: Any

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, given: dict[str, Any]) -> Any:
        y = torch.relu(self.layer(given["a"] + given["b"] * torch.tensor([1.0, 2.0, 3.0, 4.0])))
        self.seen.add_(y[0])
        return y, self.seen


class Chooses(nn.Module):
    """A branch that data decide."""

    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: torch.tanh(x), (x,))


def counts() -> Any:
    return export(Counts(), ({"a": torch.zeros(2, 4), "b": torch.zeros(2, 4)},))


def layers() -> Any:
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten())
    return export(module.eval(), (torch.zeros(1, 1, 5, 5),))


def is_open() -> Any:
    rows = Dim("rows", min=1, max=8)
    return export(nn.Linear(4, 3), (torch.zeros(3, 4),), dynamic_shapes=({0: rows},))


PROGRAMS: dict[str, Callable[[], Any]] = {
    "counts": counts, "layers": layers, "open": is_open,
    "chooses": lambda: export(Chooses(), (torch.zeros(3),)),
    "cell": lambda: export(nn.GRUCell(3, 2), (torch.zeros(1, 3),)),
}  # fmt: skip
