"""Any dimensions of PyTorch modules open: one C function equals eager PyTorch at every size."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch", reason="PyTorch is not installed (edgec[torch])")

from torch import nn  # noqa: E402
from torch.export import Dim  # noqa: E402
from torch.nn import functional  # noqa: E402

import edgec  # noqa: E402
from edgec.cli.main import cli  # noqa: E402
from edgec.errors import RunFailed  # noqa: E402
from edgec.graph.interpret import interpret  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


class Images(nn.Module):
    """A fully convolutional network: padding, strides, pools, upsampling, a skip."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU())
        self.down = nn.Conv2d(6, 8, 3, 2, padding=1)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=8)
        self.up, self.last = nn.Upsample(scale_factor=2), nn.Conv2d(8, 2, 1)

    def forward(self, x: Any) -> Any:
        y = functional.max_pool2d(self.first(x), 2)
        y = torch.relu(self.down(y))
        y = y + self.depthwise(y)
        return self.up(self.last(y)), y.mean((2, 3))


class Larger(nn.Module):
    """Images made larger between their pixels, by whole factors, and by windows of weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 4, 3, 2, padding=1), nn.Conv2d(4, 2, 1)
        self.twice = nn.Upsample(scale_factor=2, mode="bilinear")
        self.thrice = nn.Upsample(scale_factor=3, mode="bilinear")
        self.windows = nn.ConvTranspose2d(3, 2, (4, 3), 2, padding=(1, 0), output_padding=(0, 1))

    def forward(self, x: Any) -> Any:
        twice = self.last(self.twice(torch.relu(self.first(x))))
        return twice, self.thrice(x[:, :1]), self.windows(x)


class Fitted(nn.Module):
    """Images of any size made one size, larger and smaller, between their pixels and not."""

    def forward(self, x: Any) -> Any:
        smooth = functional.interpolate(x, size=(8, 12), mode="bilinear")
        corners = functional.interpolate(x, size=(9, 5), mode="bilinear", align_corners=True)
        return smooth, corners, functional.interpolate(x, size=(5, 8))


class Temporal(nn.Module):
    """Causal convolutions over time, and the mean of all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(6, 12, 3, padding=1)
        self.second = nn.Conv1d(12, 12, 3, padding=8, dilation=4)
        self.head = nn.Linear(12, 4)

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.first(x))
        y = y + torch.relu(self.second(y)[..., :-8])
        return self.head(y.mean(-1))


