"""custom: a user's C function in both formats, on the host and on an emulated core."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from custom_op_files import SHAPE, expected, onnx_model, tflite_model, write_declaration
from single_node import check_nests

import edgec
from edgec.errors import EdgecError, ImportFailed, RunFailed
from edgec.frontends import import_model
from edgec.frontends.custom_file import load_custom_ops
from edgec.graph.interpret import interpret

MODELS: dict[str, Callable[[Path], Path]] = {
    "m.onnx": onnx_model, "m.tflite": tflite_model,
}  # fmt: skip


@pytest.fixture
def declared(tmp_path: Path) -> Path:
    load_custom_ops(write_declaration(tmp_path))
    return tmp_path


def sample(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=SHAPE).astype(np.float32)


def test_the_reference_computes_it(declared: Path) -> None:
    module = import_model(tflite_model(declared / "m.tflite"))
    y, place = interpret(module.main, [sample(1)])
    for found, wanted in zip((y, place), expected(sample(1)), strict=True):
        np.testing.assert_array_equal(found, wanted)
    check_nests(module.main, [sample(1)])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("board", ["host", "stm32"])
def test_c_has_the_bits_of_the_reference(name: str, board: str, declared: Path) -> None:
    path = MODELS[name](declared / name)
    main = import_model(path).main
    how = {} if board == "host" else {"engine": "core"}
    how["float_sums"] = "ordered"
    with edgec.compile(path, board=board, output=declared / "out", **how) as model:
        for seed in range(3):
            found = model.run(sample(seed))
            for mine, wanted in zip(found, interpret(main, [sample(seed)]), strict=True):
                np.testing.assert_array_equal(mine, wanted)
    copies = [path.name for path in (declared / "out").glob("*_custom_scale.c")]
    assert copies == ["m_custom_scale.c"]


def test_a_declaration_that_is_wrong(declared: Path) -> None:
    text = (declared / "ops.py").read_text()
    for before, after, message in (
        ('symbol="scale_and_find"', 'symbol="ec_scale"', "cannot be the C function"),
        ('with_name("scale.c")', 'with_name("absent.c")', "cannot read"),
        ('onnx="com.example.ScaleAndFind", tflite="ScaleAndFind"', 'onnx="Scale"', "no name"),
        ("import numpy", "import no_such_module", "failed: ModuleNotFoundError"),
    ):
        (declared / "ops.py").write_text(text.replace(before, after))
        with pytest.raises(EdgecError, match=message):
            load_custom_ops(declared / "ops.py")


def test_rules_that_fail_or_lie(declared: Path) -> None:
    text = (declared / "ops.py").read_text()
    path = tflite_model(declared / "m.tflite")
    (declared / "ops.py").write_text(text.replace('attributes["factor"]', 'attributes["other"]'))
    load_custom_ops(declared / "ops.py")
    with pytest.raises(ImportFailed, match="declaration of scale_and_find failed: KeyError"):
        import_model(path)
    (declared / "ops.py").write_text(text.replace("astype(np.int32)", "astype(np.int64)"))
    load_custom_ops(declared / "ops.py")
    with pytest.raises(RunFailed, match="its declaration says"):
        interpret(import_model(path).main, [sample(1)])
