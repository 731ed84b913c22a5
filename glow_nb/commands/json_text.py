"""Values as JSON, in the form in which all commands print it."""

from __future__ import annotations

import json
import math
from typing import Any


def json_text(value: Any) -> str:
    """Return *value*, made of mappings, rows, numbers and text, as indented JSON.

    JSON has no word for infinity and for what is not a number: they become ``null``.
    """
    return json.dumps(_finite(value), indent=2, allow_nan=False)


def _finite(value: Any) -> Any:
    """Return *value* with None instead of each number that is not finite."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
