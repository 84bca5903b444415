"""Models that torchao quantized (PT2E) run in integers: the bits of torch's own QDQ arithmetic."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (edgec[torch])")
pytestmark = pytest.mark.skipif(find_spec("torchao") is None, reason="torchao is not installed")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch_models import made, samples_of  # noqa: E402

import edgec  # noqa: E402
from edgec.graph.interpret import interpret  # noqa: E402
from edgec.loop.ir import Call  # noqa: E402
from edgec.loop.rewrite import walk  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
#: Most elements whose step torch's floats round to the next one: a bias is a float there and an
#: integer here. Of features after four layers, and of networks' few outputs after many: one of
#: MobileNetV2's 32 last features that is the next step moves half of its ten outputs.
ROUNDED, ROUNDED_AT_LAST = 0.03, 0.25


class Cnn(nn.Module):
    """Convolutions plain, by channel and by 1x1, a sum, a maximum over windows, a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.depthwise = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 1, 1, groups=8)
        self.point, self.head = nn.Conv2d(8, 8, 1), nn.Linear(8 * 4 * 4, 5)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.first(x))
        y = self.point(torch.relu(self.depthwise(x)))
        features = functional.max_pool2d(x + y, 2)
        return features, self.head(features.flatten(1))


def quantized(module: nn.Module, samples: list[Any], *, per_channel: bool) -> nn.Module:
    """What torchao makes of a module with the quantizer that its own tests use."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.testing.pt2e import _xnnpack_quantizer as quantizers

    config = quantizers.get_symmetric_quantization_config(is_per_channel=per_channel)
    graph = torch.export.export(module, (samples[0],)).module()
    prepared = prepare_pt2e(graph, quantizers.XNNPACKQuantizer().set_global(config))
    for x in samples:
        prepared(x)
    made: nn.Module = convert_pt2e(prepared)
    return made


@cache
def cnn() -> tuple[nn.Module, list[Any]]:
    torch.manual_seed(5)
    return Cnn().eval(), [torch.randn(1, 3, 16, 16) for _ in range(8)]


def steps_apart(module: nn.Module, model: Any, samples: list[Any]) -> list[np.ndarray]:
    """Of each output by how many of its steps C and torch differ; C has the reference's bits."""
    main = model.compiled.module.main
    makers = {value: node for node in main.nodes for value in node.outputs}
    scales = [makers[value].inputs[0].type.quant.scale[0] for value in main.outputs]
    found: list[list[np.ndarray]] = [[] for _ in scales]
    for x in samples:
        answers = model.run_all([x.numpy()]).outputs
        for answer, bits in zip(answers, interpret(main, [x.numpy()]), strict=True):
            np.testing.assert_array_equal(answer, bits)
        with torch.no_grad():
            wanted = module(x)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for at, (answer, theirs) in enumerate(zip(answers, wanted, strict=True)):
            found[at].append(np.abs(answer - theirs.numpy()).reshape(-1) / scales[at])
    return [np.concatenate(each) for each in found]


@pytest.mark.parametrize("per_channel", [True, False])
def test_integers_are_those_of_torchao(per_channel: bool) -> None:
    module, samples = cnn()
    converted = quantized(module, samples, per_channel=per_channel)
    program = torch.export.export(converted, (samples[0],))
    with edgec.from_torch(program).build(board="stm32", engine="core", optimize="time") as m:
        features, outputs = steps_apart(converted, m, samples[:4])
        assert max(features.max(), outputs.max()) < 1.01
        assert (features > 0.01).mean() <= ROUNDED
        nodes = m.compiled.module.main.nodes
        floats = [n.op.name for n in nodes if any(v.type.is_float for v in n.outputs)]
        assert floats == ["transpose", "dequantize", "dequantize"]  # at the ends alone
        (kernel, *_) = (n.inputs[1] for n in nodes if n.op.products is not None)
        assert len(kernel.type.quant.scale) == (8 if per_channel else 1)
        called = {s.callee for v in m.compiled.chosen for s, _ in walk(v.function.body)
                  if isinstance(s, Call)}  # fmt: skip
    assert any(name.startswith("ec_matrix") for name in called), called


class Mean(nn.Module):
    """Means of stored integers, of scales that floats have exactly: every fourth one is a tie."""

    def forward(self, x: Any) -> Any:
        ops = torch.ops.quantized_decomposed
        for scale, mean in ((0.5, False), (0.5, True)):
            x = x.mean((2, 3), keepdim=True) if mean else x
            stored = ops.quantize_per_tensor(x, scale, -3, -128, 127, torch.int8)
            x = ops.dequantize_per_tensor(stored, scale, -3, -128, 127, torch.int8)
        return x


@pytest.mark.parametrize("board", ["host", pytest.param("stm32", marks=pytest.mark.full)])
def test_means_that_are_ties_are_rounded_to_even(board: str) -> None:
    x = torch.randn(1, 16, 2, 2, generator=torch.Generator().manual_seed(3)) * 20
    engine = "core" if board == "stm32" else None
    with edgec.from_torch(Mean(), (x,)).build(board=board, engine=engine) as model:
        (node,) = (n for n in model.compiled.module.main.nodes if n.op.name == "reduce")
        assert node.attrs.rounding == "onnx" and node.output.type.dtype == "int8"
        np.testing.assert_array_equal(model.run(x.numpy()), Mean()(x).numpy())


@pytest.mark.full
def test_a_saved_program_has_the_same_bits(tmp_path: Path) -> None:
    module, samples = cnn()
    converted = quantized(module, samples, per_channel=True)
    program = torch.export.export(converted, (samples[0],))
    torch.export.save(program, tmp_path / "cnn.pt2")
    with edgec.compile(tmp_path / "cnn.pt2") as loaded, edgec.from_torch(program).build() as model:
        for x in samples[:3]:
            for mine, its in zip(loaded.run(x.numpy()), model.run(x.numpy()), strict=True):
                np.testing.assert_array_equal(mine, its)


@pytest.mark.full
@pytest.mark.parametrize("name", ["ds_cnn", "resnet8", "mobilenet_v2", "autoencoder", "tcn"])
def test_networks_of_torchao(name: str) -> None:
    samples = samples_of(name, 6)
    converted = quantized(made(name), samples, per_channel=True)
    program = torch.export.export(converted, (samples[0],))
    with edgec.from_torch(program).build() as model:
        (steps,) = steps_apart(converted, model, samples)
    assert steps.max() < 1.01
    assert (steps > 0.01).mean() <= ROUNDED_AT_LAST
