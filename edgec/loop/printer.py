"""Print the loop IR as text. `docs/loop_ir.md` has the grammar; `edgec.loop.parser` reads it back.

`parse(print_func(func)) == func`, exactly. Derivable facts are not printed: a loop variable's
bounds if they equal its range, an intrinsic's type if it is the registered one.
"""

from __future__ import annotations

from edgec.loop.dtype import is_float
from edgec.loop.intrinsics import get_intrinsic, is_known
from edgec.loop.ir import (
    Axis,
    Binary,
    Block,
    Branch,
    Buffer,
    BufferRef,
    Cast,
    Const,
    Expr,
    For,
    Gather,
    If,
    IndexValue,
    Intrinsic,
    Load,
    PrimFunc,
    Select,
    Seq,
    Stmt,
    Store,
    Sync,
    While,
)
from edgec.numerics.term import Term, Var

# How tightly an operator binds; the parser has the same table.
PRECEDENCE = {
    "lt": 1, "le": 1, "eq": 1, "or": 2, "xor": 3, "and": 4, "shl": 5, "shr": 5,
    "add": 6, "sub": 6, "mul": 7, "div": 7,
}  # fmt: skip
SYMBOL = {
    "lt": "<", "le": "<=", "eq": "==", "or": "|", "xor": "^", "and": "&", "shl": "<<",
    "shr": ">>", "add": "+", "sub": "-", "mul": "*", "div": "/",
}  # fmt: skip
SUFFIX = {
    "int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16", "int32": "", "uint32": "u32",
    "int64": "i64", "uint64": "u64", "float32": "f32", "float64": "f64",
}  # fmt: skip


def print_func(func: PrimFunc) -> str:
    """The whole function as text, with a final newline."""
    params = ", ".join(f"{p.name}: {_type(p)}" for p in func.params)
    indices = ", ".join(f"{v.name}[{v.start}..{v.stop}]" for v in func.indices)
    head = f"func {func.name}({params}){f' at {indices}' if indices else ''}"
    lines = [f"{head}{''.join(map(_extents, func.params))} {{"]
    lines += [f"  alloc {a.name}: {_type(a)}" for a in func.allocs]
    lines += print_stmt(func.body, "  ")
    return "\n".join([*lines, "}"]) + "\n"


def _type(buffer: Buffer) -> str:
    return f"{buffer.scope} {buffer.dtype}[{', '.join(map(str, buffer.shape))}]"


def _extents(buffer: Buffer) -> str:
    """A buffer's dimensions in a run, if sizes are open."""
    if buffer.extents is None:
        return ""
    return f" sizes {buffer.name}[{', '.join(map(str, buffer.extents))}]"


def print_stmt(stmt: Stmt, indent: str = "") -> list[str]:
    """The lines of a statement. A sequence inside a sequence gets braces of its own."""
    deeper = indent + "  "
    if isinstance(stmt, For):
        head = "" if stmt.kind == "serial" else f"{stmt.kind} "
        low, high = stmt.start.bounds()[0], stmt.stop.bounds()[1]
        var = _variable(stmt.var, low, high)
        return [
            f"{indent}{head}for {var} in {stmt.start}..{stmt.stop} {{",
            *print_stmt(stmt.body, deeper),
            f"{indent}}}",
        ]
    if isinstance(stmt, Block):
        lines = [f"{indent}block {stmt.name}({', '.join(map(_axis, stmt.axes))}) {{"]
        if stmt.init is not None:
            lines += [f"{deeper}init {{", *print_stmt(stmt.init, deeper + "  "), f"{deeper}}}"]
        return [*lines, *print_stmt(stmt.body, deeper), f"{indent}}}"]
    if isinstance(stmt, Store):
        return [f"{indent}{_element(stmt.buffer, stmt.indices)} = {print_expr(stmt.value)}"]
    if isinstance(stmt, If | Branch):
        test = (
            f"if {stmt.left} < {stmt.right}"
            if isinstance(stmt, If)
            else f"when {print_expr(stmt.condition)}"
        )
        lines = [f"{indent}{test} {{", *print_stmt(stmt.body, deeper)]
        if stmt.otherwise is not None:
            lines += [f"{indent}}} else {{", *print_stmt(stmt.otherwise, deeper)]
        return [*lines, f"{indent}}}"]
    if isinstance(stmt, While):
        limit = "" if stmt.limit is None else f"at most {stmt.limit} "
        return [
            f"{indent}{limit}repeat {{",
            *print_stmt(stmt.head, deeper),
            f"{indent}}} while {print_expr(stmt.condition)} {{",
            *print_stmt(stmt.body, deeper),
            f"{indent}}}",
        ]
    if isinstance(stmt, Seq):
        lines = []
        single = len(stmt.stmts) == 1
        for child in stmt.stmts:
            if isinstance(child, Seq) or single:
                lines += [f"{indent}{{", *print_stmt(child, deeper), f"{indent}}}"]
            else:
                lines += print_stmt(child, indent)
        return lines
    if isinstance(stmt, Sync):
        return [f"{indent}sync {stmt.scope}"]
    args = ", ".join(_argument(a) for a in stmt.args)
    return [f"{indent}call {stmt.callee}({args})"]


