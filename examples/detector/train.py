"""A detector of shapes: trained on rendered scenes, quantized, run on an emulated STM32."""

import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from scenes import CELL, GRID, NAMES, SIZE, draw_boxes, scene, target
from torch import nn

import edgec

SCENES, EPOCHS, BATCH, SHOWN = 3000, 14, 50, 6
Shapes = list[tuple[int, float, float, float]]


def layer(inputs: int, outputs: int, stride: int) -> nn.Module:
    conv = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU())


def shapes_in(answer: np.ndarray) -> Shapes:
    """The shapes in an answer [3 places and sizes + 4 kinds, GRID, GRID]; kind 0 is none."""
    kinds, found = answer[3:].argmax(0), []
    for row, column in zip(*np.nonzero(kinds), strict=False):
        dx, dy, half = answer[:3, row, column]
        kind = int(kinds[row, column]) - 1
        found.append((kind, CELL * (column + dx), CELL * (row + dy), CELL * half))
    return found


def score(name: str, answers: list[np.ndarray], scenes: list[tuple[np.ndarray, Shapes]]) -> str:
    """Right are the kind, and the middle and size within two pixels."""
    right = found = wanted = 0
    for answer, (_, shapes) in zip(answers, scenes, strict=False):
        boxes = shapes_in(answer)
        hits = [any(s[0] == b[0] and np.abs(s - b).max() <= 2 for b in boxes) for s in shapes]
        right, found, wanted = right + sum(hits), found + len(boxes), wanted + len(shapes)
    return f"{name}: {100 * right / wanted:.1f} % of {wanted} shapes, {found - right} wrong boxes"


torch.manual_seed(0)
torch.set_num_threads(1)
rng = np.random.default_rng(0)
train, test = ([scene(rng) for _ in range(count)] for count in (SCENES, 200))
x = torch.tensor(np.stack([pixels for pixels, _ in train]))[:, None]
y = torch.tensor(np.stack([target(shapes) for _, shapes in train]))
sizes = (1, 8), (8, 16), (16, 24)
stem = [nn.Sequential(layer(a, b, 2), layer(b, b, 1)) for a, b in sizes]
net = nn.Sequential(*stem, layer(24, 24, 1), nn.Conv2d(24, 3 + 1 + len(NAMES), 1))
optimizer = torch.optim.Adam(net.parameters(), 4e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
for _ in range(EPOCHS):
    for batch in torch.randperm(SCENES).split(BATCH):
        optimizer.zero_grad()
        answer, wanted = net(x[batch]), y[batch]
        kinds, there = wanted[:, 0].long(), wanted[:, :1] > 0
        places = ((answer[:, :3] - wanted[:, 1:]) * there).square().sum() / there.sum()
        (nn.functional.cross_entropy(answer[:, 3:], kinds) * GRID + places).backward()
        optimizer.step()
    schedule.step()
net.eval()
with torch.no_grad():
    pixels = torch.tensor(np.stack([pixels for pixels, _ in test]))[:, None]
    print(score("float, PyTorch", list(net(pixels).numpy()), test))

most = int(sys.argv[1]) if len(sys.argv) > 1 else len(test)
model = edgec.from_torch(net, (x[:1],)).quantize([(image[None],) for image in x[:100]])
with model.build(board="stm32") as board:
    answers = [board.run(pixels[None, None])[0] for pixels, _ in test[:most]]
    print(score(f"int8, {board.board.title}", answers, test))
sheet = Image.new("RGB", (SHOWN // 2 * 4 * SIZE, 2 * 4 * SIZE))
for i, ((pixels, _), answer) in enumerate(zip(test[:SHOWN], answers, strict=False)):
    sheet.paste(draw_boxes(pixels, shapes_in(answer)), (i // 2 * 4 * SIZE, i % 2 * 4 * SIZE))
sheet.save(Path(sys.argv[2] if len(sys.argv) > 2 else "found.png"))
