"""Parts of pages that are generated from the code, by their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

PARTS: Mapping[str, Callable[[], str]] = {}
"""Functions that return the Markdown of a part."""

PART = re.compile(r"<!-- generated: (\w+) -->\n.*?<!-- end -->", re.DOTALL)
"""The place of a part in a page; what is between the comments is for readers of the repository."""


def with_parts(text: str) -> str:
    """Return the *text* of a page with its generated parts."""
    return PART.sub(lambda found: PARTS[found[1]](), text)