class Frames(nn.Module):
    """A recurrent layer and what it makes of every frame."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.GRU(6, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        return self.head(self.layer(x)[0])


class Places(nn.Module):
    """What depends on all rows of an open axis: softmax, backwards, the last, two inputs joined."""

    def forward(self, x: Any, y: Any) -> Any:
        both = torch.cat([x, y], 1)
        return torch.softmax(both, 1), x.flip(1) * x.amax(1, keepdim=True), both[:, -2:]


HEIGHT, WIDTH = Dim("height", min=6, max=24), Dim("width", min=6, max=20)
TIME, BATCH = Dim("time", min=1, max=100), Dim("batch", min=1, max=3)
FEW = Dim("few", min=1, max=7)


@dataclass(frozen=True)
class Case:
    """make: the module. shape: what makes the shapes of its inputs from sizes. dims: as torch takes
    them. sizes: those that are run. outside: those that are refused.
    """

    make: Callable[[], nn.Module]
    shapes: Callable[..., list[tuple[int, ...]]]
    dims: tuple[Any, ...]
    sizes: tuple[tuple[int, ...], ...]
    outside: tuple[tuple[int, ...], ...]


CASES = {
    "images": Case(
        Images, lambda h, w: [(1, 3, h, w)], ({2: HEIGHT, 3: WIDTH},),
        ((6, 6), (24, 20), (7, 20), (24, 6), (13, 9), (6, 7)), ((5, 8), (25, 8), (8, 21)),
    ),
    "larger": Case(
        Larger, lambda h, w: [(1, 3, h, w)], ({2: Dim("height", min=1, max=9), 3: WIDTH},),
        ((9, 20), (1, 6), (2, 19), (5, 7)), ((10, 8),),
    ),
    "fitted": Case(
        Fitted, lambda h, w: [(1, 2, h, w)], ({2: Dim("height", min=1, max=16), 3: FEW},),
        ((16, 7), (1, 1), (8, 4), (2, 6), (15, 3), (9, 5)), ((17, 3),),
    ),
    "fitted_to_multiples": Case(
        Fitted, lambda h, w: [(1, 2, h, w)],
        ({2: Dim("height", min=1, max=4), 3: Dim("width", min=2, max=4)},),
        ((4, 4), (1, 2), (3, 3), (2, 4)), ((5, 3),),
    ),
    "temporal": Case(
        Temporal, lambda t: [(1, 6, t)], ({2: TIME},),
        ((1,), (2,), (8,), (9,), (50,), (99,), (100,)), ((101,),),
    ),
    "frames": Case(Frames, lambda t: [(1, t, 6)], ({1: TIME},), ((1,), (2,), (33,), (100,)),
                   ((101,),)),
    "places": Case(
        Places, lambda b, t, few: [(b, t, 2), (b, few, 2)],
        ({0: BATCH, 1: TIME}, {0: BATCH, 1: FEW}),
        ((1, 1, 1), (3, 100, 7), (2, 5, 3), (3, 1, 4)), ((4, 5, 5), (1, 1, 8)),
    ),
}  # fmt: skip


@cache
def imported(name: str) -> tuple[nn.Module, Any]:
    torch.manual_seed(7)
    case = CASES[name]
    module = case.make().eval()
    return module, edgec.from_torch(
        module, inputs(name, case.sizes[-2], torch.tensor), dynamic_shapes=case.dims
    )


def inputs(name: str, sizes: tuple[int, ...], convert: Any = np.asarray) -> tuple[Any, ...]:
    random = np.random.default_rng(sum(sizes))
    shapes = CASES[name].shapes(*sizes)
    return tuple(convert(random.normal(size=shape).astype(np.float32)) for shape in shapes)


def as_tuple(outputs: Any) -> tuple[Any, ...]:
    return tuple(outputs) if isinstance(outputs, tuple) else (outputs,)


@pytest.mark.parametrize(
    ("name", "board"),
    [
        *(("images", board) for board in ("host", "stm32")),
        *(
            pytest.param(
                name, board, marks=[pytest.mark.full] * (name == "frames" or board == "stm32")
            )
            for name in ("larger", "fitted", "fitted_to_multiples", "temporal", "frames", "places")
            for board in ("host", "stm32")
        ),
    ],
)
def test_every_size_is_what_eager_computes(name: str, board: str) -> None:
    case, (module, model) = CASES[name], imported(name)
    engine = "core" if board == "stm32" else None
    with model.build(board=board, engine=engine, float_sums="ordered") as built:
        compiled = built.compiled
        for sizes in case.sizes[: None if board == "host" else 3]:
            given = inputs(name, sizes)
            found = as_tuple(built.run(*given))
            for mine, bits in zip(found, interpret(compiled.module.main, given), strict=True):
                np.testing.assert_array_equal(mine, bits)
            with torch.no_grad():
                wanted = as_tuple(module(*map(torch.from_numpy, given)))
            for mine, theirs in zip(found, wanted, strict=True):
                assert mine.shape == tuple(theirs.shape)
                np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-4, atol=1e-5)
        for sizes in case.outside:
            with pytest.raises(RunFailed, match="are possible"):
                built.run(*inputs(name, sizes))
        assert built.report["arena_bytes"] == built.compiled.plan.peak_bytes["arena"]


def test_relations_are_in_the_header(tmp_path: Path) -> None:
    _, model = imported("images")
    with model.build(output=tmp_path / "project"):
        header = (tmp_path / "project" / "images.h").read_text("utf-8")
    assert "float32 [1,3,height,width]" in header
    assert "float32 [1,2,(((height) // 2 + 1) // 2)*2,(((width) // 2 + 1) // 2)*2]" in header
    assert "IMAGES_SIZE_WIDTH_MAX 20u" in header


@pytest.mark.parametrize("name", ["temporal", pytest.param("images", marks=pytest.mark.full)])
def test_integers_at_every_size(name: str) -> None:
    """A mean over open sizes is rescaled by their number."""
    module, model = imported(name)
    samples = [inputs(name, sizes) for sizes in CASES[name].sizes]
    quantized = model.quantize(samples)
    with quantized.build() as built, torch.no_grad():
        compiled = built.compiled
        for given in samples:
            found = as_tuple(built.run(*given))
            for mine, bits in zip(found, interpret(compiled.module.main, given), strict=True):
                np.testing.assert_array_equal(mine, bits)
            wanted = as_tuple(module(torch.from_numpy(given[0])))
            largest = max(theirs.abs().max() for theirs in wanted)
            for mine, theirs in zip(found, wanted, strict=True):
                assert np.abs(mine - theirs.numpy()).max() < 0.1 * largest


#: Instructions on a Cortex-M4 at the largest sizes, over a build without open sizes.
MOST_BESIDE_STATIC, MOST_BESIDE_SPECIALIZED = 1.12, 1.02
#: Of its arena: another schedule may need a little more.
MOST_ARENA = 1.01


@pytest.mark.parametrize("name", ["temporal", pytest.param("images", marks=pytest.mark.full)])
def test_kernels_take_open_sizes(name: str) -> None:
    """Integers at open sizes run on the kernels of the core, from the fewest pixels on."""
    case, (module, model) = CASES[name], imported(name)
    samples = [inputs(name, sizes) for sizes in case.sizes]
    largest = max(samples, key=lambda sample: sample[0].size)
    most = largest[0].shape[-len(case.dims[0]) :]
    sizes = {dim.__name__: size for dim, size in zip(case.dims[0].values(), most, strict=True)}
    closed = edgec.from_torch(module, tuple(map(torch.from_numpy, largest)))
    spent, arenas = [], []
    for each, options in (
        (closed, {}),
        (model, {"specialize": {size: (n,) for size, n in sizes.items()}}),
        (model, {}),
    ):
        with each.quantize([largest]).build(board="stm32", engine="core", **options) as built:
            spent.append(built.run_all(largest).instructions)
            arenas.append(built.report["arena_bytes"])
            for given in samples if not options and each is model else ():
                found = as_tuple(built.run(*given))
                wanted = interpret(built.compiled.module.main, given)
                for mine, bits in zip(found, wanted, strict=True):
                    np.testing.assert_array_equal(mine, bits)
    static, specialized, opened = spent
    assert specialized <= static * MOST_BESIDE_SPECIALIZED
    assert opened <= static * MOST_BESIDE_STATIC
    assert arenas[2] <= arenas[0] * MOST_ARENA


@pytest.mark.full
def test_verify_runs_small_sizes_too(tmp_path: Path) -> None:
    torch.manual_seed(7)
    module = nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.Tanh()).eval()
    program = torch.export.export(module, (torch.zeros(1, 2, 9),), dynamic_shapes=({2: TIME},))
    torch.export.save(program, tmp_path / "open.pt2")
    done = CliRunner().invoke(cli, ["verify", str(tmp_path / "open.pt2"), "--layers", "--json"])
    assert done.exit_code == 0, done.output
    (output,) = json.loads(done.output)["layers"][-1:]
    assert output["elements"] == 2 * 3 * 100  # cases 1 and 4 of four are the largest
