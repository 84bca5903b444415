"""Index terms as C text of type int32_t, with as few parentheses as reading needs.

Every text comes with its precedence, so that the caller adds parentheses only where C needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgec.loop.ir import Buffer
from edgec.numerics.term import Atom, FloorDiv, FloorMod, Min, Product, Term, Var

# Binding strength of C's operators, from loose to tight.
TERNARY, OR, AND, BIT_OR, BIT_XOR, BIT_AND, EQUALITY, RELATION, SHIFT, SUM, PRODUCT, UNARY, ATOM = (
    range(13)
)

VarName = Callable[[Var], str]


@dataclass(frozen=True)
class Text:
    """A piece of C and the precedence of its outermost operator."""

    text: str
    precedence: int = ATOM

    def at(self, precedence: int) -> str:
        """The text, in parentheses if it binds looser than asked."""
        return self.text if self.precedence >= precedence else f"({self.text})"


def term_text(term: Term, name: VarName) -> Text:
    """Print a term; `name` gives the C name of a variable."""
    pieces: list[tuple[bool, Text]] = []
    for atom, coefficient in sorted(term.parts, key=lambda part: part[1] < 0):
        pieces.append((coefficient < 0, _scaled(_atom_text(atom, name), abs(coefficient))))
    if term.offset or not pieces:
        constant = (term.offset < 0, Text(str(abs(term.offset))))
        # `3 - oh` reads better than `-oh + 3`
        first = bool(pieces) and pieces[0][0] and term.offset > 0
        pieces.insert(0 if first else len(pieces), constant)
    negative, text = pieces[0]
    if len(pieces) == 1:
        return Text(f"-{text.at(UNARY)}", UNARY) if negative else text
    out = f"-{text.at(UNARY)}" if negative else text.at(SUM)
    for minus, piece in pieces[1:]:
        out += f" {'-' if minus else '+'} {piece.at(PRODUCT)}"
    return Text(out, SUM)


def element_index(buffer: Buffer, indices: Sequence[Term], name: VarName) -> Text:
    """The row-major offset of an element of a buffer."""
    if buffer.extents is None:
        return flat_index(indices, buffer.shape, name)
    return _open_index(indices, buffer.extents, name)


def _open_index(indices: Sequence[Term], extents: Sequence[Term], name: VarName) -> Text:
    """The offset with the extents of a run: `(h * width + w) * 64 + c`."""
    out = Text("0")
    for index, extent in zip(indices, extents, strict=True):
        if extent.constant == 1:
            continue
        if out.text != "0":
            size = term_text(extent, name)
            out = Text(f"{out.at(PRODUCT)} * {size.at(UNARY)}", PRODUCT)
        if index.constant != 0:
            text = term_text(index, name)
            out = text if out.text == "0" else _sum(out, text)
    return out


def flat_index(indices: Sequence[Term], shape: Sequence[int], name: VarName) -> Text:
    """The row-major offset of an element, in Horner form: `(oh * 5 + ow) * 64 + ic`."""
    out: Text | None = None
    stride = 1
    for index, extent in zip(indices, shape, strict=True):
        stride *= extent
        if index.constant == 0:
            continue
        if out is None:
            out = term_text(index, name)
        else:
            out = _sum(_scaled(out, stride), term_text(index, name))
        stride = 1
    if out is None:
        return Text("0")
    return _scaled(out, stride)


def _sum(left: Text, right: Text) -> Text:
    if right.text.startswith("-"):
        return Text(f"{left.at(SUM)} - {right.text[1:]}", SUM)
    return Text(f"{left.at(SUM)} + {right.text}", SUM)


def _scaled(text: Text, factor: int) -> Text:
    if factor == 1:
        return text
    if text.text.isdigit():
        return Text(str(int(text.text) * factor))
    return Text(f"{text.at(PRODUCT)} * {factor}", PRODUCT)


def _atom_text(atom: Atom, name: VarName) -> Text:
    if isinstance(atom, Var):
        return Text(name(atom))
    if isinstance(atom, (FloorDiv, FloorMod)):
        inner = term_text(atom.dividend, name)
        division = isinstance(atom, FloorDiv)
        if atom.dividend.bounds()[0] >= 0:
            # C truncates, which is the floor for values that are not negative.
            operator = "/" if division else "%"
            return Text(f"{inner.at(PRODUCT)} {operator} {atom.divisor}", PRODUCT)
        function = "ec_floor_div_s32" if division else "ec_floor_mod_s32"
        return Text(f"{function}({inner.text}, {atom.divisor})")
    left, right = term_text(atom.left, name), term_text(atom.right, name)
    if isinstance(atom, Product):
        return Text(f"{left.at(PRODUCT)} * {right.at(UNARY)}", PRODUCT)
    function = "ec_min_s32" if isinstance(atom, Min) else "ec_max_s32"
    return Text(f"{function}({left.text}, {right.text})")
