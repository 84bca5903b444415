"""Random modules of PyTorch: a chain of layers of many kinds, perhaps with residuals and joins.

python tests/fuzz/random_torch.py 0 200      # seeds; prints what is refused and what differs
"""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

Rng = np.random.Generator
Shape = Sequence[int]
#: Makes a layer for values of a shape; what torch refuses is not taken.
Make = Callable[["_Draw", Shape], nn.Module]

#: Elements of a value at most, and its largest magnitude.
MOST_ELEMENTS, MOST = 3000, 1e3
CORES = ("cortex-m4", "cortex-m55", "rv32imc", "cortex-m7", "cortex-m0plus")
LEVELS = ("balanced", "time", "ram", "size")
#: How far results may be from torch's in float64: a part of their size, and times torch's own
#: error in float32.
FAR, TIMES = 2e-5, 30


class Function(nn.Module):
    """A function of torch as a layer."""

    def __init__(self, function: Callable[[Tensor], Tensor], name: str) -> None:
        super().__init__()
        self.function, self.name = function, name

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)

    def extra_repr(self) -> str:
        return self.name


class Recurrent(nn.Module):
    """The outputs of a recurrent layer."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]


class Attention(nn.Module):
    """Attention of a sequence to itself."""

    def __init__(self, layer: nn.Module, is_causal: bool) -> None:
        super().__init__()
        self.layer, self.is_causal = layer, is_causal

    def forward(self, x: Tensor) -> Tensor:
        size = x.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(size) if self.is_causal else None
        return self.layer(x, x, x, need_weights=False, attn_mask=mask)[0]


class Residual(nn.Module):
    """A layer beside nothing."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layer(x)


class Joined(nn.Module):
    """Two layers side by side."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.first(x), self.second(x)], 1)


class _Draw:
    """Random arguments."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng

    def of(self, *values: Any) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def each(self, count: int, *values: Any) -> list[Any]:
        return [self.of(*values) for _ in range(count)]

    def yes(self) -> bool:
        return bool(self.rng.integers(2))

    def divisor(self, number: int) -> int:
        return int(self.of(*(n for n in (1, 1, 2, 3, 4, number) if number % n == 0)))


def _activation(draw: _Draw, shape: Shape) -> nn.Module:
    return draw.of(
        nn.ReLU(), nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.Mish(), nn.Hardswish(),
        nn.Hardsigmoid(), nn.ELU(0.7), nn.CELU(1.3), nn.SELU(), nn.Softplus(2.0, 3.0),
        nn.Softshrink(0.3), nn.Hardshrink(0.2), nn.Tanhshrink(), nn.Softsign(), nn.LogSigmoid(),
        nn.Threshold(0.1, 2.0), nn.Hardtanh(-0.7, 0.4), nn.LeakyReLU(0.2), nn.PReLU(), nn.RReLU(),
        nn.ReLU6(), nn.Softmin(-1), nn.Softmax(1), nn.LogSoftmax(-1), nn.GLU(-1),
    )  # fmt: skip


def _norm(draw: _Draw, shape: Shape) -> nn.Module:
    inner = list(shape[-int(draw.rng.integers(1, len(shape))) :])
    layer = draw.of(nn.LayerNorm(inner, elementwise_affine=draw.yes()), nn.RMSNorm(inner))
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    return layer


