"""A recognizer of texts by a grammar in EBNF, as ``docs/reference/grammar.md`` has it.

It walks the rules with sets of places at which a part of a text may end, so that a grammar needs no
special form; rules may not begin with themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

from glow_nb.base.tokens import Token, tokenize

Ends = frozenset[int]
Part = Callable[[int], Ends]
"""Takes the number of a token, and returns those at which the part may end that begins there."""

_SYMBOL = re.compile(r'\s*("[^"]*"|\w+|[=;|{}()\[\]])')


class Grammar:
    """The rules of a grammar by name."""

    def __init__(self, text: str) -> None:
        self._symbols = _SYMBOL.findall(text)
        assert "".join(self._symbols) == re.sub(r"\s", "", text)
        self._next = 0
        self._tokens: Sequence[Token] = ()
        self._known: dict[tuple[str, int], Ends] = {}
        self.used: set[str] = set()
        self.rules: dict[str, Part] = {}
        while self._next < len(self._symbols):
            name = self._take()
            assert self._take() == "=" and name not in self.rules, name
            self.rules[name] = self._choice()
            assert self._take() == ";", name

    def accepts(self, rule: str, text: str) -> bool:
        """Return whether the whole *text* is what *rule* says."""
        self._tokens, self._known = tokenize(text, "text"), {}
        return len(self._tokens) - 1 in self._by_name(rule, 0)

    def _by_name(self, rule: str, place: int) -> Ends:
        if (rule, place) not in self._known:
            self._known[rule, place] = self.rules[rule](place)
        return self._known[rule, place]

    def _take(self) -> str:
        self._next += 1
        return str(self._symbols[self._next - 1])

    def _choice(self) -> Part:
        parts = [self._sequence()]
        while self._symbols[self._next] == "|":
            self._take()
            parts.append(self._sequence())
        return lambda place: frozenset[int]().union(*(part(place) for part in parts))

    def _sequence(self) -> Part:
        parts: list[Part] = []
        while self._symbols[self._next] not in ("|", ")", "]", "}", ";"):
            parts.append(self._one())
        return partial(_in_a_row, parts)

    def _one(self) -> Part:
        symbol = self._take()
        if symbol in "([{":
            inner = self._choice()
            assert self._take() == {"(": ")", "[": "]", "{": "}"}[symbol]
            return partial({"(": _once, "[": _perhaps, "{": _often}[symbol], inner)
        if symbol.startswith('"'):
            wanted = [token.text for token in tokenize(symbol[1:-1], "grammar")[:-1]]
            return partial(_in_a_row, [partial(self._text, text) for text in wanted])
        if symbol.isupper():
            return partial(self._kind, symbol)
        self.used.add(symbol)
        return partial(self._by_name, symbol)

    def _text(self, text: str, place: int) -> Ends:
        token = self._tokens[place]
        fits = token.text == text and token.kind not in ("string", "end")
        return frozenset({place + 1} if fits else ())

    def _kind(self, kind: str, place: int) -> Ends:
        token = self._tokens[place]
        fits = {
            "NAME": token.kind == "name" and token.text[0] == "%",
            "GLOBAL": token.kind == "name" and token.text[0] == "@",
            "INTEGER": token.kind == "number" and re.fullmatch(r"-?\d+", token.text) is not None,
        }.get(kind, token.kind == kind.lower())
        return frozenset({place + 1} if fits else ())


def _in_a_row(parts: Sequence[Part], place: int) -> Ends:
    ends = frozenset({place})
    for part in parts:
        ends = frozenset[int]().union(*(part(end) for end in ends))
    return ends


def _once(part: Part, place: int) -> Ends:
    return part(place)


def _perhaps(part: Part, place: int) -> Ends:
    return part(place) | {place}


def _often(part: Part, place: int) -> Ends:
    found, new = {place}, {place}
    while new:
        new = {end for begin in new for end in part(begin)} - found
        found |= new
    return frozenset(found)
