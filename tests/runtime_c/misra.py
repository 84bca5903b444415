"""cppcheck's MISRA addon over emitted C and the runtime, against the list in docs/misra.md.

    python tests/runtime_c/misra.py          # every family of operators; prints places

A rule that is broken and not listed is an error, and so is an entry that nothing breaks any more.
Only numbers of rules are compared: their texts are not free, and the addon has none.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

REPO_ROOT = Path(__file__).resolve().parents[2]
PAGE = REPO_ROOT / "docs" / "misra.md"
INCLUDES = ("include", "include/edgec", "ports", "link", "mlperf", "ports/common",
            "ports/cortex_m")  # fmt: skip
#: Per core, what its compiler defines besides; vectors have kernels of their own.
CORES = {
    "cortex-m4": ("-D__ARM_FEATURE_DSP=1", "-D__ARM_FEATURE_SAT=1"),
    "cortex-m55": ("-D__ARM_FEATURE_DSP=1", "-D__ARM_FEATURE_SAT=1", "-D__ARM_FEATURE_MVE=3",
                   "-D__ARM_FP=14"),
}  # fmt: skip

#: Where each rule is broken: rule -> places, "file:line".
Broken = Mapping[str, list[str]]


def cppcheck(arguments: Iterable[str], folder: Path, core: str = "cortex-m4") -> Broken:
    """Run the addon on code for a core. Raises RuntimeError if cppcheck itself fails."""
    done = subprocess.run(
        ["cppcheck", "--addon=misra", "--std=c99", "--platform=arm32-wchar_t4", "--quiet",
         "--inline-suppr", "--suppress=missingIncludeSystem", "--template={file}:{line} {id}",
         "-D__GNUC__=12", "-D__ELF__=1", *CORES[core], *arguments],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"cppcheck failed: {done.stdout}{done.stderr}")
    broken: dict[str, list[str]] = defaultdict(list)
    for line in done.stderr.splitlines():
        match = re.match(r"(.+:\d+) misra-c2012-(\d+\.\d+)$", line)
        if match:
            broken[match[2]].append(match[1])
    return broken


def check_runtime() -> Broken:
    """Everything in runtime_c/ but the helpers that are emitted."""
    # Of a copy, since the addon leaves its files beside the sources where it is cut off.
    with tempfile.TemporaryDirectory() as place:
        runtime = shutil.copytree(REPO_ROOT / "runtime_c", Path(place) / "runtime_c")
        return cppcheck([*(f"-I{name}" for name in INCLUDES), "link", "mlperf", "ports"], runtime)


def check_models(names: Iterable[str], core: str) -> Broken:
    """Models by their names in `operator_models`, each a program of its own, for a core."""
    # Here, so that the script can first say where they are.
    from operator_models import MODELS

    from edgec.codegen.project import write_project
    from edgec.pipeline import compile_model
    from edgec.targets.core import find_core

    found: dict[str, list[str]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as place:
        for name in names:
            project = Path(place) / name
            project.mkdir()
            manifest = write_project(
                compile_model(MODELS[name](project), find_core(core)).program, project
            )
            for rule, places in cppcheck(manifest.sources, project, core).items():
                found[rule] += [f"{core}/{name}/{where}" for where in places]
    return found


def check_cores(names: Iterable[str]) -> Broken:
    """Models for each core."""
    found: dict[str, list[str]] = defaultdict(list)
    for core in CORES:
        for rule, places in check_models(names, core).items():
            found[rule] += places
    return found


def listed(where: str) -> set[str]:
    """Rules that docs/misra.md lists for "emitted" or "runtime"."""
    rules = set()
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and re.fullmatch(r"\d+\.\d+", cells[0]) and where in cells[1]:
            assert len(cells[2]) > 5 and len(cells[3]) > 20, f"{cells[0]} has no reason"
            rules.add(cells[0])
    return rules


def main() -> int:
    for folder in (REPO_ROOT, *(REPO_ROOT / "tests" / name for name in (".", "ops", "models"))):
        sys.path.insert(0, str(folder))
    from operator_models import MODELS

    if shutil.which("cppcheck") is None:
        print("error: cppcheck is not installed (Debian package cppcheck)", file=sys.stderr)
        return 1
    bad = 0
    for where, broken in (("runtime", check_runtime()), ("emitted", check_cores(MODELS))):
        count = sum(map(len, broken.values()))
        print(f"{where}: {count} places of {len(broken)} rules")
        for rule in sorted(set(broken) - listed(where)):
            print(f"error: rule {rule} is not in {PAGE.name}: {', '.join(broken[rule][:8])}")
            bad += 1
        for rule in sorted(listed(where) - set(broken)):
            print(f"error: rule {rule} is in {PAGE.name} and is not broken any more")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
