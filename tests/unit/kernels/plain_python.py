"""Run the text of a kernel as plain Python, to see what it reads and in what order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from glow_nb.scheduling.thread_grid import thread_grid


def run_text(
    text: str,
    pointers: tuple[str, ...],
    calls: Mapping[str, Any],
    thread: int = 0,
    threads: int = 1,
) -> None:
    """Run the share of one *thread* of the kernel of *text*, each pointer being its name.

    Of the functions that it calls, *calls* see their arguments, and the others do nothing.
    """
    names: dict[str, object] = dict.fromkeys(re.findall(r"(\w+)\(", text), lambda *_: None)
    names |= {"range": range, "min": min, "max": max, "own_share": own_share, **calls}
    exec(text, names)  # a kernel that was generated here
    kernel = names["kernel"]
    assert callable(kernel)
    kernel(*pointers, thread, threads)


def own_share(
    thread: int, threads: int, units: int, panels: int, panels_first: int
) -> tuple[int, int, int, int]:
    """Return the range of units and the range of panels that *thread* works on.

    Threads beyond the grid get an empty range of panels.
    """
    rows, columns = thread_grid(units, panels, threads, panels_first=panels_first == 1)
    column, row = divmod(thread, rows)
    begin, end = (min(number * panels // columns, panels) for number in (column, column + 1))
    return row * units // rows, (row + 1) * units // rows, begin, end
