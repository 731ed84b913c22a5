"""What is wrong with the text of a kernel, said of the line that it is about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from glow_nb.base.schema import closest
from glow_nb.kernels.writing.source import KernelSource

_LINE = re.compile(r'File "<[^>]*>", line (\d+)|<[^<>]*> \((\d+)\)')
_NAME = re.compile(r"name '(\w+)' is not defined")
_CALL = re.compile(
    r"No implementation of function \S+\(<\w+ (\w+)>\) found.*?>>> \w+(\([^\n]*\))", re.S
)
_WITHOUT_SOURCE = re.compile(r'\nFile "<[^>]*>", line \d+:\n<source missing[^\n]*\n')
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
"""How numba names a line of text that is in no file, a name that is nowhere, and a call that fits
no function, and what it writes for terminals."""


def described(source: KernelSource, error: Exception, words: Mapping[str, object]) -> str:
    """Return what *error* says of the text of *source*, whose vocabulary is *words*."""
    lines, text = source.text.split("\n"), _COLOURS.sub("", str(error))
    number = _line_of(lines, error, text)
    line = lines[number - 1].strip() if number else ""
    place = f", line {number}, `{line}`" if number else ""
    return f"kernel {source.symbol}{place}: {_reason(line, error, text, words)}\n{numbered(source)}"


def numbered(source: KernelSource) -> str:
    """Return the text of *source* with line numbers, as an error shows it."""
    lines = source.text.rstrip("\n").split("\n")
    return "\n".join(f"{number:4} | {line}" for number, line in enumerate(lines, 1))


def _reason(line: str, error: Exception, text: str, words: Mapping[str, object]) -> str:
    """Return what is wrong with *line*; numba's own *text* if it is no misuse of a word."""
    call, name = _CALL.search(text), _NAME.search(text)
    if call is not None:
        called = next(_called_as(call[1], line, words), call[1])
        return (
            f"generated source does not compile: {called} does not take {call[2]}; "
            "docs/reference/kernels.md says what each function takes"
        )
    if name is not None:
        return (
            f"generated source does not compile: {name[1]!r} is neither a variable nor a function "
            f"that kernels may call{closest(name[1], words)}; docs/reference/kernels.md lists these"
        )
    said = _WITHOUT_SOURCE.sub("", text).strip()
    return (
        "generated source does not compile; this is a defect of its generator\n"
        f"{type(error).__name__}: {said}"
    )


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
