"""An entry's text to a relocatable object, through Python's own parser and LLVM.

An entry is calls with constant offsets, so it needs no type inference: numba spends 0.4 s on 70
calls and 7 s on 1,000, this translation 0.01 s and 0.15 s, and it works in a process without numba.
What is translated is the text that the user can print, not a second description.

The language: ``name = f(...)`` and ``f(...)``, where an argument is a name, an integer or a call;
``if name == integer:`` without an else; ``match name:`` with a ``case`` for each of 0, 1, 2, ...

    float32_at(base, bytes)            the address ``bytes`` after ``base``, likewise for every kind
    bound(bindings, index)             the pointer at ``index`` of an array of pointers
    size_at(sizes, index)              the number at ``index`` of an array of numbers
    scratch_at(scratch, thread, bytes) the share of this thread, ``bytes`` long
    glow_...(...)                      a kernel
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

import llvmlite.binding as llvm

from glow_nb.base.errors import CompileError
from glow_nb.base.types import ElementKind
from glow_nb.codegen.debugging.debug_files import EntryLines
from glow_nb.codegen.debugging.entry_lines import with_lines
from glow_nb.codegen.entry import PARAMETERS, EntrySource
from glow_nb.codegen.target_machine import target_machine
from glow_nb.kernels.target import Target

ADDRESS_FUNCTIONS = frozenset(f"{kind.value}_at" for kind in ElementKind)
_Operand = tuple[str, str]  # LLVM type and value

_ADDRESSES = ("constants", "arena", "bindings", "scratch")
_PARAMETERS: Mapping[str, _Operand] = {
    name: ("ptr" if name in _ADDRESSES else "i64", f"%{name}") for name in PARAMETERS
}


def compile_entry(entry: EntrySource, target: Target, lines: EntryLines | None = None) -> bytes:
    """Return the object of *entry*, with the one global symbol ``entry.symbol``.

    The object says from which of *lines* each call of a kernel comes, if there are any.
    """
    machine = target_machine(target, speed=0)
    text = translate_entry(entry)
    if lines is not None:
        text = with_lines(text, entry.symbol, lines)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = target.triple, str(machine.target_data)
    module.verify()
    payload: bytes = machine.emit_object(module)
    return payload


def translate_entry(entry: EntrySource) -> str:
    """Return the LLVM text of *entry*; raise CompileError for what is not in the language."""
    (function,) = ast.parse(entry.text).body
    if not isinstance(function, ast.FunctionDef):
        raise CompileError(f"entry {entry.symbol}: its text is not one function")
    translation = _Translation(entry.symbol)
    for statement in function.body:
        translation.statement(statement)
    parameters = ", ".join(f"{kind} %{name}" for name, (kind, _) in _PARAMETERS.items())
    lines = [
        *(
            f"declare void @{name}({', '.join(kinds)})"
            for name, kinds in translation.called.items()
        ),
        f"define void @{entry.symbol}({parameters}) {{",
        *(f"  {line}" for line in translation.lines),
        "  ret void",
        "}",
    ]
    return "\n".join(lines) + "\n"


@dataclass
class _Translation:
    """LLVM instructions written so far, and the values of the names in the text."""

    symbol: str
    lines: list[str] = field(default_factory=list)
    called: dict[str, tuple[str, ...]] = field(default_factory=dict)
    names: dict[str, _Operand] = field(default_factory=lambda: dict(_PARAMETERS))

    def statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Match(subject=subject, cases=cases):
                self.switch(statement, subject, [(_number(case), case.body) for case in cases])
            case ast.If(
                test=ast.Compare(left=subject, ops=[ast.Eq()], comparators=[ast.Constant(number)]),
                body=body,
                orelse=[],
            ):
                self.switch(statement, subject, [(number, body)])
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.names[name] = self.value(value)
            case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=arguments)):
                self.call(name, [self.value(argument) for argument in arguments])
            case _:
                raise self.error(statement)

    def switch(
        self, whole: ast.stmt, subject: ast.expr, bodies: list[tuple[object, list[ast.stmt]]]
    ) -> None:
        """Emit that one of *bodies* is executed whose number is that of *subject*, or none."""
        numbers = [number for number, _ in bodies]
        if len(set(numbers)) < len(numbers) or not all(type(number) is int for number in numbers):
            raise self.error(whole)
        kind, value = self.value(subject)
        here = f"l{len(self.lines)}"
        targets = " ".join(f"{kind} {number}, label %{here}_{number}" for number in numbers)
        self.lines.append(f"switch {kind} {value}, label %{here}_end [ {targets} ]")
        for number, body in bodies:
            self.lines.append(f"{here}_{number}:")
            names = dict(self.names)
            for statement in body:
                self.statement(statement)
            self.names = names  # what is made in a body may not be there after it
            self.lines.append(f"br label %{here}_end")
        self.lines.append(f"{here}_end:")

    def call(self, symbol: str, operands: list[_Operand]) -> None:
        """Emit the call of a kernel."""
        kinds = tuple(kind for kind, _ in operands)
        if self.called.setdefault(symbol, kinds) != kinds:
            raise CompileError(f"entry {self.symbol}: {symbol} is called with different operands")
        self.lines.append(f"call void @{symbol}({', '.join(f'{k} {v}' for k, v in operands)})")

    def value(self, expression: ast.expr) -> _Operand:
        """Return the operand that *expression* denotes, emitting its computation."""
        match expression:
            case ast.Constant(value=int(number)):
                return "i64", str(number)
            case ast.Name(id=name) if name in self.names:
                return self.names[name]
            case ast.Call(func=ast.Name(id=name), args=[base, offset]) if name in ADDRESS_FUNCTIONS:
                return self.address(self.value(base), self.value(offset))
            case ast.Call(func=ast.Name(id="bound"), args=[base, index]):
                place = self.emit(
                    f"getelementptr ptr, ptr {self.value(base)[1]}, i64 {self.value(index)[1]}"
                )
                return "ptr", self.emit(f"load ptr, ptr {place}")
            case ast.Call(func=ast.Name(id="size_at"), args=[base, index]):
                place = self.emit(
                    f"getelementptr i64, ptr {self.value(base)[1]}, i64 {self.value(index)[1]}"
                )
                return "i64", self.emit(f"load i64, ptr {place}")
            case ast.Call(func=ast.Name(id="scratch_at"), args=[base, thread, size]):
                start = self.emit(f"mul i64 {self.value(thread)[1]}, {self.value(size)[1]}")
                return self.address(self.value(base), ("i64", start))
            case _:
                raise self.error(expression)

    def address(self, base: _Operand, offset: _Operand) -> _Operand:
        """Return the address *offset* bytes after *base*."""
        if offset[1] == "0":
            return base
        return "ptr", self.emit(f"getelementptr i8, ptr {base[1]}, i64 {offset[1]}")

    def emit(self, instruction: str) -> str:
        """Append *instruction* and return the name of its result."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {instruction}")
        return name

    def error(self, tree: ast.stmt | ast.expr) -> CompileError:
        """Return the error for a piece of text that an entry cannot contain."""
        return CompileError(f"entry {self.symbol}: {ast.unparse(tree)!r} is not part of an entry")


def _number(case: ast.match_case) -> object:
    """Return the constant that *case* is for; None if it is for anything else."""
    match case:
        case ast.match_case(pattern=ast.MatchValue(value=ast.Constant(number)), guard=None):
            return number
    return None
