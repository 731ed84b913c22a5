"""Debug information of a program, as data: its text, its kernels, and where its operands are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SOURCE_FOLDER = "glow_nb_sources"
"""The folder of sources in the debug information of objects: a relative path."""


@dataclass(frozen=True)
class EntryLines:
    """Where the calls of an entry come from.

    Attributes:
        file_name: The file of the program's text, without a folder.
        first: The line at which the instructions begin.
        calls: The line of each call, in order; all are counted from 1.
    """

    file_name: str
    first: int
    calls: tuple[int, ...]


@dataclass(frozen=True)
class DebugFiles:
    """Debug information of a program.

    Attributes:
        lines: Which line of the program's text each call of the entry comes from.
        sources: The program's text and those of the kernels, by the names of their files.
        calls: For each call, in plain data: its line, the nodes that it computes, its operands.
    """

    lines: EntryLines
    sources: Mapping[str, str]
    calls: tuple[Mapping[str, Any], ...]
