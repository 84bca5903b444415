"""Find what is wrong with a machine, having heard it only when it was well."""

import sys
from itertools import pairwise

import numpy as np
import torch
from machine import FAULTS, windows
from torch import nn

import edgec

EPOCHS, BATCH, CODE = 30, 64, 12


class Autoencoder(nn.Module):
    """It repeats what it knows; how far it is off is how strange the vibration is."""

    def __init__(self) -> None:
        super().__init__()
        sizes, layers = (1, 8, 16, 16), []
        for inputs, outputs in pairwise(sizes):
            layers += [nn.Conv1d(inputs, outputs, 8, 4, 2), nn.ReLU()]
        self.encode = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64, CODE))
        self.decode = nn.Sequential(nn.Linear(CODE, 96), nn.ReLU(), nn.Linear(96, 256))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # [batch, 1, 256]
        return self.decode(self.encode(x))


def strangeness(answers: np.ndarray, heard: np.ndarray) -> np.ndarray:
    return np.square(answers - heard[: len(answers), 0]).mean(1)


def found(name: str, score: dict[str, np.ndarray]) -> str:
    """The share of faults above what 99 % of healthy windows score."""
    limit = np.quantile(score[""], 0.99)
    shares = (f"{kind} {100 * (score[kind] > limit).mean():.0f} %" for kind in FAULTS)
    return f"{name}: {', '.join(shares)}"


torch.manual_seed(0)
torch.set_num_threads(1)
x, net = torch.tensor(windows(4000, seed=1)), Autoencoder()
optimizer = torch.optim.Adam(net.parameters(), 3e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
for _ in range(EPOCHS):
    for batch in torch.randperm(len(x)).split(BATCH):
        optimizer.zero_grad()
        nn.functional.mse_loss(net(x[batch]), x[batch, 0]).backward()
        optimizer.step()
    schedule.step()
net.eval()
heard = {kind: windows(300, 2 + i, kind) for i, kind in enumerate(("", *FAULTS))}
with torch.no_grad():
    score = {k: strangeness(net(torch.tensor(v)).numpy(), v) for k, v in heard.items()}
print(found("float, PyTorch, 300 windows each", score))

most = int(sys.argv[1]) if len(sys.argv) > 1 else 300
model = edgec.from_torch(net, (x[:1],)).quantize([(window[None],) for window in x[:200]])
with model.build(board="stm32") as board:
    for kind, each in heard.items():
        answers = np.concatenate([board.run(window[None]) for window in each[:most]])
        score[kind] = strangeness(answers, each)
    print(found(f"int8, {board.board.title}, {most} windows each", score))
