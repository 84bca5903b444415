"""Structs of sizes that microkernels take, as C constants.

    static const ec_window_sizes window_sizes[1] = {{.height = 8, .width = 8}};

An array of one, so that its name is the pointer that kernels take.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from edgec.loop.microkernel import Struct

#: A constant of a function, as the line that declares it: its type, name and value.
CONSTANT = re.compile(r" *static const (ec_\w+_sizes) (\w+)\[1\] = (\{\{.*\}\});")


def struct_value(struct: Struct, members: Iterable[str], *, is_known: bool = True) -> str:
    """The value of an array of one such struct; members: their texts, int32 if not known."""
    types, times = {} if is_known else dict(struct.types), dict(struct.times)
    texts = []
    for name, text in zip(struct.members, members, strict=True):
        product = f"{times[name]} * {text}" if name in times else text
        cast = f"({types[name]}_t)({product})" if name in types else product
        texts.append(f".{name} = {cast}")
    return f"{{{{{', '.join(texts)}}}}}"


def struct_declaration(struct: str, name: str, value: str) -> str:
    """The declaration of an array of one such struct."""
    return f"const {struct} {name}[1] = {value};"
