"""The text that both IRs share: literals, names and types.

Grammar of the shared parts::

    name      = '%' ( identifier | string )           // %conv1, %"any name at all"
    literal   = number | string | 'true' | 'false' | 'nan' | 'inf' | '-inf' | kind
              | '[' literal,* ']'
    type      = kind '<' [ size ('x' size)* ] [',' 'scale' '=' float ',' 'offset' '=' int] '>'
    size      = int | polynomial of declared symbols, :mod:`glow_nb.base.size_text`
    comment   = '//' to the end of the line
"""

from __future__ import annotations

import json
import math
import re
from functools import singledispatch
from typing import Any

from glow_nb.base.override import override
from glow_nb.base.plan import Plan, is_setting
from glow_nb.base.size_text import begins_size, read_size
from glow_nb.base.table import html_text
from glow_nb.base.tokens import Token, TokenStream
from glow_nb.base.types import ElementKind, TensorType

_BARE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.$/-]*")
_KINDS = {kind.value: kind for kind in ElementKind}


_OTHER_SPELLINGS = {
    **{f"{letter}{bits}": f"float{bits}" for letter in ("f", "fp") for bits in (16, 32, 64)},
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"{letter}{bits}": f"uint{bits}" for letter in ("u", "ui") for bits in (8, 16, 32, 64)},
    **{"half": "float16", "float": "float32", "double": "float64", "bf16": "bfloat16"},
    **{"byte": "uint8", "short": "int16", "int": "int32", "long": "int64", "i1": "bool"},
    **{"boolean": "bool", "bool_": "bool", "tensor": "float32", "memref": "float32"},
    **{kind: kind for kind in _KINDS},
}
"""Element kinds by names that other languages have for them, in small letters."""

DEEPEST_LIST = 32
"""The most lists in lists: far more than any text of ours has."""

SHOWN_LINES = 60
"""Lines of a text that ``print`` shows of an IR; a longer one loses its middle."""


@singledispatch
def text_of(ir: object) -> str:
    """Return the text of *ir*: the printer of each level registers what it prints."""
    raise NotImplementedError(f"no printer is registered for {type(ir).__name__}")


class Printable:
    """Base of what has a text (:func:`text_of`): ``print`` and a notebook show it.

    A long text is shown without its middle.
    """

    def _repr_html_(self) -> str:
        return html_text(str(self))

    @override
    def __str__(self) -> str:
        return without_middle(text_of(self))


def without_middle(text: str) -> str:
    """Return *text* without the lines in its middle that are too many, and say how many they are.

    The last line end is left out, since ``print`` adds one.
    """
    lines = text.splitlines()
    if len(lines) > SHOWN_LINES:
        half = SHOWN_LINES // 2
        left_out = len(lines) - 2 * half
        note = f"  // ... {left_out} lines are left out; glow_nb.print_ir shows all of them ..."
        lines = [*lines[:half], note, *lines[-half:]]
    return "\n".join(lines)


