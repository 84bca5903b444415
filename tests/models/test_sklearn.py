"""scikit-learn's pipelines by skl2onnx: the C answers as scikit-learn does, on this computer and on
a simulated Cortex-M4. The files are compiled as skl2onnx writes them, without an option.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgec.onnx_backend as backend
from edgec.api import compile as compile_model

pytestmark = pytest.mark.skipif(
    find_spec("skl2onnx") is None, reason="skl2onnx is not installed (edgec[test])"
)

#: Samples that both answer.
TESTED = 12


def _scaled(*steps: Any) -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), *steps)


def _logistic() -> Any:
    from sklearn.linear_model import LogisticRegression

    return _scaled(LogisticRegression())


def _from(module: str, name: str, scaled: bool = False, **parameters: Any) -> Callable[[], Any]:
    def make() -> Any:
        import importlib

        made = getattr(importlib.import_module(f"sklearn.{module}"), name)(**parameters)
        return _scaled(made) if scaled else made

    return make


def _pca_linear() -> Any:
    from sklearn.decomposition import PCA
    from sklearn.svm import LinearSVC

    return _scaled(PCA(5), LinearSVC())


#: By name: how it is made, the data it learns, and what the outputs are: methods of scikit-learn.
PIPELINES: dict[str, tuple[Callable[[], Any], str, tuple[str, ...]]] = {
    "logistic": (_logistic, "wine", ("predict", "predict_proba")),
    "forest": (_from("ensemble", "RandomForestClassifier", n_estimators=20, random_state=0),
               "wine", ("predict", "predict_proba")),
    "two_classes": (_from("ensemble", "RandomForestClassifier", n_estimators=10, random_state=0),
                    "breast_cancer", ("predict", "predict_proba")),
    "boosting": (_from("ensemble", "GradientBoostingClassifier", n_estimators=15, random_state=0),
                 "wine", ("predict", "predict_proba")),
    "histograms": (_from("ensemble", "HistGradientBoostingClassifier", max_iter=15),
                   "breast_cancer", ("predict", "predict_proba")),
    "svc": (_from("svm", "SVC", scaled=True), "wine", ("predict", "decision_function")),
    "svr": (_from("svm", "SVR", scaled=True, C=50.0), "diabetes", ("predict",)),
    "mlp": (_from("neural_network", "MLPClassifier", scaled=True, hidden_layer_sizes=(16,),
                  max_iter=60, random_state=0), "wine", ("predict", "predict_proba")),
    "neighbours": (_from("neighbors", "KNeighborsClassifier", n_neighbors=5), "wine",
                   ("predict", "predict_proba")),
    "pca_linear": (_pca_linear, "wine", ("predict", "decision_function")),
    "forest_regressor": (_from("ensemble", "RandomForestRegressor", n_estimators=10,
                               max_depth=8, random_state=0), "diabetes", ("predict",)),
    "bayes": (_from("naive_bayes", "GaussianNB"), "wine", ("predict", "predict_proba")),
    "isolation": (_from("ensemble", "IsolationForest", n_estimators=5, random_state=0), "wine",
                  ("predict", "decision_function")),
}  # fmt: skip
ON_CORE = ("forest", "boosting", "svc")
QUICK = ("forest", "svc")


def full_but(quick: tuple[str, ...], names: Any) -> list[Any]:
    """Names as parameters, all but some of them for `make test-full` alone."""
    return [n if n in quick else pytest.param(n, marks=pytest.mark.full) for n in names]


def saved(name: str, folder: Path) -> tuple[Path, np.ndarray, list[np.ndarray]]:
    """The ONNX file of a pipeline, samples, and what scikit-learn answers."""
    from skl2onnx import to_onnx
    from sklearn import datasets
    from sklearn.svm import LinearSVC

    make, data, methods = PIPELINES[name]
    x, y = getattr(datasets, f"load_{data}")(return_X_y=True)
    x = x.astype(np.float32)
    with warnings.catch_warnings(action="ignore"):
        model = make().fit(x, y)
        opsets = {"": 18, "ai.onnx.ml": 3} if name == "isolation" else None
        # Without it skl2onnx 1.20 asks LinearSVC in a pipeline for an option that it lacks.
        options = {LinearSVC: {"raw_scores": True}} if name == "pca_linear" else None
        file = to_onnx(model, x[:1], target_opset=opsets, options=options)
        path = folder / f"{name}.onnx"
        path.write_bytes(file.SerializeToString())
    samples = x[:: len(x) // TESTED][:TESTED]
    return path, samples, [getattr(model, method)(samples) for method in methods]


def check_equal(answers: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for mine, theirs in zip(answers, wanted, strict=True):
        mine = mine.reshape(theirs.shape)
        if theirs.dtype.kind in "iu":
            np.testing.assert_array_equal(mine, theirs)
        else:
            np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", full_but(QUICK, PIPELINES))
def test_c_answers_as_scikit_learn(name: str, tmp_path: Path) -> None:
    import onnx

    path, samples, wanted = saved(name, tmp_path)
    check_equal(list(backend.prepare(onnx.load(path)).run([samples])), wanted)


@pytest.mark.parametrize("name", full_but((), ON_CORE))
def test_a_microcontroller_answers_as_scikit_learn(name: str, tmp_path: Path) -> None:
    path, samples, wanted = saved(name, tmp_path)
    with compile_model(path, board="stm32", engine="core") as model:
        answers = [model.run(sample[np.newaxis]) for sample in samples]
    found = [answers] if len(wanted) == 1 else list(zip(*answers, strict=True))
    check_equal([np.concatenate(each) for each in found], wanted)
