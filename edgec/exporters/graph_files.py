"""Files that hold a model's graph instead of its C: for other compilers and runtimes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edgec.exporters.tosa.function import tosa_text
from edgec.graph.ir import Module


@dataclass(frozen=True)
class GraphFile:
    """One format. after_passes: it takes the graph as the passes leave it, integers and all.

    write: from a module to the bytes of a file; EdgecError with every operator that it cannot say.
    """

    title: str
    after_passes: bool
    write: Callable[[Module], bytes]


def _tosa(module: Module) -> bytes:
    return tosa_text(module.main, module.source).encode("utf-8")


def _onnx(module: Module) -> bytes:
    from edgec.frontends.onnx_writer import onnx_bytes  # onnx takes a while to import

    return onnx_bytes(module.main, with_states=True)


GRAPH_FILES: Mapping[str, GraphFile] = {
    "tosa": GraphFile("TOSA, a dialect of MLIR", True, _tosa),
    "onnx": GraphFile("ONNX", False, _onnx),
}
