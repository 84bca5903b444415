"""Small versions of well-known networks, in plain PyTorch: what users bring to a microcontroller.

Each builder returns a module with random weights and one example input. Definitions are our own,
after the papers that they name.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional


def conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1,
         act: type[nn.Module] | None = nn.ReLU) -> nn.Sequential:  # fmt: skip
    """A convolution that keeps the size, its normalization and activation."""
    layers = [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
              nn.BatchNorm2d(outputs)]  # fmt: skip
    return nn.Sequential(*layers, *([act()] if act else []))


def ds_cnn() -> nn.Module:
    """Depthwise separable CNN: Zhang et al., "Hello Edge", 2017."""
    blocks = [nn.Sequential(conv(16, 16, groups=16), conv(16, 16, 1)) for _ in range(3)]
    return nn.Sequential(conv(1, 16, 5, 2), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(16, 12))  # fmt: skip


class Residual(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        second = conv(outputs, outputs, act=None)
        self.body = nn.Sequential(conv(inputs, outputs, 3, stride), second)
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else conv(inputs, outputs, 1, stride, act=None)

    def forward(self, x: Any) -> Any:
        return functional.relu(self.body(x) + self.shortcut(x))


def resnet8() -> nn.Module:
    """MLPerf Tiny's ResNet-8: three stacks of one residual block."""
    return nn.Sequential(conv(3, 8), Residual(8, 8, 1), Residual(8, 16, 2), Residual(16, 24, 2),
                         nn.AvgPool2d(4), nn.Flatten(), nn.Linear(24, 10))  # fmt: skip


class Inverted(nn.Module):
    """MobileNetV2's block (Sandler et al., 2018); with V3's squeeze and excitation if asked."""

    def __init__(self, inputs: int, outputs: int, stride: int, wide: int,
                 act: type[nn.Module] = nn.ReLU6, squeeze: bool = False) -> None:  # fmt: skip
        super().__init__()
        self.expand = conv(inputs, wide, 1, act=act)
        self.depthwise = conv(wide, wide, 3, stride, groups=wide, act=act)
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, 8, 1), nn.ReLU(), nn.Conv2d(8, wide, 1),
            nn.Hardsigmoid(),
        ) if squeeze else None  # fmt: skip
        self.project = conv(wide, outputs, 1, act=None)
        self.adds = inputs == outputs and stride == 1

    def forward(self, x: Any) -> Any:
        y = self.depthwise(self.expand(x))
        y = y if self.gate is None else y * self.gate(y)
        y = self.project(y)
        return x + y if self.adds else y


def mobilenet_v2() -> nn.Module:
    return nn.Sequential(conv(3, 8, 3, 2, act=nn.ReLU6), Inverted(8, 12, 2, 24),
                         Inverted(12, 12, 1, 36), Inverted(12, 16, 2, 36), conv(16, 32, 1),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2),
                         nn.Linear(32, 10))  # fmt: skip


def whole_mobilenet_v2() -> nn.Module:
    """The network of the paper, width 1: 3.5 million parameters, 300 million products."""
    layers: list[nn.Module] = [conv(3, 32, 3, 2, act=nn.ReLU6)]
    inputs = 32
    for factor, outputs, count, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):  # fmt: skip
        for number in range(count):
            wide = factor * inputs
            layers.append(Inverted(inputs, outputs, stride if number == 0 else 1, wide))
            inputs = outputs
    return nn.Sequential(*layers, conv(320, 1280, 1, act=nn.ReLU6), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Dropout(0.2), nn.Linear(1280, 1000))  # fmt: skip


def mobilenet_v3() -> nn.Module:
    """MobileNetV3-small's blocks (Howard et al., 2019)."""
    return nn.Sequential(conv(3, 8, 3, 2, act=nn.Hardswish),
                         Inverted(8, 8, 1, 16, nn.ReLU, squeeze=True),
                         Inverted(8, 16, 2, 32, nn.Hardswish, squeeze=True),
                         Inverted(16, 16, 1, 32, nn.Hardswish), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(16, 32), nn.Hardswish(),
                         nn.Linear(32, 10))  # fmt: skip


def efficientnet_lite() -> nn.Module:
    return nn.Sequential(conv(3, 8, 3, 2, act=nn.ReLU6), Inverted(8, 8, 1, 8),
                         Inverted(8, 12, 2, 48), Inverted(12, 12, 1, 72), conv(12, 48, 1),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, 10))  # fmt: skip


class Fire(nn.Module):
    """SqueezeNet's module (Iandola et al., 2016)."""

    def __init__(self, inputs: int, squeezed: int, wide: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeezed, 1)
        self.narrow, self.square = nn.Conv2d(squeezed, wide, 1), nn.Conv2d(squeezed, wide, 3, 1, 1)

    def forward(self, x: Any) -> Any:
        x = functional.relu(self.squeeze(x))
        return torch.cat([functional.relu(self.narrow(x)), functional.relu(self.square(x))], 1)


