"""Foreign names become legal identifiers, different ones, in one place."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgec.codegen.c_data import MOST_COMMENT, short_comment
from edgec.codegen.names import (
    MAX_LENGTH,
    checked_model_name,
    identifier,
    model_identifier,
    port_names,
    unique,
)
from edgec.errors import BuildFailed

LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@given(st.text())
def test_any_text_becomes_a_legal_identifier(text: str) -> None:
    name = identifier(text)
    assert LEGAL.match(name)
    assert len(name) <= MAX_LENGTH
    assert not name.startswith("_")


@given(st.lists(st.text(max_size=5)))
def test_unique_makes_them_differ_without_case(texts: list[str]) -> None:
    names = unique(map(identifier, texts), taken=("v", "x"))
    assert len({name.lower() for name in (*names, "v", "x")}) == len(names) + 2
    assert all(LEGAL.match(name) for name in names)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("model/conv1/Relu;model/bn", "model_conv1_Relu_model_bn"),
        ("while", "v_while"),
        ("class", "v_class"),
        ("9", "v_9"),
        ("", "v"),
        ("größe", "gro_e"),
        ("ñandú", "nandu"),
        ("int32_t", "v_int32_t"),
        ("ec_add_s32", "v_ec_add_s32"),
        ("../../etc/passwd", "etc_passwd"),
        ("a" * 40, "a" * 40),
        ("a" * 39 + "_b", "a" * 38 + "_b"),
        # The last words alone, if they are half of the room or more.
        ("a" * 25 + "_" + "b" * 20, "b" * 20),
        ("a" * 25 + "_" + "b" * 19, "a" * 20 + "_" + "b" * 19),
    ],
)
def test_known_spellings(text: str, name: str) -> None:
    assert identifier(text) == name


def test_first_use_keeps_its_name() -> None:
    assert unique(["a", "A", "b", "a", "a_2"]) == ("a", "A_2", "b", "a_3", "a_2_2")


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("/models/KWS v2.tflite", "kws_v2"),
        ("C:\\models\\vww.onnx", "vww"),
        ("3d.onnx", "model_3d"),
        (".tflite", "model"),
        ("features.toml", "model_features"),  # glibc has a header of that name
        ("String.onnx", "model_string"),
        ("EC.onnx", "model_ec"),  # the runtime's own prefix
        ("con.tflite", "model_con"),  # Windows has devices of these names
        ("AUX.onnx", "model_aux"),
        ("lpt1.tflite", "model_lpt1"),
        ("console.onnx", "console"),
    ],
)
def test_model_identifier(file: str, name: str) -> None:
    assert model_identifier(file) == name


@pytest.mark.parametrize(("text", "name"), [
    ("47_model_1/model/conv_handedness/MatMul_bias", "v_1_model_conv_handedness_MatMul_bias"),
    ("2_model_1/batch_norm_11/FusedBatchNormV3#38_out_d1_out_d2_stream",
     "FusedBatchNormV3_38_out_d1_out_d2_stream"),
    ("x" * 60, "x" * 40),
    ("1" * 60, "v_" + "1" * 38),
])  # fmt: skip
def test_long_names_keep_their_last_words(text: str, name: str) -> None:
    assert identifier(text) == name and len(name) <= MAX_LENGTH


def test_long_comments_lose_their_middle() -> None:
    text = ";".join(f"block_{n}/Relu*/" for n in range(40))
    short = short_comment(text)
    assert len(short) <= MOST_COMMENT and "*/" not in short
    assert short.startswith("block_0/") and short.endswith("block_39/Relu* /") and " ... " in short
    assert short_comment("block/Relu") == "block/Relu"


def test_a_model_has_a_name_that_c_takes() -> None:
    assert checked_model_name("kws") == "kws"
    for name, legal in (
        ("int", "model_int"), ("2 words", "model_2_words"), ("math", "model_math"),
        ("nul", "model_nul"),
    ):  # fmt: skip
        with pytest.raises(BuildFailed, match=f"'{name}' cannot name a model") as caught:
            checked_model_name(name)
        assert caught.value.hint == f"'{legal}' would do"


def test_ports_have_names_of_their_own() -> None:
    def port(name: str, c_name: str | None = None) -> Any:
        return SimpleNamespace(name=name, c_name=c_name)

    program: Any = SimpleNamespace(
        inputs=(port("serving/x:0", "x"), port("!"), port("count")), outputs=(port("?"), port("x"))
    )
    assert port_names(program) == (("x", "input", "count_2"), ("output", "x_2"))
