"""A convolution's window over its input: which element input k of an output pixel is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from edgec.loop.define import Tensor
from edgec.loop.values import Value, index, maximum, minimum, select


@dataclass(frozen=True)
class Window:
    """Pairs are (height, width). Inputs are numbered row by row, channels last.

    shape: height, width and channels of the input. corner: padding above and to the left.
    is_padded: whether windows may reach outside, where `zero_point` is read.
    """

    shape: tuple[int, int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    corner: tuple[int, int]
    out_width: int
    is_padded: bool
    zero_point: int

    @property
    def depth(self) -> int:
        """Inputs of one window."""
        return self.kernel[0] * self.kernel[1] * self.shape[2]

    @property
    def is_pixel(self) -> bool:
        """Whether an output pixel reads just the input pixel of the same number."""
        return self.kernel == (1, 1) and self.stride == (1, 1) and not self.is_padded

    @property
    def sizes(self) -> dict[str, int]:
        """The numbers by the names that microkernels give them."""
        names = ("height", "width", "channels")
        pairs = {"kernel": self.kernel, "stride": self.stride, "dilation": self.dilation}
        found = dict(zip(names, self.shape, strict=True))
        for name, (h, w) in pairs.items():
            found |= {f"{name}_h": h, f"{name}_w": w}
        top, left = self.corner
        padded, zero_point = int(self.is_padded), self.zero_point
        found |= {"top": top, "left": left, "out_width": self.out_width}
        return found | {"padded": padded, "zero_point": zero_point}

    def read(self, x: Tensor, n: Any, pixel: Any, k: Any) -> Value:
        """Input k of the window of output pixel `pixel` of image n of x, NHWC."""
        height, width, channels = self.shape
        tap = k // channels
        h = pixel // self.out_width * self.stride[0] - self.corner[0]
        w = pixel % self.out_width * self.stride[1] - self.corner[1]
        h = h + tap // self.kernel[1] * self.dilation[0]
        w = w + tap % self.kernel[1] * self.dilation[1]
        c = k % channels
        if not self.is_padded:
            element: Value = x[n, h, w, c]
            return element
        inside = (index(h) >= 0) & (index(h) < height) & (index(w) >= 0) & (index(w) < width)
        h, w = (maximum(0, minimum(i, e - 1)) for i, e in ((h, height), (w, width)))
        return select(inside, x[n, h, w, c], self.zero_point)
