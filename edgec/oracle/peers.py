"""Compare edgec with other generators of C: the same model, compiler, flags and core.

A peer's C is compiled like edgec's, and linked with newlib's libm, which it calls. A small program
has one array for each input and output, and calls the peer's function once on the simulated core.
The peer's RAM is these arrays, all variables and the used stack; its flash is all stored bytes.
edgec's figures are for the whole firmware image of `edgec build`, with start-up code and the serial
link. The figures of TFLite Micro and of onnx2c in floats come from the baselines file: TFLite Micro
ran the int8 TFLite file of the same network with CMSIS-NN; onnx2c ran the float network at -O3, and
its RAM does not count inputs and outputs.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.boards.board import Board, load_board
from edgec.boards.toolchain import find_toolchain
from edgec.build.staging import work_folder
from edgec.deploy.project import Built, deploy
from edgec.errors import EdgecError, ToolMissing
from edgec.options import Options
from edgec.oracle.pinned_shapes import with_inputs
from edgec.pipeline import compile_model
from edgec.report.bench import read_baselines
from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs
from edgec.sim.core import CoreSimulator

Array = npt.NDArray[Any]

#: Text for the page: how the figures are measured.
METHOD = (__doc__ or "").partition("\n\n")[2].replace("\n", " ").strip()
#: A Cortex-M4 with 4 MB each of flash and RAM.
BOARD = "mps2_an386"
OPTIMIZE = "-O2"
TFLITE_MICRO, ONNX2C_FLOAT = "TFLite Micro", "onnx2c in floats"
DEFAULT = Options()
#: Room for variables and for the stack, on which a peer may keep all values.
RAM_BYTES, STACK_BYTES = 16 << 20, 48 << 20
SCRIPT = f"""
MEMORY {{ flash (rx) : ORIGIN = 0, LENGTH = 64M  ram (rw) : ORIGIN = 0x20000000, LENGTH = 64M }}
SECTIONS {{
    .text : {{ *(.text* .rodata* .ARM.*) }} > flash
    .data : {{ *(.data*) }} > ram AT > flash
    .bss (NOLOAD) : {{ *(.bss* COMMON) end = .; }} > ram
    __stack_top = ORIGIN(ram) + {RAM_BYTES + STACK_BYTES};
    __stack_limit = ORIGIN(ram) + {RAM_BYTES};
}}
"""


@dataclass(frozen=True)
class Peer:
    """Another generator: its command for a model and a C file, the C function, its version."""

    name: str
    command: Callable[[Path, Path], Sequence[str] | None]
    entry: str
    version: Callable[[], str]


def _emx(model: Path, out: Path) -> Sequence[str] | None:
    """Values are on the stack and weights in C: it has no heap and no files. No pointers alias."""
    if importlib.util.find_spec("emx_onnx_cgen") is None:
        return None
    words = ("compile", str(model), str(out), "--model-name", "model", "--restrict-arrays")
    inline = ("--large-temp-threshold", "0", "--large-weight-threshold", "0")
    return sys.executable, "-m", "emx_onnx_cgen", *words, *inline


def _onnx2c(model: Path, out: Path) -> Sequence[str] | None:
    program = shutil.which("onnx2c")
    return (
        None if program is None else ("sh", "-c", '"$0" "$1" > "$2"', program, str(model), str(out))
    )


PEERS = (
    Peer("emx-onnx-cgen", _emx, "model", lambda: metadata.version("emx-onnx-cgen")),
    Peer("onnx2c", _onnx2c, "entry", lambda: "as installed"),
)


def installed_peers() -> list[Peer]:
    """Return the installed peers. Raises ToolMissing if there is none."""
    here = [peer for peer in PEERS if peer.command(Path(), Path()) is not None]
    if not here:
        raise ToolMissing(
            "no other generator of C is installed",
            hint="pip install emx-onnx-cgen, or put onnx2c on the PATH",
        )
    return here


def find_peer_models(baselines: Path, names: Sequence[str]) -> list[Path]:
    """Return the ONNX files of these names or paths; without names, all beside the baselines.

    Raises EdgecError for an unknown name.
    """
    if names and all(Path(name).is_file() for name in names):
        return [Path(name) for name in names]
    read_baselines(baselines)
    files = {path.stem: path for path in sorted((baselines.parent / "models").glob("*.onnx"))}
    unknown = [name for name in names if name not in files and not Path(name).is_file()]
    if unknown:
        raise EdgecError(
            f"{', '.join(unknown)} is neither a file nor an ONNX model beside {baselines.name}",
            details=(f"there are: {', '.join(files)}",),
        )
    return [files.get(name, Path(name)) for name in names or files]


def measure_peers(
    model: Path, baselines: Path | None = None, options: Options = DEFAULT
) -> list[dict[str, Any]]:
    """Return a row for edgec, one for each peer, and the rows of `baselines` for the same network.

    A row has instructions, cycles and bytes, or the error. options: sizes and values of the inputs
    that the model leaves open.
    """
    board = load_board(BOARD)
    with work_folder("peers") as folder:
        row: dict[str, Any] = {"model": model.stem, "by": "edgec"}
        try:
            built = deploy(
                compile_model(model, board.core, options, board=board), board, folder / "ours"
            )
            assert built.image is not None
            ports = built.manifest.inputs
            inputs = generate_inputs(1, [(port.shape, port.dtype) for port in ports])
            with open_session("core", built) as session:
                result = session.run(inputs)
        except EdgecError as error:
            return [{**row, "error": error.message}]
        row |= {
            "instructions": result.instructions, "cycles": result.cycles,
            "ram_bytes": built.image.ram_bytes, "flash_bytes": built.image.flash_bytes,
        }  # fmt: skip
        rows = [row]
        for peer in installed_peers():
            theirs = {"model": model.stem, "by": peer.name, "version": peer.version()}
            try:
                source = _write(peer, model, built, options, folder / peer.name)
                found = _measure(peer, source, board, built, inputs)
                off = _difference(found.pop("outputs"), result.outputs)
                ratio = row["instructions"] / found["instructions"]
                rows.append({**theirs, **found, "max_abs_diff": off, "ratio": ratio})
            except EdgecError as error:
                rows.append({**theirs, "error": error.message})
        return rows + _stated_rows(baselines, model, row["instructions"])


def _stated_rows(baselines: Path | None, model: Path, ours: int) -> list[dict[str, Any]]:
    """Return the baselines' figures: for a QDQ model, TFLite Micro's on the int8 TFLite file of the
    network, and for a float model onnx2c's.
    """
    if baselines is None or not baselines.is_file():
        return []
    stated = read_baselines(baselines)
    network, _, form = model.stem.rpartition("_")
    keys = [key for key, entry in stated["models"].items()
            if entry["file"] == f"{network}_int8.tflite" and form in ("qdq", "f32")]  # fmt: skip
    tflm, onnx2c = stated["tflm_cmsis_nn"]["m4"], stated.get("onnx2c_float_m4_O3", {})
    found = [(TFLITE_MICRO, tflm[key]) for key in keys if form == "qdq"]
    found += [(ONNX2C_FLOAT, onnx2c[key]) for key in keys if key in onnx2c]
    return [{
        "model": model.stem, "by": by, "version": f"as {baselines.name} states",
        "instructions": each["instructions"], "cycles": each.get("modelled_cycles"),
        "ram_bytes": each["ram_bytes"], "flash_bytes": each["flash_bytes"],
        "ratio": ours / each["instructions"],
    } for by, each in found]  # fmt: skip


def _measure(
    peer: Peer, source: Path, board: Board, built: Built, inputs: Sequence[Array]
) -> dict[str, Any]:
    elf = _build(peer, source, board, built)
    with CoreSimulator(elf, board.core.name) as core:
        for index, array in enumerate(inputs):
            core.write(core.symbols[f"peer_in_{index}"], array.tobytes())
        result = core.call("peer_run")
        outputs = [
            np.frombuffer(core.read(core.symbols[f"peer_out_{i}"], port.bytes), port.dtype)
            for i, port in enumerate(built.manifest.outputs)
        ]
        variables = sum(s.size for s in core.image.segments if s.writable)
        stored = sum(len(s.data) for s in core.image.segments)
    return {
        "instructions": result.instructions, "cycles": result.cycles,
        "ram_bytes": variables + result.stack_bytes, "flash_bytes": stored, "outputs": outputs,
    }  # fmt: skip


def _write(peer: Peer, model: Path, built: Built, options: Options, folder: Path) -> Path:
    """Write a peer's C for the model. Raises EdgecError with the peer's output if it fails."""
    folder.mkdir()
    shapes = [port.shape for port in built.manifest.inputs]
    pinned = with_inputs(model, shapes, folder / model.name, options.input_values)
    command = peer.command(pinned, folder / "model.c")
    assert command is not None
    _run(command, folder, f"{peer.name} cannot compile {model.name}")
    return folder / "model.c"


def _build(peer: Peer, source: Path, board: Board, built: Built) -> Path:
    """Build a program that calls a peer's function once. Raises EdgecError if that fails."""
    folder = source.parent
    main, script = folder / "main.c", folder / "link.ld"
    main.write_text(_main_text(peer, built), encoding="utf-8")
    script.write_text(SCRIPT, encoding="utf-8")
    toolchain = find_toolchain(board.core, "gcc")
    objects = [folder / "model.o", folder / "main.o"]
    for path, target in zip((source, main), objects, strict=True):
        words = toolchain.compile_command(path, target, flags=[OPTIMIZE, "-w"])
        _run(words, folder, f"{peer.name}'s C does not compile")
    elf = folder / "peer.elf"
    link = [*toolchain.command, *toolchain.core_flags, *map(str, objects), "-T", str(script)]
    link += ["-nostartfiles", "--specs=nosys.specs", "-Wl,--gc-sections", "-Wl,-e,peer_run", "-lm"]
    _run([*link, "-o", str(elf)], folder, f"{peer.name}'s C does not link")
    return elf


