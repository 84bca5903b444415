"""The host engine: the same bits as the oracle, every value seen, wild writes caught."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from edgec.boards.toolchain import find_toolchain
from edgec.build.host import build_host_library
from edgec.deploy.project import Built
from edgec.errors import RunFailed
from edgec.oracle.frameworks import open_oracle
from edgec.runners.engine import open_session
from edgec.targets.core import find_core

Digits = Callable[..., Built]
MODEL = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.onnx"


@pytest.mark.parametrize("io", ["arena", "caller"])
def test_outputs_equal_the_oracle(digits: Digits, images: list[np.ndarray], io: str) -> None:
    oracle = open_oracle(MODEL)
    with open_session("host", digits("host", io)) as session:
        for image in images:
            (expected,) = oracle.run([image]).outputs
            result = session.run([image])
            assert np.array_equal(result.outputs[0], expected)
            assert result.instructions is None and result.cycles is None
        assert session.selftest() == 0
        session.reset()


def test_traced_run_gives_every_value(digits: Digits, images: list[np.ndarray]) -> None:
    built = digits("host")
    with open_session("host", built) as session:
        plain = session.run([images[0]])
        traced = session.run([images[0]], trace=True)
    assert np.array_equal(plain.outputs[0], traced.outputs[0])
    assert len(built.manifest.traces) > 3
    assert {trace.id: trace.bytes for trace in built.manifest.traces} == {
        key: value.nbytes for key, value in traced.traces.items()
    }
    assert len(traced.layers) == len(built.manifest.layers)


def test_wrong_inputs_are_named(digits: Digits, images: list[np.ndarray]) -> None:
    with open_session("host", digits("host")) as session:
        with pytest.raises(RunFailed, match="takes 1 inputs, 2 were given"):
            session.run([images[0], images[0]])
        with pytest.raises(RunFailed, match=r"'image'.* was given int8"):
            session.run([images[0].astype(np.int8)])


def test_absent_build_is_named(digits: Digits, images: list[np.ndarray]) -> None:
    project = replace(digits("host"), traced=None)
    with open_session("host", project) as session:
        session.run([images[0]])
        with pytest.raises(RunFailed, match="has no traced build"):
            session.run([images[0]], trace=True)
    with pytest.raises(RunFailed, match="has no build"):
        open_session("host", replace(project, artefact=None))


WILD = """
#include <stdint.h>
#include <stddef.h>
typedef struct { uint8_t *arena; uint32_t bytes; } memory_t;
static uint8_t *arena;
static uint32_t size;
int PREFIX_init(void *c, const memory_t *m);
void *PREFIX_input(void *c, uint32_t i);
const void *PREFIX_output(const void *c, uint32_t i);
int PREFIX_run(void *c, const void *const *in, void *const *out);
int PREFIX_reset(void *c);
int PREFIX_selftest(void *c);
int PREFIX_init(void *c, const memory_t *m) {
    (void)c; arena = m->arena; size = m->bytes; return ((uintptr_t)arena & 15u) != 0u;
}
void *PREFIX_input(void *c, uint32_t i) { (void)c; (void)i; return arena; }
const void *PREFIX_output(const void *c, uint32_t i) { (void)c; (void)i; return arena; }
int PREFIX_run(void *c, const void *const *in, void *const *out) {
    (void)c; (void)in; (void)out; arena[AT] = 0; return 0;
}
int PREFIX_reset(void *c) { (void)c; return 0; }
int PREFIX_selftest(void *c) { (void)c; return -5; }
"""


@pytest.mark.parametrize(
    ("at", "error"),
    [("size - 1", None), ("size", "wrote after the arena"), ("-1", "wrote before the arena")],
)
def test_writes_outside_the_arena_are_caught(
    digits: Digits, images: list[np.ndarray], tmp_path: Path, at: str, error: str | None
) -> None:
    built = digits("host")
    source = tmp_path / "wild.c"
    source.write_text(WILD.replace("PREFIX", built.manifest.model).replace("AT", at))
    library = build_host_library(
        [source],
        tmp_path / "wild.so",
        toolchain=find_toolchain(find_core("host")),
        flags=["-Wno-sign-conversion", "-Wno-array-bounds"],
    )
    with open_session("host", replace(built, artefact=library)) as session:
        assert session.selftest() == -5
        if error is None:
            session.run([images[0]])
        else:
            with pytest.raises(RunFailed, match=error):
                session.run([images[0]])


def test_foreign_library_is_named(digits: Digits, tmp_path: Path) -> None:
    wrong = tmp_path / "model.so"
    wrong.write_bytes(b"no library")
    with pytest.raises(RunFailed, match="cannot load"):
        open_session("host", replace(digits("host"), artefact=wrong))


def test_untraced_library_cannot_stand_in_for_a_traced_one(
    digits: Digits, images: list[np.ndarray]
) -> None:
    built = digits("host")
    with (
        open_session("host", replace(built, traced=built.artefact)) as session,
        pytest.raises(RunFailed, match="without its trace hook"),
    ):
        session.run([images[0]], trace=True)


def test_libraries_hold_no_state_of_their_own(digits: Digits) -> None:
    """Contexts and arenas belong to the caller: nothing in .data or .bss but the compiler's own."""
    artefact = digits("host").artefact
    assert artefact is not None
    with artefact.open("rb") as stream:
        symbols = ELFFile(stream).get_section_by_name(".symtab")
        if symbols is None:
            pytest.skip("the library has no symbol table here")
        model = digits("host").manifest.model
        changing = [
            symbol.name
            for symbol in symbols.iter_symbols()
            if symbol["st_info"]["type"] == "STT_OBJECT"
            and symbol.name.startswith(model)
            and isinstance(symbol["st_shndx"], int)
            and ELFFile(stream).get_section(symbol["st_shndx"]).name in (".data", ".bss")
        ]
    assert changing == []
