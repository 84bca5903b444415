"""The microkernels of the runtime, registered by importing their files."""

from edgec.loop.microkernels import matrix, packing

__all__ = ["matrix", "packing"]
