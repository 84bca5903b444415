"""Compilers are found, preferred and missed as asked."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from edgec.boards import toolchain as module
from edgec.boards.toolchain import available_toolchains, find_toolchain
from edgec.errors import ToolMissing
from edgec.targets.core import find_core, host_core

M4 = find_core("cortex-m4")


def needs(prefer: str) -> module.Toolchain:
    try:
        return find_toolchain(M4, prefer)
    except ToolMissing as error:
        pytest.skip(error.message)


def test_gcc_is_preferred_where_it_is_installed() -> None:
    gcc = needs("gcc")
    assert find_toolchain(M4) == gcc
    assert "arm-none-eabi-gcc" in gcc.version


def test_clang_comes_with_a_package() -> None:
    clang = needs("clang")
    assert clang.is_zig
    assert clang.version.startswith("clang version")


def test_nothing_installed_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(module, "zig_program", lambda: None)
    with pytest.raises(ToolMissing, match="no C compiler for cortex-m4") as caught:
        find_toolchain(M4)
    assert "arm-none-eabi-gcc" in caught.value.hint
    assert "edgec[toolchain]" in caught.value.hint


def test_xtensa_has_gcc_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    core = find_core("lx106")
    assert all(each.name == "gcc" for each in available_toolchains(core))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    for prefer in (None, "clang"):
        with pytest.raises(ToolMissing, match="lx106") as caught:
            find_toolchain(core, prefer)
        assert "apt install gcc-xtensa-lx106" in caught.value.hint
        assert "toolchain]" not in caught.value.hint


def test_without_gcc_clang_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    needs("clang")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert find_toolchain(M4).name == "clang"
    with pytest.raises(ToolMissing, match="the toolchain 'gcc' for cortex-m4 is not installed"):
        find_toolchain(M4, "gcc")


def test_unknown_preference() -> None:
    with pytest.raises(ToolMissing, match="there is no toolchain 'icc'"):
        find_toolchain(M4, "icc")


def test_host_has_a_compiler() -> None:
    assert available_toolchains(host_core())


def test_firmware_flags() -> None:
    for toolchain in available_toolchains(M4):
        command = toolchain.compile_command(
            Path("a.c"), Path("a.o"), flags=["-O2"], include_dirs=[Path("inc")], defines=["X=1"]
        )
        assert {"-std=c99", "-ffp-contract=off", "-ffreestanding", "-DX=1", "-Iinc"} <= set(command)
        link = toolchain.link_command([Path("a.o")], Path("link.ld"), Path("a.elf"))
        # zig ignores ENTRY of the script, and drops its run-time library with -nostdlib.
        assert "-Wl,-e,Reset_Handler" in link
        assert ("-nostdlib" in link) == (not toolchain.is_zig)


@pytest.mark.parametrize(
    ("version", "flags"),
    [
        ("arm-none-eabi-gcc (15:12.2.rel1-1) 12.2.1 20221205", ["pure-const", "modref"]),
        ("riscv64-unknown-elf-gcc (12.2.0-14+deb12u1+11+b2) 12.2.0", ["pure-const", "modref"]),
        ("gcc (Debian 10.2.1-6) 10.2.1 20210110", ["pure-const"]),
        ("Apple clang version 15.0.0 (clang-1500.3.9.4)", []),
        ("clang version 22.1.3", []),
        ("", []),
    ],
)
def test_gcc_must_not_take_stores_for_pure(version: str, flags: list[str]) -> None:
    toolchain = module.Toolchain("gcc", "gcc", M4, ("gcc",), version, False)
    for level in ("-O2", "-O3"):
        command = toolchain.compile_command(Path("a.c"), Path("a.o"), flags=[level])
        assert [f for f in command if "-ipa-" in f] == [f"-fno-ipa-{name}" for name in flags]
    riscv = module.Toolchain("gcc", "gcc", find_core("rv32imc"), ("gcc",), version, False)
    for each, source in ((toolchain, "port/a.c"), (riscv, "a.c")):
        command = each.compile_command(Path(source), Path("a.o"), flags=["-O2"])
        assert not any("-ipa-" in flag for flag in command)
