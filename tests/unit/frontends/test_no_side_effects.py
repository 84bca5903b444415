"""A model file is data: importing one runs no code, starts no program and opens no other file than
the data of its own tensors in its own folder.

Python itself tells what happens: an audit hook hears of every file that is opened, every program
and socket, and every compilation and execution of code, in a process of its own.
"""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_builder import float_network
from test_int16_models import int16_model

from edgec.cli.main import main

REPO_ROOT = Path(__file__).resolve().parents[3]

IMPORT = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
warm, path = Path(sys.argv[2]), Path(sys.argv[3])
from edgec.errors import EdgecError
from edgec.frontends import import_model
from edgec.graph.verify import verify_module
import_model(warm)  # what is loaded on first use is the program's own
events = []
WATCHED = ("open", "exec", "compile", "import", "os.system", "os.exec", "os.posix_spawn",
           "os.fork", "subprocess.Popen", "socket.connect", "ctypes.dlopen", "pickle.find_class",
           "marshal.loads", "os.remove", "os.rename", "os.mkdir", "shutil.rmtree")
def hook(name, args):
    if name in WATCHED:
        events.append((name, repr(args[0])[:200]))
sys.addaudithook(hook)
try:
    verify_module(import_model(path))
    result = "imported"
except EdgecError as error:
    result = error.message
events_seen = list(events)
print(json.dumps({"result": result, "events": events_seen}))
"""


def imported(path: Path, warm: Path) -> tuple[str, list[tuple[str, str]]]:
    """What importing said, and what it did beside reading the file itself or Python's modules."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORT, str(REPO_ROOT), str(warm), str(path)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    own = (repr(str(path)), repr(path))
    events = [
        (name, what)
        for name, what in told["events"]
        if not (name == "open" and what in own) and not is_of_python(name, what)
    ]
    return told["result"], events


def is_of_python(name: str, what: str) -> bool:
    """Modules that are loaded when they are first needed: files of installed packages."""
    if name in ("import", "marshal.loads"):
        return True
    if name == "exec":
        return what.startswith("<code object <module> at") and ".py" in what
    places = [sys.prefix, sys.base_prefix, str(REPO_ROOT / "edgec")]
    return name == "open" and any(what.strip("'").startswith(place) for place in places)


def _one_float(tensor: Any) -> Any:
    tensor.dims.append(1)
    tensor.data_type = 1
    return tensor


def in_an_initializer(model: Any) -> Any:
    return model.graph.initializer[0]


def in_an_unused_initializer(model: Any) -> Any:
    return model.graph.initializer.add(name="unused", dims=[1], data_type=1)


def in_a_sparse_initializer(model: Any) -> Any:
    import onnx

    sparse = model.graph.sparse_initializer.add(dims=[1])
    sparse.indices.CopyFrom(onnx.numpy_helper.from_array(np.zeros(1, np.int64)))
    sparse.values.CopyFrom(onnx.numpy_helper.from_array(np.ones(1, np.float32), "sparse"))
    return sparse.values


def in_a_constant(model: Any) -> Any:
    node = model.graph.node.add(op_type="Constant", output=["unused"])
    return _one_float(node.attribute.add(name="value", type=4).t)


def in_a_function(model: Any) -> Any:
    """A function that no node calls."""
    model.opset_import.add(domain="own", version=1)
    function = model.functions.add(name="F", domain="own", output=["y"])
    function.opset_import.add(version=13)
    node = function.node.add(op_type="Constant", output=["y"])
    return _one_float(node.attribute.add(name="value", type=4).t)


def in_training_information(model: Any) -> Any:
    return model.training_info.add().initialization.initializer.add(dims=[1], data_type=1)


PLACES = (
    in_an_initializer, in_an_unused_initializer, in_a_sparse_initializer, in_a_constant,
    in_a_function, in_training_information,
)  # fmt: skip