def _main_text(peer: Peer, built: Built) -> str:
    kinds = {"in": built.manifest.inputs, "out": built.manifest.outputs}
    arrays = [
        f"unsigned char peer_{kind}_{i}[{max(port.bytes, 1)}] __attribute__((aligned(16)));"
        for kind, ports in kinds.items()
        for i, port in enumerate(ports)
    ]
    names = [f"peer_{kind}_{i}" for kind, ports in kinds.items() for i in range(len(ports))]
    parameters = ", ".join(["void *"] * len(names))
    call = f"void peer_run(void) {{ {peer.entry}({', '.join(names)}); }}"
    return "\n".join([*arrays, f"void {peer.entry}({parameters});", call, ""])


def _run(command: Sequence[str], folder: Path, problem: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = (done.stderr + done.stdout).strip().splitlines()
        raise EdgecError(f"{problem}: {lines[-1].strip() if lines else done.returncode}")


def _difference(theirs: Sequence[Array], ours: Sequence[Array]) -> float:
    """Return the largest difference of any output element."""
    pairs = zip(theirs, ours, strict=True)
    return max(
        (float(np.abs(a.astype(np.float64) - b.astype(np.float64).ravel()).max(initial=0))
         for a, b in pairs), default=0.0,
    )  # fmt: skip


def versions(rows: Sequence[dict[str, Any]]) -> str:
    """Return the names and versions of the peers and the compiler."""
    found = {f"{row['by']} {row['version']}" for row in rows if "version" in row}
    return ", ".join([*sorted(found), find_toolchain(load_board(BOARD).core, "gcc").version])
