"""`edgec bench --peers`: what is said without a peer, and what does not go together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgec.oracle import peers


def test_without_a_peer(
    edgec: Callable[..., Any], dense_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "PEERS", ())
    ran = edgec("bench", "--peers", "--model", dense_model)
    assert ran.status == 1 and "pip install emx-onnx-cgen" in ran.err


@pytest.mark.parametrize(
    "words",
    [
        ("--peers", "--host"),
        ("--html", "page.html"),
        ("--peers", "--layers"),
        ("--input-shape", "2,3"),
    ],
)
def test_what_does_not_go_together(edgec: Callable[..., Any], words: tuple[str, ...]) -> None:
    assert edgec("bench", *words).status == 2