def squeezenet() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True),
                         Fire(16, 4, 8), Fire(16, 8, 12), nn.Conv2d(24, 10, 1), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten())  # fmt: skip


class Temporal(nn.Module):
    """A causal dilated block of a temporal convolutional network (Bai et al., 2018)."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.layer = nn.Conv1d(channels, channels, 3, padding=2 * dilation, dilation=dilation)
        self.excess = 2 * dilation

    def forward(self, x: Any) -> Any:
        return x + functional.relu(self.layer(x)[..., : -self.excess])


def tcn() -> nn.Module:
    return nn.Sequential(nn.Conv1d(6, 12, 1), *(Temporal(12, 2**i) for i in range(3)),
                         nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(12, 4))  # fmt: skip


class Recurrent(nn.Module):
    """A recurrent layer over a sequence and a classifier of its last step."""

    def __init__(self, layer: nn.Module, width: int) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(width, 5)

    def forward(self, x: Any) -> Any:
        return self.head(self.layer(x)[0][:, -1])


class Attention(nn.Module):
    """A layer of a transformer, normalized first: LayerNorm, attention, LayerNorm, two layers."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.parts, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(),
                                 nn.Linear(2 * width, width))  # fmt: skip

    def forward(self, x: Any) -> Any:
        batch, steps, width = x.shape
        parts = self.parts(self.first(x)).view(batch, steps, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, steps, width))
        return x + self.mlp(self.second(x))


class Transformer(nn.Module):
    """Patches or frames as tokens, a class token, layers, a classifier."""

    def __init__(self, embed: nn.Module, steps: int, width: int, layers: int) -> None:
        super().__init__()
        self.embed = embed
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.1)
        self.places = nn.Parameter(torch.randn(1, steps + 1, width) * 0.1)
        self.layers = nn.Sequential(*(Attention(width, 2) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x: Any) -> Any:
        x = self.embed(x)
        if x.dim() == 4:  # patches of an image
            x = x.flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.layers(x))[:, 0])


class Conformer(nn.Module):
    """One conformer block (Gulati et al., 2020): half layers around attention and convolution."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.before, self.after = self.feed(width), self.feed(width)
        self.attention, self.norm = Attention(width, 2), nn.LayerNorm(width)
        self.wide = nn.Conv1d(width, 2 * width, 1)
        self.depthwise = nn.Conv1d(width, width, 5, padding=2, groups=width)
        self.batch, self.narrow = nn.BatchNorm1d(width), nn.Conv1d(width, width, 1)

    @staticmethod
    def feed(width: int) -> nn.Module:
        return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.SiLU(),
                             nn.Linear(2 * width, width))  # fmt: skip

    def forward(self, x: Any) -> Any:
        x = self.attention(x + self.before(x) / 2)
        y = functional.glu(self.wide(self.norm(x).transpose(1, 2)), 1)
        x = x + self.narrow(functional.silu(self.batch(self.depthwise(y)))).transpose(1, 2)
        return x + self.after(x) / 2


class UNet(nn.Module):
    """Two levels down and up again, with what was there beside (Ronneberger et al., 2015)."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.low, self.up = conv(1, 8), conv(8, 16), conv(16 + 8, 8)
        self.grow, self.head = nn.ConvTranspose2d(16, 16, 2, 2), nn.Conv2d(8, 2, 1)

    def forward(self, x: Any) -> Any:
        x = self.down(x)
        low = self.grow(self.low(functional.max_pool2d(x, 2)))
        return self.head(self.up(torch.cat([low, x], 1)))


class NoiseGains(nn.Module):
    """Gains of bands from a GRU whose state is kept, after RNNoise (Valin, 2018)."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.cell = nn.Linear(22, 16), nn.GRUCell(16, 16)
        self.gains = nn.Linear(16, 22)
        self.state: Any
        self.register_buffer("state", torch.zeros(1, 16))

    def forward(self, x: Any) -> Any:
        state = self.cell(torch.tanh(self.enter(x)), self.state)
        self.state.copy_(state)
        return torch.sigmoid(self.gains(state))


class PointNet(nn.Module):
    """Layers shared by all points and the largest of each feature (Qi et al., 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.points = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(),
                                    nn.Conv1d(16, 32, 1), nn.ReLU())  # fmt: skip
        self.head = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 6))

    def forward(self, x: Any) -> Any:
        return self.head(self.points(x).max(-1)[0])


def autoencoder() -> nn.Module:
    widths = (64, 24, 6, 24, 64)
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Decoder(nn.Module):
    """A decoder's layer that sees one row a run; keys and values of earlier ones are state."""

    def __init__(self, width: int = 16, steps: int = 8) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.parts, self.head = nn.Linear(width, 3 * width), nn.Linear(width, 32)
        self.keys: Any
        self.values: Any
        self.register_buffer("keys", torch.zeros(steps, width))
        self.register_buffer("values", torch.zeros(steps, width))

    def forward(self, x: Any) -> Any:
        query, key, value = self.parts(self.norm(x)).chunk(3, -1)
        self.keys.copy_(torch.cat([self.keys[1:], key]))
        self.values.copy_(torch.cat([self.values[1:], value]))
        weights = torch.softmax(query @ self.keys.T / 4, -1)
        return self.head(x + weights @ self.values)


