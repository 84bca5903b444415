"""Samples of PyTorch's own operator tests (`op_db`), run through edgec and compared.

Each entry of `op_db` says how an operator is called: samples with inputs of all kinds. A sample is
exported, imported and interpreted, and compared with eager PyTorch. Tensors are inputs of the
model; where that is refused, only the first one is, and the others are constants, as weights,
indices and bounds are in models. Complex tensors go in and out as their parts.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from edgec.errors import EdgecError, ImportFailed
from edgec.frontends import torch_export
from edgec.frontends.aten import find_aten
from edgec.frontends.aten_complex import find_complex
from edgec.frontends.torch_export import exported
from edgec.frontends.torch_program import CHECKS
from edgec.graph.interpret import Interpretation

#: Samples of an entry and a dtype.
MOST_SAMPLES = 40
#: Operators that return memory as it is, whose results cannot be compared.
UNDEFINED = ("aten.empty.memory_format", "aten.empty_permuted.default",
             "aten.empty_strided.default")  # fmt: skip
#: Absolute tolerances of entries that torch computes less exactly than edgec, against its float64.
COARSE = {"_upsample_bilinear2d_aa": 3e-5}
PASS, WRONG, REFUSED, OUTSIDE = "pass", "wrong", "refused", "outside"


def op_db() -> list[Any]:
    """Every entry. It needs the package `expecttest`, which torch's own tests import."""
    with warnings.catch_warnings(action="ignore"):
        import torch._export.utils as exporting
        from torch.testing._internal.common_methods_invocations import op_db as entries

    # Found anew for each program, these take most of a small export's time.
    exporting._collect_all_valid_cia_ops = cache(exporting._collect_all_valid_cia_ops)
    return list(entries)


def name_of(entry: Any) -> str:
    """The entry's name and variant, such as `div.floor_rounding`."""
    return ".".join(filter(None, (entry.name, entry.variant_test_name)))


@dataclass(frozen=True)
class Verdict:
    """kind: PASS, WRONG, REFUSED, or OUTSIDE of what edgec imports. why: for the last three."""

    kind: str
    why: str = ""


class _Called(torch.nn.Module):
    """Samples as a module of their tensors: of all, or of the first of each, the others buffers."""

    def __init__(self, entry: Any, samples: list[Any], is_open: bool) -> None:
        super().__init__()
        self.function, self.calls, self.inputs = entry.op, [], []
        for number, sample in enumerate(samples):
            leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
            free, places = 0, []
            for position, leaf in enumerate(leaves):
                if not isinstance(leaf, torch.Tensor):
                    places.append(lambda given, leaf=leaf: leaf)
                elif is_open or not free:
                    free += 1
                    places.append(_taking(leaf, len(self.inputs)))
                    self.inputs.append(_as_real(leaf.detach()))
                else:
                    name = f"fixed{number}_{position}"
                    self.register_buffer(name, leaf.detach())
                    places.append(lambda given, name=name: getattr(self, name))
            self.calls.append((places, spec))

    def forward(self, *given: Any) -> Any:
        results = []
        for places, spec in self.calls:
            args, kwargs = pytree.tree_unflatten([place(given) for place in places], spec)
            results += map(_as_real, tensors_of(self.function(*args, **kwargs)))
        return tuple(results)


def _taking(tensor: torch.Tensor, at: int) -> Any:
    """What makes an operand of the inputs."""
    if tensor.is_complex():
        return lambda given: torch.view_as_complex(given[at])
    return lambda given: given[at]


