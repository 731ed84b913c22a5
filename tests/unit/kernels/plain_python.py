"""Run the text of a kernel as plain Python, to see what it reads and in what order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


def run_text(text: str, pointers: tuple[str, ...], calls: Mapping[str, Any]) -> None:
    """Run the kernel of *text* on one thread, each pointer being its name.

    Of the functions that it calls, *calls* see their arguments, and the others do nothing.
    """
    names: dict[str, object] = dict.fromkeys(re.findall(r"(\w+)\(", text), lambda *_: None)
    names |= {"range": range, "min": min, "max": max, **calls}
    exec(text, names)  # a kernel that was generated here
    kernel = names["kernel"]
    assert callable(kernel)
    kernel(*pointers, 0, 1)
