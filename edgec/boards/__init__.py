"""Boards: data about the hardware, and the C compilers that build for it."""
