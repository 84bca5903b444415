"""What both scripts share: words as tensors, the training loop, accuracy."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from words import data

EPOCHS, BATCH = 12, 50


def tensors() -> tuple[Tensor, ...]:
    """Features and labels to train with, and others to test with."""
    return tuple(map(torch.from_numpy, (*data(1200, seed=1), *data(300, seed=2))))


def train(net: nn.Module, answer: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> None:
    """Fit a network by what `answer` computes with it: one thread, fixed seeds and epochs."""
    torch.set_num_threads(1)
    order = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    steps = EPOCHS * -(-len(x) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(x), generator=order).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(answer(x[batch]), y[batch]).backward()
            optimizer.step()
            schedule.step()
    net.eval()


def count_of(most: int) -> int:
    """How many words to run on the board: the script's argument, or `most`."""
    return int(sys.argv[1]) if len(sys.argv) > 1 else most


def accuracy(answers: Tensor | list[np.ndarray], labels: Tensor) -> str:
    """Such as `98.0 % of 50 words`; answers [words, classes], or an array for each word."""
    found = answers if isinstance(answers, Tensor) else torch.from_numpy(np.concatenate(answers))
    right = (found.argmax(1) == labels[: len(found)]).float().mean()
    return f"{100 * right:.1f} % of {len(found)} words"
