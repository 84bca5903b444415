"""Cores: features, and compilers that agree with them."""

from __future__ import annotations

import subprocess

import pytest

from edgec.boards.toolchain import available_toolchains
from edgec.errors import BoardError
from edgec.targets.core import CORES, Core, find_core, host_core

EMBEDDED = [core for core in CORES.values() if core.is_embedded]


def test_unknown_core_names_near_ones() -> None:
    with pytest.raises(BoardError, match="near it: cortex-m4"):
        find_core("cortex-m44")


def test_host_is_this_computer() -> None:
    assert find_core("host") is host_core()
    assert not host_core().is_embedded


@pytest.mark.parametrize("core", EMBEDDED, ids=lambda core: core.name)
def test_compilers_agree_with_the_features(core: Core) -> None:
    toolchains = available_toolchains(core)
    if not toolchains:
        pytest.skip(f"no compiler for {core.name} is installed")
    for toolchain in toolchains:
        done = subprocess.run(
            [*toolchain.command, *toolchain.core_flags, "-dM", "-E", "-x", "c", "-"],
            input="",
            capture_output=True,
            text=True,
            check=True,
        )
        macros = dict(([*line.split(" ", 2), "", ""])[1:3] for line in done.stdout.splitlines())
        if core.isa == "rv32":
            assert (macros["__riscv_xlen"], macros["__riscv_float_abi_soft"]) == ("32", "1")
            assert ("__riscv_mul" in macros) == core.has("rv32m"), toolchain.name
            assert ("__riscv_compressed" in macros) == core.has("rv32c"), toolchain.name
            has_vectors = core.has("rv32v") and toolchain.family == "clang"
            assert ("__riscv_vector" in macros) == has_vectors, toolchain.name
            assert not {"__riscv_flen", "__riscv_atomic", "__riscv_v_elen_fp"} & {
                name for name, value in macros.items() if value != "0"
            }
            continue
        if core.isa == "xtensa":
            assert "__XTENSA_CALL0_ABI__" in macros and not core.features
            assert macros["__XTENSA_SOFT_FLOAT__"] == "1"
            continue
        assert ("__ARM_FEATURE_DSP" in macros) == core.has("dsp"), toolchain.name
        assert ("__ARM_FP" in macros) == core.has("fpu"), toolchain.name
        assert ("__ARM_PCS_VFP" in macros) == core.has("fpu"), toolchain.name
        double = int(macros.get("__ARM_FP", "0"), 0) & 8 != 0
        assert double == core.has("fpu_double"), toolchain.name
        assert ("__ARM_FEATURE_MVE" in macros) == core.has("mve"), toolchain.name
        assert ("__ARM_FEATURE_UNALIGNED" in macros) == core.has("unaligned"), toolchain.name
        assert (int(macros["__ARM_ARCH"]) >= 8) == core.has("v8m"), toolchain.name
        assert ("__ARM_FEATURE_IDIV" in macros) == core.has("thumb2"), toolchain.name
