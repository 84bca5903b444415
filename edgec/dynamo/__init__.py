"""PyTorch's compiler with edgec as its backend: `torch.compile(module, backend="edgec")`."""
