"""Loop-IR expressions as C text: a table from operator to spelling, and the rules of C's types.

Rules the text follows, so that -Wconversion is silent and nothing is undefined:
  1. Operands narrower than int are promoted by C; a cast that only widens to int32 is left out.
  2. int32 and int64 add, sub, mul and shl wrap. Where the operands' ranges prove that nothing
     overflows, plain operators are used; elsewhere `ec_add_s32` and its like, which compute in
     unsigned and cost nothing.
  3. A result is cast back to a narrow dtype only if its range does not fit.
  4. `shr` of a signed value is C's >>, which every supported compiler makes arithmetic
     (`ec_base.h` refuses to compile elsewhere).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from edgec.codegen.c_term import (
    AND,
    BIT_AND,
    BIT_OR,
    BIT_XOR,
    EQUALITY,
    OR,
    PRODUCT,
    RELATION,
    SHIFT,
    SUM,
    TERNARY,
    UNARY,
    Text,
    VarName,
    term_text,
)
from edgec.codegen.c_types import C_TYPE, INT_RANGE, PROMOTED, is_integer, literal
from edgec.codegen.ranges import REQUANTIZE_RELU, REQUANTIZE_TFLM, Ranges
from edgec.errors import ContractError
from edgec.loop.intrinsics import get_intrinsic
from edgec.loop.ir import (
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    Gather,
    IndexValue,
    Intrinsic,
    Load,
    Select,
)
from edgec.numerics.term import as_term

# operator -> (C operator, its precedence); bool operands have spellings of their own
OPERATORS: Mapping[str, tuple[str, int]] = {
    "add": ("+", SUM),
    "sub": ("-", SUM),
    "mul": ("*", PRODUCT),
    "div": ("/", PRODUCT),
    "shl": ("<<", SHIFT),
    "shr": (">>", SHIFT),
    "and": ("&", BIT_AND),
    "or": ("|", BIT_OR),
    "xor": ("^", BIT_XOR),
    "lt": ("<", RELATION),
    "le": ("<=", RELATION),
    "eq": ("==", EQUALITY),
}
BOOL_OPERATORS: Mapping[str, tuple[str, int]] = {
    "and": ("&&", AND),
    "or": ("||", OR),
    "xor": ("!=", EQUALITY),
    "eq": ("==", EQUALITY),
}
# Suffix of the runtime's functions for a promoted dtype: ec_min_s32.
SUFFIX: Mapping[str, str] = {
    "int32": "s32",
    "uint32": "u32",
    "int64": "s64",
    "uint64": "u64",
    "float32": "f32",
    "float64": "f64",
}
WRAPPING = ("add", "sub", "mul", "shl")
COMPARISONS = ("lt", "le", "eq")


@dataclass(frozen=True)
class CValue:
    """C text, and its dtype in C (after promotion)."""

    text: Text
    dtype: str


class ExprPrinter:
    """Print expressions; `load`, `buffer` and `var` return the C names in them.

    `ranges` knows the values of constant tables; `named` holds expressions that have a local.
    """

    def __init__(
        self,
        load: Callable[[Load], Text],
        buffer: Callable[[Buffer], str],
        var: VarName,
        ranges: Ranges,
        named: Mapping[Expr, CValue] | None = None,
    ) -> None:
        self.load = load
        self.buffer = buffer
        self.var = var
        self.ranges = ranges
        self.named = named or {}

    def as_dtype(self, expr: Expr, dtype: str) -> str:
        """Text whose value C converts to `dtype` without a warning, in no parentheses."""
        value = self.value(expr)
        if value.dtype == dtype:
            return value.text.text
        if is_integer(value.dtype) and is_integer(dtype):
            low, high = INT_RANGE[dtype]
            inner_low, inner_high = INT_RANGE[value.dtype]
            if low <= inner_low and inner_high <= high:
                return value.text.text
        if isinstance(expr, Const) and is_integer(dtype):
            return literal(expr.value, dtype)
        return f"({C_TYPE[dtype]}){value.text.at(UNARY)}"

    def value(self, expr: Expr) -> CValue:
        """The text of an expression and its C type."""
        if self.named and expr in self.named:
            return self.named[expr]
        match expr:
            case Const(value, "float32") if not math.isfinite(value):
                # Not the quotient that arrays have: compilers leave that to run time.
                bits = int(np.float32(value).view(np.uint32))
                return CValue(Text(f"ec_f32_from_bits(0x{bits:08X}u)"), "float32")
            case Const(value, dtype):
                text = literal(value, dtype)
                return CValue(
                    Text(text, UNARY if text.startswith("-") else Text("").precedence),
                    PROMOTED[dtype],
                )
            case Load():
                return CValue(self.load(expr), expr.dtype)
            case Gather():
                return CValue(self._gather(expr), expr.dtype)
            case IndexValue(term, dtype):
                return self._converted(CValue(term_text(term, self.var), "int32"), dtype)
            case Cast():
                return self._cast(expr)
            case Select(condition, yes, no):
                dtype = PROMOTED[expr.dtype]
                text = (
                    f"{self.value(condition).text.at(OR)} ? {self.value(yes).text.at(OR)} : "
                    f"{self.value(no).text.at(OR)}"
                )
                return CValue(Text(text, TERNARY), dtype)
            case Intrinsic():
                return self._intrinsic(expr)
            case Binary():
                return self._binary(expr)
        raise ContractError(f"codegen knows no expression {type(expr).__name__}")

    def _gather(self, expr: Gather) -> Text:
        flat: Expr = Const(0, "int32")
        extents = expr.buffer.extents or tuple(map(as_term, expr.buffer.shape))
        for index, extent in zip(expr.indices, extents, strict=True):
            size = IndexValue(extent) if extent.parts else Const(extent.offset, "int32")
            flat = Binary("add", Binary("mul", flat, size), index)
        flat = _simplified(flat)
        return Text(f"{self.buffer(expr.buffer)}[{self.as_dtype(flat, 'int32')}]")

    def _intrinsic(self, expr: Intrinsic) -> CValue:
        exact = self._exact_shift(expr)
        if exact is not None:
            return self.value(exact)
        name = "requantize_tflm" if expr.name == REQUANTIZE_RELU else expr.name
        definition = get_intrinsic(name)
        args = [self.as_dtype(a, d) for a, d in zip(expr.args, definition.args, strict=True)]
        function = definition.c_name
        if expr.name in REQUANTIZE_TFLM and self._is_small(expr):
            relu = expr.name == REQUANTIZE_RELU
            function = "ec_requantize_tflm_relu" if relu else "ec_requantize_tflm_small"
        return CValue(Text(f"{function}({', '.join(args)})"), definition.dtype)

    def _exact_shift(self, expr: Intrinsic) -> Expr | None:
        """requantize_tflm of a value shifted to the left and a factor of at most one half, without
        rounding: one shift. TFLite's additions do this to their input of the larger scale.
        """
        shifts = _shifts(expr.args)
        if shifts is None or expr.name not in REQUANTIZE_TFLM:
            return None
        value, up, bits = shifts
        known = self.ranges.of(value)
        fits = known is not None and max(map(abs, known)) << up <= 1 << 30  # else it may wrap
        return Binary("shl", value, Const(bits, "int32")) if fits else None

    def _is_small(self, expr: Intrinsic) -> bool:
        """Whether the short form holds: shift < 0 and the accumulator's double fits in int32."""
        acc, shift = self.ranges.of(expr.args[0]), self.ranges.of(expr.args[2])
        if acc is None or shift is None:
            return False
        return shift[1] < 0 and acc[0] >= -(1 << 30) and acc[1] < 1 << 30

    def _limited(self, expr: Expr, limit: int) -> CValue:
        """A value; it may differ below `limit`, since the caller limits it."""
        if (
            isinstance(expr, Binary)
            and expr.op == "add"
            and expr not in self.named
            and isinstance(expr.left, Intrinsic)
            and expr.left.name in REQUANTIZE_TFLM
            and expr.left not in self.named
            and isinstance(expr.right, Const)
            and expr.right.value <= limit
            and self._is_small(expr.left)
        ):
            left = Intrinsic(REQUANTIZE_RELU, expr.left.args, expr.left.dtype)
            return self.value(Binary("add", left, expr.right))
        return self.value(expr)

    def _cast(self, expr: Cast) -> CValue:
        saturated = self._saturation(expr)
        if saturated is not None:
            return saturated
        value = self.value(expr.value)
        if expr.dtype == "bool":
            if expr.value.dtype == "bool":
                return value
            zero = literal(0, expr.value.dtype)
            return CValue(Text(f"{value.text.at(EQUALITY)} != {zero}", EQUALITY), "int32")
        source = self.ranges.of(expr.value)
        if source is not None and is_integer(expr.dtype):
            low, high = INT_RANGE[expr.dtype]
            fits = low <= source[0] and source[1] <= high
            if fits and PROMOTED[value.dtype] == PROMOTED[expr.dtype]:
                return value  # the promoted value is right as it stands
        return self._converted(value, expr.dtype)

    def _saturation(self, expr: Cast) -> CValue | None:
        """int8(min(max(v, -128), 127)), in either order, as the one instruction that it can be."""
        if expr.dtype not in ("int8", "uint8", "int16") or expr.value.dtype != "int32":
            return None
        low, high = INT_RANGE[expr.dtype]
        outer = expr.value
        for outer_op, outer_limit, inner_op, inner_limit in (
            ("min", high, "max", low),
            ("max", low, "min", high),
        ):
            if not (isinstance(outer, Binary) and outer.op == outer_op):
                continue
            if outer.right != Const(outer_limit, "int32"):
                continue
            inner = outer.left
            if (
                isinstance(inner, Binary)
                and inner.op == inner_op
                and inner.right == Const(inner_limit, "int32")
            ):
                fused = self._requantized_s8(inner.left, low) if expr.dtype == "int8" else None
                if fused is not None:
                    return fused
                suffix = {"int8": "s8", "uint8": "u8", "int16": "s16"}[expr.dtype]
                text = f"ec_saturate_{suffix}({self._limited(inner.left, low).text.text})"
                return CValue(Text(text), expr.dtype)
        return None

    def _requantized_s8(self, expr: Expr, low: int) -> CValue | None:
        """requantize(acc, multiplier, shift) + zero point, limited to int8, as one function."""
        if not (isinstance(expr, Binary) and expr.op == "add" and expr not in self.named):
            return None
        request, zero_point = expr.left, expr.right
        if not isinstance(request, Intrinsic) or request in self.named:
            return None
        if not isinstance(zero_point, Const) or abs(int(zero_point.value)) > 0xFF:
            return None
        texts = [self.as_dtype(arg, arg.dtype) for arg in (*request.args, zero_point)]
        if request.name == "rescale_parts":
            name, args = "ec_rescale_parts_s8", texts
            if zero_point.value == low:
                name, args = "ec_rescale_parts_relu_s8", texts[:-1]
            return self._converted(CValue(Text(f"{name}({', '.join(args)})"), "int32"), "int8")
        if request.name == "requantize_onnx":
            name = "onnx"
        elif request.name in REQUANTIZE_TFLM and self._is_small(request):
            name = "tflm_relu" if zero_point.value <= low else "tflm_small"
        else:
            return None
        return CValue(Text(f"ec_requantize_{name}_s8({', '.join(texts)})"), "int8")

    def _converted(self, value: CValue, dtype: str) -> CValue:
        if value.dtype == dtype:
            return value
        return CValue(Text(f"({C_TYPE[dtype]}){value.text.at(UNARY)}", UNARY), dtype)

    def _binary(self, expr: Binary) -> CValue:
        left, right = self.value(expr.left), self.value(expr.right)
        dtype = expr.left.dtype
        promoted = PROMOTED[dtype]
        if expr.op in ("min", "max"):
            if expr.op == "max" and isinstance(expr.right, Const) and dtype == "int32":
                left = self._limited(expr.left, int(expr.right.value))
            function = f"ec_{expr.op}_{SUFFIX[promoted]}"
            return CValue(Text(f"{function}({left.text.text}, {right.text.text})"), promoted)
        if dtype == "bool" and expr.op in BOOL_OPERATORS:
            return CValue(_infix(*BOOL_OPERATORS[expr.op], left.text, right.text), "int32")
        if expr.op not in OPERATORS:
            raise ContractError(f"codegen knows no operator {expr.op!r}")
        operator, precedence = OPERATORS[expr.op]
        if expr.op in COMPARISONS:
            return CValue(_infix(operator, precedence, left.text, right.text), "int32")
        exact = self.ranges.exact(expr)
        if expr.op in WRAPPING and promoted in ("int32", "int64"):
            low, high = INT_RANGE[promoted]
            if exact is None or exact[0] < low or exact[1] > high:
                fused = self._multiply_add(expr)
                if fused is not None:
                    return self._narrowed(fused, dtype, exact)
                function = f"ec_{expr.op}_{SUFFIX[promoted]}"
                text = Text(f"{function}({left.text.text}, {right.text.text})")
                return self._narrowed(CValue(text, promoted), dtype, exact)
            if expr.op == "shl":
                # C leaves << of a negative value undefined; the product is the same.
                assert isinstance(expr.right, Const)
                right = CValue(Text(literal(1 << int(expr.right.value), promoted)), promoted)
                operator, precedence = OPERATORS["mul"]
        if expr.op == "add" and right.text.text.startswith("-") and isinstance(expr.right, Const):
            operator, right = "-", CValue(Text(right.text.text[1:]), right.dtype)
        text = _infix(operator, precedence, left.text, right.text)
        return self._narrowed(CValue(text, promoted), dtype, exact)

    def _multiply_add(self, expr: Binary) -> CValue | None:
        """a + x * w where only the sum can overflow."""
        product = expr.right
        if expr.op != "add" or expr.dtype != "int32" or product in self.named:
            return None
        if not isinstance(product, Binary) or product.op != "mul":
            return None
        exact = self.ranges.exact(product)
        low, high = INT_RANGE["int32"]
        if exact is None or exact[0] < low or exact[1] > high:
            return None
        args = (expr.left, product.left, product.right)
        texts = ", ".join(self.value(arg).text.text for arg in args)
        return CValue(Text(f"ec_mac_s32({texts})"), "int32")

    def _narrowed(self, value: CValue, dtype: str, exact: tuple[int, int] | None) -> CValue:
        """Wrap a promoted result to its narrow dtype if it may not fit."""
        if PROMOTED[dtype] == dtype or (exact is None and not is_integer(dtype)):
            return value
        low, high = INT_RANGE[dtype]
        if exact is not None and low <= exact[0] and exact[1] <= high:
            return value
        return self._converted(value, dtype)


