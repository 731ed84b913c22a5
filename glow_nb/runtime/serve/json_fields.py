"""Fields of JSON objects of a request, each checked when it is read.

Many clients write ``null`` for what they leave out: it means that the field is not there.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import override

from glow_nb.runtime.serve.refusal import bad_request

Object = Mapping[str, Any]

MOST_LETTERS = 256
"""Longest accepted name or id, in characters."""


_PERHAPS_TOO_LARGE = re.compile(rb"[eE]\+?\d{3}|\d{200}")
"""What a number has that is larger than all floats, which have less than 309 digits before the
point: an exponent of three digits, or 200 digits, to which an exponent of two may add. It is looked
for since hooks make reading slow."""


class TooLarge:
    """A number that no float can be, as ``1e400``; it would become infinity."""

    def __init__(self, text: str) -> None:
        """Stand for *text*."""
        self._text = text

    @override
    def __repr__(self) -> str:
        return self._text


def _float(text: str) -> float | TooLarge:
    value = float(text)
    return value if math.isfinite(value) else TooLarge(text)


def parse_object(subject: str, text: bytes | memoryview) -> Object:
    """Return the JSON object in *text*; raise Refusal if it is none."""
    try:
        hook = _float if _PERHAPS_TOO_LARGE.search(text) else None
        value = json.loads(str(text, "utf-8"), parse_float=hook)
    except json.JSONDecodeError as error:
        raise bad_request(f"{subject}: not JSON: {error!s:.200}") from error
    except (ValueError, RecursionError) as error:  # digits beyond what Python reads; depth
        raise bad_request(f"{subject}: not JSON that can be read: {_limit(error)}") from error
    return as_object(subject, value)


def _limit(error: ValueError | RecursionError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is no UTF-8 text"
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return f"an integer has more than {sys.get_int_max_str_digits()} digits"


def as_object(subject: str, value: object) -> Object:
    """Return *value* if it is a JSON object."""
    if not isinstance(value, dict):
        raise bad_request(f"{subject}: is {_kind(value)}, but must be an object")
    return value


def object_field(subject: str, fields: Object, key: str) -> Object:
    """Return the object *key* of *fields*; an empty one if there is none."""
    value = fields.get(key)
    return {} if value is None else as_object(f"{subject}: {key!r}", value)


def list_field(subject: str, fields: Object, key: str) -> Sequence[Any]:
    """Return the list *key* of *fields*; an empty one if there is none."""
    value = fields.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise bad_request(f"{subject}: {key!r} is {_kind(value)}, but must be a list")
    return value


def text_field(subject: str, fields: Object, key: str) -> str:
    """Return the text *key* of *fields*; an empty one if there is none."""
    value = fields.get(key)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > MOST_LETTERS:
        raise bad_request(
            f"{subject}: {key!r} is {_kind(value)}, but must be text of at most {MOST_LETTERS} "
            "letters"
        )
    return value


def whole_field(subject: str, fields: Object, key: str) -> int | None:
    """Return the whole number *key* of *fields*, from 0; None if there is none."""
    value = fields.get(key)
    if value is None:
        return None
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise bad_request(
            f"{subject}: {key!r} is {_kind(value)}, but must be a whole number from 0"
        )
    return value


def flag_field(subject: str, fields: Object, key: str, default: bool) -> bool:
    """Return whether *key* of *fields* is true."""
    value = fields.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise bad_request(f"{subject}: {key!r} is {_kind(value)}, but must be true or false")
    return value


def refuse_fields(subject: str, fields: Object, *prefixes: str) -> None:
    """Raise Refusal if a key of *fields* begins with one of *prefixes*: what is not supported."""
    for key in fields:
        if key.startswith(prefixes):
            raise bad_request(f"{subject}: this server does not have {key!r:.80}; leave it out")


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case dict():
            return "an object"
        case list():
            return "a list"
        case str():
            return f"{value[:40]!r} ({len(value)} letters)"
        case _:
            return f"{value!r:.40}"