def _variable(var: Var, low: int, high: int) -> str:
    known = (var.start, var.stop) == (low, high)
    return var.name if known else f"{var.name}[{var.start}..{var.stop}]"


def _axis(axis: Axis) -> str:
    low, high = axis.binding.bounds()
    return f"{_variable(axis.var, low, high + 1)}: {axis.kind} = {axis.binding}"


def _element(buffer: Buffer, indices: tuple[Term, ...]) -> str:
    return f"{buffer.name}[{', '.join(map(str, indices))}]"


def _argument(argument: BufferRef | Expr) -> str:
    if isinstance(argument, BufferRef):
        text = f"&{_element(argument.buffer, argument.indices)}"
        if not argument.use:
            return text
        return f"{text} {argument.use} [{', '.join(map(str, argument.box))}]"
    return print_expr(argument)


def print_expr(expr: Expr, outer: int = 0) -> str:
    """An expression; in parentheses if it binds less tightly than `outer`."""
    if isinstance(expr, Const):
        return print_const(expr)
    if isinstance(expr, Load):
        return _element(expr.buffer, expr.indices)
    if isinstance(expr, Gather):
        return f"gather({expr.buffer.name}, {', '.join(print_expr(i) for i in expr.indices)})"
    if isinstance(expr, IndexValue):
        dtype = "" if expr.dtype == "int32" else f", {expr.dtype}"
        return f"index({expr.term}{dtype})"
    if isinstance(expr, Binary):
        if expr.op in ("min", "max"):
            return f"{expr.op}({print_expr(expr.left)}, {print_expr(expr.right)})"
        level = PRECEDENCE[expr.op]
        text = (
            f"{print_expr(expr.left, level)} {SYMBOL[expr.op]} {print_expr(expr.right, level + 1)}"
        )
        return f"({text})" if level < outer else text
    if isinstance(expr, Cast):
        return f"{expr.dtype}({print_expr(expr.value)})"
    if isinstance(expr, Select):
        parts = (expr.condition, expr.yes, expr.no)
        return f"select({', '.join(print_expr(p) for p in parts)})"
    return f"{_callee(expr)}({', '.join(print_expr(a) for a in expr.args)})"


def _callee(expr: Intrinsic) -> str:
    if is_known(expr.name) and get_intrinsic(expr.name).dtype == expr.dtype:
        return expr.name
    return f"{expr.name}:{expr.dtype}"


def print_const(const: Const) -> str:
    """A literal: a number with its type as suffix (none for int32), `true` or `false`."""
    if const.dtype == "bool":
        return "true" if const.value else "false"
    value = repr(float(const.value)) if is_float(const.dtype) else str(int(const.value))
    return f"{value}{SUFFIX[const.dtype]}"
