"""PyTorch modules become graphs that compute what PyTorch computes."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (edgec[torch])")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import edgec  # noqa: E402
from edgec.errors import ImportFailed  # noqa: E402
from edgec.frontends.torch_export import exported, import_program, import_torch  # noqa: E402
from edgec.graph.interpret import Interpretation  # noqa: E402
from edgec.graph.verify import verify_function  # noqa: E402
from edgec.oracle.frameworks import open_oracle  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore:LSTM with projections"
)


class Calls(nn.Module):
    """A function of a tensor with modules as its weights."""

    def __init__(self, function: Callable[..., Any], *modules: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.layers = nn.ModuleList(modules)

    def forward(self, *inputs: Any) -> Any:
        return self.function(self.layers, *inputs)


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, (4, 2), 2, (2, 1)), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 8, 3, 1, 1, groups=8, bias=False), nn.BatchNorm2d(8), nn.ReLU6(),
        nn.Conv2d(8, 12, 1), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(12, 5), nn.Softmax(-1),
    )  # fmt: skip


def all_of_lstm(modules: nn.ModuleList, x: Any, hidden: Any, cell: Any) -> Any:
    """The outputs and the last states as one vector."""
    y, last = modules[0](x, (hidden, cell))
    return torch.cat([value.flatten() for value in (y, *last)])


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[tuple[int, ...], ...]]] = {
    "convolutions": (convolutions, ((1, 1, 12, 8),)),
    "one dimension": (
        lambda: nn.Sequential(nn.Conv1d(4, 6, 3, dilation=2, padding=2), nn.SiLU()), ((1, 4, 9),)
    ),
    "transposed": (
        lambda: nn.Sequential(nn.ConvTranspose2d(4, 3, 3, 2, 1, output_padding=1), nn.PReLU(3)),
        ((1, 4, 5, 5),),
    ),
    "pools": (
        lambda: Calls(lambda _, x: functional.max_pool2d(functional.avg_pool2d(x, 2), 2, 1)),
        ((1, 3, 8, 8),),
    ),
    "lstm": (
        lambda: Calls(lambda m, x: m[0](x)[0], nn.LSTM(5, 7, 2, batch_first=True)), ((1, 6, 5),)
    ),
    "lstm with a projection": (
        lambda: Calls(all_of_lstm, nn.LSTM(5, 7, proj_size=3, bias=False)),
        ((6, 1, 5), (1, 1, 3), (1, 1, 7)),
    ),
    "lstms with projections": (
        lambda: Calls(
            all_of_lstm, nn.LSTM(5, 7, 2, bidirectional=True, batch_first=True, proj_size=3)
        ),
        ((2, 6, 5), (4, 2, 3), (4, 2, 7)),
    ),
    "gru": (lambda: Calls(lambda m, x: m[0](x)[0], nn.GRU(3, 4)), ((5, 1, 3),)),
    "encoder": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu"),
        ((1, 5, 8),),
    ),
    "causal attention": (
        lambda: Calls(
            lambda _, x: functional.scaled_dot_product_attention(x, x, x, is_causal=True)
        ),
        ((2, 3, 5, 4),),
    ),
    "normalizations": (
        lambda: nn.Sequential(nn.GroupNorm(2, 8), nn.LayerNorm([8, 4, 4])), ((1, 8, 4, 4),)
    ),
    "statistics that a normalization returns": (
        lambda: Calls(
            lambda _, x: torch.cat(torch.native_layer_norm(x, (4,), None, None, 1e-5), -1)
        ),
        ((3, 4),),
    ),
    "upsampling": (
        lambda: Calls(
            lambda _, x: torch.cat(
                [functional.interpolate(x, scale_factor=2.0),
                 functional.interpolate(x, size=(8, 8), mode="bilinear")], 1
            )
        ),
        ((1, 3, 4, 4),),
    ),
    "statistics": (
        lambda: Calls(lambda _, x: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)),
        ((2, 8),),
    ),
    "parts": (
        lambda: Calls(lambda _, x: torch.stack([x[:, ::2], x[:, 1::2].flip(-1)], 1).sum((0, 2))),
        ((2, 8),),
    ),
    "padding": (
        lambda: Calls(lambda _, x: functional.pad(x, (1, -1, 2, 0), value=1.5)), ((1, 2, 5, 5),)
    ),
    "einsum": (
        lambda: Calls(lambda _, x, y: torch.einsum("bij,bjk->bki", x, y)), ((2, 3, 4), (2, 4, 5))
    ),
    "arithmetic": (
        lambda: Calls(lambda _, x: torch.rsqrt(x * x + 1) - x.abs().clamp(0.1) / 3 + (1 - x) ** 2),
        ((2, 8),),
    ),
    "chosen elements": (
        lambda: Calls(
            lambda _, x: torch.cat(
                [part.reshape(-1) for part in (
                    torch.as_strided(x, (2, 3), (4, 2), 1), torch.diagonal(x, 1), x.unfold(1, 3, 2),
                    x.roll(1, 0), x[:, [3, 0, 0]], x[[0, 2], [1, 1]],
                    torch.slice_scatter(x, x[:1], 0, 1, 2), torch.select_scatter(x, x[0], 0, 2),
                    x.gather(1, torch.tensor([[0, 2], [1, 1]])),
                    x.scatter(1, torch.tensor([[0, 2], [1, 1]]), x + 1),
                    x.index_put((torch.tensor([1, 1]),), x[:2], accumulate=True),
                )]
            )
        ),
        ((4, 5),),
    ),
    "windows": (
        lambda: Calls(
            lambda _, x: torch.cat(
                [part.reshape(-1) for part in (
                    functional.max_pool3d(x, 2, 1, 1), functional.adaptive_max_pool3d(x, (2, 3, 2)),
                    functional.avg_pool3d(x, 2, 2, 1, ceil_mode=True, count_include_pad=False),
                    functional.adaptive_avg_pool2d(x[0], (3, 2)),
                    functional.avg_pool2d(x[0], 2, divisor_override=3),
                    functional.fold(x[:, 0, :, :, 0], (4, 4), 2, dilation=1, stride=2)
                )]
            )
        ),
        ((2, 3, 4, 4, 5),),
    ),
    "angles and distances": (
        lambda: Calls(
            lambda _, x, y: torch.atan2(x, y[:3]).sum() + torch.cdist(x, y) * torch.cdist(x, y, 1.0)
        ),
        ((3, 4), (5, 4)),
    ),
    "pixel shuffle": (lambda: nn.PixelShuffle(2), ((1, 8, 3, 3),)),
}  # fmt: skip


def inputs_of(shapes: tuple[tuple[int, ...], ...]) -> tuple[Any, ...]:
    generator = torch.Generator().manual_seed(1)
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


@pytest.mark.parametrize("name", CASES)
def test_the_graph_computes_what_torch_does(name: str) -> None:
    make, shapes = CASES[name]
    torch.manual_seed(2)
    module, inputs = make().eval(), inputs_of(shapes)
    function = import_program(exported(module, inputs)).main
    verify_function(function)
    with torch.no_grad():
        expected = module(*inputs).numpy()
    (answer,) = Interpretation(function).run([value.numpy() for value in inputs])
    assert answer.dtype == expected.dtype
    np.testing.assert_allclose(answer, expected, rtol=1e-5, atol=2e-6)


class Remembers(nn.Module):
    """A model whose buffer is an average of what it saw."""

    mean: Any

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(6, 4), nn.Tanh())
        self.register_buffer("mean", torch.full((1, 4), 0.25))

    def forward(self, x: Any) -> Any:
        y = self.block(x)
        self.mean.copy_(0.5 * self.mean + 0.5 * y)
        return y - self.mean


def test_changed_buffers_are_state_and_layers_keep_their_names(tmp_path: Path) -> None:
    torch.manual_seed(3)
    module, (x,) = Remembers().eval(), inputs_of(((1, 6),))
    program = exported(module, (x,))
    path = tmp_path / "remembers.pt2"
    torch.export.save(program, path)
    function = import_torch(path).main
    assert [state.before.name for state in function.states] == ["mean"]
    assert "block.0" in {node.name for node in function.nodes}
    running, oracle = Interpretation(function), open_oracle(path)
    for _ in range(3):
        with torch.no_grad():
            expected = module(x).numpy()
        np.testing.assert_allclose(running.run([x.numpy()])[0], expected, rtol=1e-5, atol=1e-6)
        (told,) = oracle.run([x.numpy()]).outputs
        np.testing.assert_allclose(told, expected, rtol=1e-6)


def test_from_torch_builds_and_runs() -> None:
    torch.manual_seed(4)
    module, (x,) = convolutions().eval(), inputs_of(((1, 1, 12, 8),))
    with edgec.from_torch(module, (x,)).build(board="host") as model:
        answer = model.run(x.numpy())
    with torch.no_grad():
        np.testing.assert_allclose(answer, module(x).numpy(), rtol=1e-5, atol=1e-6)


def test_from_torch_quantizes_and_builds_for_a_board() -> None:
    torch.manual_seed(5)
    module = convolutions().eval()
    samples = [inputs_of(((1, 1, 12, 8),)) for _ in range(4)]
    imported = edgec.from_torch(module, samples[0]).quantize(samples)
    types = {value.type.dtype for node in imported.module.main.nodes for value in node.outputs}
    assert "int8" in types
    with imported.build(board="mps2_an386", engine="core") as model:
        answer = model.run(samples[0][0].numpy())
    with torch.no_grad():
        np.testing.assert_allclose(answer, module(*samples[0]).numpy(), atol=0.05)


def test_everything_unsupported_is_named_with_its_module_and_line() -> None:
    module = Calls(lambda m, x: m[0](torch.digamma(x)).lgamma(), nn.Linear(3, 3)).eval()
    with pytest.raises(ImportFailed) as caught:
        edgec.from_torch(module, (torch.ones(1, 3),))
    text = caught.value.render()
    assert "2 operators" in text and "aten.digamma.default" in text and "aten.lgamma" in text
    assert "test_torch_export.py" in text


def test_a_program_of_open_sizes_is_no_program_of_numbers() -> None:
    batch = torch.export.Dim("batch", min=2, max=8)
    program = exported(nn.Linear(3, 2), (torch.ones(4, 3),), dynamic_shapes=({0: batch},))
    with pytest.raises(ImportFailed, match="is open"):
        import_program(program)


def test_an_error_of_torch_is_no_traceback() -> None:
    class Broken:
        def named_buffers(self) -> Any:
            return ()

        def run_decompositions(self, table: Any) -> Any:
            raise AssertionError("cannot proxy this\n\nand more")

    with pytest.raises(ImportFailed, match="cannot decompose") as caught:
        import_program(Broken())
    assert caught.value.details == ("cannot proxy this", "and more")


class Places(nn.Module):
    """Reads and writes at indices that are inputs, along axes in the middle and at the end."""

    def forward(self, x: Any, places: Any, rows: Any) -> tuple[Any, ...]:
        copied, raised = x.clone(), x.clone()
        copied.index_copy_(1, places, rows)
        raised[:, :, places] += 1
        best = x[0, :, 0].argmax()
        return copied, raised, x.index_add(1, places, rows), x[0][best], x[:, best]


def test_indices_that_data_decide() -> None:
    torch.manual_seed(3)
    inputs = torch.randn(2, 5, 4), torch.tensor([3, 0, 2]), torch.randn(2, 3, 4)
    main = edgec.from_torch(Places(), inputs).module.main
    found = Interpretation(main).run([x.numpy() for x in inputs])
    for mine, theirs in zip(found, Places()(*inputs), strict=True):
        np.testing.assert_allclose(mine, theirs.numpy(), atol=1e-6)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
@pytest.mark.parametrize("factor", [1.7, 0.6, 2.0])
def test_images_are_resized_by_the_factor_itself(factor: float, mode: str) -> None:
    """Not by what the sizes say: 5 pixels times 1.7 are 8, but places are 1 / 1.7 apart."""
    torch.manual_seed(4)
    x = torch.randn(1, 2, 5, 7)
    module = Calls(lambda m, x: functional.interpolate(x, scale_factor=factor, mode=mode))
    main = edgec.from_torch(module, (x,)).module.main
    found = Interpretation(main).run([x.numpy()])[0]
    np.testing.assert_allclose(found, module(x).numpy(), atol=2e-6)


def test_sizes_that_no_storage_has_are_one_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """torch logs a traceback of its own, and raises that it did."""
    program = torch.export.export(nn.Linear(4, 3), (torch.zeros(1, 4),))
    torch.export.save(program, tmp_path / "m.pt2")
    with (
        zipfile.ZipFile(tmp_path / "m.pt2") as whole,
        zipfile.ZipFile(tmp_path / "huge.pt2", "w") as huge,
    ):
        for name in whole.namelist():
            content = whole.read(name)
            if name.endswith("weights_config.json"):
                content = content.replace(b'"as_int": 4', b'"as_int": 1099511627776')
            huge.writestr(name, content)
    with pytest.raises(ImportFailed, match=r"cannot read huge\.pt2") as found:
        import_torch(tmp_path / "huge.pt2")
    assert "out of bounds" in found.value.details[0]
    assert all(record.name != "torch.export" for record in caplog.records)
