"""The notebook of `examples/torch_kws` runs, and shows what it promises."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

WHY = "{} is not installed (edgec[packages])"
pytest.importorskip("torch", reason="PyTorch is not installed (edgec[torch])")
nbformat = pytest.importorskip("nbformat", reason=WHY.format("nbformat"))
nbclient = pytest.importorskip("nbclient", reason=WHY.format("nbclient"))
pytest.importorskip("ipykernel", reason=WHY.format("ipykernel"))
pytest.importorskip("matplotlib", reason=WHY.format("matplotlib"))

EXAMPLE = Path(__file__).parents[2] / "examples" / "torch_kws"


@pytest.mark.full  # `test_example_torch_kws.py` runs the same as a script
@pytest.mark.filterwarnings("ignore")  # the kernel's own, of its event loop
def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    notebook = nbformat.read(EXAMPLE / "torch_kws.ipynb", as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(EXAMPLE)}}
    ).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    shown = [kind for output in outputs for kind in output.get("data", ())]
    assert shown.count("image/png") == 3
    (table,) = (o["data"]["text/html"] for o in outputs if "text/html" in o.get("data", ()))
    assert "cortex-m4" in table and table.count("<tr>") > 12 and "conv2d" in table
    printed = "".join(output.get("text", "") for output in outputs)
    before, after = (float(share) for share in re.findall(r": ([\d.]+) % of 60 words", printed))
    assert before >= 90 and after >= before - 4, printed


def test_the_notebook_comes_with_its_pictures() -> None:
    notebook = nbformat.read(EXAMPLE / "torch_kws.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code and all(cell.execution_count for cell in code)
    kinds = [kind for cell in code for output in cell.outputs for kind in output.get("data", ())]
    assert kinds.count("image/png") == 3 and kinds.count("text/html") == 1
    assert not [o for cell in code for o in cell.outputs if o.get("name") == "stderr"]
