"""A pass of numba: a name that is used for values that have nothing to do with each other is split.

Generated text uses one name for vectors of different widths, in one loop after another, and numba
gives each name one type. Its own pass for this, ``ReconstructSSA``, goes through the whole function
for each name, and leaves assignments that a further pass must take out again. LLVM makes static
single assignments of its own, so that it is enough to know which definitions meet in a use: those
keep one name (they are a *web*). One walk over the function and one over its edges find them.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from numba.core import ir, ir_utils
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.compiler_machinery import FunctionPass, register_pass
from typing_extensions import override


@register_pass(mutates_CFG=False, analysis_only=False)
class SeparateNames(FunctionPass):
    """Give each web of definitions and uses a name of its own: ``x = 1; f(x); x = 2.0; g(x)``."""

    _name = "separate_names"

    def __init__(self) -> None:  # numba's own is abstract
        untyped: Any = super()
        untyped.__init__()

    @override
    def run_pass(self, state: Any) -> bool:
        blocks = state.func_ir.blocks
        _rename(blocks, _Webs(blocks))
        state.func_ir._definitions = ir_utils.build_definitions(blocks)
        return True


class _Webs:
    """The webs of the names with several definitions; a web is a number, see :meth:`of`.

    Attributes:
        values: The numbers that each statement with such names works on, as ``(statement, number of
            the name it defines or None, numbers of the names it uses)``, in the order of the text.
    """

    def __init__(self, blocks: dict[int, Any]) -> None:
        self._parents: list[int] = []
        self._entries: dict[tuple[int, str], int] = {}
        self._open: list[tuple[int, str]] = []
        self.values: list[tuple[Any, int | None, dict[str, int]]] = []
        definitions = Counter(
            statement.target.name for block in blocks.values() for statement in _assigns(block)
        )
        names = {name for name, count in definitions.items() if count > 1}
        exits = {label: self._walk(label, block, names) for label, block in blocks.items()}
        edges = compute_cfg_from_blocks(blocks)
        while self._open:  # what a block takes over comes from all blocks before it
            label, name = self._open.pop()
            for before, _ in edges.predecessors(label):
                value = exits[before].get(name)
                self._join(
                    self._entries[label, name],
                    self._at_entry(before, name) if value is None else value,
                )

    def of(self, value: int) -> int:
        """Return the web that *value* belongs to."""
        while self._parents[value] != value:
            self._parents[value] = value = self._parents[self._parents[value]]
        return value

    def _walk(self, label: int, block: Any, names: set[str]) -> dict[str, int]:
        """Number the values of *block*; return the last one of each name that it defines."""
        last: dict[str, int] = {}
        for statement in block.body:
            defines = isinstance(statement, ir.Assign)
            target = statement.target.name if defines else None
            used = names.intersection(_used(statement))
            uses = {
                name: last[name] if name in last else self._at_entry(label, name) for name in used
            }
            if target in names:
                last[target] = self._new()
                self.values.append((statement, last[target], uses))
            elif uses:
                self.values.append((statement, None, uses))
        return last

    def _new(self) -> int:
        self._parents.append(len(self._parents))
        return len(self._parents) - 1

    def _at_entry(self, label: int, name: str) -> int:
        """Return the value of *name* at the beginning of a block."""
        if (label, name) not in self._entries:
            self._entries[label, name] = self._new()
            self._open.append((label, name))
        return self._entries[label, name]

    def _join(self, one: int, other: int) -> None:
        self._parents[self.of(one)] = self.of(other)


def _rename(blocks: dict[int, Any], webs: _Webs) -> None:
    """Let the first web of a name keep it, and each other one have a new one."""
    scope = next(iter(blocks.values())).scope
    variables: dict[int, Any] = {}
    taken: set[str] = set()

    def variable(name: str, value: int, loc: Any) -> Any:
        web = webs.of(value)
        if web not in variables:
            variables[web] = scope.redefine(name, loc) if name in taken else scope.get_exact(name)
            taken.add(name)
        return variables[web]

    for statement, defined, uses in webs.values:
        found = {name: variable(name, value, statement.loc) for name, value in uses.items()}
        used = {name: other for name, other in found.items() if other.name != name}
        if not isinstance(statement, ir.Assign):
            ir_utils.replace_vars_stmt(statement, used)
            continue
        statement.value = ir_utils.replace_vars_inner(statement.value, used)
        if defined is not None:
            statement.target = variable(statement.target.name, defined, statement.loc)


def _assigns(block: Any) -> list[Any]:
    return [statement for statement in block.body if isinstance(statement, ir.Assign)]


def _used(statement: Any) -> list[str]:
    """Return the names that *statement* reads."""
    reader = statement.value if isinstance(statement, ir.Assign) else statement
    if isinstance(reader, ir.Var):
        return [reader.name]
    return [variable.name for variable in reader.list_vars()] if isinstance(reader, ir.Inst) else []
