"""The change of a step to the IR, as a difference of texts.

Passes keep the names of nodes that they do not change, so the lines of unchanged nodes are equal
and the difference shows only the change. Constants that are added or removed are only counted,
unless their declarations are requested. The numbers of large ones are not in the text: a constant
whose numbers changed under its name is always shown, with a checksum of them.
"""

from __future__ import annotations

import difflib
import zlib
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.text import Text
from typing_extensions import override

from glow_nb.base.types import Array
from glow_nb.hlir.graph import Constant, Function, State
from glow_nb.hlir.print import print_storage
from glow_nb.llir.print import print_weight
from glow_nb.llir.program import Program, StateBuffer, Weight
from glow_nb.network.ir_text import ir_text

Declared = Constant | State | StateBuffer | Weight

CONTEXT = 3
"""Unchanged lines that are shown around a change."""

_STYLES = {"-": "red", "+": "green", "@": "cyan"}


@dataclass(frozen=True)
class Difference:
    """The difference of two states of the IR, as lines.

    Attributes:
        lines: A unified difference: ``@@ ... @@``, then lines that begin with ``-`` (only before),
            ``+`` (only after) or a blank; empty if the texts are equal.
        removed: Number of lines only before.
        added: Number of lines only after.
        constants_removed: Number of constants only before.
        constants_added: Number of constants only after.
    """

    lines: tuple[str, ...]
    removed: int
    added: int
    constants_removed: int
    constants_added: int

    @override
    def __str__(self) -> str:
        lines = f"{self.removed} line{'s' * (self.removed != 1)} removed, {self.added} added"
        if not self.constants_removed and not self.constants_added:
            return lines
        return f"{lines}; constants {self.constants_removed} removed, {self.constants_added} added"

    def print(self, console: Console) -> None:
        """Print the lines, in colour if *console* has any; long lines are not broken."""
        for line in self.lines:
            console.print(Text(line, style=_STYLES.get(line[:1], "")), soft_wrap=True)


def difference(
    before: Function | Program,
    after: Function | Program,
    *,
    context: int = CONTEXT,
    constants: bool = False,
) -> Difference:
    """Return the difference of *before* and *after*.

    Args:
        before: A graph or a program.
        after: The same, later.
        context: Unchanged lines to show around a change.
        constants: Show the declarations of all constants, not only of those with new numbers.
    """
    changed = _changed_constants(before, after)
    old, new = _lines(before, changed, constants), _lines(after, changed, constants)
    gone = _constants(before).keys() - _constants(after).keys()
    come = _constants(after).keys() - _constants(before).keys()
    _, _, *lines = list(difflib.unified_diff(old, new, lineterm="", n=context)) or ("", "")
    return Difference(
        tuple(lines),
        removed=sum(line.startswith("-") for line in lines),
        added=sum(line.startswith("+") for line in lines),
        constants_removed=len(gone),
        constants_added=len(come),
    )


def _constants(ir: Function | Program) -> dict[str, Declared]:
    constants = ir.weights if isinstance(ir, Program) else ir.constants
    values: tuple[Declared, ...] = (*constants, *ir.state)
    return {value.name: value for value in values}


def _changed_constants(before: Function | Program, after: Function | Program) -> set[str]:
    """Return the names of constants that have other numbers before than after."""
    old, new = _constants(before), _constants(after)
    return {name for name in old.keys() & new.keys() if not _same(old[name], new[name])}


def _same(left: Declared, right: Declared) -> bool:
    if left.payload is right.payload or left.payload is None or right.payload is None:
        return True
    one, other = left.array, right.array
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(np.array_equal(_bytes(one), _bytes(other)))


def _bytes(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _lines(ir: Function | Program, changed: set[str], constants: bool) -> list[str]:
    """Return the lines of *ir*; those that declare *changed* constants get a checksum.

    Declarations of other *constants* are left out unless they are wanted.
    """
    shown: dict[str, str | None] = {}
    for name, value in _constants(ir).items():
        line = _declaration(value)
        is_external = line.endswith(" external")
        checksum = (
            f"{zlib.crc32(_bytes(value.array).tobytes()):08x}"
            if is_external and name in changed
            else ""
        )
        keep = constants or name in changed
        shown[line] = (f"{line}  // checksum {checksum}" if checksum else line) if keep else None
    lines = ((line, shown.get(line.strip(), line)) for line in ir_text(ir).splitlines())
    return [_with_indent_of(line, text) for line, text in lines if text is not None]


def _with_indent_of(line: str, text: str) -> str:
    return line[: len(line) - len(line.lstrip())] + text.lstrip()


def _declaration(value: Declared) -> str:
    return print_storage(value) if isinstance(value, Constant | State) else print_weight(value)
