"""Run the MLPerf Tiny suite on an emulated board for the table of `docs/mlperf_tiny.md`.

    PYTHONPATH=tests:tests/pages python tests/models/measure_mlperf_suite.py

Every sample goes through the protocol (a quarter of an hour; `make docs` puts the table there).
"""

from __future__ import annotations

import json
import subprocess
import sys

from figure_tables import write_figures

BOARD, SAMPLES = "mps2_an386", 500
TITLES = {
    "kws": "keywords", "vww": "persons", "ic": "images", "ad": "anomalies", "sww": "wake word",
}  # fmt: skip
PUBLISHED = "x_cube_ai_9_v1_2"
HEADS = ("model", "samples", "accuracy", "instructions", "modelled ms", "X-CUBE-AI 9, published")


def main() -> None:
    command = [sys.executable, "-m", "edgec", "bench", "--suite", "mlperf-tiny", "--json",
               "--board", BOARD, "--samples", str(SAMPLES)]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    rows = []
    for row in json.loads(done.stdout)["rows"]:
        published = row["published_ms"].get(PUBLISHED)
        is_auc = row["metric"] == "auc"
        rows.append([
            TITLES[row["model"]],
            str(row["samples"]),
            f"AUC {row['accuracy']:.3f}" if is_auc else f"{row['accuracy']:.1%}",
            f"{row['instructions']:,}",
            f"{row['modelled_ms']:.2f}",
            f"{published:.2f}" if published else "",
        ])  # fmt: skip
    write_figures("mlperf_tiny", "tests/models/measure_mlperf_suite.py", HEADS, rows)


if __name__ == "__main__":
    main()
