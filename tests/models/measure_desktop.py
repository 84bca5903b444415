"""Time the samples on this computer beside XNNPACK and ONNX Runtime and write `docs/desktop.md`.

python tests/models/measure_desktop.py            everything, about seven minutes; the machine idle
python tests/models/measure_desktop.py --seconds 0.5    the same, less exactly

Each figure is measured in a process of its own. Where one fails, its row says so.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

REPO_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO_ROOT / "tests"), str(REPO_ROOT / "tests" / "models")]

from shared_folder import find_shared  # noqa: E402  tests are no package

#: Names in the table, files; several files are the same model in several formats.
INT8 = {
    "KWS": ("mlperf_kws_dscnn_int8.tflite",), "ResNet8": ("mlperf_ic_resnet8_int8.tflite",),
    "VWW": ("mlperf_vww_mbv1_int8.tflite",), "autoencoder": ("mlperf_ad_autoencoder_int8.tflite",),
    "SWW": ("mlperf_sww_int8.tflite",),
    "MobileNetV2-160": ("cfu_mobilenetv2_160_035_int8.tflite",),
    "mcunetv2_large": ("mcunetv2_large_int8.tflite",),
    "person_detect": ("tflm_person_detect_int8.tflite",),
}  # fmt: skip
FLOAT = {
    "ResNet8": ("mlperf_ic_resnet8_f32.tflite", "mlperf_ic_resnet8_f32.onnx"),
    "VWW": ("mlperf_vww_mbv1_f32.tflite", "mlperf_vww_mbv1_f32.onnx"),
    "KWS": ("mlperf_kws_dscnn_f32.tflite",),
    "UltraFace": ("ultraface_rfb320_f32.tflite", "ultraface_rfb320.onnx"),
    "face landmarks": ("mp_face_landmark_f16.tflite",),
    "DTLN": ("dtln_1_f32.tflite", "dtln_1_f32.onnx"),
    "Silero": ("silero_vad_op18_ifless.onnx",),
    "cct2": ("deeploy_cct2_32_f32_untrained.onnx",),
    "ppocr_det": ("ppocr_v3_det_dbnet.onnx",),
}  # fmt: skip
#: Over 10 M MACs each.
LARGE = {
    "ResNet8 int8": INT8["ResNet8"], "mcunetv2_large int8": INT8["mcunetv2_large"],
    "ResNet8 float": FLOAT["ResNet8"], "UltraFace float": FLOAT["UltraFace"],
    "face landmarks float": FLOAT["face landmarks"],
}  # fmt: skip
#: Models whose code is limited.
SMALL_CODE = ("KWS", "ResNet8", "VWW", "autoencoder", "SWW", "MobileNetV2-160")
#: What a figure may be.
LIMITS = {"int8": 1.0, "float": 1.0, "AVX2": 1.3, "threads": 1.7, "start": 0.1, "code": 120_000}
AVX2_CORE = "x86-64-v3"


@dataclass(frozen=True)
class Job:
    """One figure: `kind` is a key of LIMITS, `name` the model's in the table."""

    kind: str
    name: str
    files: tuple[str, ...]
    core: str = ""
    words: dict[str, Any] = field(default_factory=dict)


def jobs() -> Iterator[Job]:
    """All figures, in the order of the tables."""
    free = {"float_sums": "free"}
    for name, files in INT8.items():
        yield Job("int8", name, files)
    for name, files in FLOAT.items():
        yield Job("float", name, files, words=free)
    for name, files in INT8.items():
        yield Job("AVX2", f"{name} int8", files, AVX2_CORE)
    for name in ("ResNet8", "VWW", "KWS"):
        yield Job("AVX2", f"{name} float", FLOAT[name][:1], AVX2_CORE, free)
    for name, files in LARGE.items():
        yield Job("threads", name, files, words=free)
    yield Job("start", "KWS int8", INT8["KWS"])
    for name in SMALL_CODE:
        yield Job("code", name, INT8[name])


def setup_of(job: Job, seconds: float) -> Any:
    """How `edgec bench --host` is told to measure it."""
    from measure_models import options_of

    from edgec.report.host_bench import Setup
    from edgec.targets.core import CORES

    more = options_of(job.files[0])
    shapes = {"input_shapes": more.input_shapes, "input_values": more.input_values}
    return Setup(seconds, CORES[job.core] if job.core else None, options={**shapes, **job.words})


def paths_of(job: Job) -> list[Path]:
    return [find_shared() / "models" / name for name in job.files]