def _function(draw: _Draw, shape: Shape) -> nn.Module:
    axis = int(draw.rng.integers(len(shape)))
    half = shape[axis] // 2
    name, function = draw.of(
        ("mean", lambda x: x.mean(axis, keepdim=True) * x),
        ("std", lambda x: x.std(axis, keepdim=True, correction=0) + x),
        ("flip", lambda x: x.flip(axis)),
        ("roll", lambda x: x.roll(2, axis)),
        ("cumsum", lambda x: torch.cumsum(x, axis)),
        ("cummax", lambda x: torch.cummax(x, axis).values),
        ("cummin", lambda x: torch.cummin(x, axis).indices + x),
        ("amax", lambda x: x.amax(axis, keepdim=True) - x),
        ("normalize", lambda x: F.normalize(x, dim=axis)),
        ("cat", lambda x: torch.cat([x, x * 2], axis)),
        ("transpose", lambda x: x.transpose(axis, -1)),
        ("logsumexp", lambda x: torch.logsumexp(x, axis, keepdim=True) + x),
        ("clamp", lambda x: x.clamp(-0.5, 0.9) ** 2),
        ("sort", lambda x: x.sort(axis).values),
        ("where", lambda x: torch.where(x > 0, x, x.mean())),
        ("narrow", lambda x: x.narrow(axis, half, x.shape[axis] - half)),
        ("stack", lambda x: torch.stack([x, x + 1], axis).flatten(axis, axis + 1)),
        ("unfold", lambda x: x.unfold(axis, 2, 1).mean(-1)),
        ("var", lambda x: x.var(axis, keepdim=True, correction=0) * x),
        ("diff", lambda x: torch.diff(x, dim=axis)),
        ("repeat", lambda x: x.repeat_interleave(2, axis)),
        ("norm", lambda x: x.norm(1.0, dim=axis, keepdim=True) + x),
    )
    return Function(function, f"{name} {axis}")


def _linear(draw: _Draw, shape: Shape) -> nn.Module:
    return nn.Linear(shape[-1], draw.of(1, 2, 3, 5, 8), bias=draw.yes())


def _convolution(draw: _Draw, shape: Shape) -> nn.Module:
    axes, channels = len(shape) - 2, shape[1]
    groups = draw.divisor(channels)
    layer = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[axes - 1]
    return layer(
        channels, groups * draw.of(1, 2, 3, 4), draw.each(axes, 1, 2, 3, 4),
        draw.each(axes, 1, 1, 2, 3), draw.each(axes, 0, 1, 1, 2), draw.each(axes, 1, 1, 2),
        groups, draw.yes(), draw.of("zeros", "zeros", "reflect", "replicate", "circular"),
    )  # fmt: skip


def _transposed(draw: _Draw, shape: Shape) -> nn.Module:
    axes, channels = len(shape) - 2, shape[1]
    groups = draw.divisor(channels)
    stride, dilation = draw.each(axes, 1, 2, 3), draw.each(axes, 1, 1, 2)
    more = [int(draw.rng.integers(max(pair))) for pair in zip(stride, dilation, strict=True)]
    layer = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)[axes - 1]
    return layer(channels, groups * draw.of(1, 2, 3), draw.each(axes, 1, 2, 3, 4), stride,
                 draw.each(axes, 0, 0, 1), more, groups, draw.yes(), dilation)  # fmt: skip


