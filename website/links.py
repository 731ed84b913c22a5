"""Links of a page, which lead to files of the repository, as links between pages of the site."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The repository."""

OUTSIDE = {
    "README.md": "README.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "docs/README.md": "README.md",
}
"""Pages that lie beside ``docs/``, by their path in the repository, and their place on the site."""

FILES = {"glow_nb/demo/digits.onnx": "digits.onnx"}
"""Files that pages offer to download, by their path in the repository, and their place."""

_LINK = re.compile(r"(?<=\]\()([^)#\s:]+)(?=[)#])")
_FILE = re.compile(r"(?<!!)\[[\w./]+\.md\](?=\(([^)#\s:]+)[)#])")
_FENCE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Return Markdown *text* with *change* made to all of it that is not code."""
    parts = _FENCE.split(text)
    return "".join(part if index % 2 else change(part) for index, part in enumerate(parts))


def for_the_site(text: str, page: str) -> str:
    """Return the Markdown *text* of a page, with links as the site needs them.

    Args:
        text: The page as it is in the repository.
        page: Its path in the repository, such as ``docs/howto/operators.md``.
    """

    def rewritten(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link[1]))
        return posixpath.relpath(place_of(target), posixpath.dirname(place_of(page)) or ".")

    def titled(link: re.Match[str]) -> str:
        """Return the title of a page where the text of a link is the name of its file."""
        target = ROOT / posixpath.normpath(posixpath.join(posixpath.dirname(page), link[1]))
        title = re.search(r"^# (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
        return f"[{title[1]}]" if title else link[0]

    return outside_code(text, lambda part: _LINK.sub(rewritten, _FILE.sub(titled, part)))


def place_of(path: str) -> str:
    """Return where the file *path* of the repository is in the sources of the site."""
    return {**OUTSIDE, **FILES}.get(path, path.removeprefix("docs/"))
