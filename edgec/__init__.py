"""edgec: an ahead-of-time compiler for neural networks on small machines."""

__version__ = "0.1.0"
