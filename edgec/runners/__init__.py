"""Engines that run a compiled model, and the oracles that its answers are compared with."""
