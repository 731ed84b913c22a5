"""Tokens with positions: what the text of both IRs is made of."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from glow_nb.base.errors import GlowError, ParseError
from glow_nb.base.size import Symbol

T = TypeVar("T")

_TOKEN = re.compile(
    r"(?P<space>[ \t\r\n]+|//[^\n]*)"
    r"|(?P<name>[%@](?:[A-Za-z0-9_][A-Za-z0-9_.$/-]*|\"(?:[^\"\\\n]|\\.)*\"))"
    r"|(?P<number>-?(?:\d+(?=\.\.)|\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+|inf\b))"
    r"|(?P<string>\"(?:[^\"\\\n]|\\.)*\")"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<arrow>->)"
    r"|(?P<punctuation>\.\.|!=|[(){}<>\[\]=,:#+*/-])"
)


@dataclass(frozen=True)
class Token:
    """One token: its kind (a group name of the grammar), its text and where it begins."""

    kind: str
    text: str
    offset: int


def tokenize(text: str, path: str) -> list[Token]:
    """Split *text*; raise ParseError at the first character that begins no token."""
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise error_at(text, path, position, f"unexpected character {text[position]!r}")
        if match.lastgroup != "space":
            tokens.append(Token(str(match.lastgroup), match.group(), position))
        position = match.end()
    tokens.append(Token("end", "", len(text)))
    return tokens


MOST_DIGITS = 100
"""The most digits of a whole number: far more than any text of ours has."""


def error_at(text: str, path: str, offset: int, message: str) -> ParseError:
    """Return the ParseError that points at *offset* of *text*."""
    line = text.count("\n", 0, offset) + 1
    start = text.rfind("\n", 0, offset) + 1
    source_line = text[start:].partition("\n")[0]
    return ParseError(path, line, offset - start + 1, source_line, message)


class TokenStream:
    """Takes the tokens of a text one after another."""

    def __init__(self, text: str, path: str) -> None:
        """Read *text*; *path* is what errors call it."""
        self.text, self.path = text, path
        self.symbols: dict[str, Symbol] = {}  # of open sizes, by name
        self.quotients: dict[tuple[int, int], int] = {}  # that were read before: texts repeat them
        self._tokens = tokenize(text, path)
        self._next = 0

    @property
    def token(self) -> Token:
        """The token that comes next."""
        return self._tokens[self._next]

    def error(self, message: str, token: Token | None = None) -> ParseError:
        """Return an error that points at *token*, by default the next one."""
        return error_at(self.text, self.path, (token or self.token).offset, message)

    def advance(self) -> Token:
        """Take the next token."""
        token = self.token
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def accept(self, text: str) -> bool:
        """Take the next token if it is exactly *text*."""
        if self.token.kind in ("string", "name", "end") or self.token.text != text:
            return False
        self.advance()
        return True

    def expect(self, text: str) -> Token:
        """Take the next token, which must be *text*."""
        token = self.token
        if not self.accept(text):
            raise self.error(f"expected '{text}', found {self._found(token)}")
        return token

    def expect_kind(self, kind: str, what: str) -> Token:
        """Take the next token, which must be of *kind*; *what* names it in the error."""
        if self.token.kind != kind:
            raise self.error(f"expected {what}, found {self._found(self.token)}")
        return self.advance()

    def _found(self, token: Token) -> str:
        return "the end of the text" if token.kind == "end" else f"'{token.text}'"

    def guarded(self, token: Token, build: Callable[[], T]) -> T:
        """Return ``build()``; an error of ours in it is reported at the position of *token*."""
        try:
            return build()
        except ParseError:
            raise
        except GlowError as error:
            raise self.error(str(error), token) from error

    def read_int(self, what: str) -> int:
        """Read a whole number."""
        token = self.expect_kind("number", what)
        if not re.fullmatch(r"-?\d+", token.text):
            raise self.error(f"expected {what}, found '{token.text}'", token)
        return self._whole(token)

    def _whole(self, token: Token) -> int:
        """Return the whole number that *token* is."""
        if len(token.text) > MOST_DIGITS:
            raise self.error(
                f"a number of {len(token.text)} digits; give at most {MOST_DIGITS}", token
            )
        return int(token.text)