def _shifts(args: tuple[Expr, ...]) -> tuple[Expr, int, int] | None:
    """Return requantize_tflm's arguments for half a shifted value: value, its shift, the remaining
    shift; None unless that is a shift to the left.
    """
    match args:
        case Binary(op="shl", left=left, right=Const(value=up)), multiplier, Const(value=down):
            bits = int(up + down) - 1
            is_half = multiplier == Const(1 << 30, "int32") and down <= 0 <= bits
            return (left, int(up), bits) if is_half else None
    return None


def _infix(operator: str, precedence: int, left: Text, right: Text) -> Text:
    # Left-associative. Mixing bit operators, shifts and sums reads badly without parentheses, and
    # compilers warn about && inside || and about a < b != c; such operands are wrapped.
    if precedence in (OR, AND, BIT_OR, BIT_XOR, BIT_AND, SHIFT):
        return Text(f"{left.at(UNARY)} {operator} {right.at(UNARY)}", precedence)
    if precedence in (EQUALITY, RELATION):
        return Text(f"{left.at(SUM)} {operator} {right.at(SUM)}", precedence)
    return Text(f"{left.at(precedence)} {operator} {right.at(precedence + 1)}", precedence)


def _simplified(expr: Expr) -> Expr:
    """Take the zeros and ones out of a flat index."""
    if isinstance(expr, Binary):
        left, right = _simplified(expr.left), _simplified(expr.right)
        if expr.op == "add" and left == Const(0, "int32"):
            return right
        if expr.op == "mul" and left == Const(0, "int32"):
            return left
        return Binary(expr.op, left, right)
    return expr
