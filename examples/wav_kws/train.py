"""Keyword spotting from WAV files: spoken-like words in, the board's answer out."""

from __future__ import annotations

import sys
import wave
from pathlib import Path

import numpy as np
import torch
from torch import nn

import edgec

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "torch_kws"))
from words import NAMES, RATE, SECOND, spoken  # noqa: E402

WINDOW, EPOCHS, BATCH = RATE * 32 // 1000, 12, 50


def recordings(count: int, seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    """A second each, the loudest sample at 32767 as features.toml wants it; and the labels."""
    random = np.random.RandomState(seed)
    labels = random.randint(0, len(NAMES), count)
    sounds = [spoken(NAMES[label], random) for label in labels]
    return [np.rint(s * (32767 / np.abs(s).max())).astype(np.int16) for s in sounds], labels


def hear(front: edgec.Model, sounds: list[np.ndarray]) -> torch.Tensor:
    """What the network gets, by the C that runs on the board, too: [sounds, 1, frames, bands]."""
    frames = [sound[: SECOND // WINDOW * WINDOW].reshape(-1, 1, WINDOW) for sound in sounds]
    rows = [np.concatenate([front.run(frame) for frame in each])[None] for each in frames]
    return torch.tensor(np.stack(rows))


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Module:
    layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.ReLU())


def share(answers: np.ndarray, labels: np.ndarray) -> str:
    right = answers.argmax(1) == labels[: len(answers)]
    return f"{100 * right.mean():.1f} % of {len(answers)} words"


torch.manual_seed(0)
torch.set_num_threads(1)
(sounds, y), (test_sounds, y_test) = recordings(1000, seed=1), recordings(200, seed=2)
with edgec.compile(HERE / "features.toml") as front:
    x, x_test = hear(front, sounds), hear(front, test_sounds)

blocks = [nn.Sequential(conv(16, 16, 3, groups=16), conv(16, 16, 1)) for _ in range(2)]
head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, len(NAMES))
net, labels = nn.Sequential(conv(1, 16, 5, stride=2), *blocks, *head), torch.tensor(y)
optimizer = torch.optim.Adam(net.parameters(), 1e-2)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
for _ in range(EPOCHS):
    for batch in torch.randperm(len(x)).split(BATCH):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x[batch]), labels[batch]).backward()
        optimizer.step()
    schedule.step()
net.eval()
print("float, PyTorch:", share(net(x_test).detach().numpy(), y_test))

torch.export.save(torch.export.export(net, (x[:1],)), "kws.pt2")
edgec.quantize("kws.pt2", [(each[None].numpy(),) for each in x[:100]], output="kws.onnx")
most = int(sys.argv[1]) if len(sys.argv) > 1 else 200
with edgec.compile("kws.onnx", board="stm32") as board:
    answers = np.concatenate([board.run(each[None].numpy()) for each in x_test[:most]])
    print(f"int8, {board.board.title}:", share(answers, y_test))
for label, name in enumerate(NAMES):
    with wave.open(f"{name}.wav", "wb") as file:
        file.setparams((1, 2, RATE, SECOND, "NONE", ""))
        file.writeframes(test_sounds[list(y_test).index(label)].astype("<i2").tobytes())
