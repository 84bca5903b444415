"""`edgec verify DIR`: the model, board and options that a project folder was built with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.cli.arguments import INPUT_SHAPE, make_options

if TYPE_CHECKING:
    from edgec.codegen.manifest import Manifest
    from edgec.options import Options


#: Options that name code of the user's, which a project does not hold: they are given again.
OWN_CODE = ("kernels", "external", "custom_ops")


def model_of(folder: Path, code: Mapping[str, Any]) -> tuple[Path, Manifest, Options]:
    """The model file of a project, its manifest, and the options of its build.

    code: the words of `--kernels` and `--external`.
    A model that the build quantized is in the folder itself. Other models are searched for in this
    folder, beside the project and above it. Raises BuildFailed for a folder that is not a project,
    EdgecError if the model is in none of these folders.
    """
    from edgec.codegen.manifest import Manifest
    from edgec.errors import EdgecError
    from edgec.report.project import load_report

    manifest = Manifest.load(folder)
    options = _options(load_report(folder), manifest, folder, code)
    name = manifest.source_file
    inside = folder.resolve()
    folders = [Path.cwd(), inside.parent, inside.parent.parent]
    for path in (folder / "quantized.onnx", *(each / name for each in folders)):
        if path.is_file():
            return path, manifest, options
    raise EdgecError(
        f"{folder} was built from {name}, which is not found",
        details=tuple(f"not in {each}" for each in dict.fromkeys(folders)),
        hint="give the model file itself, with --board",
    )


def refuse_another(built: Manifest, manifest: Manifest, model: Path) -> None:
    """Raise EdgecError unless the new build's C equals the project's in every byte."""
    from edgec.errors import EdgecError

    if built.build_hash != manifest.build_hash:
        raise EdgecError(
            f"{model} compiles to other C than the project has: the model or the project has"
            " changed",
            hint="build the project again, or give the model file itself; if it was built with "
            "--kernels, --external or --custom-ops, give these again",
        )


def _options(
    report: Mapping[str, Any], manifest: Manifest, folder: Path, code: Mapping[str, Any]
) -> Options:
    from edgec.loop.tuned import Tuned, read_tuned
    from edgec.options import read_optimize

    words = {**report["options"], **code}
    tuned = words.pop("tuned", None)
    shapes, values = words.pop("input_shapes"), words.pop("input_values")
    sizes, placements = words.pop("specialize"), words.pop("placements")
    optimize = read_optimize(words.pop("optimize"))
    return make_options(
        **words,
        tuned=Tuned() if tuned is None else read_tuned(folder / tuned),
        optimize=optimize,
        model_name=manifest.model,
        input_shape=[
            (name, tuple(INPUT_SHAPE.read_extent(str(extent)) for extent in shape))
            for name, shape in shapes.items()
        ],
        input_value=list(values.items()),
        specialize=[(name, tuple(numbers)) for name, numbers in sizes.items()],
        place=[[tuple(entry.rsplit("=", 1)) for entry in placements]],
    )
