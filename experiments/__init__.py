"""Experiments, each run by ``python -m experiments.FOLDER.NAME``.

An error that glow_nb raises on purpose ends a run with its message alone, as it ends a command.
"""

from __future__ import annotations

import sys
from types import TracebackType


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    errors = sys.modules.get("glow_nb.base.errors")  # some run in a Python without glow_nb
    if errors is not None and isinstance(error, errors.GlowError):
        sys.stderr.write(f"Error: {error}\n")
    else:
        sys.__excepthook__(kind, error, trace)


if sys.argv[0] == "-m":  # Python looks for the module to run: this is no import by a test
    sys.excepthook = _show
