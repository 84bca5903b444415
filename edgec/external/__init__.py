"""Kernels of the user's: C functions that replace ours. See docs/own_kernels.md.

import edgec.external as external

def use(nest):
    found = external.products(nest)
    ...
    return external.Use(["x", "out", found.weights, found.bias, 64], instructions=2000)

KERNELS = [external.Kernel("my_dense", "my_dense.c", use=use, needs={"dsp"})]
"""

from __future__ import annotations

from edgec.external.cmsis_nn import cmsis_nn
from edgec.external.cudnn import cudnn
from edgec.external.ethos_u import ethos_u
from edgec.external.host_libraries import onednn, xnnpack
from edgec.external.sparse import sparse
from edgec.external.tensorrt import tensorrt
from edgec.loop.primitives.call_foreign import Room
from edgec.targets.common.described import Products
from edgec.targets.common.described import products_of as products
from edgec.targets.external import Kernel, NestKernel, Use
from edgec.targets.rule import Nest

__all__ = [
    "Kernel", "Nest", "NestKernel", "Products", "Room", "Use", "cmsis_nn", "cudnn", "ethos_u",
    "onednn", "products", "sparse", "tensorrt", "xnnpack",
]  # fmt: skip
