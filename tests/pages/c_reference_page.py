"""docs/c_reference.md: every function, type and macro of the generated C, from its headers.

The model's own header is rendered for one model several times, once for each kind of build that
adds functions, so that the page has the words that users find in theirs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from edgec.codegen.model_text import AreaText, FedText, ModelText, SizeText, make_text
from edgec.codegen.port_text import PortText
from edgec.codegen.project import render
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.report.table import Column, Table
from edgec.targets.core import find_core

#: What the model is called on the page.
NAME = "kws"
#: Headers of the runtime that a program may include, and what each is for.
RUNTIME = {
    "link/ec_link.h": "Serve a model over a serial line",
    "ports/ec_port.h": "What a board gives a program",
    "mlperf/ec_mlperf.h": "Serve a model to MLPerf Tiny's runner",
}
#: Macros that the header needs for itself.
PRIVATE = {f"{NAME.upper()}_CAST"}


@dataclass(frozen=True)
class Entry:
    """A comment of a header, and what is declared below it: C ("" of macros), and the names."""

    comment: str
    code: str
    names: tuple[str, ...]

    @property
    def is_macros(self) -> bool:
        return not self.code


def entries(header: str) -> list[Entry]:
    """All that a header declares, in its order."""
    found = []
    above = ""
    for piece in re.split(r"^(?=/\*)", header, flags=re.M)[1:]:
        comment, _, code = piece.removeprefix("/*").partition("*/\n")
        above += comment
        if not code.strip():  # a second comment of what follows
            continue
        entry = _entry(_plain(above), code)
        above = ""
        if entry.names and entry.names[0].split("(")[0] not in PRIVATE:
            found.append(entry)
    return found


def _entry(comment: str, code: str) -> Entry:
    """What stands below a comment; without names where that is none of the user's."""
    macros = re.findall(r"^#define (\w+(?:\([\w, ]*\))?)", code, re.M)
    if macros and "#include" not in code:
        return Entry(comment, "", tuple(dict.fromkeys(macros)))
    code = re.sub(r"^#.*\n|^extern \"C\" \{\n|^\}\n", "", code, flags=re.M)
    # Of a function the declaration, of a type the whole.
    code = re.sub(r"^(static .*?\)) \{\n(?: .*\n)*", r"\1;\n", code, flags=re.M).strip()
    names = re.findall(r"^extern [\w *]*?(\w+)(?:\[\])?;", code, re.M) or re.findall(
        r"^(?:typedef struct |\w[\w *]*[ *](?=\w+\())(\w+)", code, re.M
    )
    return Entry(comment, code, tuple(names))


def _plain(comment: str) -> str:
    """The text of a comment on one line, names as Markdown shows code."""
    text = " ".join(re.sub(r"^ \*", "", comment, flags=re.M).split())
    parts = re.split(r"(`[^`]*`)", text)
    name = (
        rf"((?:-D)?\b(?:{NAME}|{NAME.upper()}|EC|ec)_\w+(?:\(\w*\))?|context->[\w.]+|inputs\[0\])"
    )
    return "".join(p if p.startswith("`") else re.sub(name, r"`\1`", p) for p in parts)


@cache
def _model() -> ModelText:
    """A small model with one int8 input and output and a state."""
    path = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.onnx"
    program = compile_model(path, find_core("cortex-m4"), Options(model_name=NAME)).program
    text = make_text(program).text
    inputs, outputs = (tuple(map(_int8, ports)) for ports in (text.inputs, text.outputs))
    return replace(text, inputs=inputs, outputs=outputs, state_bytes=16)


def _int8(port: PortText) -> PortText:
    name = {"input": "sound", "output": "words"}[port.kind]
    return replace(
        port, name=name, upper_name=name.upper(), dtype="int8", c_type="int8_t", per_tensor=True,
        scale="0.1f", low="-128", high="127",
    )  # fmt: skip


def _builds() -> dict[str, ModelText]:
    """What a header is rendered from, by the build's kind; "" is a plain build."""
    model, gpu = _model(), {"gpu": SimpleNamespace(library_names=())}
    kinds: dict[str, dict[str, Any]] = {
        "": {},
        "`--io caller`": {"caller_io": True, "caller_inputs": True},
        "`--io rows`": {"caller_inputs": True, "fed": FedText(49, 40, 1)},
        "open sizes": {"sizes": (SizeText(0, "batch", "BATCH", 1, 8),)},
        "sizes that data decide": {"counts": ("arena",)},
        "activations in several memories": {
            "areas": (AreaText("arena_dtcm", "ARENA_DTCM", 512, "dtcm"),)
        },
        "a GPU and `--offload all`": gpu,
        "a GPU and `--offload auto`": {**gpu, "without_gpu": model.calls},
        "`--offload auto` that finds nothing faster on the GPU": {"beside_gpu": True},
    }
    return {kind: replace(model, **fields) for kind, fields in kinds.items()}


