"""The LLVM text of an entry with debug information: each call belongs to a line of the program.

So a debugger shows the program's IR text as the source of the entry. The parameters of the entry
are kept in memory; with offsets that are known, they lead to every operand of every call.
"""

from __future__ import annotations

from llvmlite import ir

from glow_nb.base.errors import CompileError
from glow_nb.codegen.debugging.debug_files import EntryLines
from glow_nb.codegen.debugging.dwarf import DebugInfo, Parameter
from glow_nb.codegen.entry import PARAMETERS

_POINTERS = ("constants", "arena", "bindings", "scratch")
_PARAMETERS: list[Parameter] = [
    (name, "memory" if name in _POINTERS else "number") for name in PARAMETERS
]
_CALL = "call void @glow_"
_DECLARE = "llvm.dbg.declare"


def with_lines(text: str, symbol: str, lines: EntryLines) -> str:
    """Return *text*, which defines the entry *symbol*, with debug information.

    Raises:
        CompileError: There are more or fewer calls than *lines* has.
    """
    module = ir.Module()
    info = DebugInfo(module, lines.file_name)
    function = info.function(symbol, lines.first)
    begin = info.location(function, lines.first).get_reference()
    variables = info.parameters(function, lines.first, _PARAMETERS)
    head, _, rest = text.partition(f"define void @{symbol}(")
    parameters, _, body = rest.partition(") {\n")
    stores = [
        line.format(
            name=name, kind="i64" if kind == "number" else "ptr", variable=v.get_reference()
        )
        for (name, kind), v in zip(_PARAMETERS, variables, strict=True)
        for line in _KEPT
    ]
    locations = [info.location(function, line).get_reference() for line in lines.calls]
    marked = _marked([*stores, *body.removesuffix("}\n").splitlines()], begin, locations)
    return "\n".join(
        [
            str(module),
            f"declare void @{_DECLARE}(metadata, metadata, metadata)",
            f"{head}define void @{symbol}({parameters}) !dbg {function.get_reference()} {{",
            *marked,
            "}\n",
        ]
    )


_KEPT = (
    "  %{name}.place = alloca {kind}",
    "  store {kind} %{name}, ptr %{name}.place",
    f"  call void @{_DECLARE}(metadata ptr %{{name}}.place, metadata {{variable}}, "
    "metadata !DIExpression())",
)


_LAST = "  %after{number} = load volatile i64, ptr %phase.place"
"""Belongs to a call, and is done when that is: a debugger that has finished the kernel is still at
the line of the call, and shows its results."""


def _marked(body: list[str], begin: str, locations: list[str]) -> list[str]:
    """Return the instructions of *body* with their locations: that of the next call, or *begin*."""
    left = iter(locations)
    marked: list[str] = []
    waiting: list[str] = []  # what computes the arguments of a call stands in front of it
    for line in body:
        waiting.append(line)
        is_call = line.lstrip().startswith(_CALL)
        if is_call or line.endswith(":") or line.lstrip().startswith(("switch ", "br ", "ret ")):
            location = next(left, None) if is_call else begin
            if location is None:
                break
            if is_call:
                waiting.append(_LAST.format(number=len(marked)))
            marked += [one if one.endswith(":") else f"{one}, !dbg {location}" for one in waiting]
            waiting = []
    if waiting or next(left, None) is not None:
        raise CompileError(f"an entry makes other calls than the {len(locations)} that have lines")
    return marked