class Detector(nn.Module):
    """A head of boxes and scores on a grid, decoded as YOLO's; `Suppressed` has the suppression."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(3, 8, 3, 2), conv(8, 16, 3, 2))
        self.head = nn.Conv2d(16, 7, 1)
        grid = torch.stack(torch.meshgrid(torch.arange(4.0), torch.arange(4.0), indexing="xy"))
        self.register_buffer("grid", grid[None])

    def forward(self, x: Any) -> Any:
        y = self.head(self.body(x))
        centre = (torch.sigmoid(y[:, :2]) + self.grid) * 4
        boxes = torch.cat([centre, torch.exp(y[:, 2:4]), torch.sigmoid(y[:, 4:])], 1)
        return boxes.flatten(2).transpose(1, 2)


class Suppressed(nn.Module):
    """YOLO's head and the boxes that greedy suppression leaves, the best first: a fixed number.

    Rows of corners, score and class. Plain torch operators: the index of the best box is data.
    """

    def __init__(self, count: int = 4) -> None:
        super().__init__()
        self.detector, self.count = Detector(), count

    def forward(self, x: Any) -> Any:
        rows = self.detector(x)[0]
        centre, half = rows[:, :2], rows[:, 2:4] * 2
        corners = torch.cat([centre - half, centre + half], 1)
        scores, labels = (rows[:, 5:] * rows[:, 4:5]).max(1)
        area = (corners[:, 2:] - corners[:, :2]).prod(1)
        found = []
        for _ in range(self.count):
            best = scores.argmax()
            box = corners[best]
            found.append(torch.cat([box, scores[best][None], labels[best][None].float()]))
            low, high = torch.maximum(corners, box)[:, :2], torch.minimum(corners, box)[:, 2:]
            shared = (high - low).clamp(min=0).prod(1)
            is_same = shared > 0.45 * (area + area[best] - shared)
            scores = torch.where(is_same, torch.zeros_like(scores), scores)
        return torch.stack(found)


@dataclass(frozen=True)
class Case:
    """make: the module. shape: of its input. quick: whether `make test` builds it."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    quick: bool = False
    #: What int8 keeps at least of random weights and inputs.
    decibels: float = 20.0


CASES = {
    "ds_cnn": Case(ds_cnn, (1, 1, 20, 10), quick=True),
    "resnet8": Case(resnet8, (1, 3, 16, 16)),
    "mobilenet_v2": Case(mobilenet_v2, (1, 3, 16, 16)),
    "mobilenet_v3": Case(mobilenet_v3, (1, 3, 16, 16)),
    "efficientnet_lite": Case(efficientnet_lite, (1, 3, 16, 16)),
    "squeezenet": Case(squeezenet, (1, 3, 20, 20)),
    "tcn": Case(tcn, (1, 6, 24)),
    "lstm": Case(lambda: Recurrent(nn.LSTM(6, 12, batch_first=True), 12), (1, 8, 6)),
    "gru": Case(lambda: Recurrent(nn.GRU(6, 12, batch_first=True), 12), (1, 8, 6)),
    "conformer": Case(Conformer, (1, 10, 12)),
    "keyword_transformer": Case(
        lambda: Transformer(nn.Linear(10, 16), 12, 16, 2), (1, 12, 10)),
    "vit_tiny": Case(
        lambda: Transformer(nn.Conv2d(3, 16, 4, 4), 16, 16, 2), (1, 3, 16, 16)),
    "unet": Case(UNet, (1, 1, 16, 16)),
    "noise_gains": Case(NoiseGains, (1, 22), quick=True),
    "pointnet": Case(PointNet, (1, 3, 32)),
    "autoencoder": Case(autoencoder, (1, 64)),
    "decoder": Case(Decoder, (1, 16)),
    "detector": Case(Detector, (1, 3, 16, 16)),
    # Scores of random weights are near each other, so that integers may swap two boxes.
    "suppressed": Case(Suppressed, (1, 3, 16, 16), decibels=3.0),
}  # fmt: skip


def made(name: str) -> nn.Module:
    """A model in evaluation mode, its weights and statistics random but always the same."""
    torch.manual_seed(11)
    module = CASES[name].make()
    for layer in module.modules():
        if isinstance(layer, (nn.BatchNorm1d, nn.BatchNorm2d)):
            assert layer.running_mean is not None and layer.running_var is not None
            layer.running_mean.normal_(0, 0.2)
            layer.running_var.uniform_(0.5, 1.5)
    return module.eval()


def samples_of(name: str, count: int) -> list[Any]:
    """Random inputs of a model, always the same."""
    generator = torch.Generator().manual_seed(12)
    return [torch.randn(CASES[name].shape, generator=generator) for _ in range(count)]