def _model_sections() -> list[str]:
    """What the model's header declares: macros as tables, then types and functions."""
    texts: dict[tuple[str, ...], dict[str, Entry]] = {}
    for kind, build in _builds().items():
        for entry in entries(render("model.h.j2", m=build)):
            texts.setdefault(_key(entry), {})[kind] = entry
    macros = [each for each in texts.values() if next(iter(each.values())).is_macros]
    others = [each for each in texts.values() if not next(iter(each.values())).is_macros]
    lines = ["### Macros", "", *_macro_table([_told(each) for each in macros])]
    for each in others:
        entry = next(iter(each.values()))
        lines += ["", *_section(entry, _told(each)[1])]
    return lines


def _key(entry: Entry) -> tuple[str, ...]:
    """What is the same in all builds: the macros' first name, or the functions' or type's names."""
    return entry.names[:1] if entry.is_macros else entry.names


def _told(builds: dict[str, Entry]) -> tuple[tuple[str, ...], str]:
    """The names of what builds declare, and its comment with what differs from build to build."""
    names = dict.fromkeys(name for entry in builds.values() for name in entry.names)
    comments: dict[str, list[str]] = {}
    for kind, entry in builds.items():
        comments.setdefault(entry.comment, []).append(kind)
    first = next(iter(comments))
    told = []
    for text, kinds in comments.items():
        if "" in kinds:
            told.append(text)
            continue
        also = text.startswith(first) and text != first
        when = f"{'With' if '' in builds else 'Only with'} {', or '.join(kinds)}"
        more = text.removeprefix(first).strip() if also else text
        told.append(f"*{when}{', also' if also else ''}:* {more}")
    return tuple(names), "\n\n".join(told)


def _macro_table(rows: list[tuple[tuple[str, ...], str]]) -> list[str]:
    heads = (Column("macro"), Column("what it is"))
    cells = [
        (", ".join(f"`{name}`" for name in names), " ".join(comment.split()))
        for names, comment in rows
    ]
    return Table(heads, cells).markdown()


def _section(entry: Entry, comment: str) -> list[str]:
    title = ", ".join(f"`{name}`" for name in entry.names)
    return [f"### {title}", "", "```c", entry.code, "```", "", comment]


def _header_sections(header: str) -> list[str]:
    """What a header of the runtime declares."""
    found = entries(header)
    lines: list[str] = []
    if macros := [(entry.names, entry.comment) for entry in found if entry.is_macros]:
        lines += [*_macro_table(macros), ""]
    for entry in found:
        if not entry.is_macros:
            lines += [*_section(entry, entry.comment), ""]
    return lines[:-1]


def _hooks() -> list[str]:
    """Macros that a program may set: those that files of a model define unless it does."""
    found = []
    for template in ("runtime.h.j2", "weights.c.j2"):
        text = render(template, m=replace(_model(), threads=2))
        found += re.findall(
            r"^/\* ?([^/]*?)\*/\n#if(?:ndef |def | defined\()(EC_\w+(?<!_H))\b", text, re.M
        )
    first = {name: comment for comment, name in reversed(found)}
    return _macro_table([((name,), _plain(first[name])) for name in sorted(first)])


def c_reference_page(runtime: Path) -> str:
    """The page. runtime: `runtime_c/` of this checkout."""
    lines = [
        "# Every function of the C",
        "",
        "<!-- Generated by `make docs` from `templates/` and the headers of `runtime_c/`. Do not"
        " edit. -->",
        "",
        f"What the headers of a project declare, in their own words, for a model called `{NAME}`"
        f" with an int8 input and output and a state. [The generated C](c_api.md) explains how they"
        " are used together; [errors](errors.md) lists every `ec_status`.",
        "",
        f"## The model: `{NAME}.h`",
        "",
        *_model_sections(),
        "",
        "## Hooks: macros that a program sets",
        "",
        "At the compiler's command line, or in a file named by"
        " `-DEC_CONFIG_FILE='\"my_config.h\"'`.",
        "",
        *_hooks(),
        "",
        "## A main program of your own: `ec_main.h`",
        "",
        "Of a firmware project that `edgec new` made.",
        "",
        *_header_sections(render("ec_main.h.j2", m=_model())),
    ]
    for file, title in RUNTIME.items():
        header = (runtime / file).read_text("utf-8")
        lines += ["", f"## {title}: `{Path(file).name}`", "", *_header_sections(header)]
    return "\n".join([*lines, ""])
