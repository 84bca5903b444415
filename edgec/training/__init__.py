"""Training of PyTorch modules by the integers that they will run in."""
