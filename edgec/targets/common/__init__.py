"""Shared by all targets: plain loops, and facts of nests that rules ask for."""
