"""What compilers print becomes one clear error."""

from __future__ import annotations

from pathlib import Path

from edgec.boards.board import load_board
from edgec.build.diagnose import MAX_LINES, explain_compiler, explain_linker, find_overflows

GNU = (
    "ld: out/firmware.elf section `.ec_weights' will not fit in region `flash'\n"
    "ld: region `flash' overflowed by 42964 bytes\n"
    "ld: region `sram' overflowed by 128 bytes\n"
)
LLD = (
    "error: ld.lld: section '.ec_weights' will not fit in region 'flash': overflowed by 40 bytes\n"
    "error: ld.lld: section '.data' will not fit in region 'flash': overflowed by 52 bytes\n"
)


def test_overflows_of_both_linkers() -> None:
    assert find_overflows(GNU) == {"flash": 42964, "sram": 128}
    # lld says it once per section; the last is the whole excess.
    assert find_overflows(LLD) == {"flash": 52}
    assert find_overflows("all is well") == {}


def test_overflow_of_two_regions_has_both_hints() -> None:
    error = explain_linker(GNU, load_board("bbc_microbit"), [])
    assert "flash by 42964 bytes, sram by 128 bytes" in error.message
    assert "--optimize size" in error.hint and "--optimize ram" in error.hint


def test_undefined_names_of_both_linkers() -> None:
    for text in ("a.c: undefined reference to `foo'", "error: undefined symbol: foo"):
        assert "defines foo" in explain_linker(text, load_board("stm32"), []).message


def test_other_linker_errors_are_shown() -> None:
    error = explain_linker("strange\n\nthings\n", load_board("stm32"), [])
    assert error.details == ("strange", "things")


def test_many_errors_are_cut_short() -> None:
    text = "\n".join(f"a.c:{n}:1: error: number {n}\na.c: note: more" for n in range(20))
    error = explain_compiler(Path("a.c"), text)
    assert len(error.details) == MAX_LINES + 1
    assert error.details[-1] == "and 12 more"


def test_output_without_errors_is_shown_as_it_is() -> None:
    assert explain_compiler(Path("a.c"), "killed\n").details == ("killed",)
