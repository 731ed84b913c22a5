"""Reading sizes and the symbols in them; they are written by their ``str``.

::

    symbols = '<' declared (',' declared)* ['where' guard (',' guard)*] '>'
    declared = symbol ['in' int '..' int] ['like' int]
    guard   = size ('<' | '<=' | '>' | '>=' | '==' | '!=') size
    size    = ['-'] product (('+' | '-') product)*
    product = factor (('*' | '/') factor)*            // '/' rounds down
    factor  = int | symbol | '(' size ')'
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial

from glow_nb.base.polynomial import MOST_DIGITS
from glow_nb.base.size import MAX_SIZE, OPPOSITE, Guard, Size, Symbol, example, require
from glow_nb.base.tokens import Token, TokenStream

DEEPEST = 32
"""The most brackets in brackets: far more than any size of ours has."""


def format_symbols(symbols: Sequence[Symbol], guards: Sequence[Guard]) -> str:
    """Return the declaration of *symbols* for which *guards* hold; nothing if there are none."""
    if not symbols:
        return ""
    declared = ", ".join(symbol.declaration for symbol in symbols)
    where = f" where {', '.join(map(str, guards))}" if guards else ""
    return f"<{declared}{where}>"


def read_symbols(reader: TokenStream) -> dict[str, Symbol]:
    """Read ``<batch in 1..64 like 8, length like 128 where length <= 512>``, or nothing.

    They become the symbols that *reader* knows.
    """
    found: dict[str, Symbol] = {}
    reader.symbols = found
    if not reader.accept("<"):
        return found
    while not reader.accept(">"):
        place = reader.expect_kind("word", "the name of a size")
        name = place.text
        low, high = 1, MAX_SIZE
        if reader.accept("in"):
            low = reader.read_int("the least size")
            reader.expect("..")
            high = reader.read_int("the greatest size")
        hint = example(len(found), low, high)
        if reader.accept("like"):
            hint = reader.read_int("the size of an example")
        if name in found:
            raise reader.error(f"size {name!r} is declared twice", place)
        found[name] = reader.guarded(place, partial(Symbol, name, hint, low, high))
        if reader.accept("where"):
            _read_guards(reader)
            reader.expect(">")
            break
        if reader.token.text != ">":
            reader.expect(",")
    return found


def _read_guards(reader: TokenStream) -> None:
    """Read and note what holds for the sizes; a '>' behind a whole guard ends them."""
    is_first = True
    while is_first or reader.accept(","):
        is_first = False
        place = reader.token
        left, relation = read_size(reader), _read_relation(reader)
        right = read_size(reader)
        reader.guarded(place, partial(require, left, relation, right))


def _read_relation(reader: TokenStream) -> str:
    place = reader.advance()
    relation = place.text + ("=" if place.text in ("<", ">", "=") and reader.accept("=") else "")
    if relation not in OPPOSITE:
        raise reader.error(f"expected one of {' '.join(OPPOSITE)}, found '{relation}'", place)
    return relation


def begins_size(token: Token) -> bool:
    """Return whether *token* may begin a size that is not just a number."""
    return token.kind in ("number", "word") or token.text in ("(", "-")


def read_size(reader: TokenStream, depth: int = 0) -> int:
    """Read a size, *depth* brackets deep: ``2*length + 1``."""
    is_negative = reader.accept("-")
    size = _read_product(reader, depth)
    size = -size if is_negative else size
    while reader.token.text in ("+", "-"):
        sign = reader.advance()
        size = _combined(reader, size, sign, _read_product(reader, depth))
    return size


def _read_product(reader: TokenStream, depth: int) -> int:
    size = _read_factor(reader, depth)
    while reader.token.text in ("*", "/"):
        sign = reader.advance()
        size = _combined(reader, size, sign, _read_factor(reader, depth))
    return size


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
}


def _combined(reader: TokenStream, size: int, sign: Token, other: int) -> int:
    """Return what *sign* makes of two sizes, or an error at its place."""
    if sign.text == "/" and other == 0:
        raise reader.error("a size is divided by 0", sign)
    if sign.text == "/" and (size, other) in reader.quotients:
        return reader.quotients[size, other]
    found = reader.guarded(sign, partial(_OPERATIONS[sign.text], size, other))
    if sign.text == "/":
        reader.quotients[size, other] = found
    if not isinstance(found, Size) and abs(found) >= 10**MOST_DIGITS:
        raise reader.error(f"a number of more than {MOST_DIGITS} digits", sign)
    return found


def _read_factor(reader: TokenStream, depth: int) -> int:
    token = reader.token
    if token.kind == "number":
        return reader.read_int("a size")
    if reader.accept("("):
        if depth == DEEPEST:
            raise reader.error(f"brackets in brackets, more than {DEEPEST} deep", token)
        size = read_size(reader, depth + 1)
        reader.expect(")")
        return size
    name = reader.expect_kind("word", "a size").text
    if name not in reader.symbols:
        raise reader.error(
            f"unknown size '{name}'; write a number, or declare it before the inputs: "
            f"func @main<{name} in 1..512 like 128>(...)",
            token,
        )
    found: int = reader.symbols[name].size
    return found
