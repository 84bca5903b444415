"""A DS-CNN in plain PyTorch: trained, quantized, and run on an emulated STM32."""

import torch
from torch import nn
from training import accuracy, count_of, tensors, train
from words import NAMES

import edgec


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Module:
    layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.ReLU())


torch.manual_seed(0)
x, y, test_x, test_y = tensors()
x, test_x = x[:, None], test_x[:, None]  # [words, 1 channel, frames, bands]
blocks = [nn.Sequential(conv(16, 16, 3, groups=16), conv(16, 16, 1)) for _ in range(2)]
head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, len(NAMES))
net = nn.Sequential(conv(1, 16, 5, stride=2), *blocks, *head)
train(net, net, x, y)
print("float, PyTorch:", accuracy(net(test_x), test_y))

model = edgec.from_torch(net, (x[:1],)).quantize([(word[None],) for word in x[:100]])
with model.build(board="stm32") as board:
    answers = [board.run(word[None]) for word in test_x[: count_of(len(test_x))].numpy()]
    print(f"int8, {board.board.title}:", accuracy(answers, test_y))
