"""The C side alone: its answers to arbitrary bytes, and its size."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given, settings
from hypothesis import strategies as st
from link_devices import HERE, INCLUDES, LINK_SOURCES, SOURCES, MemoryDevice

from edgec.boards.toolchain import WARNING_FLAGS, find_toolchain
from edgec.build.firmware import compile_sources
from edgec.build.host import build_host_program
from edgec.errors import ToolMissing
from edgec.link.frame import Frame, FrameReader
from edgec.targets.core import find_core


@pytest.fixture(scope="module")
def module_device(memory_library: Path) -> MemoryDevice:
    return MemoryDevice(memory_library)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=30),
            st.binary(max_size=200).map(lambda data: Frame(3, len(data), data).pack()),
        ),
        max_size=6,
    )
)
def test_both_parsers_cut_a_stream_alike(module_device: MemoryDevice, parts: list[bytes]) -> None:
    """Every frame that the host's reader finds is answered, every damaged one reported."""
    stream = b"\0" + b"".join(parts) + b"\0"
    expected = FrameReader().feed(stream)
    answers = FrameReader().feed(module_device.feed(stream))
    assert len(answers) == len(expected)
    for frame, answer in zip(expected, answers, strict=True):
        assert answer is not None
        if frame is None:
            assert (answer.type, answer.sequence) == (0xFF, 0)
        else:
            assert (answer.type, answer.sequence) == (frame.type | 0x80, frame.sequence)
            assert frame.type != 3 or answer.data == b"\0" + frame.data


@pytest.mark.parametrize("count", [300_000, pytest.param(10_000_000, marks=pytest.mark.full)])
def test_fuzz_with_sanitizers(tmp_path: Path, count: int) -> None:
    toolchain = find_toolchain(find_core("host"))
    program = build_host_program(
        [*SOURCES, HERE / "port_memory.c", HERE / "fuzz_main.c"],
        tmp_path / "fuzz",
        toolchain=toolchain,
        include_dirs=INCLUDES,
        defines=["EC_TRACE_HOOK"],
        # Zig's clang has the undefined-behaviour sanitizer only.
        sanitize=("address", "undefined") if toolchain.family == "gcc" else ("undefined",),
    )
    done = subprocess.run(
        [program, str(count), "7"], capture_output=True, text=True, timeout=1200, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    inputs, _, said = done.stdout.split()[:3]
    assert int(inputs) == count
    assert int(said) > 3 * count  # the commands were reached


@pytest.mark.full
def test_libfuzzer(tmp_path: Path) -> None:
    """Ten million, by coverage; needs clang's compiler-rt (Debian: clang, libclang-rt-14-dev)."""
    if shutil.which("clang") is None:
        pytest.skip("clang is not installed")
    flags = ["-g", "-O2", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined",
             "-DEC_LIBFUZZER", "-DEC_TRACE_HOOK",
             *(f"-I{folder}" for folder in INCLUDES)]  # fmt: skip
    # The link alone guides the fuzzer; watching the test's own loops would take three quarters of
    # the time. So would every step of the loops of crc and stuffing, which hold no magic numbers.
    guided = {
        "ec_link.c": ["-fsanitize=fuzzer-no-link"],
        "ec_link_frame.c": ["-fsanitize=fuzzer-no-link", "-fno-sanitize-coverage=trace-cmp"],
    }
    for source in [*SOURCES, HERE / "port_memory.c", HERE / "fuzz_main.c"]:
        command = ["clang", *flags, *guided.get(source.name, []), "-c", str(source)]
        subprocess.run(command, check=True, cwd=tmp_path)
    program = tmp_path / "fuzz"
    objects = sorted(str(path) for path in tmp_path.glob("*.o"))
    built = subprocess.run(
        ["clang", *flags, "-fsanitize=fuzzer", *objects, "-o", str(program)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "clang_rt" in built.stderr:
        pytest.skip("clang's fuzzer library is not installed")
    assert built.returncode == 0, built.stderr
    done = subprocess.run(
        [program, "-runs=10000000", "-max_len=300", "-seed=1", "-reduce_inputs=0"],
        capture_output=True, text=True, timeout=7200, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Done 10000000 runs" in done.stderr
    print(done.stderr.splitlines()[-1])


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4", "cortex-m33"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_size(tmp_path: Path, core: str, compiler: str) -> None:
    """Under 3 KB of flash and no buffer beyond one chunk, tracing included, and no libc."""
    try:
        toolchain = find_toolchain(find_core(core), compiler)
    except ToolMissing as error:
        pytest.skip(error.message)
    objects = compile_sources(
        toolchain,
        LINK_SOURCES,
        tmp_path,
        flags=["-O2", "-ffunction-sections", "-ffreestanding", *WARNING_FLAGS],
        include_dirs=INCLUDES,
        defines=["EC_TRACE_HOOK"],
    )
    flash = ram = 0
    names: set[str] = set()
    for built in objects:
        with built.open("rb") as stream:
            elf = ELFFile(stream)
            for section in elf.iter_sections():
                flags, size = section["sh_flags"], section["sh_size"]
                if not flags & 2 or section.name.startswith((".ARM.ex", ".eh_frame")):
                    continue
                if flags & 1:
                    ram += size
                else:
                    flash += size
            names |= {
                symbol.name
                for symbol in elf.get_section_by_name(".symtab").iter_symbols()
                if symbol["st_shndx"] == "SHN_UNDEF" and symbol.name
            }
    print(f"flash {flash}, ram {ram} bytes")
    assert flash < 3 * 1024
    assert ram < 256 + 160
    foreign = {name for name in names if not name.startswith(("ec_", "__aeabi_"))}
    assert foreign <= {"memcpy", "memmove", "memset"}
