"""Write a project folder: the model's C files, and for a board its program, ports and link.

    <model>.h  <model>.c  <model>_runtime.h  <model>_weights.h  <model>_weights.c  ec_status.h
    <model>_weights.bin                                            only for large weights
    CMakeLists.txt  manifest.json
    <model>_kernels.cu  <model>_kernels.c  ec_cuda.h  ec_cuda_driver.h             only for a GPU
    ec_cudnn.h  ec_tensorrt.h  ec_tensorrt.cpp         there, where such a library runs a part
    main.c  link.ld  port/  link/                                  only for a microcontroller board
    toolchain.cmake  CMakePresets.json  debug.gdb                  likewise

Nothing depends on the clock, the machine or the folder: same program, same bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from edgec.boards.board import Board
from edgec.boards.board_files import board_header, linker_script, port_headers, port_sources
from edgec.boards.toolchain import EMBEDDED_FLAGS
from edgec.codegen.c_data import WEIGHTS_OBJECT
from edgec.codegen.gpu_text import Images
from edgec.codegen.harness import harness_text
from edgec.codegen.manifest import MANIFEST_NAME, Manifest, describe
from edgec.codegen.model_text import EmittedModel, ModelText, make_text
from edgec.codegen.program import Program
from edgec.errors import BuildFailed, ContractError
from edgec.options import Harness
from edgec.resources import resource_dir, text_templates

MAIN, PORT_DIR, LINKER_SCRIPT, DEBUG_SCRIPT = "main.c", "port", "link.ld", "debug.gdb"
HARNESS_DIRS: dict[Harness, str] = {"link": "link", "mlperf-tiny": "mlperf", "own": "link"}
"""Folders of `runtime_c/`, and of a project, with what serves a model on a board."""
MODEL_FILES = {
    ".h": "model.h.j2",
    ".c": "model.c.j2",
    "_runtime.h": "runtime.h.j2",
    "_weights.h": "weights.h.j2",
    "_weights.c": "weights.c.j2",
}
"""The model's own files, by what their names end with, and their templates."""
KEYED_FILES = ("ec_link_seal.c", "ec_link_siphash.c", "ec_link_siphash.h")
"""Of `runtime_c/link/`: what only a link with a key needs."""
GPU_FILES = ("ec_cuda.h", "ec_cuda_driver.h")
"""Of `runtime_c/cuda/`: what the C of a model on a GPU includes."""
#: Compiles the kernels of a model for an architecture such as "sm_87".
CompileKernels = Callable[[str, str], Images]


@dataclass(frozen=True)
class FirmwareText:
    """The values of CMakeLists.txt for the board's program."""

    core: str
    core_flags: str
    compile_flags: str
    sources: tuple[str, ...]
    include_dirs: tuple[str, ...]
    linker_script: str
    harness: Harness


def write_project(
    program: Program,
    folder: Path,
    board: Board | None = None,
    harness: Harness = "link",
    main: Path | None = None,
    link_key: bytes | None = None,
    compile_kernels: CompileKernels | None = None,
) -> Manifest:
    """Write the files of a model into `folder`, which must exist, and return the manifest.

    With a microcontroller `board`, also its main program (of the kind `harness`), port, link and
    linker script. The program mlperf-tiny needs inputs and outputs outside of the arena; "own" is a
    copy of the file `main`. With a `link_key` of 16 bytes the link answers only to holders of the
    key. A program for a GPU needs `compile_kernels`. Raises ContractError for a program that breaks
    its contract, and BuildFailed for a `main` that cannot be read. For an all-or-nothing write,
    pass the folder of `staged_folder`.
    """
    program.check()
    emitted = make_text(program)
    images = _compiled(emitted.text, compile_kernels)
    written, build_hash = write_model(folder, emitted.text, images)
    files: dict[str, str] = {}
    firmware = None
    if board is not None and board.core.is_embedded:
        files = _main_files(program, emitted, board, harness, main, build_hash)
        files |= _board_files(program, emitted, board, harness, link_key)
        firmware = _firmware_text(board, harness, files)
    files["CMakeLists.txt"] = render(
        "CMakeLists.txt.j2", m=emitted.text, levels=(), firmware=firmware
    )
    names = tuple(sorted([*written, *files, MANIFEST_NAME]))
    manifest = describe(
        program, emitted.step_functions, names, emitted.weights, emitted.callees, harness,
        build_hash, emitted.text.gpu.together if emitted.text.gpu else (),
    )  # fmt: skip
    files[MANIFEST_NAME] = manifest.to_json()
    write_files(folder, files)
    return manifest


def _compiled(text: ModelText, compile_kernels: CompileKernels | None) -> Images | None:
    """The compiled kernels of a model on a GPU."""
    if text.gpu is None:
        return None
    if compile_kernels is None:
        raise ContractError("a program for a GPU needs a compiler of its kernels")
    return compile_kernels(text.gpu.source, text.gpu.architecture)


def _firmware_text(board: Board, harness: Harness, files: Iterable[str]) -> FirmwareText:
    return FirmwareText(
        core=board.core.name,
        core_flags=" ".join(board.core.gcc_flags),
        compile_flags=" ".join(EMBEDDED_FLAGS),
        sources=tuple(name for name in files if name.endswith(".c")),
        include_dirs=(".", PORT_DIR, HARNESS_DIRS[harness]),
        linker_script=LINKER_SCRIPT,
        harness=harness,
    )


