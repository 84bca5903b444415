"""Comparison of a build with the framework that its model comes from."""