def _pool(draw: _Draw, shape: Shape) -> nn.Module:
    axes = len(shape) - 2
    kernel, stride = draw.each(axes, 1, 2, 3, 4), draw.each(axes, 1, 2, 3)
    padding = [int(draw.rng.integers(size // 2 + 1)) for size in kernel]
    kind, ceils = draw.of("max", "average", "power"), draw.yes()
    if kind == "max":
        largest = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)[axes - 1]
        return largest(kernel, stride, padding, draw.of(1, 1, 2), ceil_mode=ceils)
    if kind == "power" and axes == 2:
        return nn.LPPool2d(2.0, kernel, stride, ceils)
    mean = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)[axes - 1]
    return mean(kernel, stride, padding, ceils, draw.yes())


def _adaptive_pool(draw: _Draw, shape: Shape) -> nn.Module:
    sizes = draw.each(2, 1, 2, 3, 5, None)
    return draw.of(nn.AdaptiveAvgPool2d(sizes), nn.AdaptiveMaxPool2d(sizes))


def _padding(draw: _Draw, shape: Shape) -> nn.Module:
    mode = draw.of("constant", "reflect", "replicate", "circular")
    least = -1 if mode == "constant" else 0
    amounts = tuple(int(n) for n in draw.rng.integers(least, 3, 2 * len(shape) - 4))
    return Function(lambda x: F.pad(x, amounts, mode), f"pad {amounts} {mode}")


def _resize(draw: _Draw, shape: Shape) -> nn.Module:
    axes = len(shape) - 2
    smooth = ("linear", "bilinear", "trilinear")[axes - 1]
    mode = draw.of("nearest", "nearest-exact", smooth, *(["bicubic"] if axes == 2 else []), "area")
    how: dict[str, Any] = {"mode": mode}
    has_size = draw.yes()
    if has_size:
        how["size"] = draw.each(axes, 2, 3, 5, 7, 9)
    else:
        how["scale_factor"] = draw.each(axes, 0.5, 0.7, 1.5, 2.0, 3.0)
    if mode in (smooth, "bicubic"):
        how["align_corners"] = draw.yes()
        # In rows of one pixel torch's two passes differ from its one.
        may_smooth = axes == 2 and has_size and not how["align_corners"]
        how["antialias"] = may_smooth and draw.yes()
    return Function(lambda x: F.interpolate(x, **how), f"interpolate {how}")


def _of_images(draw: _Draw, shape: Shape) -> nn.Module:
    channels = shape[1]
    affine = draw.yes()
    return draw.of(
        nn.PixelShuffle(2), nn.PixelUnshuffle(2), nn.ChannelShuffle(2),
        nn.Unfold(draw.each(2, 1, 2, 3), draw.of(1, 2), draw.of(0, 1), draw.of(1, 2)),
        nn.GroupNorm(draw.divisor(channels), channels), nn.InstanceNorm2d(channels, affine=affine),
        nn.LocalResponseNorm(draw.of(2, 3, 5), 0.3, 0.75, 1.0), nn.BatchNorm2d(channels),
        Function(lambda x: x.flatten(2).transpose(1, 2), "to a sequence"),
    )  # fmt: skip


def _recurrent(draw: _Draw, shape: Shape) -> nn.Module:
    kind = draw.of(nn.LSTM, nn.GRU, nn.RNN)
    more: dict[str, Any] = {"nonlinearity": "relu"} if kind is nn.RNN and draw.yes() else {}
    if kind is nn.LSTM and draw.of(True, False, False):
        more["proj_size"] = 2
    return Recurrent(kind(
        shape[-1], draw.of(3, 4, 7), num_layers=draw.of(1, 1, 2), bias=draw.yes(),
        batch_first=draw.yes(), bidirectional=draw.yes(), **more,
    ))  # fmt: skip


def _attention(draw: _Draw, shape: Shape) -> nn.Module:
    width = shape[-1]
    heads, ends = draw.divisor(width), draw.of(False, False, True)
    if draw.yes():
        return nn.TransformerEncoderLayer(width, heads, 5, activation=draw.of("relu", "gelu"),
                                          batch_first=True, norm_first=draw.yes())  # fmt: skip
    layer = nn.MultiheadAttention(width, heads, bias=draw.yes(), batch_first=True,
                                  add_bias_kv=ends, add_zero_attn=ends)  # fmt: skip
    return Attention(layer, draw.yes())


def _to_image(draw: _Draw, shape: Shape) -> nn.Module:
    return Function(lambda x: x.flatten(1, 2), "to an image")


ANY: tuple[Make, ...] = (_activation, _activation, _norm, _function, _function, _linear)
WINDOWS: tuple[Make, ...] = (_convolution, _convolution, _transposed, _pool, _padding, _resize)
#: What layers there are by the number of axes.
MAKES: dict[int, tuple[Make, ...]] = {
    3: (*ANY, *WINDOWS, _recurrent, _recurrent, _attention, _attention),
    4: (*ANY, *WINDOWS, *WINDOWS, _adaptive_pool, _of_images, _of_images),
    5: (*ANY, *WINDOWS, _to_image),
}


def _layer(draw: _Draw, shape: Shape) -> nn.Module:
    return draw.of(*MAKES.get(len(shape), ANY))(draw, shape).eval()


@torch.no_grad()
def random_module(seed: int) -> tuple[nn.Module, Tensor]:
    """A module and an input for it."""
    torch.manual_seed(seed)
    draw = _Draw(np.random.default_rng(seed))
    rank = draw.of(3, 4, 4, 4, 5)
    inner = draw.rng.integers(3, 10 if rank < 5 else 6, rank - 2).tolist()
    x = value = torch.randn(draw.of(1, 2, 3), draw.of(2, 3, 4, 6), *inner)
    layers: list[nn.Module] = []
    wanted = int(draw.rng.integers(3, 11))
    for _ in range(60):
        try:
            layer = _layer(draw, value.shape)
            how = draw.rng.random()
            if how < 0.2 and layer(value).shape == value.shape:
                layer = Residual(layer)
            elif how < 0.3:
                layer = Joined(layer, _layer(draw, value.shape))
            made = layer.eval()(value)
        except (RuntimeError, ValueError, TypeError, AssertionError, IndexError):
            continue  # not for this shape
        if _is_useful(made):
            value = made
            layers.append(layer)
        if len(layers) == wanted:
            break
    return nn.Sequential(*layers).eval(), x


def _is_useful(value: Tensor) -> bool:
    if not 0 < value.numel() < MOST_ELEMENTS or not value.is_floating_point():
        return False
    spread = (value - value.mean()).abs().max()
    return bool(torch.isfinite(value).all() and value.abs().max() < MOST and spread > 1e-3)


def how_it_differs(seed: int, *, in_c: bool) -> str:
    """How edgec's results differ from torch's; "" if they do not. Raises EdgecError.

    The imported graph, the graph as it is compiled for a core and, with in_c, C on this computer
    give results.
    """
    import edgec
    from edgec.graph.interpret import Interpretation
    from edgec.options import Options
    from edgec.pipeline import compile_module
    from edgec.targets.core import find_core

    module, x = random_module(seed)
    imported = edgec.from_torch(torch.export.export(module, (x,)))
    with torch.no_grad():
        single = module(x).double().numpy()
        double = module.double()(x.double()).numpy()
    rng = np.random.default_rng((seed, 1))
    options = Options(optimize=str(rng.choice(LEVELS)))
    core = str(rng.choice(CORES))
    compiled = compile_module(imported.module, find_core(core), options)
    found = {
        what: Interpretation(main).run_whole([x.numpy()])[0]
        for what, main in (("graph", imported.module.main), (core, compiled.module.main))
    }
    if in_c:
        with imported.build(board="host") as model:
            found["C"] = np.asarray(model.run(x.numpy()))
    allowed = FAR * np.abs(double).max() + TIMES * np.abs(single - double).max()
    for what, values in found.items():
        if values.shape != double.shape:
            return f"{what} has the shape {values.shape}, torch {double.shape}"
        off = np.abs(values - double).max()
        if not off <= allowed:
            return f"{what} is {off:.3g} off, {allowed:.3g} are allowed"
    return ""


def run(seeds: range, *, c_every: int) -> tuple[dict[int, str], Counter[str]]:
    """What differs, by its seed, and how many of the seeds passed, or were refused and why."""
    from edgec.errors import ContractError, EdgecError

    findings: dict[int, str] = {}
    results: Counter[str] = Counter()
    for seed in seeds:
        try:
            why = how_it_differs(seed, in_c=seed % c_every == 0)
            results["compared"] += 1
        except ContractError:
            why = traceback.format_exc()[-1000:]
        except EdgecError as error:
            results[error.render()[:300]] += 1
            continue
        except Exception:
            why = traceback.format_exc()[-1000:]
        if why:
            findings[seed] = f"seed {seed}: {why}\n{random_module(seed)[0]}"
    return findings, results


if __name__ == "__main__":
    found, counted = run(range(int(sys.argv[1]), int(sys.argv[2])), c_every=8)
    print(*found.values(), counted, sep="\n")
