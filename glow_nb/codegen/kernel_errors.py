"""What is wrong with the text of a kernel, said of the line that it is about."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence

from glow_nb.base.quantities import count_of
from glow_nb.base.schema import closest
from glow_nb.kernels.writing.source import KernelSource

_LINE = re.compile(r'File "<[^>]*>", line (\d+)|<[^<>]*> \((\d+)\)')
_NAME = re.compile(r"name '(\w+)' is not defined")
_CALL = re.compile(
    r"No implementation of function \S+\(<([\w -]*) (\w+)>\) found.*?>>> \w+(\([^\n]*\))", re.S
)
_CAST = re.compile(r"Cannot cast (\S+) to (\S+):")
_COUNT = re.compile(r"positional argument")
_WITHOUT_SOURCE = re.compile(r'\nFile "<[^>]*>", line \d+:\n<source missing[^\n]*\n')
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
"""How numba names a line of text that is in no file, a name that is nowhere, a call that fits no
function, an argument that cannot be converted, a call of too few or too many arguments, and what it
writes for terminals."""

_LISTED = "docs/reference/kernels.md says what each function takes"
_SIGNS = {
    **{"getitem": "[]", "setitem": "[] =", "static_getitem": "[]", "static_setitem": "[] ="},
    **{"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%"},
    **{"pow": "**", "neg": "-", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "=="},
    **{"ne": "!=", "and_": "&", "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>"},
    **{"not_": "not", "truth": "if", "invert": "~"},
}
"""Python's operators, by the names that numba has for them."""


def described(source: KernelSource, error: Exception, words: Mapping[str, object]) -> str:
    """Return what *error* says of the text of *source*, whose vocabulary is *words*."""
    lines, text = source.text.split("\n"), _COLOURS.sub("", str(error))
    number, reason = _line_of(lines, error, text), ""
    if _COUNT.search(text):
        number, reason = next(_miscounted(source.text, words), (number, ""))
    line = lines[number - 1].strip() if number else ""
    place = f", line {number}, `{line}`" if number else ""
    told = f"generated source does not compile{reason or _reason(line, error, text, words)}"
    return f"kernel {source.symbol}{place}: {told}\n{numbered(source)}"


def numbered(source: KernelSource) -> str:
    """Return the text of *source* with line numbers, as an error shows it."""
    lines = source.text.rstrip("\n").split("\n")
    return "\n".join(f"{number:4} | {line}" for number, line in enumerate(lines, 1))


def _reason(line: str, error: Exception, text: str, words: Mapping[str, object]) -> str:
    """Return what is wrong with *line*; numba's own *text* if it is no misuse of a word."""
    call, name = _CALL.search(text), _NAME.search(text)
    if call is not None:
        return f": {_misused(call, line, words)}"
    if name is not None:
        return (
            f": {name[1]!r} is neither a variable nor a function that kernels may call"
            f"{closest(name[1], words)}; docs/reference/kernels.md lists these"
        )
    cast = _CAST.search(text)
    if cast is not None:
        return f": {cast[1]} is given where {cast[2]} is needed; {_LISTED}"
    if isinstance(error, SyntaxError):
        return f": it is no Python, {error.msg}"
    said = _WITHOUT_SOURCE.sub("", text).strip()
    return f"; this is a defect of its generator\n{type(error).__name__}: {said}"


def _misused(call: re.Match[str], line: str, words: Mapping[str, object]) -> str:
    """Return what to say of a *call* in *line* that fits no function."""
    owner, internal, given = call.groups()
    if owner.startswith("built-in"):
        return (
            f"Python's {_SIGNS.get(internal, internal)} does not take {given}; memory is read and "
            f"written, and vectors are computed with, by functions; {_LISTED}"
        )
    called = next(_called_as(internal, line, words), "")
    form = f"; it is called as {_form(called, words)}" if called else ""
    return f"{called or internal} does not take {given}{form}; {_LISTED}"


def _form(name: str, words: Mapping[str, object]) -> str:
    """Return how the word *name* is called: ``put(p, i, x)``."""
    shown = re.match(r"``(\w+\([^`]*\))``", inspect.getdoc(words[name]) or "")
    if shown is not None and shown[1].startswith(f"{name}("):
        return shown[1]
    return f"{name}({', '.join(_parameters(words[name]) or ())})"


def _parameters(word: object) -> list[str] | None:
    """Return the names of the arguments that *word* takes; None if it takes any number."""
    definition = getattr(word, "_defn", None)  # of an intrinsic, whose first one is numba's
    if definition is None:
        return None
    _, *parameters = inspect.signature(definition).parameters.values()
    if any(each.kind is not each.POSITIONAL_OR_KEYWORD for each in parameters):
        return None
    return [each.name for each in parameters]


def _miscounted(text: str, words: Mapping[str, object]) -> Iterator[tuple[int, str]]:
    """Yield line and fault of each call in *text* of a word with too few or too many arguments."""
    for node in ast.walk(ast.parse(text)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        name, count = node.func.id, len(node.args)
        parameters = _parameters(words.get(name))
        if parameters is not None and len(parameters) != count:
            form = _form(name, words)
            given = count_of(count, "argument")
            yield node.lineno, f": {name} has {given}; it is called as {form}; {_LISTED}"


def _called_as(internal: str, line: str, words: Mapping[str, object]) -> Iterator[str]:
    """Yield the names of *words* that *line* calls and numba calls *internal*."""
    for name in re.findall(r"(\w+)\(", line):
        if getattr(words.get(name), "__name__", None) == internal:
            yield name


def _line_of(lines: Sequence[str], error: Exception, text: str) -> int:
    """Return the line, from 1, that *error* is about; 0 if it does not say."""
    if isinstance(error, SyntaxError):
        return error.lineno or 0
    told = _LINE.search(text)
    if told is not None:
        return min(int(told[1] or told[2]), len(lines))
    name = _NAME.search(text)
    if name is None:
        return 0
    word = re.compile(rf"\b{re.escape(name[1])}\b")
    return next((number for number, line in enumerate(lines, 1) if word.search(line)), 0)