def measure_pair(job: Job, seconds: float) -> dict[str, Any]:
    """Our time and theirs, and the ratio."""
    from edgec.report.host_bench import measure_host

    if job.kind == "AVX2":
        from limit_xnnpack import limit_to_avx2

        limit_to_avx2()
    paths = paths_of(job)
    with tempfile.TemporaryDirectory() as folder:
        rivals = [accepted_copy(path, Path(folder)) for path in paths]
        row = measure_host(paths[0], setup_of(job, seconds), rivals)
    row["figure"] = row["edgec_us"] / row["rival_us"] if row["rival_us"] else None
    return row


def accepted_copy(path: Path, folder: Path) -> Path:
    """A file that LiteRT takes: itself, or a copy whose biases name the one axis that they have.

    Old converters name the axis of the weights, such as 3, which LiteRT refuses. Nothing else
    differs, and no kernel reads that number.
    """
    if path.suffix != ".tflite":
        return path
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(path.read_bytes()))
    wrong = [
        tensor.quantization
        for graph in model.subgraphs
        for tensor in graph.tensors
        if tensor.quantization is not None
        and tensor.shape is not None
        and len(tensor.shape) == 1
        and tensor.quantization.quantizedDimension > 0
    ]
    if not wrong:
        return path
    for quantization in wrong:
        quantization.quantizedDimension = 0
    builder = flatbuffers.Builder(path.stat().st_size)
    builder.Finish(model.Pack(builder), b"TFL3")
    copy = folder / path.name
    copy.write_bytes(builder.Output())
    return copy


def measure_threads(job: Job, seconds: float) -> dict[str, Any]:
    """How many times as fast two threads are as one."""
    from edgec.report.host_bench import measure_host

    one = measure_host(paths_of(job)[0], setup_of(job, seconds), ())
    two = measure_host(paths_of(job)[0], replace(setup_of(job, seconds), threads=2), ())
    return {**two, "one_us": one["edgec_us"], "figure": one["edgec_us"] / two["edgec_us"]}


MAIN = """#include "{model}.h"
{memory}
int main(void) {{
    const {model}_memory memory = {{ {regions} }};
    static {model}_context context;
    static unsigned char in[{inputs}], out[{outputs}];
    const void *const inputs[] = {{ in }};
    void *const outputs[] = {{ out }};
    if ({model}_init(&context, &memory) != EC_OK) {{
        return 1;
    }}
    return {model}_run(&context, inputs, outputs) == EC_OK ? 0 : 2;
}}
"""


def measure_start(job: Job, seconds: float) -> dict[str, Any]:
    """From the start of a process to its end after one inference, and LiteRT's without Python's."""
    from edgec.boards.toolchain import find_toolchain
    from edgec.build.host import build_host_program
    from edgec.report.host_bench import ours
    from edgec.targets.core import CORES

    (path,) = paths_of(job)
    with ours(path, setup_of(job, seconds)) as (compiled, built):
        manifest, project = built.manifest, built.project
        name = manifest.model
        text = MAIN.format(
            model=name, memory=f"static {name.upper()}_ARENA(arena);",
            regions="arena, sizeof arena", inputs=manifest.inputs[0].bytes,
            outputs=manifest.outputs[0].bytes,
        )  # fmt: skip
        (project / "start_main.c").write_text(text)
        program = build_host_program(
            sorted(project.glob("*.c")), project / "start", flags=["-O3"],
            toolchain=find_toolchain(CORES[compiled.program.target]), include_dirs=[project],
        )  # fmt: skip
        mine = least_of(seconds, [str(program)])
    script = (
        "from ai_edge_litert.interpreter import Interpreter as I\n"
        f"i = I({str(path)!r}, num_threads=1)\ni.allocate_tensors()\ni.invoke()\n"
    )
    python = least_of(seconds, [sys.executable, "-c", "import numpy"])
    theirs = least_of(seconds, [sys.executable, "-c", script]) - python
    if theirs <= 0:
        raise RuntimeError("the computer is too loaded to time processes")
    return {
        "edgec_us": mine * 1e6, "rival": "LiteRT", "rival_us": theirs * 1e6,
        "figure": mine / theirs, "core": compiled.program.target,
    }  # fmt: skip


