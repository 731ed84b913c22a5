"""The parts of the page about the grammar of the IR's text that are generated."""

from __future__ import annotations

import re

from glow_nb.base import tokens
from glow_nb.base.types import ElementKind
from website.markdown import code, table

SHOWN = {
    "name": '`%conv1`, `%"any name at all"`, `@main`',
    "number": "`3`, `-1.5e-3`, `inf`",
    "string": '`"avg"`',
    "word": "`func`, `float32`, `batch`",
    "arrow": "`->`",
    "punctuation": "`(`, `..`, `!=`",
    "space": "a blank, `// a comment`",
}
"""Examples of each kind of token."""


def token_table() -> str:
    """Return a table of the kinds of tokens with the expressions that find them."""
    rows = [(name, code(text), SHOWN[name]) for name, text in token_kinds().items()]
    return table(("token", "regular expression", "examples"), rows)


def token_kinds() -> dict[str, str]:
    """Return the regular expression of each kind of token, in the order in which they are tried."""
    parts = re.split(r"\|?\(\?P<(\w+)>", tokens._TOKEN.pattern)[1:]
    return {n: text[:-1] for n, text in zip(parts[::2], parts[1::2], strict=True)}


def kind_table() -> str:
    """Return a table of the element kinds."""
    rows = [
        (
            code(kind.value),
            str(kind.bits),
            str(kind.size_bytes),
            "stored, moved and converted" if kind.is_storage else "computed with",
        )
        for kind in ElementKind
    ]
    return table(("kind", "bits that count", "bytes in memory", "use"), rows)
