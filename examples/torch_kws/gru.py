"""A GRU that hears one frame in each run and keeps its state: trained, quantized, emulated."""

import torch
from torch import nn
from training import accuracy, count_of, tensors, train
from words import BANDS, NAMES

import edgec


class Spotter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(BANDS, 32), nn.Linear(32, len(NAMES))
        self.register_buffer("heard", torch.zeros(1, 32))

    def forward(self, frame: torch.Tensor) -> torch.Tensor:
        self.heard = self.cell(frame, self.heard)  # a buffer that changes is the state of the C
        return self.head(self.heard)

    def hear(self, words: torch.Tensor) -> torch.Tensor:
        self.heard = torch.zeros(len(words), 32)
        return [self(frame) for frame in words.unbind(1)][-1]


torch.manual_seed(0)
(x, y, test_x, test_y), net = tensors(), Spotter()
train(net, net.hear, x, y)
print("float, PyTorch:", accuracy(net.hear(test_x), test_y))

net.heard = torch.zeros(1, 32)
frames, answers = x[:30].flatten(0, 1), []
model = edgec.from_torch(net, (frames[:1],)).quantize([(frame[None],) for frame in frames])
with model.build(board="stm32") as board:
    for word in test_x[: count_of(100)].numpy():
        board.reset()
        answers.append([board.run(frame[None]) for frame in word][-1])
    print(f"int8, {board.board.title}:", accuracy(answers, test_y))
