"""What the caller has added to the compiler: the modules that registered something of their own.

A network that is kept depends on their source: see :mod:`glow_nb.network.saved.key`.
"""

from __future__ import annotations

import sys

EXTENDING_MODULES: dict[str, None] = {}
"""Their names, in the order of their first registration."""

_PACKAGE = __name__.split(".")[0]


def note_extension(thing: object) -> None:
    """Note the module of *thing*, or the one that registers it, if it is none of this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _registers(frame.f_globals.get("__name__")):
        frame = frame.f_back
    for module in (getattr(thing, "__module__", None), frame.f_globals.get("__name__")):
        if isinstance(module, str) and module.split(".")[0] not in {_PACKAGE, "importlib"}:
            EXTENDING_MODULES[module] = None


def _registers(module: object) -> bool:
    """Return whether *module* has functions that register what their caller gives."""
    return isinstance(module, str) and module.startswith(f"{_PACKAGE}.base.")
