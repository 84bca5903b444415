"""NVIDIA GPUs: plain loops bound to blocks and threads, and kernels of products."""
