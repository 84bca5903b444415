"""Put a package together: the model's C files, and the files of the format from its templates."""

from __future__ import annotations

import re
from pathlib import Path

from edgec.build.staging import staged_folder
from edgec.codegen.levels import has_levels
from edgec.errors import EdgecError
from edgec.exporters.formats import FORMATS, Files, Format, Labels
from edgec.exporters.library import Library
from edgec.resources import resource_dir, text_templates

_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_URL = re.compile(r"https?://[A-Za-z0-9._~:/?#@%+-]+")
_VENDOR = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


def check_labels(labels: Labels) -> None:
    """Raise EdgecError for a version, vendor or URL that some ecosystem would refuse."""
    for value, pattern, what, hint in (
        (labels.version, _VERSION, "package version", "use 1.2.3"),
        (labels.vendor, _VENDOR, "vendor name", "use letters, digits, - and _"),
        (labels.url, _URL, "home page address", "use https://..."),
    ):
        if not pattern.fullmatch(value):
            raise EdgecError(f"'{value}' is not a valid {what}", hint=hint)


def export(library: Library, format_name: str, out: Path, labels: Labels) -> tuple[str, ...]:
    """Write the package into the folder `out`, whole or not at all; return its files' paths.

    Raises EdgecError for bad labels, BuildFailed where `out` is not ours to replace or, for a
    wheel, C does not compile.
    """
    check_labels(labels)
    kind = FORMATS[format_name]
    if not kind.for_computers:
        _refuse_what_only_computers_take(library, format_name)
    files = package_files(library, format_name, kind, labels)
    if kind.archive is not None:
        files = kind.archive(library, labels, files)
    with staged_folder(out) as folder:
        for path, data in files.items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
    return tuple(sorted(files))


def _refuse_what_only_computers_take(library: Library, format_name: str) -> None:
    """Raise EdgecError for several levels of a processor, and for weights in a file of bytes."""
    others = ", ".join(name for name, kind in FORMATS.items() if kind.for_computers)
    if has_levels(library.manifest):
        raise EdgecError(
            f"{library.name} has code for several processors ({library.manifest.target}), which"
            f" packages for {format_name} cannot compile",
            hint=f"give --target one of them, or take a format that can: {others}",
        )
    if library.blobs:
        raise EdgecError(
            f"{library.name} has its weights in a file of bytes, which packages for"
            f" {format_name} do not take",
            hint=f"give --weights-form text, or take a format that does: {others}",
        )


def package_files(library: Library, format_name: str, kind: Format, labels: Labels) -> Files:
    """The contents of the package by path, before archiving."""
    names = {"MODEL": library.name, "VENDOR": labels.vendor}
    files: dict[str, bytes] = {}
    sources = {**library.sources, **library.blobs}
    for folder, content in ((kind.headers, library.headers), (kind.sources, sources)):
        place = _named(folder, names)
        files.update({f"{place}/{name}": data for name, data in content.items()})
    root = resource_dir("templates") / "export"
    paths = {
        path.relative_to(root / part).as_posix(): path.relative_to(root.parent).as_posix()
        for part in ("every", format_name)  # a format may have a file of its own instead
        for path in sorted((root / part).rglob("*.j2"))
    }
    for path, template in paths.items():
        text = text_templates().get_template(template).render(
            m=library, man=library.manifest, labels=labels, kind=kind, format=format_name,
            upper=library.name.upper(), c_files=sorted(files),
        )  # fmt: skip
        files[_named(path.removesuffix(".j2"), names)] = text.encode("utf-8")
    return files


def _named(path: str, names: dict[str, str]) -> str:
    for word, name in names.items():
        path = path.replace(word, name)
    return path