def write_model(
    folder: Path, text: ModelText, images: Images | None = None
) -> tuple[tuple[str, ...], int]:
    """Write the model's C files as their text is made: of a large model's it never exists whole.

    Returns their names, and a CRC-32 of names and texts: two builds that differ in anything differ
    in it.
    """
    texts = _texts(text, images)
    folder.mkdir(parents=True, exist_ok=True)
    crc = 0
    for name in sorted(texts):
        crc = zlib.crc32(f"{name}\n".encode(), crc)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with (folder / name).open("wb") as stream:
            for chunk in texts[name]:
                data = chunk.encode("utf-8")
                crc = zlib.crc32(data, crc)
                stream.write(data)
    if not text.has_blob:
        return tuple(texts), crc
    blobs = [f"{text.model}_{WEIGHTS_OBJECT}{part.suffix}.bin" for part in text.weights]
    for name, part in zip(blobs, text.weights, strict=True):
        with (folder / name).open("wb") as stream:
            for array in part.bytes:
                crc = zlib.crc32(array, crc)
                stream.write(array)
    return (*texts, *blobs), crc


def _texts(text: ModelText, images: Images | None) -> dict[str, Iterable[str]]:
    """The text files of a model by name, each in chunks."""
    templates = MODEL_FILES if images is None else {**MODEL_FILES, "_kernels.c": "kernels.c.j2"}
    given = {"m": text, "images": images}
    texts: dict[str, Iterable[str]] = {
        f"{text.model}{end}": text_templates().get_template(template).generate(**given)
        for end, template in templates.items()
    }
    texts |= {foreign.name: (foreign.text,) for foreign in text.foreign}
    runtime = resource_dir("runtime_c")
    copied = [runtime / "include" / "edgec" / "ec_status.h"]
    if text.gpu is not None:
        texts[f"{text.model}_kernels.cu"] = (text.gpu.source,)
        copied += [runtime / "cuda" / name for name in GPU_FILES]
        for name in text.gpu.library_names:
            copied += sorted((runtime / "cuda").glob(f"ec_{name}.*"))
    return texts | {path.name: (path.read_text(encoding="utf-8"),) for path in copied}


def _main_files(
    program: Program,
    emitted: EmittedModel,
    board: Board,
    harness: Harness,
    main: Path | None,
    build_hash: int,
) -> dict[str, str]:
    text = emitted.text
    if harness == "mlperf-tiny":
        types = tuple(port.c_type for port in text.outputs)
        h = harness_text(program, types)
        return {MAIN: render("main_mlperf_tiny.c.j2", m=text, h=h)}
    if harness == "own" and main is not None:
        return {MAIN: _read_main(main), "ec_main.h": render("ec_main.h.j2", m=text)}
    return {
        MAIN: render(
            "main.c.j2",
            m=text,
            board_name=board.name,
            tick_unit=_tick_unit(board),
            build_hash=f"0x{build_hash:08X}u",
        )
    }


def _read_main(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BuildFailed(
            f"cannot read the main program {path}: {getattr(error, 'strerror', None) or error}",
            hint="--main names a C file with your main()",
        ) from None


def _board_files(
    program: Program, emitted: EmittedModel, board: Board, harness: Harness, link_key: bytes | None
) -> dict[str, str]:
    text = emitted.text
    files = {
        LINKER_SCRIPT: linker_script(board, placed=program.regions.parts),
        f"{PORT_DIR}/ec_board.h": board_header(board),
        "toolchain.cmake": render(
            "toolchain.cmake.j2",
            core=board.core.name,
            prefix=board.core.gcc_programs[0].removesuffix("gcc"),
            processor={"thumb": "arm", "rv32": "riscv", "xtensa": "xtensa"}[board.core.isa],
        ),
        "CMakePresets.json": render("CMakePresets.json.j2", board_name=board.name, optimize="-O2"),
        DEBUG_SCRIPT: render(
            "debug.gdb.j2",
            m=text,
            board_name=board.name,
            step_functions=tuple(dict.fromkeys(emitted.step_functions)),
        ),
    }
    for path in (*port_sources(board), *port_headers(board)):
        files[f"{PORT_DIR}/{path.name}"] = path.read_text(encoding="utf-8")
    return files | _served_files(HARNESS_DIRS[harness], link_key)


def _served_files(served: str, link_key: bytes | None) -> dict[str, str]:
    """The folder of the program that serves the model, without files that only a link with a key
    needs.
    """
    files = {
        f"{served}/{path.name}": path.read_text(encoding="utf-8")
        for path in sorted((resource_dir("runtime_c") / served).glob("*.[ch]"))
        if link_key is not None or path.name not in KEYED_FILES
    }
    if link_key is not None:
        values = [f"0x{byte:02x}" for byte in link_key]
        files[f"{served}/ec_link_key.h"] = render("ec_link_key.h.j2", key_bytes=values)
    return files


def _tick_unit(board: Board) -> str:
    """The unit of a tick of the port's counter: QEMU's virtual time counts instructions."""
    if "TICKS_HZ" in board.config:
        return "EC_LINK_TICK_TIME"
    return "EC_LINK_TICK_CYCLES" if board.qemu is None else "EC_LINK_TICK_INSTRUCTIONS"


def render(template: str, **values: object) -> str:
    return text_templates().get_template(template).render(**values)


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # Bytes, so that line ends are the same on every system.
        path.write_bytes(text.encode("utf-8"))
