"""Outputs of integers that are too inaccurate: the warning of `edgec quantize`, and remedies."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from edgec.report.figures import short_title

#: Less counts as inaccurate: an error over 10 % in amplitude. The int8 files that MLPerf Tiny
#: publishes have 21 dB and more with the accuracy of float; a voice detector of 12 dB decides
#: otherwise in one frame of ten, of 22 dB in one of forty.
LOW_SQNR_DB = 20.0
#: Number of layers to blame that are named.
MOST_BLAMED = 3


def blamed_rows(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Rows of `edgec quantize`'s object that have a part of the error, the largest first."""
    rows = [row for row in report["rows"] if (row["blame"] or 0.0) > 0]
    return sorted(rows, key=lambda row: -float(row["blame"]))


def inaccurate_outputs(report: Mapping[str, Any], again: Sequence[str]) -> dict[str, Any] | None:
    """The warning about outputs below LOW_SQNR_DB; None if there is no such output.

    report: `edgec quantize`'s object. again: a command line that makes the same file with int8 or
    int16 values, as needed.
    """
    low = [dict(row) for row in report["outputs"] if row["sqnr_db"] < LOW_SQNR_DB]
    recipe, values = report["recipe"], report["values"]
    goal = None if values is None else values["goal_db"]
    if not low or (goal is not None and goal < LOW_SQNR_DB):
        return None  # as near as asked for
    command = ""
    if values is not None and values["build"] is not None:
        advice = "no mix within the limits has a smaller error: raise them, or keep layers in float"
    elif values is not None:
        advice = "mixed values meet their goal on the held-out samples: calibrate with more samples"
    elif recipe["weights"] == "float16":
        advice = "float16 cannot represent these weights: build the float model"
    elif recipe["weights"] != "int8":
        advice = f"weights of {recipe['weights']} are coarse: try --weights int8"
    elif recipe["activations"] == "int8":
        advice = "store in int16 the values for which int8 is too coarse"
        command = shlex.join(again)
    else:
        advice = "keep the layers that cause the error in float: --keep-float LAYER"
    return {
        "least_db": LOW_SQNR_DB,
        "outputs": low,
        "blamed": [row["name"] for row in blamed_rows(report)[:MOST_BLAMED]],
        "advice": advice,
        "command": command,
    }


def low_accuracy_warning(sqnr_db: float) -> str | None:
    """The warning for a model that another command quantized, without a comparison.

    sqnr_db: of its outputs on held-out samples.
    """
    if sqnr_db >= LOW_SQNR_DB:
        return None
    return (
        f"warning: int8 is too coarse for this model: {sqnr_db:.1f} dB on held-out samples;"
        " `edgec quantize --activations mixed` makes a more accurate model to build"
    )


def low_accuracy_words(inaccurate: Mapping[str, Any]) -> tuple[str, str]:
    """One sentence for the problem, one for the remedy; without the command."""
    outputs = ", ".join(
        f"{short_title(o['name'])} {o['sqnr_db']:.1f} dB" for o in inaccurate["outputs"]
    )
    wrong = (
        f"integers are too coarse for this model: {outputs}, less than {inaccurate['least_db']:.0f}"
        " (an error of 10 % in amplitude)"
    )
    blamed = ", ".join(short_title(name) for name in inaccurate["blamed"])
    if blamed:
        wrong += f"; first to blame: {blamed}"
    return wrong, inaccurate["advice"]


def low_accuracy_lines(inaccurate: Mapping[str, Any]) -> list[str]:
    wrong, advice = low_accuracy_words(inaccurate)
    lines = [f"warning: {wrong}"]
    if inaccurate["command"]:
        return [*lines, f"hint: {advice}:", f"  {inaccurate['command']}"]
    return [*lines, f"hint: {advice}"]
