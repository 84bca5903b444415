"""Gestures from a stream of samples: the C keeps the last second and answers ten times a second."""

import sys
from itertools import pairwise

import numpy as np
import torch
from motion import AXES, NAMES, RATE_HZ, data
from torch import nn

import edgec

STEP, EPOCHS, BATCH = RATE_HZ // 10, 15, 50


class Gestures(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        sizes = (AXES, 16, 24, 24)
        layers = [
            nn.Sequential(nn.Conv1d(inputs, outputs, 5, 2, 2), nn.ReLU())
            for inputs, outputs in pairwise(sizes)
        ]
        self.net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(24 * 7, len(NAMES)))
        self.register_buffer("second", torch.zeros(1, AXES, RATE_HZ))

    def forward(self, samples: torch.Tensor) -> torch.Tensor:  # [1, STEP, 6]
        new = samples.transpose(1, 2)
        self.second = torch.cat([self.second[:, :, STEP:], new], 2)  # what the C keeps
        return self.net(self.second)


def share(answers: np.ndarray, labels: np.ndarray) -> str:
    right = (answers.argmax(1) == labels[: len(answers)]).mean()
    return f"{100 * right:.1f} % of {len(answers)} gestures"


def parts(motion: np.ndarray) -> list[np.ndarray]:
    """A recording in the steps in which a sensor gives it, up to the end of most gestures."""
    return [motion[None, i : i + STEP] for i in range(0, 90, STEP)]


torch.manual_seed(0)
torch.set_num_threads(1)
(x, y), (x_test, y_test), net = data(1500, seed=1), data(300, seed=2), Gestures()
ends = torch.tensor(x[:, 40:90]).transpose(1, 2), torch.tensor(y)
optimizer = torch.optim.Adam(net.parameters(), 3e-3)
for _ in range(EPOCHS):
    for batch in torch.randperm(len(x)).split(BATCH):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net.net(ends[0][batch]), ends[1][batch]).backward()
        optimizer.step()
net.eval()
with torch.no_grad():
    answers = net.net(torch.tensor(x_test[:, 40:90]).transpose(1, 2))
    print("float, PyTorch:", share(answers.numpy(), y_test))

samples = [(part,) for motion in x[:30] for part in parts(motion)]
model = edgec.from_torch(net, (torch.tensor(samples[0][0]),)).quantize(samples)
most = int(sys.argv[1]) if len(sys.argv) > 1 else 100
with model.build(board="stm32") as board:
    found = []
    for motion in x_test[:most]:
        board.reset()
        found.append([board.run(part) for part in parts(motion)][-1])
    print(f"int8, {board.board.title}:", share(np.concatenate(found), y_test))
