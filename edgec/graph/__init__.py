"""The graph IR: typed, functional, straight-line SSA (stages 1 to 4)."""
