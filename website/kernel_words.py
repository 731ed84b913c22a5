"""The reference of what generated kernels are written in: functions, and kinds of their arguments.

The sections are those of the documentation of :mod:`glow_nb.simd.namespace`.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from typing import Any

from glow_nb.base.dot_instruction import DOTS
from glow_nb.base.types import ElementKind
from glow_nb.simd import arithmetic, convert, namespace
from website.markdown import code, summary, table

KINDS: dict[str, str] = {
    "pointer": "pointer dest source weights filter codes scales offsets sums table",
    "tile": "tile",
    "matrix tiles": "tiles",
    "vector or tile": "x lhs rhs addend condition yes no exponent offset number_or_vector",
    "vector": "vector left right words",
    "number": "number",
    "string literal": "places",
    "integer literal": "lanes",
}
"""Names of arguments by what is passed; all others are integers."""

EXCEPTIONS: dict[str, dict[str, str]] = {
    "copy_patch": {"left": "integer"},
    "tile_fma": {"column": "pointer", "row": "pointer"},
    "tile_set": {"value": "vector"},
    "choice": {"lhs": "integer", "rhs": "integer"},
    "reduction": {"x": "vector"},
}
"""Kinds of arguments whose names mean something else elsewhere, by function."""

MEANINGS = {
    "min": "the smaller of two integers",
    "max": "the larger of two integers",
    "even": "every second element, the first one included",
    "odd": "every second element, the second one included",
    "reverse": "the elements in reverse order",
    "splat_<kind>": "the number in every lane",
    "iota_<kind>": "0, 1, 2, ... in the lanes",
    "as_<kind>": "the same address, of elements of another kind",
    "matrix_clear": "set sums to 0",
    "matrix_load": "load sums from their place in memory",
    "matrix_store": "store sums to their place in memory",
    "sin": "Sine of radians.",
    "cos": "Cosine of radians.",
    "tan": "Tangent of radians.",
    "sinh": "Hyperbolic sine.",
    "cosh": "Hyperbolic cosine.",
    "asinh": "Inverse hyperbolic sine.",
    "acosh": "Inverse hyperbolic cosine; NaN below 1.",
    "atanh": "Inverse hyperbolic tangent; NaN outside -1..1.",
    "less": "`lhs < rhs` as bools",
    "less_equal": "`lhs <= rhs` as bools",
    "greater": "`lhs > rhs` as bools",
    "greater_equal": "`lhs >= rhs` as bools",
    "equal": "`lhs == rhs` as bools",
    "not_equal": "`lhs != rhs` as bools",
}
"""What functions do that are made by a function, and have no documentation of their own."""


def reference() -> str:
    """Return the functions of each section of the vocabulary, as tables."""
    return "\n".join(_section(title, names) for title, names in sections().items())


def sections() -> dict[str, list[str]]:
    """Return the names of the vocabulary by section; ``<kind>`` stands for several."""
    found: dict[str, list[str]] = {}
    title = ""
    text = (namespace.__doc__ or "").partition("\n\n")[2].rpartition("\n\n")[0]
    for line in text.splitlines():
        if line and not line.startswith(" "):
            title = line[0].upper() + line[1:]
            found[title] = []
        elif title:
            found[title] += _names(line)
    return found


def _names(line: str) -> list[str]:
    """Return the names in a line of the documentation, which may stand inside of open quotes."""
    bare = re.sub(r"\([^)]*\)", "", line).replace("`", " ")
    words = re.findall(r"[a-z]\w*_<\w+>|[a-z]\w*", bare)
    return [word for word in words if _members(word)]


def members() -> dict[str, list[str]]:
    """Return the functions that each name of the sections stands for."""
    return {name: _members(name) for names in sections().values() for name in names}


def _members(name: str) -> list[str]:
    kinds = [kind.value for kind in ElementKind]
    forms = [known.removeprefix("tile_dot_") for known in DOTS]
    endings = kinds if name.endswith("<kind>") else forms if name.endswith("<form>") else [""]
    stem = re.sub(r"<\w+>$", "", name)
    return [f"{stem}{ending}" for ending in endings if f"{stem}{ending}" in namespace.NAMESPACE]


def _section(title: str, names: list[str]) -> str:
    rows = [_row(alike) for alike in _alike(names)]
    return f"## {title}\n\n" + table(("call", "arguments", "result or effect"), rows)


def _alike(names: list[str]) -> list[list[str]]:
    """Return *names* with those together that differ in a dot instruction alone."""
    found: dict[object, list[str]] = {}
    for name in dict.fromkeys(names):
        function = definition_of(_members(name)[0])
        key = function.__code__ if function.__doc__ and name in DOTS else name
        found.setdefault(key, []).append(name)
    return list(found.values())


def _row(names: list[str]) -> tuple[str, str, str]:
    """Return a row for functions that are alike; its text is that of the first one."""
    name, *others = names
    function = definition_of(_members(name)[0])
    shown, _, meaning = (function.__doc__ or "").strip().partition("``")[2].partition("``")
    arguments = argument_kinds(function)
    letters = shown.partition("(")[2].rstrip(")").split(", ") if "(" in shown else []
    if len(letters) == len(arguments) and letters[0].isidentifier():
        arguments = dict(zip(letters, arguments.values(), strict=True))
    call = f"{name}({', '.join(arguments)})"
    kinds = "; ".join(f"{kind}: {code('`, `'.join(n))}" for kind, n in _by_kind(arguments).items())
    text = " ".join(meaning.lstrip(":.").replace("``", "`").split()) or _meaning(name)
    more = [f"`{other}` does so with groups of {DOTS[other].group}." for other in others]
    return code(call), kinds, " ".join([text, _limits(name), *more]).strip()


def _limits(name: str) -> str:
    """Return which kinds or forms there are, where it is not all kinds."""
    found = _members(name)
    if not name.endswith(">") or len(found) == len(ElementKind):
        return ""
    stem = name.partition("<")[0]
    return f"({', '.join(code(each.removeprefix(stem)) for each in found)})"


def definition_of(name: str) -> Any:
    """Return the Python function that types and emits the function *name* of the vocabulary."""
    return namespace.NAMESPACE[name]._defn  # type: ignore[attr-defined]


def argument_kinds(function: Any) -> dict[str, str]:
    """Return what each argument of an intrinsic must be, by its name."""
    literals = _literals(function)
    named = {name: kind for kind, names in KINDS.items() for name in names.split()}
    _, *names = inspect.signature(function).parameters
    named |= EXCEPTIONS.get(function.__name__, {})
    return {
        name: "integer literal" if name in literals else named.get(name, "integer")
        for name in names
    }


def _literals(function: Any) -> set[str]:
    """Return the arguments that an intrinsic asks to be literals (``are_literal(...)``)."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("are_literal", "literal"):
            found |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            if any(isinstance(a, ast.Starred) for a in node.args):
                found |= _named_in(tree, "literals")
    return found


def _named_in(tree: ast.AST, variable: str) -> set[str]:
    """Return the names in the tuple that is bound to *variable*."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == variable:
            return {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
    return set()


def _by_kind(arguments: dict[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, kind in arguments.items():
        found.setdefault(kind, []).append(name)
    return found


def _meaning(name: str) -> str:
    """Return what a function does that a function made: the operation on vectors says it."""
    if name in MEANINGS:
        return MEANINGS[name]
    stem = name.removesuffix("_<kind>")
    for place in (namespace._UNARY, namespace._FUNCTIONS, namespace._BINARY):
        if name in place:
            return summary(place[name])
    if name in namespace._REDUCTIONS:
        return f"all lanes combined to one number: {summary(namespace._REDUCTIONS[name])}"
    for module in (arithmetic, convert, namespace):
        operation = getattr(module, {"saturate": "saturate_all"}.get(stem, stem), None)
        if operation is not None and operation.__doc__:
            return summary(operation)
    return ""
