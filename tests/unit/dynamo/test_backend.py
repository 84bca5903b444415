"""`torch.compile(module, backend="edgec")` computes what PyTorch does, by C where it can."""

from __future__ import annotations

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (edgec[torch])")

from torch import nn  # noqa: E402

import edgec  # noqa: E402
from edgec.dynamo.backend import FallsBack, compile  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


def network() -> nn.Module:
    torch.manual_seed(7)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)
    ).eval()


def test_c_runs_and_new_weights_and_shapes_are_seen() -> None:
    module = network()
    compiled = torch.compile(module, backend=compile, dynamic=False)
    x = torch.randn(1, 1, 6, 6)
    with torch.no_grad():
        np.testing.assert_allclose(compiled(x), module(x), atol=1e-5)
        module[4].bias.add_(1)
        np.testing.assert_allclose(compiled(x), module(x), atol=1e-5)
        pair = torch.randn(2, 1, 6, 6)
        np.testing.assert_allclose(compiled(pair), module(pair), atol=1e-5)


class Counts(nn.Module):
    """A buffer that changes: its graph is PyTorch's."""

    total: Any

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        self.total.add_(x)
        return self.total * 2


def test_what_edgec_lacks_is_run_by_pytorch_with_a_note() -> None:
    module, x = Counts(), torch.ones(3)
    compiled = torch.compile(module, backend=compile)
    with torch.no_grad(), pytest.warns(FallsBack, match="PyTorch runs this part"):
        compiled(x)
        answer = compiled(x)
    np.testing.assert_array_equal(answer, [4, 4, 4])


def test_explain_says_which_parts_go_where() -> None:
    (part,) = edgec.explain(network(), (torch.randn(1, 1, 6, 6),))
    assert part.why == "" and part.operators
    (refused,) = edgec.explain(Counts(), (torch.ones(3),))
    assert refused.why


def test_torch_finds_it_by_its_entry_point(repo_root: Path) -> None:
    project = tomllib.loads((repo_root / "pyproject.toml").read_text("utf-8"))["project"]
    found = EntryPoint("edgec", project["entry-points"]["torch_dynamo_backends"]["edgec"], "")
    assert found.load() is compile
