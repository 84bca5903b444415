"""Terms through known values."""

from __future__ import annotations

import pytest

from edgec.numerics.fit_term import fit_term
from edgec.numerics.term import Term, Var, as_term, floor_div

H, W = Var("h", 4, 33), Var("w", 2, 17)
SIZES = [
    {H: h, W: w} for h, w in ((32, 16), (31, 16), (30, 16), (29, 16), (32, 15), (7, 3), (6, 2))
]
HALF = floor_div(as_term(H) + 1, 2)


def test_the_simplest_form_is_found() -> None:
    for wanted in (
        as_term(5), as_term(H), as_term(H) * 2 - 3, as_term(H) + as_term(W) * 4, HALF * 3 + 1,
        HALF + as_term(W), floor_div(as_term(H) - 3, 2) + 1, floor_div(as_term(W) * 3, 4),
    ):  # fmt: skip
        values = [wanted.evaluate({"h": each[H], "w": each[W]}) for each in SIZES]
        found = fit_term(values, SIZES, [HALF])
        assert found is not None
        assert [found.evaluate({"h": s[H], "w": s[W]}) for s in SIZES] == values


def test_a_base_comes_before_sums() -> None:
    few = SIZES[::2][:2]  # h - 16 has these values too, as far as two of them say
    values = [HALF.evaluate({"h": each[H]}) for each in few]
    assert fit_term(values, few, [HALF]) == HALF


@pytest.mark.parametrize("values", [[32 * 16, 31 * 16, 30 * 16, 29 * 16, 32 * 15, 21, 12]])
def test_products_are_no_terms(values: list[int]) -> None:
    found: Term | None = fit_term(values, SIZES)
    assert found is None
