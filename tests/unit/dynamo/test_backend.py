"""`torch.compile(module, backend="edgec")` computes what PyTorch does, by C where it can."""

from __future__ import annotations

import tomllib
import warnings
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (edgec[torch])")

from torch import nn  # noqa: E402

import edgec  # noqa: E402
from edgec.dynamo.backend import FallsBack, compile  # noqa: E402
from edgec.runners.host import HostModel  # noqa: E402

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


class Values(nn.Module):
    """What edgec has no operator for."""

    def forward(self, x: Any) -> Any:
        return torch.linalg.svdvals(x)


class Counts(nn.Module):
    """A buffer that changes."""

    total: Any

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        self.total.add_(x)
        return self.total * 2


def test_buffers_and_inputs_that_change() -> None:
    module, twin, x = Counts(), Counts(), torch.ones(3)
    compiled = torch.compile(module, backend=compile)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", FallsBack)
        for _ in range(3):
            np.testing.assert_array_equal(compiled(x), twin(x))
        np.testing.assert_array_equal(module.total, twin.total)

        def first_row(x: Any) -> Any:
            row = x[0].add_(1)
            return row, row * 2

        mine, theirs = torch.zeros(2, 3), torch.zeros(2, 3)
        answers, wanted = torch.compile(first_row, backend=compile)(mine), first_row(theirs)
        for a, b in zip((mine, *answers), (theirs, *wanted), strict=True):
            np.testing.assert_array_equal(a, b)
        answers[0].fill_(9)  # it is the first row
        np.testing.assert_array_equal(mine, [[9, 9, 9], [0, 0, 0]])


def test_what_edgec_lacks_is_run_by_pytorch_with_a_note() -> None:
    compiled = torch.compile(Values(), backend=compile)
    x = torch.eye(3)
    with torch.no_grad(), pytest.warns(FallsBack, match="PyTorch runs this part"):
        np.testing.assert_array_equal(compiled(x), [1, 1, 1])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.sin(x) + (x.sum().item() > 0),
        lambda x: torch.zeros(int(x.abs().sum())) + 1,
        lambda x: torch.masked_select(x, x > 0) * 2,
        lambda x: x[x > 0] * torch.nonzero(x > 0)[:, 0],
        lambda x: torch.unique(x.round()) + 1,
    ],
)
def test_what_data_decide_is_run_by_pytorch(function: Any) -> None:
    traced = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
    torch.compiler.reset()
    compiled = torch.compile(function, backend=compile, dynamic=False)
    with (
        torch._dynamo.config.patch(traced),
        torch.no_grad(),
        warnings.catch_warnings(record=True) as told,
    ):
        warnings.simplefilter("always")
        for x in (torch.arange(12.0).reshape(3, 4) - 5, torch.ones(3, 4)):
            np.testing.assert_array_equal(compiled(x), function(x))
    assert any("depend on the data" in str(each.message) for each in told)


def test_statistics_of_a_layer_in_training_change_as_in_eager() -> None:
    layer, wanted = nn.BatchNorm1d(3).train(), nn.BatchNorm1d(3).train()
    x = torch.arange(12.0).reshape(4, 3)
    with torch.no_grad(), pytest.warns(FallsBack, match="a layer changes its statistics"):
        found = torch.compile(layer, backend=compile)(x)
    torch.testing.assert_close(found, wanted(x))
    assert wanted.running_mean is not None
    torch.testing.assert_close(layer.running_mean, wanted.running_mean)


def test_explain_says_which_parts_go_where() -> None:
    (part,) = edgec.explain(network(), (torch.randn(1, 1, 6, 6),))
    assert part.why == "" and part.operators
    (refused,) = edgec.explain(Values(), (torch.eye(3),))
    assert refused.why


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.GRU(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.head(self.layer(x)[0])


def test_recurrent_layers_are_part_of_the_graph() -> None:
    """Without edgec, torch leaves them out of graphs and calls its own."""
    module, x = Recurrent().eval(), torch.randn(1, 5, 3)
    (part,) = edgec.explain(module, (x,))
    assert not part.why and len(part.operators) > 2
    with torch.no_grad():
        compiled = torch.compile(module, backend=compile)
        np.testing.assert_allclose(compiled(x), module(x), atol=1e-6)


def test_torch_finds_it_by_its_entry_point(repo_root: Path) -> None:
    project = tomllib.loads((repo_root / "pyproject.toml").read_text("utf-8"))["project"]
    found = EntryPoint("edgec", project["entry-points"]["torch_dynamo_backends"]["edgec"], "")
    assert found.load() is compile


class Halves(nn.Module):
    """A view of the input, the input itself, something new, and a view of that."""

    def forward(self, x: Any) -> Any:
        new = torch.relu(x) + 1
        return x[:, 1:].t(), x, new, new[1]


def test_outputs_that_are_views_stay_views() -> None:
    compiled = torch.compile(Halves(), backend=compile, dynamic=False)
    base = torch.randn(5, 4)
    for x in (torch.randn(3, 4), base[1:4]):  # the same shape, and an offset in its memory
        eager, mine = x.clone(), x
        with torch.no_grad():
            theirs, answers = Halves()(eager), compiled(mine)
            for a, b in zip(theirs, answers, strict=True):
                np.testing.assert_allclose(a, b, atol=1e-6)
                assert a.shape == b.shape and a.stride() == b.stride()
            for outputs in (theirs, answers):  # who writes to one sees it in the other
                outputs[0].fill_(7)
                outputs[3].fill_(8)
        for a, b in zip((eager, *theirs), (mine, *answers), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)
        assert answers[0].untyped_storage().data_ptr() == mine.untyped_storage().data_ptr()


def test_tensors_are_read_and_written_where_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[list[int], list[int]]] = []
    run_at = HostModel.run_at

    def watched(self: HostModel, inputs: Any, outputs: Any) -> int:
        seen.append((list(inputs), list(outputs)))
        return run_at(self, inputs, outputs)

    monkeypatch.setattr(HostModel, "run_at", watched)
    compiled = torch.compile(lambda x, y: (x @ y).relu(), backend=compile, dynamic=False)
    x, y = torch.randn(3, 4), torch.randn(5, 4).t()
    with torch.no_grad():
        answer = compiled(x, y)
    np.testing.assert_allclose(answer, (x @ y).relu(), atol=1e-6)
    ((inputs, outputs),) = seen
    assert inputs[0] == x.data_ptr() and outputs == [answer.data_ptr()]
    assert inputs[1] != y.data_ptr()  # its columns lie where rows are wanted


def test_torch_guards_and_compiles_again() -> None:
    """Another branch and another dtype are other graphs; open sizes are one, compiled for each."""

    def branches(x: Any, twice: bool) -> Any:
        return torch.tanh(x) * 2 if twice else torch.tanh(x)

    torch.compiler.reset()
    compiled = torch.compile(branches, backend=compile)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", FallsBack)
        for rows, twice in ((2, True), (2, False), (3, True), (4, True), (2, True)):
            x = torch.randn(rows, 3)
            np.testing.assert_allclose(compiled(x, twice), branches(x, twice), atol=1e-6)
        y = torch.arange(6).reshape(2, 3) > 2
        np.testing.assert_array_equal(torch.compile(lambda b: ~b, backend=compile)(y), ~y)


def test_results_have_the_strides_of_eager() -> None:
    compiled = torch.compile(lambda x: x + 1, backend=compile, dynamic=False)
    x = torch.randn(3, 4).t()
    with torch.no_grad():
        assert compiled(x).stride() == (x + 1).stride()
        np.testing.assert_allclose(compiled(x), x + 1, atol=1e-6)
