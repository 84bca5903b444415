"""Modules that few write: what they take and return, what they write to, floats of 16 bits."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (edgec[torch])")

from torch import nn  # noqa: E402
from torch.export import Dim  # noqa: E402
from torch.nn.utils import prune  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

import edgec  # noqa: E402
from edgec.errors import ImportFailed  # noqa: E402
from edgec.frontends import aten  # noqa: E402
from edgec.frontends.torch_export import exported, import_torch  # noqa: E402
from edgec.frontends.torch_program import numpy_of  # noqa: E402
from edgec.graph.extents import function_at, symbols_of  # noqa: E402
from edgec.graph.interpret import Interpretation  # noqa: E402
from edgec.oracle.frameworks import open_oracle  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


class Calls(nn.Module):
    """A function of inputs, with a buffer and a layer of its own."""

    def __init__(self, function: Callable[..., Any], dtype: Any = torch.float32) -> None:
        super().__init__()
        self.function = function
        self.layer = nn.Linear(4, 2).to(dtype)
        self.seen: Any
        self.register_buffer("seen", torch.zeros(3, 4))
        self.plain = torch.zeros(3, 4)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        return self.function(self, *inputs, **named)


@dataclass
class Pair:
    first: Any
    second: Any


torch.export.register_dataclass(Pair)


def written_twice(module: Any, x: Any) -> Any:
    """A buffer that is added to, scaled and written to in part."""
    module.seen.add_(x)
    before = module.seen * 2
    module.seen.mul_(0.5)
    module.seen[1:].copy_(module.seen[:-1].clone())
    module.seen[0, 1] = x[0, 0]
    return before, module.seen


def attention(module: Any, x: Any, y: Any, count: Any) -> Any:
    """By a mask that is computed, one with a row that sees nothing, and heads that share keys."""
    call = torch.nn.functional.scaled_dot_product_attention
    heads, some = x[None, None, :, :2].expand(1, 4, 3, 2) * y[:, None, None], x[None, None, :, 2:]
    seen, nothing = torch.arange(3) < count, torch.ones(3, 3, dtype=torch.bool)
    nothing[1] = False
    return (
        call(heads, heads, heads, attn_mask=seen[None]), call(heads, heads, heads, nothing),
        call(heads, some.expand(1, 2, 3, 2), heads[:, :2], enable_gqa=True, scale=0.3),
    )  # fmt: skip


def x(dtype: Any = torch.float32) -> Any:
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(1)).to(dtype)


#: The function and the module's inputs.
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "views, an input and results twice": (
        lambda m, x: (x.t(), x.view(4, 3), x, x[1:], x, torch.relu(x)), (x(),)
    ),
    "constants and numbers": (lambda m, x, k, n: (x * k, n, None, m.seen, 3), (x(), 2.5, None)),
    "dicts": (lambda m, d: {"a": d["p"] + d["q"][0]}, ({"p": x(), "q": (x(), x())},)),
    "a dataclass": (lambda m, p: Pair(p.first + p.second, p.first), (Pair(x(), x()),)),
    "a buffer written to again and again": (written_twice, (x(),)),
    "memory of a matrix that is transposed": (
        lambda m, x: (x.as_strided((2, 3), (1, 2)), x[1:].as_strided((2,), (1,)),
                      x.t().clone().as_strided((2, 2), (3, 1), 1)), (x().t(),)
    ),
    "attention": (attention, (x(), torch.arange(1.0, 5), torch.tensor(2))),
    "attention that sees nothing": (attention, (x(), torch.arange(1.0, 5), torch.tensor(0))),
    "leaky lines": (lambda m, x: (nn.RReLU().eval()(x), nn.RReLU(0.5, 0.7).eval()(x)), (x(),)),
    "no elements": (lambda m, x: (torch.cat([x, m.seen]), x * 2, x.sum()), (torch.zeros(0, 4),)),
    "bits of integers": (
        lambda m, x: ((x * 100).int() >> 3, (x * 9).to(torch.int8) << 4, x.byte() >> 1),
        (x().abs(),)
    ),
    "floats in pieces": (
        lambda m, x: (x.double().exp(), (x > 0).any(), x.to(torch.bfloat16).float()), (x(),)
    ),
}  # fmt: skip


def require_same(main: Any, module: Any, given: tuple[Any, ...], **named: Any) -> None:
    running, arrays = Interpretation(main), list(map(numpy_of, _tensors((given, named))))
    for _ in range(3):
        with torch.no_grad():
            wanted = _tensors(module(*copy.deepcopy(given), **named))
        for mine, theirs in zip(running.run(arrays), map(numpy_of, wanted), strict=True):
            assert mine.dtype == theirs.dtype
            loose = mine.dtype.itemsize == 2
            wide = mine.astype(np.float64), theirs.astype(np.float64)
            np.testing.assert_allclose(*wide, rtol=1e-2 if loose else 1e-5, atol=1e-6)


def _tensors(value: Any) -> list[Any]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


@pytest.mark.parametrize("name", CASES)
def test_it_computes_what_torch_does(name: str) -> None:
    function, given = CASES[name]
    torch.manual_seed(2)
    module = Calls(function).eval()
    main = edgec.from_torch(copy.deepcopy(module), given).module.main
    require_same(main, module, given)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_floats_of_16_bits_are_rounded_once_for_each_operator(dtype: Any) -> None:
    torch.manual_seed(2)
    module = Calls(lambda m, x: (m.layer(x), x.softmax(-1), x.sum(), x.max(0)), dtype).eval()
    main = edgec.from_torch(module, (x(dtype),)).module.main
    require_same(main, module, (x(dtype),))


def test_a_fault_of_an_importer_is_not_hidden_by_floats_of_32_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def relu(call: Any, x: Any) -> Any:
        return {"float32": x}[x.type.dtype]

    monkeypatch.setitem(aten._TABLE, "aten.relu.default", relu)
    module = Calls(lambda m, x: x.relu(), torch.float16).eval()
    with pytest.raises(ImportFailed, match="is not supported") as found:
        edgec.from_torch(module, (x(torch.float16),))
    assert "its importer failed (KeyError: 'float16')" in found.value.details[0]


def test_keywords_and_nested_inputs_of_open_sizes() -> None:
    module = Calls(lambda m, pair, *, scale: (pair[0] @ pair[1]) * scale).eval()
    named, batch = {"scale": torch.ones(1) * 3}, Dim("batch", min=1, max=5)
    given = ((x(), x().t()),)
    require_same(edgec.from_torch(module, given, kwargs=named).module.main, module, given, **named)
    sizes = {"inputs": (((batch, None), (None, None)),), "named": {"scale": None}}
    main = edgec.from_torch(module, given, kwargs=named, dynamic_shapes=sizes).module.main
    (var,) = symbols_of(value.type for value in main.params)
    assert (var.name, var.stop) == ("batch", 6)
    given = ((torch.cat([x(), x()])[:5], x().t()),)
    require_same(function_at(main, {var: 5}), module, given, **named)


def test_numbers_and_nothing_in_a_saved_program(tmp_path: Path) -> None:
    module = Calls(lambda m, x, k, n: (x * k, None)).eval()
    torch.export.save(exported(module, (x(), 2.5, None)), tmp_path / "numbers.pt2")
    main, oracle = (
        import_torch(tmp_path / "numbers.pt2").main,
        open_oracle(tmp_path / "numbers.pt2"),
    )
    arrays = [x().numpy()]
    for mine, theirs in zip(
        Interpretation(main).run(arrays), oracle.run(arrays).outputs, strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)


def two_of(rows: Any) -> Any:
    """Of as many as data decide, which are two at least."""
    torch._check(rows.shape[0] >= 2)
    return rows, rows.topk(2).values, rows.topk(1, largest=False).values


@pytest.mark.parametrize(
    "function",
    [
        lambda m, x: (x.nonzero(), (x > 0).nonzero(as_tuple=True), x.nonzero().shape[0]),
        lambda m, x: (x[x > 0] * 2, x[x[:, 0] > 0].relu(), x[:, m.seen[0] + x[0] > 0]),
        lambda m, x: (torch.masked_select(x, x[0] > 0), x[x > 0].reshape(-1, 1), x.sum()),
        lambda m, x: x.round().unique(return_inverse=True, return_counts=True),
        lambda m, x: (x[x > 0], x[x > 0].sum(), x[x > 0].mean(), x[x[:, 0] > 0].sum(0), x.var()),
        lambda m, x: (x[x[:, 0] > 0][:, x[0] > -9].sum(1), *x[x[:, 0] > 0].sort(0)),
        lambda m, x: two_of(x[x > -9]),
        lambda m, x: (x[x[:, 0] > 0] @ x.t(), x[x[:, 0] > 0].softmax(0), x[x > -9].argmax()),
    ],
)
def test_results_as_long_as_data_decide(function: Callable[..., Any]) -> None:
    """Planned for the most that there can be; each run says how much of it is in use."""
    module = Calls(function).eval()
    with edgec.from_torch(module, (x(),)).build() as model:
        assert model.compiled.module.main.counts
        for given in (x(), x() * 0, x().abs(), -x()):
            wanted = [tensor.numpy() for tensor in _tensors(module(given))]
            answers = model.run(given.numpy())
            for mine, its in zip(answers if len(wanted) > 1 else [answers], wanted, strict=True):
                assert mine.dtype == its.dtype
                np.testing.assert_allclose(mine, its, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda m, x: torch.cumsum(x[x > 0].flip(0), 0), "depends on the data"),
        (
            lambda m, x: torch.ones(x.nonzero().shape[0]),
            "depends on a size that is known only at run time",
        ),
        (lambda m, x: x.nonzero().shape[0] * x, "a size that is known only at run time"),
        (lambda m, x: torch.cat([x[x > 0], x[x < 0]]), "dimension 0 of a result is open"),
        (lambda m, x: x[x > 0] + x[x < 0], "two sizes that depend on data"),
    ],
)
def test_what_needs_to_know_the_length_is_refused(
    function: Callable[..., Any], message: str
) -> None:
    with pytest.raises(ImportFailed) as caught:
        edgec.from_torch(Calls(function), (x(),))
    assert message in caught.value.render()


BAGS = torch.tensor([2, 7, 1, 0, 9])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("starts", [[0, 2], [0, 2, 2, 3]])
def test_bags_of_rows(mode: str, starts: list[int]) -> None:
    bags = nn.EmbeddingBag(10, 4, mode=mode)
    module = Calls(lambda m, i: bags(i, m.starts)).eval()
    module.bags = bags
    module.register_buffer("starts", torch.tensor(starts))
    require_same(edgec.from_torch(module, (BAGS,)).module.main, module, (BAGS,))


def test_a_bilinear_layer_and_bags_of_one_length() -> None:
    torch.manual_seed(2)
    layer, other = nn.Bilinear(4, 4, 3), x().flip(0)
    require_same(edgec.from_torch(layer, (x(), other)).module.main, layer, (x(), other))
    module = nn.EmbeddingBag(10, 4, mode="max")
    require_same(edgec.from_torch(module, (BAGS[None],)).module.main, module, (BAGS[None],))


def assigns(module: Any, x: Any) -> Any:
    module.plain = module.plain + x
    return module.plain


@pytest.mark.filterwarnings("ignore")
def test_weights_that_pruning_and_norms_make() -> None:
    torch.manual_seed(2)
    module = nn.Sequential(nn.Linear(4, 3), nn.utils.weight_norm(nn.Linear(3, 2)))
    prune.l1_unstructured(module[0], "weight", 0.5)
    require_same(edgec.from_torch(module, (x(),)).module.main, module, (x(),))


def test_a_tensor_that_is_given_twice_is_two_inputs() -> None:
    torch.manual_seed(2)
    module = nn.MultiheadAttention(4, 2).eval()
    main = edgec.from_torch(module, (x(),) * 3).module.main
    require_same(main, module, (x(), 2 * x(), x() - 1))


def test_a_module_is_left_in_the_modes_that_it_had() -> None:
    module = nn.Sequential(nn.Linear(4, 2), nn.Dropout(), nn.BatchNorm1d(2))
    module[2].eval()
    module.graph = "of roads"
    main = edgec.from_torch(module, (x(),)).module.main
    assert [each.training for each in module] == [True, True, False]
    require_same(main, module.eval(), (x(),))
    with pytest.raises(ImportFailed, match="cannot export function"):
        edgec.from_torch(written_twice, (x(),))


def test_buffers_that_share_memory_and_change_are_named() -> None:
    module = Calls(lambda m, x: (m.seen.add_(x) * 1, m.part * 2))
    module.register_buffer("part", module.seen[1])
    with pytest.raises(ImportFailed, match="buffers that share memory: seen, part"):
        edgec.from_torch(module, (x(),))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda m, x: x.add_(1) * 2, "writes to its input or parameter"),
        (lambda m, x: x[0].zero_() + 1, "writes to its input or parameter"),
        (lambda m, x: [m.seen.copy_(x)][1:], "returns no tensor"),
        (assigns, "assigns tensors that are not buffers"),
        (lambda m, x: x.t().as_strided((2, 9), (9, 1)), "reaches outside"),
        (lambda m, x: x + torch.rand_like(x), "edgec compiles no random numbers"),
        (lambda m, x: torch.nn.functional.rrelu(x, training=True), "its slopes are random"),
    ],
)  # fmt: skip
def test_what_has_no_meaning_in_c_is_refused(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(ImportFailed) as caught:
        edgec.from_torch(Calls(function), (x(),))
    assert message in caught.value.render()


def test_arithmetic_of_sizes_is_not_named_where_the_operator_before_it_is() -> None:
    with pytest.raises(ImportFailed) as caught:
        edgec.from_torch(Calls(lambda m, x: x[x > 0].lgamma()), (x(),))
    text = caught.value.render()
    assert "aten.lgamma" in text and "sym_size" not in text and "ge  node" not in text
