"""Attribute values as text, which :class:`glow_nb.base.text.TokenReader` reads again."""

from __future__ import annotations

import json
from collections.abc import Mapping

from glow_nb.base.types import ElementKind


def format_literal(value: object) -> str:
    """Return an attribute value as text; floats are exact."""
    if isinstance(value, tuple):
        return "[" + ", ".join(map(format_literal, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, ElementKind):
        return value.value
    return repr(value)


def format_attributes(attributes: Mapping[str, object]) -> str:
    """Return `` {name = value, ...}``, or nothing when there are none."""
    if not attributes:
        return ""
    inside = ", ".join(f"{key} = {format_literal(value)}" for key, value in attributes.items())
    return f" {{{inside}}}"