class TokenReader(TokenStream):
    """Reads what the texts of both levels share; the base of both parsers."""

    def read_name(self, sigil: str = "%") -> str:
        """Read ``%name`` or ``@name`` and return it without its sigil and quotes."""
        token = self.expect_kind("name", f"a name that begins with '{sigil}'")
        if token.text[0] != sigil:
            raise self.error(f"expected a name that begins with '{sigil}'", token)
        return self._unquote(token, token.text[1:])

    def read_names(self) -> tuple[str, ...]:
        """Read ``%name, %name``: one name or more."""
        names = [self.read_name()]
        while self.accept(","):
            names.append(self.read_name())
        return tuple(names)

    def read_type(self) -> TensorType:
        """Read a tensor type such as ``float32<2 x 3>``."""
        start = self.expect_kind("word", "a type such as float32<2 x 3>")
        if start.text not in _KINDS:
            kind = _OTHER_SPELLINGS.get(start.text.lower())
            hint = f"write {kind}<2 x 3>" if kind else f"use one of {', '.join(_KINDS)}"
            raise self.error(f"unknown element kind '{start.text}'; {hint}", start)
        if not self.accept("<"):
            raise self.error(
                f"expected the sizes, found {self._found(self.token)}; write {start.text}<2 x 3>, "
                f"and {start.text}<> for a single number"
            )
        shape = self._read_sizes(start.text)
        scale, offset = None, None
        if self.token.text in (",", "scale"):
            self.accept(",")
            self.expect("scale")
            self.expect("=")
            scale = float(self.expect_kind("number", "a scale").text)
            self.expect(",")
            self.expect("offset")
            self.expect("=")
            offset = self.read_int("an offset")
        self.expect(">")
        return self.guarded(start, lambda: TensorType(_KINDS[start.text], shape, scale, offset))

    def _read_sizes(self, kind: str) -> tuple[int, ...]:
        """Read ``2 x 3``, or nothing, up to the scale or the end of the type."""
        shape: list[int] = []
        while begins_size(self.token) and self.token.text != "scale":
            shape.append(read_size(self))
            if not (self.token.text == "x" and begins_size(self._tokens[self._next + 1])):
                break
            self.advance()
        behind = self._tokens[min(self._next + 1, len(self._tokens) - 1)]
        is_scale = self.token.text == "scale" or (self.token.text, behind.text) == (",", "scale")
        if not is_scale and self.token.text != ">":
            raise self.error(
                f"found {self._found(self.token)} among the sizes; they are whole numbers with "
                f"' x ' between them, as in {kind}<2 x 3>"
            )
        return tuple(shape)

    def read_literal(self, depth: int = 0) -> object:
        """Read an attribute value, *depth* lists deep; lists become tuples."""
        token = self.token
        if self.accept("["):
            if depth == DEEPEST_LIST:
                raise self.error(f"lists in lists, more than {DEEPEST_LIST} deep", token)
            items: list[object] = []
            while not self.accept("]"):
                items.append(self.read_literal(depth + 1))
                if self.token.text != "]":
                    self.expect(",")
            return tuple(items)
        if token.kind == "number" and not re.fullmatch(r"-?\d+", token.text):
            return float(self.advance().text)
        if token.kind == "number" or token.text in ("(", "-") or token.text in self.symbols:
            return read_size(self)
        if token.kind == "string":
            return self._unquote(self.advance(), token.text)
        return self._read_word_literal()

    def _read_word_literal(self) -> object:
        words: dict[str, object] = {"true": True, "false": False, "nan": math.nan, "inf": math.inf}
        token = self.expect_kind("word", "a value")
        if token.text in words:
            return words[token.text]
        if token.text in _KINDS:
            return _KINDS[token.text]
        raise self.error(f"expected a value, found '{token.text}'", token)

    def read_attributes(self) -> dict[str, object]:
        """Read ``{name = literal, ...}``; nothing there means no attributes."""
        attributes: dict[str, object] = {}
        if not self.accept("{"):
            return attributes
        while not self.accept("}"):
            key = self.expect_kind("word", "an attribute name")
            if key.text in attributes:
                raise self.error(f"attribute '{key.text}' is given twice", key)
            self.expect("=")
            attributes[key.text] = self.read_literal()
            if self.token.text != "}":
                self.expect(",")
        return attributes

    def read_plan(self) -> Plan | None:
        """Read ``plan <algorithm> {setting = value, ...}``; nothing there means no plan."""
        return self.read_plan_itself() if self.accept("plan") else None

    def read_plan_itself(self) -> Plan:
        """Read ``<algorithm> {setting = value, ...}``."""
        algorithm = self.expect_kind("word", "an algorithm")
        settings: dict[str, Any] = self.read_attributes()
        for name, value in settings.items():
            if not is_setting(value):
                raise self.error(f"'{name}' of a plan must be whole numbers or words", algorithm)
        return Plan(algorithm.text, tuple(settings.items()))

    def _unquote(self, token: Token, text: str) -> str:
        if not text.startswith('"'):
            return text
        try:
            return str(json.loads(text))
        except json.JSONDecodeError as error:
            raise self.error(f"not a valid quoted string: {error.msg}", token) from error


def parse_plan(text: str, path: str) -> Plan:
    """Return the plan that *text* is, as it is printed: ``direct {block = 64}``.

    The word ``plan``, which stands before it in a program, may be there.

    Raises:
        ParseError: It is no text of a plan; *path* says where it comes from.
    """
    reader = TokenReader(text, path)
    reader.accept("plan")
    plan = reader.read_plan_itself()
    reader.expect_kind("end", "the end of the plan")
    return plan


def format_name(name: str) -> str:
    """Return *name* as it is written after ``%``: quoted unless it is a plain identifier."""
    return name if _BARE_NAME.fullmatch(name) else json.dumps(name)


def format_plan(plan: Plan | None) -> str:
    """Return `` plan <algorithm> {setting = value, ...}``, or nothing when there is none."""
    return "" if plan is None else f" plan {plan}"
