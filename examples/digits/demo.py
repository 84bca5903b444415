"""Run the digits model on an emulated STM32 and compare it with ONNX Runtime on this computer."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import edgec
from edgec.errors import EdgecError, ToolMissing
from edgec.oracle.frameworks import open_oracle

HERE = Path(__file__).resolve().parent
MODEL = HERE / "digits_int8.onnx"
SHADES = " .:-=+*#%@"
SHOWN = 6


def draw(image: np.ndarray) -> list[str]:
    """An 8x8 image in 0..1 as eight lines of text."""
    levels = np.clip(image.reshape(8, 8) * (len(SHADES) - 1), 0, len(SHADES) - 1).astype(int)
    return ["".join(SHADES[level] * 2 for level in row) for row in levels]


def main() -> int:
    console = Console()
    samples = np.load(HERE / "digits_test.npz")
    images, labels = samples["x"], samples["y"]
    count = int(sys.argv[1]) if len(sys.argv) > 1 else len(images)
    try:
        model = edgec.compile(MODEL, board="stm32")
    except EdgecError as error:
        console.print(error.render(), style="red", markup=False)
        return 1
    with model:
        report = model.report
        try:
            model.run(images[0][None])
        except ToolMissing as missing:
            console.print(f"{missing.message}; the engine `core` runs the same firmware instead.")
            model.engine = "core"
        answers, results = [], []
        for image in track(images[:count], f"digits on {model.board.title} ({model.engine})",
                           console=console):  # fmt: skip
            result = model.run_all([image[None]])
            results.append(result)
            answers.append(result.outputs[0])
    outputs = np.concatenate(answers)

    reference = "ONNX Runtime"
    try:
        oracle = open_oracle(MODEL)
        expected = np.concatenate([oracle.run([x[None]]).outputs[0] for x in images[:count]])
    except ToolMissing:
        reference = "the reference interpreter"
        expected = np.concatenate([model.compiled.reference([x[None]])[0] for x in images[:count]])
    same = int((outputs == expected).sum())

    for start in range(0, SHOWN, 3):
        block = range(start, min(start + 3, SHOWN))
        for lines in zip(*(draw(images[n]) for n in block), strict=True):
            console.print("   ".join(lines), markup=False, highlight=False)
        answer = [f"answer {outputs[n].argmax()}, label {labels[n]}" for n in block]
        console.print("   ".join(f"{text:<16}" for text in answer), highlight=False)
        console.print()

    truth = labels[:count]
    table = Table(title=f"{MODEL.name} on {model.board.title}, engine {model.engine}")
    table.add_column("what")
    table.add_column("figure", justify="right")
    rows = {
        "accuracy on the board": f"{(outputs.argmax(1) == truth).mean():.2%}",
        f"accuracy by {reference}": f"{(expected.argmax(1) == truth).mean():.2%}",
        "outputs with the same bits": f"{same:,} of {outputs.size:,}",
        "arena (lower bound)": f"{report['arena_bytes']:,} ({report['arena_lower_bound']:,}) B",
        "stack": f"{report['stack_bytes']:,} B",
        "flash: code + weights": f"{report['code_bytes']:,} + {report['weights_bytes']:,} B",
        "instructions per image": f"{max(r.instructions for r in results):,}",
        "multiply-accumulates": f"{report['macs']:,}",
    }
    for name, figure in rows.items():
        table.add_row(name, figure)
    console.print(table)
    return 0 if same == outputs.size else 3


if __name__ == "__main__":
    sys.exit(main())