def least_of(seconds: float, command: list[str]) -> float:
    """The least seconds of several runs of a program."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    return min(times)


def measure_code(job: Job, seconds: float) -> dict[str, Any]:
    """Bytes of machine code in the library."""
    from edgec.report.host_bench import ours

    with ours(paths_of(job)[0], setup_of(job, seconds)) as (compiled, built):
        done = subprocess.run(
            ["size", "-A", str(built.artefact)], capture_output=True, text=True, check=True
        )
    found = re.search(r"^\.text +(\d+)", done.stdout, re.M)
    assert found is not None, done.stdout
    return {"figure": int(found[1]), "core": compiled.program.target}


MEASURES: dict[str, Callable[[Job, float], dict[str, Any]]] = {
    "int8": measure_pair, "float": measure_pair, "AVX2": measure_pair, "threads": measure_threads,
    "start": measure_start, "code": measure_code,
}  # fmt: skip


def in_process(number: int, seconds: float) -> dict[str, Any]:
    """The figure of a job, measured in a process of its own."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        words = ["--one", str(number), "--seconds", str(seconds), "--out", out.name]
        done = subprocess.run(
            [sys.executable, __file__, *words], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines()
            return {"figure": None, "error": " ".join(lines[-2:])[:160] or "no reason given"}
        row: dict[str, Any] = json.loads(Path(out.name).read_text(encoding="utf-8"))
        return row


HEAD = """# On PCs, beside XNNPACK and ONNX Runtime

<!-- Generated by `python tests/models/measure_desktop.py`. Do not edit. -->

The least time of one inference over many, of programs that take turns on the same computer, one
thread unless a table says otherwise. Ratios are ours to theirs: below 1, ours is faster. To repeat
one line: `edgec bench --host --model FILE`.

What a PC or 64-bit Arm computes in floats may be added in other orders than on a board, and a
product and a sum are rounded once: `--float-sums free`, the default on these cores. The bits are
the same in every run and for every number of threads, within the tolerances of the framework, but
another core may have others. `--float-sums ordered` has the bits of every machine, and models of
integers always have them.
"""
TITLES = {
    "int8": "Integers, all vectors of this computer",
    "float": "Floats (`--float-sums free`, the default)",
    "AVX2": "AVX2 alone (`--target x86-64-v3`), XNNPACK limited to it too",
    "threads": "Two threads", "start": "From the start of a process to the first result",
    "code": "Machine code",
}  # fmt: skip
NOTES = {
    "threads": "How many times as fast as one thread; models of over 10 M MACs.",
    "start": "Of LiteRT the start of Python and NumPy is left out; ours is the whole process.",
    "code": "Bytes of the library's code, without weights.",
}


def page(found: list[tuple[Job, dict[str, Any]]]) -> str:
    """All tables, with what misses its limit marked."""
    lines = [HEAD]
    for kind, title in TITLES.items():
        rows = [(job, row) for job, row in found if job.kind == kind]
        lines += [f"## {title}", "", *([NOTES[kind], ""] if kind in NOTES else [])]
        lines += ["| model | core | edgec µs | beside | µs | figure | limit | note |",
                  "|---|---|---:|---|---:|---:|---:|---|"]  # fmt: skip
        lines += [line(job, row) for job, row in rows] + [""]
    return "\n".join(lines)


def line(job: Job, row: dict[str, Any]) -> str:
    figure, limit = row["figure"], LIMITS[job.kind]
    if figure is None:
        why = row.get("error") or row.get("rival", "")
        return f"| {job.name} | {job.core} | | | | | {limit:g} | not measured: {why} |"
    shown = f"{figure:,}" if job.kind == "code" else f"{figure:.3f}"
    fits = figure >= limit if job.kind == "threads" else figure <= limit
    rival, theirs = ("one thread", row.get("one_us")) if job.kind == "threads" else (
        row.get("rival", ""), row.get("rival_us"))  # fmt: skip
    times = [f"{us:,.1f}" if us else "" for us in (row.get("edgec_us"), theirs)]
    return (
        f"| {job.name} | {row['core']} | {times[0]} | {rival} | {times[1]} | {shown}"
        f" | {limit:,g} | {'' if fits else 'missed'} |"
    )


def processor() -> str:
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return found[1] if found else "an unknown processor"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each pair is timed")
    parser.add_argument("--one", type=int, help="measure one job of the list, for --out")
    parser.add_argument("--only", help="kinds of figures, separated by commas; no page is written")
    parser.add_argument("--out", type=Path, help="where --one writes JSON")
    given = parser.parse_args()
    listed = list(jobs())
    if given.one is not None:
        row = MEASURES[listed[given.one].kind](listed[given.one], given.seconds)
        given.out.write_text(json.dumps(row), encoding="utf-8")
        return
    found = []
    for number, job in enumerate(listed):
        if given.only is None or job.kind in given.only.split(","):
            found.append((job, in_process(number, given.seconds)))
            print(job.kind, line(*found[-1]), flush=True)
    if given.only is None:
        foot = f"\nMeasured on {processor()}.\n"
        (REPO_ROOT / "docs" / "desktop.md").write_text(page(found) + foot, encoding="utf-8")


if __name__ == "__main__":
    main()
