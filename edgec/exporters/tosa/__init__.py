"""TOSA, the dialect of MLIR, as a way out of edgec."""
