"""ELF files as the simulator sees them, and the memory map it makes of them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from edgec.errors import RunFailed
from edgec.sim.core import CoreSimulator
from edgec.sim.image import PAGE_BYTES, CodeSection, Image, Segment, Symbol, load_image, plan_layout

FLASH = Segment(0x0, 0x1800, b"", writable=False, executable=True)
RAM = Segment(0x2000_0000, 0x500, b"", writable=True, executable=False)


def image(*segments: Segment, **symbols: int) -> Image:
    table = {name: Symbol(name, address, 0) for name, address in symbols.items()}
    return Image(Path("x.elf"), segments, (), table, (), 0)


def test_stack_of_the_linker_script():
    layout = plan_layout(image(FLASH, RAM, __stack_limit=0x2000_2000, __stack_top=0x2000_3004))
    assert (layout.stack_limit, layout.stack_top) == (0x2000_2000, 0x2000_3000)
    mapped = [(r.address, r.size, r.writable, r.executable) for r in layout.regions]
    assert mapped == [
        (0x0, 0x1800, False, True),
        (0x2000_0000, 0x800, True, False),
        (0x2000_2000, 0x1000, True, False),
        (layout.return_address, PAGE_BYTES["thumb"], False, True),
    ]


def test_stack_without_a_limit_ends_at_the_data():
    layout = plan_layout(image(FLASH, RAM, __StackTop=0x2000_4000))
    assert (layout.stack_limit, layout.stack_top) == (0x2000_0500, 0x2000_4000)
    layout = plan_layout(image(FLASH, RAM, _estack=0x2010_0000))
    assert layout.stack_top - layout.stack_limit == 64 * 1024


def test_stack_of_an_image_that_has_none(firmware, tmp_path):
    layout = plan_layout(image(FLASH, RAM))
    assert layout.stack_top - layout.stack_limit == 64 * 1024
    assert all(
        r.address + r.size <= layout.stack_limit or r.address >= layout.stack_limit
        for r in layout.regions
    )
    pytest.importorskip("unicorn")
    source = """NOINLINE uint32_t f(uint32_t n) { volatile uint8_t a[5000]; a[n] = 7;
    a[0] = (uint8_t)n; return a[n]; }"""
    elf = firmware.build(source)
    if shutil.which("arm-none-eabi-strip"):
        bare = tmp_path / "bare.elf"
        subprocess.run(["arm-none-eabi-strip", "-K", "f", "-o", bare, elf], check=True)
        elf = bare
        assert "__stack_top" not in load_image(elf).symbols
    with CoreSimulator(elf, "cortex-m4") as core:
        result = core.call("f", 9, allow=[])
        assert (result.value, result.stack_bytes >= 5000) == (7, True)


def test_functions_and_places(firmware):
    loaded = load_image(firmware.build("NOINLINE int f(int a) { return a * 3 + 1; }"))
    function = loaded.function_at(loaded.symbols["f"].address)
    assert function is not None and function.name == "f"
    assert loaded.describe(function.address + 2) == "f+0x2"
    assert loaded.describe(0x0800_0000) == "0x08000000"
    assert len(loaded.bytes_at(function.address, 2)) == 2
    assert loaded.bytes_at(0x0800_0000, 2) == b""


def test_runs_of_code_and_data():
    section = CodeSection(0x10, bytes(16), ((0x14, False), (0x18, True), (0x18, True)))
    assert section.runs() == [(0x10, 0x14, True), (0x14, 0x18, False), (0x18, 0x20, True)]
    assert CodeSection(0, bytes(4), ()).runs() == [(0, 4, True)]


def test_files_that_are_no_firmware(tmp_path):
    for name, data in {"empty": b"", "cut": b"\x7fELF\1\1\1" + bytes(9), "text": b"hello"}.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(RunFailed, match="not a"):
            load_image(tmp_path / name)
    with pytest.raises(RunFailed, match="cannot read"):
        load_image(tmp_path)
