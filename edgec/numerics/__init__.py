"""Exact arithmetic: fixed point, float functions, ordered sums and integer terms."""
