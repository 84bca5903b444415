"""Noise suppression as a stream: 16 ms in each run, a gain for each band out, state in the C."""

import sys

import numpy as np
import torch
from sound import BANDS, FILTERS, bands, scene, sound_of, spectra
from torch import nn

import edgec

SCENES, SECONDS, EPOCHS, WIDTH = 100, 3, 20, 32


class Gains(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(BANDS, WIDTH), nn.Linear(WIDTH, BANDS)
        self.register_buffer("heard", torch.zeros(1, WIDTH))

    def forward(self, frame: torch.Tensor) -> torch.Tensor:  # [1, BANDS]
        self.heard = self.cell(frame, self.heard)  # a buffer that changes is the state of the C
        return torch.sigmoid(self.head(self.heard))

    def stream(self, frames: torch.Tensor) -> torch.Tensor:  # [scenes, frames, BANDS]
        self.heard = torch.zeros(len(frames), WIDTH)
        return torch.stack([self(frame) for frame in frames.unbind(1)], 1)


def wanted(clean: np.ndarray, noisy: np.ndarray) -> np.ndarray:
    """The part of each band's loudness that is the voice's."""
    energies = (np.abs(spectra(sound)) ** 2 @ FILTERS.T for sound in (clean, noisy))
    return np.sqrt(np.minimum(np.divide(*energies), 1)).astype(np.float32)


def ratio_db(clean: np.ndarray, heard: np.ndarray) -> float:
    """Signal to noise; the first and last frames of `sound_of` are incomplete."""
    cut = slice(512, len(heard) - 512)
    off = heard[cut] - clean[: len(heard)][cut]
    return 10 * np.log10(np.sum(clean[: len(heard)][cut] ** 2) / np.sum(off**2))


def gained_db(gains: list[np.ndarray], scenes: list[tuple[np.ndarray, np.ndarray]]) -> float:
    found = []
    for each, (clean, noisy) in zip(gains, scenes, strict=False):
        frames = spectra(noisy)
        heard = sound_of(frames * (each @ FILTERS))
        found.append(ratio_db(clean, heard) - ratio_db(clean, sound_of(frames)))
    return np.mean(found)


torch.manual_seed(0)
torch.set_num_threads(1)
train, test = ([scene(SECONDS, seed + i) for i in range(n)] for seed, n in ((0, SCENES), (500, 10)))
x = torch.tensor(np.stack([bands(spectra(noisy)) for _, noisy in train]))
y, net = torch.tensor(np.stack([wanted(*each) for each in train])), Gains()
optimizer = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(EPOCHS):
    for batch in torch.randperm(SCENES).split(20):
        optimizer.zero_grad()
        nn.functional.mse_loss(net.stream(x[batch]), y[batch]).backward()
        optimizer.step()
net.eval()
heard = [bands(spectra(noisy)) for _, noisy in test]
with torch.no_grad():
    gains = list(net.stream(torch.tensor(np.stack(heard))).numpy())
print(f"float, PyTorch: {gained_db(gains, test):.1f} dB less noise in {len(gains)} scenes")

net.heard = torch.zeros(1, WIDTH)
samples = [(frame[None],) for frame in x[:5].flatten(0, 1)]
model = edgec.from_torch(net, samples[0]).quantize(samples)
most = int(sys.argv[1]) if len(sys.argv) > 1 else len(test)
with model.build(board="stm32") as board:
    gains = []
    for frames in heard[:most]:
        board.reset()
        gains.append(np.concatenate([board.run(frame[None]) for frame in frames]))
    gain = gained_db(gains, test)
    print(f"int8, {board.board.title}: {gain:.1f} dB less noise in {most} scenes")
