"""A convolution's window over its input: which element input k of an output pixel is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from edgec.loop.define import Tensor
from edgec.loop.gathered import plane_element
from edgec.loop.values import Value, maximum, minimum

Bound = Callable[[Any], Any]


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
        return self.is_point and self.stride == (1, 1)

    @property
    def is_point(self) -> bool:
        """Whether a window is one pixel, which lies inside."""
        return self.kernel == (1, 1) and not self.is_padded

    def padded(self, out_height: int) -> Window:
        """The same windows over a copy of the input that has its padding; see `pad`."""
        extents = (
            (outs - 1) * stride + (kernel - 1) * dilation + 1
            for outs, stride, kernel, dilation in zip(
                (out_height, self.out_width), self.stride, self.kernel, self.dilation, strict=True
            )
        )
        height, width = extents
        return replace(self, shape=(height, width, self.shape[2]), corner=(0, 0), is_padded=False)

    def over(self, images: int) -> Window:
        """The same windows over the images of a batch.

        Without padding these are one tall image, if the next image's windows are as far away as
        the next row's; otherwise no kernel of one image matches.
        """
        height, width, channels = self.shape
        return self if self.is_padded else replace(self, shape=(images * height, width, channels))

    def pad(self, x: Tensor, n: Any, h: Any, w: Any, c: Any) -> Value:
        """Element (h, w, c) of the copy of image n of x with its padding."""
        return self._element(x, n, h - self.corner[0], w - self.corner[1], c)

    @property
    def part_outside(self) -> float:
        """About which part of the windows reaches outside."""
        if not self.is_padded:
            return 0.0
        inside = 1.0
        # Assumes equal padding at the top and at the bottom.
        span = self.shape[0] + 2 * self.corner[0] - (self.kernel[0] - 1) * self.dilation[0] - 1
        outs = (max(span // self.stride[0] + 1, 1), self.out_width)
        for axis in (0, 1):
            reach = (self.kernel[axis] - 1) * self.dilation[axis]
            starts = (i * self.stride[axis] - self.corner[axis] for i in range(outs[axis]))
            whole = sum(1 for start in starts if start >= 0 and start + reach < self.shape[axis])
            inside *= whole / outs[axis]
        return 1 - inside

    #: The microkernels' names of the numbers, in their order.
    SIZES: ClassVar[tuple[str, ...]] = (
        "height", "width", "channels", "kernel_h", "kernel_w", "stride_h", "stride_w",
        "dilation_h", "dilation_w", "top", "left", "out_width", "padded", "zero_point",
    )  # fmt: skip

    @property
    def sizes(self) -> dict[str, int]:
        """The numbers by these names."""
        values = (
            *self.shape, *self.kernel, *self.stride, *self.dilation, *self.corner,
            self.out_width, int(self.is_padded), self.zero_point,
        )  # fmt: skip
        return dict(zip(self.SIZES, values, strict=True))

    @staticmethod
    def from_sizes(sizes: Mapping[str, int]) -> Window:
        """The window of these numbers."""
        n = [sizes[name] for name in Window.SIZES]
        return Window(
            (n[0], n[1], n[2]), (n[3], n[4]), (n[5], n[6]), (n[7], n[8]), (n[9], n[10]),
            n[11], bool(n[12]), n[13],
        )  # fmt: skip

    def read(self, x: Tensor, n: Any, pixel: Any, k: Any) -> Value:
        """Input k of the window of output pixel `pixel` of image n of x, NHWC."""
        channels = self.shape[2]
        tap = k // channels
        kh, kw = tap // self.kernel[1], tap % self.kernel[1]
        return self.tap(x, n, pixel // self.out_width, pixel % self.out_width, kh, kw, k % channels)

    def tap(self, x: Tensor, n: Any, h: Any, w: Any, kh: Any, kw: Any, c: Any) -> Value:
        """Input (kh, kw, c) of the window of output pixel (h, w) of image n of x, NHWC."""
        h = h * self.stride[0] - self.corner[0] + kh * self.dilation[0]
        w = w * self.stride[1] - self.corner[1] + kw * self.dilation[1]
        return self._element(x, n, h, w, c)

    def _element(self, x: Tensor, n: Any, h: Any, w: Any, c: Any) -> Value:
        if not self.is_padded:
            element: Value = x[n, h, w, c]
            return element
        return plane_element(x, (n, h, w, c), *self.shape[:2], self.zero_point)


def padded_image(
    fill: int, height: int, width: int, channels: int, top: int = 0, left: int = 0
) -> Window:
    """Single elements of an image, `fill` outside of it."""
    shape, one = (height, width, channels), (1, 1)
    return Window(shape, one, one, one, (top, left), 1, is_padded=True, zero_point=fill)


def clipped(
    extent: int, kernel: int, stride: int, dilation: int, padding: int
) -> tuple[Bound, Bound]:
    """First and one past last kernel position that reads inside the input, for an output position.

    A position k reads `position * stride + k * dilation - padding`; positions outside [0, extent)
    are padding and contribute nothing.
    """

    def first(position: Any) -> Any:
        return maximum(0, (padding - position * stride + dilation - 1) // dilation)

    def last(position: Any) -> Any:
        reach = (extent + padding - position * stride + dilation - 1) // dilation
        return minimum(kernel, reach)

    return first, last
