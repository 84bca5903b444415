"""The cost of kernels' calls: approximate instructions, as the simulator counts them.

`python tests/runtime_c/kernel_costs.py` compares these with measurements.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class UnitCost:
    """A kernel of products that makes one unit of channels after the other.

    channels: of a unit. call: once. unit: of each unit. each: for each of its quads or octets of
    inputs. rescale: of a unit where the zero point is not -128, or channels do not share a shift
    and kernels can. eights: for each eight quads or octets, begun ones too. group: for each group
    of them. inputs: for each once in a call. added: of a unit whose results are added.
    """

    channels: int
    call: float
    unit: float
    each: float
    rescale: float = 0
    eights: float = 0
    group: float = 0
    inputs: float = 0
    added: float = 0

    def __call__(
        self, channels: int, quads: int = 0, octets: int = 0, zero_point: int = -128,
        shift: int = 1, group: int = 0, added: int = 0, **_: int,
    ) -> float:  # fmt: skip
        """The instructions of a call."""
        size = quads or octets
        one = self.unit + self.each * size + self.eights * -(-size // 8)
        one += self.rescale * (zero_point != -128 or not shift) + self.added * bool(added)
        one += self.group * (size // group) if group else 0
        return self.call + self.inputs * size + one * -(-channels // self.channels)
