"""What the caller has added to the compiler: the modules that registered something of their own.

A network that is kept depends on their source, and on the variables that their functions read: see
:mod:`glow_nb.network.saved.key`.
"""

from __future__ import annotations

import sys
from inspect import unwrap
from types import FrameType, FunctionType
from typing import Any
from weakref import WeakSet

EXTENDING_MODULES: dict[str, WeakSet[Any]] = {}
"""Their names, in the order of their first registration, with the functions and classes."""

_PACKAGE = __name__.split(".")[0]


def note_extension(thing: object) -> None:
    """Note the module of *thing*, and the one that registers it, unless they are this package's."""
    for module in (getattr(thing, "__module__", None), _registering_module()):
        if isinstance(module, str) and module.split(".")[0] not in {_PACKAGE, "importlib"}:
            known = EXTENDING_MODULES.setdefault(module, WeakSet())
            if isinstance(thing, FunctionType | type):
                known.add(unwrap(thing))


def _registering_module() -> str | None:
    """Return the module that has called this package to register something.

    None while a module of this package is loaded: what that registers is the package's own, whoever
    was first to need the module.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__")
        if not isinstance(module, str) or module.split(".")[0] != _PACKAGE:
            return module
        if frame.f_code.co_name == "<module>":
            return None
        frame = frame.f_back
    return None
