"""The microkernels of the runtime, registered by importing their files."""

from edgec.loop.microkernels import depthwise, matrix, packing

__all__ = ["depthwise", "matrix", "packing"]
