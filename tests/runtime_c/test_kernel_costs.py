"""What kernels of products say that calls cost is what a simulated core counts."""

from __future__ import annotations

import pytest
from kernel_costs import measured

pytest.importorskip("unicorn")
pytest.importorskip("capstone")


def test_stated_instructions_are_those_of_the_simulator():
    """Within a tenth, and 4 of 100 for calls of more than a thousand instructions."""
    for kernel, calls in measured():
        assert calls
        for stated, counted in calls:
            most = 0.1 if counted < 1000 else 0.04
            assert abs(stated / counted - 1) < most, (kernel.name, stated, counted)
