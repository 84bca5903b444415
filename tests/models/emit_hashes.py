"""Compare the machine code of two revisions: `make emit-diff BASE=<commit>`.

A refactor must change no byte of what the C compiler makes of emitted C. Each sample model is
built as a library for several cores and `--optimize` levels by the command line of each revision;
the C files are compiled, and the bytes of all sections that reach the device are hashed. Comments
and names of static functions may change; code, constants and their sizes may not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

REPO = Path(__file__).resolve().parents[2]
MODELS = Path(os.environ.get("EDGEC_SHARED", REPO.parent / "shared")) / "models"
LEVELS = ("balanced", "time", "ram", "size")
#: Cores, and the C compiler that makes objects for each.
ARM = ("arm-none-eabi-gcc", "-mthumb", "-mfloat-abi=soft")
COMPILERS = {
    "cortex-m0": (*ARM, "-mcpu=cortex-m0"),
    "cortex-m3": (*ARM, "-mcpu=cortex-m3"),
    "cortex-m4": ("arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m4", "-mfloat-abi=hard",
                  "-mfpu=fpv4-sp-d16"),
    "cortex-m55": ("arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m55", "-mfloat-abi=hard",
                   "-mfpu=auto"),
    "x86_64": ("gcc",),
}  # fmt: skip
#: Models that build in seconds and meet every family of operators; `--all` takes every model.
QUICK = (
    "mlperf_kws_dscnn_int8.tflite", "mlperf_ic_resnet8_int8.tflite",
    "mlperf_ad_autoencoder_int8.tflite", "mlperf_sww_int8.tflite", "mlperf_kws_dscnn_qdq.onnx",
    "mlperf_ic_resnet8_f32.onnx",
    "mlperf_kws_dscnn_f32.tflite", "onnxzoo_mnist8.onnx", "tflm_hello_world_int8.tflite",
    "tflm_micro_speech_int8.tflite", "tflm_mnist_lstm_int8.tflite", "tflm_mnist_lstm_f32.tflite",
    "xtensa_micro_speech_lstm.tflite", "dtln_1_f32.onnx", "mww_hey_jarvis_int8.tflite",
    "tflm_audio_preprocessor_int8.tflite", "tflm_keyword_scrambled_int8.tflite",
    "mlperf_ad_autoencoder_drq.tflite", "silero_vad_op18_ifless.onnx",
    "tinymaix_cifar10_int8.tflite",
)  # fmt: skip


def hash_objects(sources: Iterable[Path], compiler: tuple[str, ...], folder: Path) -> str:
    """One hash of the contents of all loadable sections of these C files, compiled with -O2."""
    digest = hashlib.sha256()
    for source in sorted(sources):
        made = folder / f"{source.stem}.o"
        includes = [f"-I{path}" for path in {p.parent for p in folder.rglob("*.h")}]
        command = [*compiler, "-std=c99", "-O2", "-w", *sorted(includes), "-c", source, "-o", made]
        subprocess.run(command, check=True, capture_output=True)
        with made.open("rb") as stream:
            for section in ELFFile(stream).iter_sections():
                if section["sh_flags"] & SH_FLAGS.SHF_ALLOC and section["sh_size"]:
                    digest.update(section.data() if section["sh_type"] != "SHT_NOBITS" else b"")
                    digest.update(section["sh_size"].to_bytes(8, "little"))
    return digest.hexdigest()[:16]


def measure(tree: Path, model: Path, core: str, level: str) -> str:
    """The hash of one build by the revision in `tree`, or the first line of its error."""
    with tempfile.TemporaryDirectory() as name:
        project = Path(name) / "project"
        command = [sys.executable, "-m", "edgec", "build", model, "--target", core,
                   "--optimize", level, "-o", project]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": str(tree), "OPENBLAS_NUM_THREADS": "1"}
        built = subprocess.run(
            command, capture_output=True, text=True, cwd=name, env=environment, check=False
        )
        if built.returncode:
            return built.stderr.strip().partition("\n")[0][:100]
        sources = [p for p in project.rglob("*.c") if p.stem.startswith(f"{model_name(project)}")]
        return hash_objects(sources, COMPILERS[core], project)


def model_name(project: Path) -> str:
    """The name that the emitted files begin with, from the project's manifest."""
    manifest = json.loads((project / "manifest.json").read_text("utf-8"))
    return str(manifest.get("model") or manifest["name"])


def rows(
    tree: Path, models: list[Path], cores: list[str], levels: list[str], jobs: int
) -> Iterator[tuple[str, str]]:
    """(what was built, hash) for every model, core and level."""
    work = [(model, core, level) for model in models for core in cores for level in levels]
    with ThreadPoolExecutor(jobs) as pool:
        hashes = pool.map(lambda entry: measure(tree, *entry), work)
        for (model, core, level), found in zip(work, hashes, strict=True):
            yield f"{model.name} {core} {level}", found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tree", type=Path, default=REPO, help="checkout to build with")
    parser.add_argument("--against", type=Path, help="JSON of earlier hashes to compare with")
    parser.add_argument("--write", type=Path, help="write the hashes as JSON")
    parser.add_argument("--all", action="store_true", help="every sample model")
    parser.add_argument("--cores", default=",".join(COMPILERS))
    parser.add_argument("--levels", default=",".join(LEVELS))
    parser.add_argument("--models", default="", help="comma-separated parts of model names")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    models = sorted(MODELS.iterdir()) if given.all else [MODELS / name for name in QUICK]
    models = [m for m in models if m.suffix in (".tflite", ".onnx")]
    if given.models:
        models = [m for m in models if any(part in m.name for part in given.models.split(","))]
    known = json.loads(given.against.read_text("utf-8")) if given.against else {}
    made, changed = {}, 0
    for what, found in rows(
        given.tree.resolve(), models, given.cores.split(","), given.levels.split(","), given.jobs
    ):
        made[what] = found
        differs = bool(known) and known.get(what) != found
        changed += differs
        if differs or not known:
            print(f"{what}: {known.get(what, '')} {'-> ' if known else ''}{found}", flush=True)
        if given.write:
            given.write.write_text(json.dumps(made, indent=1, sort_keys=True), "utf-8")
    print(f"{len(made)} builds, {changed} differ")
    return 3 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