def _as_real(tensor: torch.Tensor) -> torch.Tensor:
    """The parts of complex numbers along an axis more."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def tensors_of(result: Any) -> list[Any]:
    """The tensors of what an operator returns."""
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def dtypes_of(entry: Any) -> list[torch.dtype]:
    """float32; int32 and bool of operators that are for integers."""
    if entry.supports_dtype(torch.float32, "cpu"):
        return [torch.float32]
    return [d for d in (torch.int32, torch.bool) if entry.supports_dtype(d, "cpu")]


def verdict_of(entry: Any, most: int = MOST_SAMPLES) -> Verdict:
    """PASS if all samples do, else why the first does not.

    All samples are one program, as an export takes its time; where that does not pass, each is one.
    An entry whose first sample is OUTSIDE is so altogether; later ones are left out.
    """
    last = Verdict(OUTSIDE, "no samples")
    for dtype in dtypes_of(entry):
        torch.manual_seed(0)
        np.random.seed(0)
        with warnings.catch_warnings(action="ignore"):
            samples = list(itertools.islice(entry.sample_inputs("cpu", dtype), most))
        if not samples:
            continue
        last = samples_verdict(entry, samples, dtype)
        if last.kind != PASS:
            last = _first_that_does_not_pass(entry, samples, dtype)
        if last.kind != PASS:
            return last
    return last


def _first_that_does_not_pass(entry: Any, samples: list[Any], dtype: torch.dtype) -> Verdict:
    kept = Verdict(OUTSIDE)
    for number, sample in enumerate(samples):
        verdict = samples_verdict(entry, [sample], dtype)
        if verdict.kind in (WRONG, REFUSED) or (verdict.kind, number) == (OUTSIDE, 0):
            return Verdict(verdict.kind, f"sample {number}: {verdict.why}")
        kept = verdict if verdict.kind == PASS else kept
    return kept


def samples_verdict(entry: Any, samples: list[Any], dtype: torch.dtype) -> Verdict:
    """What becomes of samples as one program; their other tensors are constants if need be."""
    verdict = _verdict(entry, _Called(entry, samples, is_open=True), dtype)
    if verdict.kind == REFUSED:
        closed = _verdict(entry, _Called(entry, samples, is_open=False), dtype)
        return verdict if closed.kind == OUTSIDE else closed
    return verdict


def _verdict(entry: Any, module: _Called, dtype: torch.dtype) -> Verdict:
    inputs = module.inputs
    try:
        expected = module(*(x.clone() for x in inputs))
    except (RuntimeError, AssertionError) as error:  # some operators are for GPUs
        return Verdict(OUTSIDE, f"eager: {error}")
    if not expected:
        return Verdict(OUTSIDE, "it returns no tensor")
    try:
        program = exported(module, inputs)
    except ImportFailed as error:
        return Verdict(OUTSIDE, error.render())
    try:
        with warnings.catch_warnings(action="ignore"):
            decomposed = torch_export.decomposed(program)
    except ImportFailed as error:  # of sizes that depend on data, for example
        return Verdict(OUTSIDE, error.render())
    if any(not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided
           for leaf in (*inputs, *expected)):  # fmt: skip
        return Verdict(OUTSIDE, "sparse tensors")
    if any(tensor.dtype == torch.bfloat16 for tensor in expected):
        return Verdict(OUTSIDE, "bfloat16, which NumPy lacks")
    if _is_undefined(decomposed):
        return Verdict(OUTSIDE, "memory as it is")
    try:
        function = torch_export.import_decomposed(decomposed, "model.pt2").main
    except EdgecError as error:
        why = "; ".join(dict.fromkeys(map(_short, error.details))) or error.message
        outside = _outside(decomposed)
        return Verdict(OUTSIDE, outside) if outside else Verdict(REFUSED, why)
    try:
        answers = Interpretation(function).run([x.numpy() for x in inputs])
    except EdgecError as error:
        return Verdict(REFUSED, error.message)
    return compared(answers, expected, *tolerance(entry, dtype))


def compared(answers: Any, expected: list[Any], rtol: float, atol: float) -> Verdict:
    """PASS, or WRONG with what is."""
    if len(answers) != len(expected):
        return Verdict(WRONG, f"{len(answers)} results, not {len(expected)}")
    for answer, tensor in zip(answers, expected, strict=True):
        wanted = tensor.resolve_conj().resolve_neg().numpy()
        if (answer.shape, answer.dtype) != (wanted.shape, wanted.dtype):
            return Verdict(WRONG, f"{answer.dtype}{list(answer.shape)}, not"
                                  f" {wanted.dtype}{list(wanted.shape)}")  # fmt: skip
        if not np.allclose(answer, wanted, rtol, atol, equal_nan=True):
            with np.errstate(all="ignore"):
                distance = np.nanmax(np.abs(answer.astype(float) - wanted.astype(float)))
            return Verdict(WRONG, f"other numbers, by {distance:.3g}")
    return Verdict(PASS)


def _short(problem: str) -> str:
    """`aten.x.default  node 'y' (File ...): why` without the node."""
    name, _, rest = problem.partition("  ")
    return f"{name}: {rest.rpartition(': ')[2]}"


def _is_undefined(program: Any) -> bool:
    """Whether a result is memory as it is."""
    results = next(node for node in program.graph.nodes if node.op == "output").args[0]
    undefined = [n for n in results if str(getattr(n, "target", "")) in UNDEFINED]
    return any(node.meta["val"].numel() for node in undefined)


def _outside(program: Any) -> str:
    """Why a program is not of Core ATen, forward and without chance; "" if it is."""
    for node in program.graph.nodes:
        value = node.meta.get("val")
        for part in value if isinstance(value, (list, tuple)) else [value]:
            if any(not isinstance(extent, int) for extent in getattr(part, "shape", ())):
                return "sizes that depend on data"
        if not isinstance(node.target, torch._ops.OpOverload) or str(node.target) in CHECKS:
            continue
        if torch.Tag.nondeterministic_seeded in node.target.tags:
            return "random numbers"
        name = str(node.target)
        is_known = torch.Tag.core in node.target.tags or find_aten(name) or find_complex(name)
        if not is_known or "backward" in node.target.name():
            return f"{node.target} is not of Core ATen"
    return ""


def tolerance(entry: Any, dtype: torch.dtype) -> tuple[float, float]:
    """(rtol, atol): the loosest that the entry gives for this dtype, else torch.testing's own."""
    rtol, atol = (1.3e-6, 1e-5) if dtype.is_floating_point else (0.0, 0.0)
    atol = max(atol, COARSE.get(entry.name, 0.0))
    for decorator in _decorators(entry):
        for given in [getattr(decorator, "d", {}).get(dtype)]:
            if given is not None:  # `precisionOverride` has a number, which is atol
                rtol = max(rtol, getattr(given, "rtol", 0.0))
                atol = max(atol, getattr(given, "atol", given))
    return rtol, atol


def _decorators(entry: Any) -> Iterator[Any]:
    for info in entry.decorators:
        fits = getattr(info, "device_type", None) in (None, "cpu")
        yield from getattr(info, "decorators", [info]) if fits else []
