"""Single functions come out of the runtime's headers with what they call."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edgec.codegen import runtime_source
from edgec.codegen.runtime_source import needed_functions, read_header, runtime_functions
from edgec.errors import ContractError
from edgec.loop.microkernel import all_microkernels
from edgec.resources import resource_dir
from edgec.targets import kernels as _kernels  # noqa: F401  registers them


def test_callees_come_before_callers() -> None:
    functions = needed_functions(["y = ec_requantize_tflm_small_s8(a, m, s, z);"])
    names = [function.name for function in functions]
    assert names.index("ec_high_of_double") < names.index("ec_requantize_tflm_small_s8")
    assert "ec_saturate_half_s8" in names
    assert "ec_requantize_onnx" not in names


def test_a_name_stands_for_one_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    header = tmp_path / "kernels" / "common" / "sums.h"
    header.parent.mkdir(parents=True)
    text = (
        "/* One. */\n#define EC_SUMS(k) (k)\n\n/* Another. */\n#define EC_SUMS(k, w) ((k) * (w))\n"
    )
    for name in ("ec_kernel.h", "ec_math.h", "ec_fixed_point.h"):
        path = tmp_path / "include" / "edgec" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    header.write_text(text)
    monkeypatch.setattr(runtime_source, "resource_dir", lambda _: tmp_path)
    with pytest.raises(ContractError, match="EC_SUMS is defined twice"):
        runtime_functions.__wrapped__()


def test_every_header_function_is_found() -> None:
    functions = runtime_functions()
    assert len(functions) > 40
    for name, function in functions.items():
        assert function.text.startswith("/*")
        if name.startswith("EC_"):
            assert re.search(rf"^#define {name}\b", function.text, re.M)
            continue
        if name.endswith("_sizes"):
            assert function.text.endswith(f"\n}} {name};") and "typedef struct {\n" in function.text
            continue
        assert function.text.endswith("}")
        assert len(re.findall(r"^static (inline|EC_KERNEL|EC_SHARED) ", function.text, re.M)) == 1
        code = re.sub(r"/\*.*?\*/", "", function.text, flags=re.S)
        assert code.count("{") == code.count("}"), function.name
        called = {call for call in function.calls if call.startswith("ec_")}
        assert called <= set(functions), function.name


def test_headers_of_kernels_have_them() -> None:
    folder = resource_dir("runtime_c") / "kernels"
    for kernel in all_microkernels():
        assert re.search(rf"\b{kernel.name}\(", read_header(folder / kernel.header)), kernel.name


def test_variants_have_the_values_of_their_parameters() -> None:
    functions = runtime_functions()
    for name, stored in (("ec_conv_row_f32_f16", 2), ("ec_conv_row_f32_s4", 0)):
        text = functions[name].text
        assert f"const ec_row_f32_sizes n = {{\n        {stored}," in text
        assert "EC_OF" not in text and "EC_STORED" not in text


def test_macros_come_with_what_names_them() -> None:
    names = [piece.name for piece in needed_functions(["ec_matrix_3_s8_dsp(a, b, c, 1, 2, 3);"])]
    assert names.index("EC_KERNEL") < names.index("ec_matrix_3_s8_dsp")
    assert names.index("EC_MATRIX_3_STEP") < names.index("ec_matrix_3_s8_dsp")
    assert "EC_MATRIX_1_STEP" not in names
    assert needed_functions(["EC_STEP static int x;"]) == ()


def test_names_in_comments_do_not_count() -> None:
    assert needed_functions(["/* like ec_add_s32(a, b) */ y = 1;"]) == ()


def test_unknown_functions_are_refused() -> None:
    with pytest.raises(ContractError, match="ec_no_such_thing"):
        needed_functions(["ec_no_such_thing(1);"])
