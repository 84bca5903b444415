"""Cortex-M: floats on its floating-point unit."""
