"""C functions of the runtime take at most eight parameters; sizes beyond that come as a struct.

`many_parameters.txt` lists those that still take more, with how many. Nothing is added to it.

Of the Cortex-M side, these were tried with structs and do not meet `tests/models/budgets.toml`:

- `ec_pack_windows_2_s8_dsp`, `ec_pack_windows_3_s8_dsp`: instructions of kws with `ram` on M4
  (+6,241), and stack (+36 bytes).
- `ec_conv_row_f32*`, `ec_depthwise_row_f32*`: code of mnist8_f32 (+1,340 bytes) and digits_weights
  (+844) on M4: GCC makes these functions for the numbers that all calls share.
- `ec_depthwise_windows_s16_dsp`: code of digits_int16 and kws_int16 on M4 (+76 bytes).
"""

from __future__ import annotations

import re
from pathlib import Path

MOST = 8
LIST = Path(__file__).with_name("many_parameters.txt")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
#: A function's name, plain or by EC_OF, before its parameters.
_HEAD = re.compile(r"\b(?:EC_OF\((\w+)\)|(\w+))\s*\(")
_CONTROL = {"if", "for", "while", "switch", "sizeof", "defined"}


def parameters(text: str) -> dict[str, int]:
    """How many parameters each function that this C text defines takes."""
    text = _COMMENT.sub(" ", text)
    found = {}
    for match in _HEAD.finditer(text):
        depth, commas, position = 1, 0, match.end()
        while depth and position < len(text):
            depth += {"(": 1, ")": -1}.get(text[position], 0)
            commas += depth == 1 and text[position] == ","
            position += 1
        is_defined = text[position:].lstrip()[:1] == "{"
        name = match[1] or match[2]
        if is_defined and name not in _CONTROL:
            found[name] = max(commas + 1, found.get(name, 0))
    return found


def test_parameters_are_counted() -> None:
    text = """
    int one(void (*f)(int, int), int b) { if (g(1, 2, 3)) { return 1; } }
    int EC_OF(two)(int a, int b) {}
    int declared(int a, int b);  /* int no(int a, int b, int c) { } */
    """
    assert parameters(text) == {"one": 2, "two": 2}


def test_no_function_of_c_takes_more_than_eight_parameters(repo_root: Path) -> None:
    found: dict[str, int] = {}
    for path in sorted((repo_root / "runtime_c").rglob("*")):
        if path.suffix in (".c", ".h", ".inc"):
            for name, count in parameters(path.read_text(encoding="utf-8")).items():
                found[name] = max(count, found.get(name, 0))
    assert len(found) > 300
    over = {name: count for name, count in found.items() if count > MOST}
    listed = {name: int(count) for name, count in map(str.split, LIST.read_text().splitlines())}
    new = {n: c for n, c in over.items() if c > listed.get(n, MOST)}
    assert not new, "pass sizes as a struct: see `Struct` in edgec/loop/microkernel.py"
    assert over == listed, f"{LIST.name} has functions that take fewer now: tighten it"
