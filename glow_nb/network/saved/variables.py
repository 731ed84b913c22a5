"""The variables of a caller's function beside its arguments: closure and global variables.

A program may set such a variable between two compilations, and its source stays the same.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType

import numpy as np

_PACKAGE = Path(__file__).parents[2]

_KINDS_WITHOUT_VALUE = (BuiltinFunctionType, np.ufunc)

_MODULES_OF_TYPES = ("typing", "types")
"""Modules of the classes of what annotations are made of."""


def held_by(function: FunctionType) -> tuple[object, ...]:
    """Return the values that *function* has from where it was made.

    Raises:
        ValueError: A variable of the function around it has no value yet.
    """
    cells = tuple(cell.cell_contents for cell in function.__closure__ or ())
    return function.__defaults__, function.__kwdefaults__, cells


def variables_of(function: FunctionType) -> dict[str, object]:
    """Return the global variables that *function* may read, with their values now.

    Those are variables of the caller's modules and classes whose names occur in its code, and in
    that of the caller's functions and classes which are named there. What these functions hold is
    among the values.

    Raises:
        ValueError: As :func:`held_by`.
    """
    found: dict[str, object] = {}
    _Search(found).read_by(function)
    return found


def variables_of_all(things: Iterable[FunctionType | type]) -> dict[str, object]:
    """Return what :func:`variables_of` does for *things*, methods of classes among them.

    What the functions themselves hold is among the values. A function of which a variable has no
    value yet is left out.
    """
    found: dict[str, object] = {}
    search = _Search(found)
    for thing in things:
        with suppress(ValueError):
            search.take(f"{thing.__module__}.{thing.__qualname__}", thing)
    return found


@cache
def is_callers(place: str) -> bool:
    """Return whether the file *place* is none of Python, of a package, or of this one.

    A key asks for hundreds of modules, and modules stay where they are: each is looked for once.
    """
    path = Path(place).resolve()
    installed = {"site-packages", "dist-packages"} & set(path.parts)
    return not (
        installed
        or path.is_relative_to(Path(os.__file__).resolve().parent)
        or path.is_relative_to(_PACKAGE.resolve())
    )


class _Search:
    """A search for variables, which looks into each function once."""

    def __init__(self, found: dict[str, object]) -> None:
        self._found = found
        self._seen: set[object] = set()

    def read_by(self, function: FunctionType) -> None:
        """Find what *function* may read."""
        names = frozenset(_names_in(function.__code__))
        place = function.__globals__.get("__name__")
        self._look_into(str(place), function.__globals__, names)

    def take(self, path: str, thing: FunctionType | type) -> None:
        """Find what a function, or any method of a class, holds and may read."""
        self._take(path, thing, frozenset())

    def _look_into(self, place: str, space: Mapping[str, object], names: frozenset[str]) -> None:
        """Find the variables of a module or class *place*, with these contents, called *names*."""
        if (place, names) in self._seen:
            return
        self._seen.add((place, names))
        for name in sorted(names & space.keys()):
            self._take(f"{place}.{name}", space[name], names)

    def _take(self, path: str, value: object, names: frozenset[str]) -> None:
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__
        if isinstance(value, _KINDS_WITHOUT_VALUE) or type(value).__module__ in _MODULES_OF_TYPES:
            return
        if not isinstance(value, FunctionType | ModuleType | type):
            self._found[path] = value
        elif not _is_of_caller(value):
            return
        elif isinstance(value, FunctionType):
            self._found[path] = held_by(value)
            self.read_by(value)
        elif isinstance(value, ModuleType):
            self._look_into(value.__name__, vars(value), names)
        else:
            self._take_class(path, value, names)

    def _take_class(self, path: str, value: type, names: frozenset[str]) -> None:
        """Find what any method of a class may read."""
        for base in filter(_is_of_caller, value.__mro__):
            own = vars(base)
            methods = {name for name, held in own.items() if _code_of(held) is not None}
            inside = {n for name in methods for n in _names_in(_code_of(own[name]))}
            self._look_into(f"{path}:{base.__qualname__}", own, names | methods | inside)


def _code_of(value: object) -> CodeType | None:
    value = value.__func__ if isinstance(value, staticmethod | classmethod) else value
    return value.__code__ if isinstance(value, FunctionType) else None


def _is_of_caller(value: object) -> bool:
    """Return whether a module, function or class is none of Python, a package, or this one."""
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    place = getattr(sys.modules.get(str(name)), "__file__", None)
    return place is not None and is_callers(place)


def _names_in(code: CodeType | None) -> Iterator[str]:
    """Yield the names of global variables and attributes in *code*, and in functions inside it."""
    if code is None:
        return
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)
