"""Small pieces of Markdown: tables, code, and docstrings as text."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Sequence

_ROLE = re.compile(r":(?:\w+):`~?([\w.]+)`")
_BLOCK = re.compile(r"^( *)(.*?) ?::\n\n((?:\1 +\S.*\n|\n)+)", re.MULTILINE)
_RULE = r"^(=+(?: +=+)+)\n"
_TABLE = re.compile(f"{_RULE}(.*?){_RULE}(.*?){_RULE}", re.MULTILINE | re.DOTALL)
_OPERANDS = re.compile(r"^Operands:\n((?: {4}.*\n)+)", re.MULTILINE)
_SECTIONS = re.compile(r"^(?:Args|Attributes|Returns|Yields|Raises|Example):", re.MULTILINE)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _cell(text: str) -> str:
    """Return *text* in one line, with bars that part no cells: in code they do not."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(part if n % 2 else part.replace("|", "\\|") for n, part in enumerate(parts))


def code(text: str) -> str:
    """Return *text* as code, nothing for nothing."""
    return f"`{text}`" if text else ""


def description(documented: object) -> str:
    """Return the docstring of *documented* without its sections, as Markdown."""
    text = _SECTIONS.split(inspect.cleandoc(documented.__doc__ or ""))[0]
    text = _OPERANDS.sub(_listed, text)
    return with_fences(_plain(_TABLE.sub(_simple_table, text + "\n"))).strip()


def summary(documented: object) -> str:
    """Return the first paragraph of the docstring of *documented* in one line."""
    text = inspect.cleandoc(documented.__doc__ or "").partition("\n\n")[0]
    return " ".join(_plain(text).removesuffix("::").split())


def items_of(documented: object, section: str) -> dict[str, str]:
    """Return the items of a *section* of the docstring of *documented*, such as ``Attributes``."""
    text = inspect.cleandoc(documented.__doc__ or "")
    found = re.search(rf"^{section}:\n((?:    .*(?:\n|$)|\n)+)", text, re.MULTILINE)
    body = textwrap.dedent(found[1]) if found else ""
    items = re.split(r"^(\w+): ", body, flags=re.MULTILINE)[1:]
    pairs = zip(items[::2], items[1::2], strict=True)
    return {name: _plain(" ".join(meaning.split())) for name, meaning in pairs}


def _plain(text: str) -> str:
    """Return a part of a docstring as Markdown: names in code, no roles of Sphinx."""
    return _ROLE.sub(r"`\1`", text).replace("``", "`")


def _listed(section: re.Match[str]) -> str:
    """Return a section about operands as a list."""
    items = re.sub(r"^(\w+): ", r"- ``\1``: ", textwrap.dedent(section[1]), flags=re.MULTILINE)
    return f"Operands:\n\n{items}"


def _simple_table(found: re.Match[str]) -> str:
    """Return a simple table of reStructuredText as one of Markdown."""
    _, head, _, body, rule = found.groups()
    places = [place.span() for place in re.finditer("=+", rule)]
    ends = [begin for begin, _ in places[1:]] + [None]
    rows: list[list[str]] = []
    for line in (head + body).splitlines():
        cells = [line[begin:end].strip() for (begin, _), end in zip(places, ends, strict=True)]
        if cells[0]:
            rows.append(cells)
        else:  # more of the row before
            rows[-1] = [" ".join(pair) for pair in zip(rows[-1], cells, strict=True)]
    return table(rows[0], rows[1:])


def with_fences(text: str) -> str:
    """Return *text* whose blocks after ``::`` are fenced."""
    return _BLOCK.sub(_fenced, text)


def _fenced(block: re.Match[str]) -> str:
    indent, lead, body = block.groups()
    body = textwrap.dedent(body).strip("\n")
    lead = "**Example**" if lead == "Example" else f"{lead}:" if lead else ""
    text = f"{lead}\n\n```{_language(body)}\n{body}\n```\n\n".lstrip("\n")
    return textwrap.indent(text, indent)


def _language(body: str) -> str:
    try:
        ast.parse(body)
    except SyntaxError:
        return "text"
    return "python"