def trapped_onnx(tmp_path: Path, place: Callable[[Any], Any], location: str) -> Path:
    import onnx

    path = float_network(1, tmp_path / "trapped.onnx")
    model = onnx.load(path)
    tensor = place(model)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", "4")):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize(
    "location", ["../secret.bin", "link.bin", "links/passwd", "/etc/passwd", "/dev/zero"]
)
def test_external_data_out_of_the_folder_is_not_opened(location: str, tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(4096))
    (folder := tmp_path / "models").mkdir()
    (folder / "link.bin").symlink_to("/etc/passwd")
    (folder / "links").symlink_to("/etc")
    path = trapped_onnx(folder, in_an_initializer, location)
    result, events = imported(path, float_network(0, tmp_path / "warm.onnx"))
    assert "is outside the model's folder" in result and not events


@pytest.mark.parametrize("place", PLACES)
def test_external_data_is_refused_wherever_it_stands(
    place: Callable[[Any], Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """edgec does not look at all of these tensors, but ONNX Runtime would open their files."""
    (tmp_path / "secret.bin").write_bytes(bytes(4096))
    (tmp_path / "models").mkdir()
    path = trapped_onnx(tmp_path / "models", place, "../secret.bin")
    for command in (["inspect"], ["verify", "--board", "mps2_an386"]):
        with pytest.raises(SystemExit) as stop:
            main([*command, str(path)])
        assert stop.value.code == 1
        assert "is outside the model's folder" in capsys.readouterr().err


def test_good_models_open_nothing_else(tmp_path: Path) -> None:
    warm = float_network(0, tmp_path / "warm.onnx")
    assert imported(float_network(2, tmp_path / "m.onnx"), warm) == ("imported", [])
    for name in ("warm.tflite", "m.tflite"):
        int16_model(tmp_path / name)
    found = imported(tmp_path / "m.tflite", tmp_path / "warm.tflite")
    assert found == ("imported", [])


class Bomb:
    """Writes a file when a pickle of it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.write_text, (self.path, "boom")


@pytest.mark.parametrize(
    "suffix",
    [".pt", ".onnx", ".tflite",
     *(pytest.param(s, marks=pytest.mark.full) for s in (".pth", ".pkl", ".npz", ".keras"))],
)  # fmt: skip
def test_pickles_are_not_read(suffix: str, tmp_path: Path) -> None:
    """A file of PyTorch is a zip of pickles: refused by what it is, whatever it is called."""
    sign = tmp_path / "sign"
    plain, zipped = tmp_path / f"plain{suffix}", tmp_path / f"zipped{suffix}"
    plain.write_bytes(pickle.dumps(Bomb(sign)))
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("archive/data.pkl", plain.read_bytes())
    warm = float_network(0, tmp_path / "warm.onnx")
    for path in (plain, zipped):
        result, events = imported(path, warm)
        assert "imported" not in result and len(result) > 10
        assert not [event for event in events if event[0] == "pickle.find_class"]
        assert not sign.exists()


def test_inputs_are_no_pickles_either(tmp_path: Path) -> None:
    from edgec.errors import EdgecError
    from edgec.runners.inputs import load_arrays

    sign, path = tmp_path / "sign", tmp_path / "x.npy"
    stream = io.BytesIO()
    np.save(stream, np.array([Bomb(sign)], dtype=object), allow_pickle=True)
    path.write_bytes(stream.getvalue())
    with pytest.raises(EdgecError):
        load_arrays(path)
    assert not sign.exists()


def test_the_watcher_sees(tmp_path: Path) -> None:
    """The same process notices a file that is opened beside the model."""
    warm = float_network(0, tmp_path / "warm.onnx")
    broken = IMPORT.replace('    result = "imported"', "    open('/etc/hostname'); result = 'x'")
    assert broken != IMPORT
    done = subprocess.run(
        [sys.executable, "-c", broken, str(REPO_ROOT), str(warm), str(warm)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ["open", "'/etc/hostname'"] in json.loads(done.stdout)["events"]
