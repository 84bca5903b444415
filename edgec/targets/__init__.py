"""Instruction sets: features of cores, rules and kernels of each."""
