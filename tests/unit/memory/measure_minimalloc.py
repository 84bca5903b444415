"""Solve the instances that were published with MiniMalloc for the table of `docs/memory.md`.

    PYTHONPATH=tests:tests/pages:tests/unit/memory python tests/unit/memory/measure_minimalloc.py

Placements are counted, not seconds, so that every machine writes the same table.
"""

from __future__ import annotations

from figure_tables import write_figures
from test_minimalloc import NODES, instance

from edgec.memory.solve import plan_memory

HEADS = ("instance", "buffers", "placements", "peak", "lower bound")


def main() -> None:
    rows = []
    for letter, most in NODES.items():
        problem = instance(letter)
        plan = plan_memory(problem, node_limit=most)
        (region,) = plan.certificate.regions
        figures = (
            len(problem.buffers),
            plan.certificate.nodes,
            region.peak_bytes,
            region.lower_bound_bytes,
        )
        rows.append([letter, *(f"{figure:,}" for figure in figures)])
        print(*rows[-1], flush=True)
    write_figures("minimalloc", "tests/unit/memory/measure_minimalloc.py", HEADS, rows)


if __name__ == "__main__":
    main()
