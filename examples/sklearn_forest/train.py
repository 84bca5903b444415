"""Train a random forest, run it on the emulated board, and print the accuracy of both."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from skl2onnx import to_onnx
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import edgec

most = int(sys.argv[1]) if len(sys.argv) > 1 else 450
folder = Path(sys.argv[2]) if len(sys.argv) > 2 else Path("out")

images, digits = load_digits(return_X_y=True)
x, x_test, y, y_test = train_test_split(
    images.astype(np.float32), digits, test_size=450, random_state=0, stratify=digits
)
forest = RandomForestClassifier(n_estimators=100, random_state=0).fit(x, y)
print(f"scikit-learn: {100 * forest.score(x_test, y_test):.1f} % of {len(y_test)} digits")

folder.mkdir(parents=True, exist_ok=True)
(folder / "forest.onnx").write_bytes(to_onnx(forest, x[:1]).SerializeToString())

with edgec.compile(folder / "forest.onnx", board="stm32", output=folder / "forest") as model:
    results = [model.run_all([image[np.newaxis]]) for image in x_test[:most]]
    labels = np.array([result.outputs[0][0] for result in results])
    right = labels == y_test[:most]
    branches = sum(int((tree.tree_.children_left >= 0).sum()) for tree in forest.estimators_)
    flash = model.built.manifest.weights_bytes
    print(f"emulated STM32F405: {100 * right.mean():.1f} % of {most} digits")
    print(f"{branches} branches in {flash} bytes: {flash / branches:.1f} bytes each")
    print(f"the same labels: {(labels == forest.predict(x_test[:most])).all()}")
