"""`edgec export`: a model as a package of another build system."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgec.cli.arguments import (
    MODEL,
    compile_options,
    json_option,
    make_options,
    print_json,
    refuse_compile_options,
)
from edgec.cli.progress import working
from edgec.report.terminal import echo

if TYPE_CHECKING:
    from edgec.exporters.formats import Format
    from edgec.exporters.library import Library
    from edgec.options import Options

#: The formats of `edgec.exporters.formats.FORMATS`, which is imported only when it is used.
FORMAT_NAMES = (
    "cmake", "conan", "zephyr", "arduino", "platformio", "esp-idf", "cmsis-pack", "cubeide", "rust",
    "python-wheel", "mlf",
)  # fmt: skip
#: The formats of `edgec.exporters.graph_files.GRAPH_FILES`.
GRAPH_NAMES = ("tosa", "onnx")
#: Options with a package's metadata, and their fields of `Labels`.
_LABELS = {"package_version": "version", "vendor": "vendor", "url": "url"}


@click.command()
@click.argument("model", type=MODEL)
@click.option("--format", "format_name", required=True,
              type=click.Choice((*FORMAT_NAMES, *GRAPH_NAMES)),
              help="The kind of package, or of graph file: tosa, onnx.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, metavar="PATH",
              help="Folder of the package, or file; written whole or not at all.")  # fmt: skip
@click.option(
    "--target",
    metavar="CORE",
    help="Core to compile for, instead of the format's own; several for cmake, conan and a wheel.",
)
@click.option("--name", "model_name", metavar="NAME", help="C identifier of the model.")
@click.option("--package-version", default="1.0.0", show_default=True, metavar="X.Y.Z",
              help="Version of the package.")  # fmt: skip
@click.option("--vendor", default="edgec", show_default=True, metavar="NAME",
              help="Author that the package names.")  # fmt: skip
@click.option("--url", default="https://example.org", show_default=True, metavar="URL",
              help="Home page that the package names.")  # fmt: skip
@compile_options
@json_option
def command(
    model: Path,
    format_name: str,
    output: Path,
    target: str | None,
    model_name: str | None,
    dump: Path | None,
    as_json: bool,
    **words: Any,
) -> None:
    """Make a package of MODEL, a model file or a folder that `edgec build` made.

    `--format tosa` and `--format onnx` write the graph of a model file as one file.
    """
    said = {field: words.pop(word) for word, field in _LABELS.items()}
    if format_name in GRAPH_NAMES:
        _refuse_for_graphs(target, model_name, dump)
        _write_graph(model, format_name, output, as_json, words)
        return
    from edgec.exporters.formats import FORMATS, Labels
    from edgec.exporters.library import read_library
    from edgec.exporters.package import check_labels, export

    labels = Labels(**said)
    check_labels(labels)  # before all the work
    if model.is_dir():
        refuse_compile_options("the folder is compiled already")
        if target is not None or model_name is not None:
            raise click.UsageError("--target and --name: the folder is compiled already")
        library = read_library(model)
    else:
        kind = FORMATS[format_name]
        options = make_options(**_for_package(words, kind), model_name=model_name)
        with working(f"compiling {model.name}", quiet=as_json):
            library = _compiled(model, target or kind.core, options, dump)
    files = export(library, format_name, output, labels)
    if as_json:
        print_json({"model": library.name, "format": format_name, "files": list(files)})
        return
    echo(f"{FORMATS[format_name].title}: {output}")
    for path in files:
        echo(f"  {path}")


def _compiled(model: Path, target: str, options: Options, dump: Path | None) -> Library:
    """The C of a model file for one core, or for several levels of one."""
    from edgec.build.staging import work_folder
    from edgec.deploy.levels import build_levels, find_levels
    from edgec.deploy.project import deploy_library
    from edgec.exporters.library import read_library
    from edgec.pipeline import compile_module, read_model

    cores = find_levels(target)
    module = read_model(model, options)
    with work_folder("export") as folder:
        if len(cores) > 1:
            build_levels(module, cores, None, options, folder / "library")
        else:
            compiled = compile_module(module, cores[0], options, dump=dump)
            deploy_library(compiled, folder / "library")
        return read_library(folder / "library")


def _for_package(words: dict[str, Any], kind: Format) -> dict[str, Any]:
    """The options, with large weights in C where packages have sources and headers alone."""
    as_text = words["weights_form"] == "auto" and not kind.for_computers
    return {**words, "weights_form": "text"} if as_text else words


def _refuse_for_graphs(*given: object) -> None:
    if any(each is not None for each in given):
        raise click.UsageError("--target, --name and --dump are for C: this format is a graph")


def _write_graph(
    model: Path, format_name: str, output: Path, as_json: bool, words: dict[str, Any]
) -> None:
    """The graph of a model file as a file of another format."""
    from edgec.build.staging import staged_file
    from edgec.exporters.graph_files import GRAPH_FILES
    from edgec.pipeline import read_model, simplified

    if model.is_dir():
        raise click.UsageError(f"--format {format_name} takes a model file, not a folder of C")
    options, kind = make_options(**words), GRAPH_FILES[format_name]
    with working(f"writing {output.name}", quiet=as_json):
        module = read_model(model, options)
        data = kind.write(simplified(module, options) if kind.after_passes else module)
    with staged_file(output, hint="choose another output with -o") as temporary:
        temporary.write_bytes(data)
    if as_json:
        print_json({"model": module.source, "format": format_name, "files": [str(output)]})
        return
    echo(f"{kind.title}: {output}")
