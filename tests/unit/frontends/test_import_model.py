"""import_model chooses the format by content, then by suffix, and says what is wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tflite_builder import TfliteBuilder

from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.loop.tuned import beside


def tflite_bytes() -> bytes:
    model = TfliteBuilder()
    x = model.tensor("x", (2, 3), "int8", scale=0.5, zero_point=0)
    y = model.tensor("y", (6,), "int8", scale=0.5, zero_point=0)
    model.operator("RESHAPE", [x], [y])
    return model.build([x], [y])


@pytest.mark.parametrize("name", ["m.tflite", "m.TFLITE", "m.bin", "m.onnx", "m"])
def test_a_tflite_file_is_known_by_its_content(name: str, tmp_path) -> None:
    path = tmp_path / name
    path.write_bytes(tflite_bytes())
    module = import_model(path)
    assert (module.format, module.source) == ("tflite", name)


@pytest.mark.parametrize("name", ["m.onnx", "m.bin"])
def test_a_protobuf_goes_to_the_onnx_importer(name: str, tmp_path) -> None:
    path = tmp_path / name
    path.write_bytes(b"\x08\x09\xff\xff\xff")
    with pytest.raises(ImportFailed, match="ONNX"):
        import_model(path)


def test_words_for_what_is_no_model(tmp_path) -> None:
    def message(name: str, data: bytes | None) -> str:
        path = tmp_path / name
        if data is not None:
            path.write_bytes(data)
        with pytest.raises(ImportFailed) as caught:
            import_model(path)
        return caught.value.render()

    assert "neither TFLite, ONNX nor PyTorch" in message("notes.txt", b"hello, world")
    assert "is empty" in message("empty", b"")
    assert "is not a TFLite model" in message("m.tflite", b"hello, world")
    assert "cannot read" in message("absent.tflite", None)
    assert "cannot read" in message(".", None)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are POSIX")
def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    """A pipe would be waited for without an end."""
    os.mkfifo(tmp_path / "m.onnx")
    (tmp_path / "m.tflite").symlink_to("/dev/zero")
    for name in ("m.onnx", "m.tflite"):
        with pytest.raises(ImportFailed, match="it is a pipe or a device, not a file"):
            import_model(tmp_path / name)
    with pytest.raises(ImportFailed, match="cannot read"):
        import_model(tmp_path)
    assert beside(Path()) is None
