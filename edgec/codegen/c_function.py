"""PrimFunc -> C function.

  1. The nest is expanded (`expand.py`): only loops, conditions and stores remain.
  2. Register buffers whose indices are all constant become scalars, others local arrays, each
     declared where it is first needed.
  3. Runs of stores name their repeated values and base addresses (`access.py`).
  4. Vectorized loops become vectors (`vectors.py`), with the serial loop for compilers without
     vectors. Parallel loops use OpenMP, and are serial without it.

Arena and scratch parameters may overlap, so only constants are `restrict`.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from edgec.codegen.access import BaseAddress, address_of, common_addresses, repeated_values
from edgec.codegen.c_expr import CValue, ExprPrinter
from edgec.codegen.c_struct import struct_declaration, struct_value
from edgec.codegen.c_term import RELATION, SUM, Text, element_index, term_text
from edgec.codegen.c_text import (
    FAILED,
    INDENT,
    PARALLEL_FOR,
    SHARED,
    CFunction,
    openmp,
    parameters,
    shows_rows,
)
from edgec.codegen.c_types import C_TYPE
from edgec.codegen.expand import expand
from edgec.codegen.names import identifier
from edgec.codegen.program import DTYPE_BYTES
from edgec.codegen.ranges import Range, Ranges, accumulated_range
from edgec.codegen.register import Element, Registers
from edgec.codegen.teams import Part, is_shared, meets_before, parts_of
from edgec.codegen.vectors import Lanes
from edgec.errors import ContractError
from edgec.loop.access import accesses
from edgec.loop.foreign import can_fail
from edgec.loop.ir import (
    TRACE_PART,
    TRACE_ROW,
    Binary,
    Branch,
    Buffer,
    BufferRef,
    Call,
    Const,
    Expr,
    For,
    Gather,
    If,
    IndexValue,
    Load,
    PrimFunc,
    Scope,
    Seq,
    Stmt,
    Store,
    Sync,
    While,
)
from edgec.loop.lanes import private_buffers, why_not_at_once
from edgec.loop.microkernel import product_of_call, stream_of_call, struct_of_call
from edgec.loop.rewrite import expressions, statements, subexpressions
from edgec.numerics.term import Term, Var


def emit_function(
    func: PrimFunc,
    name: str,
    *,
    callees: Mapping[str, str] | None = None,
    added: Mapping[str, Sequence[int | str]] | None = None,
    known: Mapping[str, Range] | None = None,
    in_team: bool = False,
    is_apart: bool = False,
) -> CFunction:
    """Write one function called `name`; `callees` maps the IR's names of callees to C names.

    added: arguments that calls of callees end with, by the IR's names too. known: by parameter
    name, the range of an integer constant's elements. in_team: all threads run it if they share
    its loops (`CFunction.is_shared`), and wait for each other at its end. is_apart: its arguments
    do not overlap.

    Raises ContractError for statements without a C form (shared memory, unknown operators).
    """
    printer = FunctionPrinter(func, name, callees or {}, known or {})
    printer.in_team, printer.is_apart, printer.added = in_team, is_apart, added or {}
    return printer.emit()


class FunctionPrinter:
    """Prints one function; `edgec.codegen.c_kernel` has the differences on a GPU."""

    #: Whether all threads run functions with shared loops, and whether arguments do not overlap.
    in_team = is_apart = False
    #: By callee, the arguments that calls of it end with.
    added: Mapping[str, Sequence[int | str]] = MappingProxyType({})
    #: Scopes of a function's private buffers.
    own_scopes: tuple[Scope, ...] = ("register",)

    def __init__(
        self, func: PrimFunc, name: str, callees: Mapping[str, str], known: Mapping[str, Range]
    ) -> None:
        self.func = func
        self.name = name
        self.callees = callees
        self.body = expand(func)
        self.used: set[str] = {name, "context", "trace"}
        self.buffer_names: dict[Buffer, str] = {}
        for buffer in func.params:
            if buffer.scope not in ("arena", "scratch", "constant"):
                raise ContractError(f"{func.name}: parameter {buffer.name} is {buffer.scope}")
            self.buffer_names[buffer] = self.fresh(buffer.name)
        for buffer in func.allocs:
            if buffer.scope not in self.own_scopes:
                raise ContractError(f"{func.name}: local {buffer.name} is {buffer.scope}")
            self.buffer_names[buffer] = self.fresh(buffer.name)
        self.vars: dict[Var, str] = {var: self.fresh(var.name) for var in func.indices}
        registers = [buffer for buffer in func.allocs if buffer.scope == "register"]
        self.registers = Registers(registers, self.body)
        self.element_names: dict[Element, str] = {}
        self.pointers: dict[BaseAddress, tuple[str, int]] = {}
        self.lanes: Lanes | None = None
        self.over_loop = PARALLEL_FOR
        self.ranges = Ranges({b: known[b.name] for b in func.params if b.name in known})
        self.expr = self.printer({})
        self.structs = self.known_structs()

    def printer(self, named: Mapping[Expr, CValue]) -> ExprPrinter:
        return ExprPrinter(self.load, self.buffer_name, self.var_name, self.ranges, named)

    def emit(self) -> CFunction:
        lines = [
            f"{INDENT}static {struct_declaration(struct, name, value)}"
            for (struct, value), name in self.structs.items()
        ]
        parts = parts_of(self.body, self.registers) if self.in_team else []
        lines += self.team(parts) if parts else self.stmts(self.body, 1)
        lines += self.unused_params()
        words = set(re.findall(r"\w+", "\n".join(lines)))
        sizes = [self.vars[var] for var in self.func.indices]
        lines += [f"{INDENT}(void){name};" for name in sizes if name not in words]
        return CFunction(self.name, parameters(self.func, self.buffer_names, sizes), tuple(lines))

    def unused_params(self) -> list[str]:
        used: set[Buffer] = set()
        for stmt in statements(Seq(self.body)):
            if isinstance(stmt, Store):
                used.add(stmt.buffer)
            elif isinstance(stmt, Call):
                used |= {arg.buffer for arg in stmt.args if isinstance(arg, BufferRef)}
            inside = (part for expr in expressions(stmt) for part in subexpressions(expr))
            used |= {part.buffer for part in inside if isinstance(part, (Load, Gather))}
        names = [self.buffer_names[p] for p in self.func.params if p not in used]
        if shows_rows(self.func):  # unused where nobody watches
            names += ["context", "trace"]
        return [f"{INDENT}(void){name};" for name in names]

    # names ------------------------------------------------------------------------------------

    def fresh(self, wanted: str) -> str:
        """A local name that nothing else in this function has."""
        base = identifier(wanted)
        name, count = base, 1
        while name in self.used:
            count += 1
            name = f"{base}_{count}"
        self.used.add(name)
        return name

    def numbered(self, base: str) -> str:
        """A local name base0, base1, ... that nothing visible has."""
        count = 0
        while f"{base}{count}" in self.used:
            count += 1
        self.used.add(f"{base}{count}")
        return f"{base}{count}"

    def var_name(self, var: Var) -> str:
        if var not in self.vars:
            raise ContractError(f"{self.func.name}: {var.name} is used outside its loop")
        return self.vars[var]

    def buffer_name(self, buffer: Buffer) -> str:
        if buffer not in self.buffer_names:
            raise ContractError(f"{self.func.name}: buffer {buffer.name} is not declared")
        return self.buffer_names[buffer]

    def element_name(self, element: Element) -> str:
        """The name of a register element that is a scalar."""
        if element not in self.element_names:
            buffer, flat = element
            base = self.buffer_names[buffer]
            name = base if buffer.elements == 1 else self.fresh(f"{base}{flat}")
            self.element_names[element] = name
        return self.element_names[element]

    # elements ---------------------------------------------------------------------------------

    def load(self, load: Load) -> Text:
        return self.element(load.buffer, load.indices)

    def element(self, buffer: Buffer, indices: tuple[Term, ...]) -> Text:
        scalar = self.registers.scalar(buffer, indices)
        if scalar is not None:
            return Text(self.element_name(scalar))
        address, offset = address_of(buffer, indices)
        if address in self.pointers:
            name, base = self.pointers[address]
            return Text(f"{name}[{offset - base}]")
        if self.lanes is not None and buffer.extents is None:
            return Text(self.flat_element(buffer, address.varying + offset))
        index = element_index(buffer, indices, self.var_name)
        return Text(f"{self.buffer_name(buffer)}[{index.text}]")

    # statements -------------------------------------------------------------------------------

    def team(self, parts: Sequence[Part]) -> list[str]:
        """The body for threads that all run it: they share its loops, one of them does the rest."""
        self.over_loop = SHARED
        lines: list[str] = []
        for part, is_late in zip(parts, meets_before(parts, is_apart=self.is_apart), strict=True):
            lines += openmp("barrier") if is_late else []
            if is_shared(part[0]):
                lines += self.stmts(part, 1)
            else:
                lines += [*openmp("single nowait"), f"{INDENT}{{", *self.stmts(part, 2),
                          f"{INDENT}}}"]  # fmt: skip
        return lines

    def stmts(self, stmts: Sequence[Stmt], depth: int) -> list[str]:
        outer = set(self.used)
        lines = self.scope(stmts, depth)
        self.used = outer  # declarations inside it are out of scope
        return lines

    def scope(self, stmts: Sequence[Stmt], depth: int) -> list[str]:
        lines: list[str] = []
        declare = self.registers.declared_in(stmts)
        # Elements whose first access here is a store of this list are declared with it.
        with_store: dict[int, Element] = {}
        for element in declare:
            position = self.registers.first_store(element, stmts)
            if position is None:
                lines.append(INDENT * depth + self.declaration(element))
                continue
            with_store[position] = element
            first = stmts[position]
            if element[1] is not None and isinstance(first, Store):
                found = accumulated_range(
                    self.ranges, (element[0], element[1]), first, stmts[position + 1 :]
                )
                if found is not None:
                    self.ranges.elements[element] = found
        position = 0
        while position < len(stmts):
            stmt = stmts[position]
            if isinstance(stmt, Store):
                end = position
                while end < len(stmts) and isinstance(stmts[end], Store):
                    end += 1
                run = [s for s in stmts[position:end] if isinstance(s, Store)]
                declared = {i - position: e for i, e in with_store.items() if position <= i < end}
                lines += [INDENT * depth + line for line in self.run(run, declared)]
                position = end
                continue
            if isinstance(stmt, For):
                lines += self.loop(stmt, depth)
            elif isinstance(stmt, If):
                lines += self.condition(stmt, depth)
            elif isinstance(stmt, Branch):
                lines += self.branch(stmt, depth)
            elif isinstance(stmt, While):
                lines += self.repeat(stmt, depth)
            elif isinstance(stmt, Call):
                lines += [INDENT * depth + line for line in (*_stream_note(stmt), *self.call(stmt))]
            elif isinstance(stmt, Sync):
                lines.append(INDENT * depth + self.barrier(stmt))
            position += 1
        return lines

    def declaration(self, element: Element) -> str:
        buffer, flat = element
        if self.lanes is not None and buffer in self.lanes.private:
            size = f"[{buffer.elements}]" if flat is None else " = {0}"
            name = self.buffer_names[buffer] if flat is None else self.element_name(element)
            return f"{self.lanes.type_of(buffer.dtype)} {name}{size};"
        if flat is None:
            return f"{C_TYPE[buffer.dtype]} {self.buffer_names[buffer]}[{buffer.elements}];"
        return f"{C_TYPE[buffer.dtype]} {self.element_name(element)} = 0;"

    def run(self, run: list[Store], declared: Mapping[int, Element]) -> list[str]:
        """Stores one after the other, and before them the locals that they share."""
        if self.lanes is not None:
            return self.run_of_lanes(run, declared, self.lanes)
        lines: list[str] = []
        addresses = common_addresses(_accesses(run))
        for address, indices in addresses.items():
            if self.in_registers(address.buffer):
                continue
            stored = any(s.buffer == address.buffer for s in run)
            text = element_index(address.buffer, indices, self.var_name).text
            buffer = self.buffer_name(address.buffer)
            name = self.fresh(f"{buffer}_at")
            const = "" if stored else "const "
            lines.append(
                f"{const}{C_TYPE[address.buffer.dtype]} *const {name} = &{buffer}[{text}];"
            )
            self.pointers[address] = name, address_of(address.buffer, indices)[1]
        named: dict[Expr, CValue] = {}
        for expr in repeated_values(run):
            value = self.printer(named).value(expr)
            loads = [e for e in subexpressions(expr) if isinstance(e, Load)]
            name = self.numbered(self.buffer_names[loads[0].buffer] if loads else "value")
            lines.append(f"const {C_TYPE[value.dtype]} {name} = {value.text.text};")
            named[expr] = CValue(Text(name), value.dtype)
        printer = self.printer(named)
        for position, store in enumerate(run):
            text = self.store(store, printer)
            if position in declared:
                text = f"{C_TYPE[store.buffer.dtype]} {text}"
            lines.append(text)
        self.pointers.clear()
        return lines

    def run_of_lanes(
        self, run: list[Store], declared: Mapping[int, Element], lanes: Lanes
    ) -> list[str]:
        """Stores of vectors one after the other."""
        lines: list[str] = []
        for position, store in enumerate(run):
            *before, last = lanes.store(store)
            if position in declared:
                last = f"{lanes.type_of(store.buffer.dtype)} {last}"
            lines += [*before, last]
        return lines

    def in_registers(self, buffer: Buffer) -> bool:
        return buffer.scope == "register"

    def store(self, store: Store, printer: ExprPrinter) -> str:
        target = self.element(store.buffer, store.indices).text
        value = printer.as_dtype(store.value, store.buffer.dtype)
        own = Load(store.buffer, store.indices)
        if isinstance(store.value, Binary) and store.value.left == own:
            for operator in ("+", "-"):
                if value.startswith(f"{target} {operator} "):
                    return f"{target} {operator}= {value[len(target) + 3 :]};"
        return f"{target} = {value};"

    def loop(self, loop: For, depth: int) -> list[str]:
        if loop.kind == "vectorized":
            return self.vector_loop(loop, depth)
        if loop.kind == "parallel":
            self.require_at_once(loop)
        elif loop.kind != "serial":
            raise ContractError(f"{self.func.name}: C has no loop that is {loop.kind}")
        start = term_text(loop.start, self.var_name).text
        stop = term_text(loop.stop, self.var_name)
        shadowed = self.vars.get(loop.var)
        before = set(self.used)
        name = self.fresh(loop.var.name)
        self.used.add(f"{name}_stop")
        self.vars[loop.var] = name
        if loop.stop.constant is not None or loop.kind == "parallel":  # OpenMP wants this form
            bounds = f"int32_t {name} = {start}; {name} < {stop.at(SUM)}"
        else:
            bounds = f"int32_t {name} = {start}, {name}_stop = {stop.text}; {name} < {name}_stop"
        inner = loop.body.stmts if isinstance(loop.body, Seq) else (loop.body,)
        lines = [
            f"{INDENT * depth}for ({bounds}; ++{name}) {{",
            *self.stmts(inner, depth + 1),
            f"{INDENT * depth}}}",
        ]
        if loop.kind == "parallel":
            lines = [*openmp(self.over_loop), *lines]
        self.used = before
        if shadowed is None:
            del self.vars[loop.var]
        else:
            self.vars[loop.var] = shadowed
        return lines

    def require_at_once(self, loop: For) -> None:
        func = replace(self.func, body=Seq(self.body))
        if loop.kind == "parallel":  # as scheduled: expanded, its steps are harder to separate
            func = self.func
            loop = next((s for s in statements(func.body) if isinstance(s, For)
                         and (s.kind, s.var) == ("parallel", loop.var)), loop)  # fmt: skip
        why = why_not_at_once(func, loop)
        if why:
            raise ContractError(
                f"{self.func.name}: loop {loop.var.name} cannot be {loop.kind}: {why}"
            )

    def vector_loop(self, loop: For, depth: int) -> list[str]:
        """All steps at once where the compiler has vectors, and the loop for others."""
        self.require_at_once(loop)
        expanded = replace(self.func, body=Seq(self.body))
        private = frozenset(
            buffer
            for buffer in private_buffers(expanded, loop)
            if all(
                loop.var not in index.variables()
                for access in accesses(loop, of=(buffer,))
                for index in access.indices or ()
            )
        )
        known = self.registers.undeclared()
        serial = self.loop(replace(loop, kind="serial"), depth)
        self.registers = known
        lanes = Lanes(loop, self.expr, self.flat_element, self.numbered, private)
        self.lanes = lanes
        body = self.stmts(_listed(loop.body), depth + 1)
        self.lanes = None
        types = [f"{INDENT * (depth + 1)}{line}" for line in lanes.types.values()]
        vector = [f"{INDENT * depth}{{", *types, *body, f"{INDENT * depth}}}"]
        return ["#if EC_VECTORS", *vector, "#else", *serial, "#endif"]

    def flat_element(self, buffer: Buffer, flat: Term) -> str:
        """An element by its position in memory."""
        is_array = self.registers.is_array(buffer)
        if buffer.scope == "register" and not is_array and flat.constant is not None:
            return self.element_name((buffer, flat.constant))
        name, first = self.buffer_name(buffer), flat - flat.offset
        if flat.offset > 0 and first.parts and first.bounds()[0] >= 0:
            # One address and distances from it: of sums in int32_t compilers keep every one.
            return f"(&{name}[{term_text(first, self.var_name).text}])[{flat.offset}]"
        return f"{name}[{term_text(flat, self.var_name).text}]"

    def condition(self, stmt: If, depth: int) -> list[str]:
        left = term_text(stmt.left, self.var_name)
        right = term_text(stmt.right, self.var_name)
        body, otherwise = _listed(stmt.body), _listed(stmt.otherwise)
        operator = "<"
        if not body:
            operator, body, otherwise = ">=", otherwise, ()
        test = f"{left.at(RELATION + 1)} {operator} {right.at(RELATION + 1)}"
        return self.cases(test, body, otherwise, depth)

    def branch(self, stmt: Branch, depth: int) -> list[str]:
        test = f"{self.expr.value(stmt.condition).text.at(RELATION + 1)} != 0"
        return self.cases(test, _listed(stmt.body), _listed(stmt.otherwise), depth)

    def cases(
        self, test: str, body: Sequence[Stmt], otherwise: Sequence[Stmt], depth: int
    ) -> list[str]:
        """An if statement in C."""
        lines = [f"{INDENT * depth}if ({test}) {{", *self.stmts(body, depth + 1)]
        if otherwise:
            lines += [f"{INDENT * depth}}} else {{", *self.stmts(otherwise, depth + 1)]
        return [*lines, f"{INDENT * depth}}}"]

    def repeat(self, stmt: While, depth: int) -> list[str]:
        bounds = ";;"
        before = set(self.used)
        if stmt.limit is not None:
            name = self.fresh("round")
            bounds = f"int32_t {name} = 0; {name} < {stmt.limit}; ++{name}"
        condition = self.expr.value(stmt.condition).text.at(RELATION + 1)
        lines = [
            f"{INDENT * depth}for ({bounds}) {{",
            *self.stmts(_listed(stmt.head), depth + 1),
            f"{INDENT * (depth + 1)}if ({condition} == 0) {{",
            f"{INDENT * (depth + 2)}break;",
            f"{INDENT * (depth + 1)}}}",
            *self.stmts(_listed(stmt.body), depth + 1),
            f"{INDENT * depth}}}",
        ]
        self.used = before
        return lines

    def barrier(self, sync: Sync) -> str:
        raise ContractError(f"{self.func.name}: C has no barrier of a {sync.scope}")

    def call(self, call: Call) -> list[str]:
        if call.callee == TRACE_ROW:
            return [self.trace_row(call)]
        if call.callee == TRACE_PART:
            (part,) = call.args
            assert isinstance(part, Const)
            return [f"EC_TRACE(context, trace + {int(part.value)}u, NULL, 0u, 0u);"]
        before, args = self.taken_by(call)
        args += map(str, self.added.get(call.callee, ()))
        text = f"{self.callees.get(call.callee, call.callee)}({', '.join(args)})"
        return [*before, f"return {text}{FAILED}" if can_fail(call) else f"{text};"]

    def taken_by(self, call: Call) -> tuple[list[str], list[str]]:
        """The arguments of a call as its C function takes them, after the lines that they need."""
        args = [self.argument(arg) for arg in call.args]
        before, found = list[str](), struct_of_call(call)
        if found is not None:
            struct, members, unread = found
            given = [args[member] for member in members]
            name = self.structs.get((struct.name, struct_value(struct, given)))
            if name is None:  # of sizes that are known when the function runs
                name = self.fresh(struct.name.removeprefix("ec_"))
                value = struct_value(struct, given, is_known=False)
                before = [f"{struct_declaration(struct.name, name, value)}"]
            first = min(members)
            args[first] = name
            gone = {*members, *unread} - {first}
            args = [arg for place, arg in enumerate(args) if place not in gone]
        factors = product_of_call(call)
        if args[factors]:
            parts = (arg if arg.isdigit() else f"({arg})" for arg in args[factors])
            args[factors] = [" * ".join(parts)]
        return before, args

    def argument(self, arg: BufferRef | Expr) -> str:
        if not isinstance(arg, BufferRef):
            return self.expr.as_dtype(arg, arg.dtype)
        index = element_index(arg.buffer, arg.indices, self.var_name).text
        name = self.buffer_name(arg.buffer)
        return name if index == "0" else f"&{name}[{index}]"

    def known_structs(self) -> dict[tuple[str, str], str]:
        """Names for the structs of constant sizes that calls take, each once."""
        names: dict[tuple[str, str], str] = {}
        for call in (s for s in statements(Seq(self.body)) if isinstance(s, Call)):
            found = struct_of_call(call)
            if found is None:
                continue
            struct, members, _ = found
            given = [call.args[member] for member in members]
            if not all(isinstance(arg, Const) for arg in given):
                continue
            key = struct.name, struct_value(struct, map(self.argument, given))
            if key not in names:
                names[key] = self.fresh(struct.name.removeprefix("ec_"))
        return names

    def trace_row(self, call: Call) -> str:
        number, row, index = call.args
        assert isinstance(number, Const) and isinstance(row, BufferRef)
        assert isinstance(index, IndexValue)
        elements = 1
        for extent in row.box:
            elements *= extent
        element = element_index(row.buffer, row.indices, self.var_name).text
        at = term_text(index.term, self.var_name).text
        return (
            f"EC_TRACE(context, trace + {int(number.value)}u, &{self.buffer_name(row.buffer)}"
            f"[{element}], (uint32_t)({at}), {elements * DTYPE_BYTES[row.buffer.dtype]}u);"
        )


def _listed(stmt: Stmt | None) -> tuple[Stmt, ...]:
    if stmt is None:
        return ()
    return stmt.stmts if isinstance(stmt, Seq) else (stmt,)


def _accesses(run: Sequence[Store]) -> list[tuple[Buffer, tuple[Term, ...]]]:
    found: list[tuple[Buffer, tuple[Term, ...]]] = []
    for store in run:
        for expr in subexpressions(store.value):
            if isinstance(expr, Load):
                found.append((expr.buffer, expr.indices))
        found.append((store.buffer, store.indices))
    return found


def _stream_note(call: Call) -> list[str]:
    """A comment on the constants that a kernel reads as one array, if it does."""
    held = stream_of_call(call)
    return textwrap.wrap(f"/* constants: {held} */", 80, subsequent_indent=" * ") if held else []
