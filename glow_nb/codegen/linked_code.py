"""A shared object of ours in this process: the system maps it, LLVM stays out.

See :mod:`glow_nb.codegen.shared_object` for what is in one.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from pathlib import Path

from glow_nb.base.errors import CompileError
from glow_nb.codegen.shared_object_names import IMPORT_NAMES, IMPORTS

IS_SUPPORTED = sys.platform == "linux" and os.uname().machine == "x86_64"
"""Whether this system maps such objects."""

_MATH_LIBRARY = "libm.so.6"

_FILES_BY_PATH: dict[str, dict[tuple[int, int], int]] = {}
"""The files that were loaded by each path, numbered: a file may have been replaced by another."""


class LinkedCode:
    """Machine code in memory, as long as the process lives."""

    def __init__(self, path: Path) -> None:
        """Map the shared object *path*; fill its table of functions from outside.

        A file must always have the same content: once loaded, it is not read again.

        Raises:
            CompileError: The system does not map it, or a function is missing.
        """
        self._library = _opened(path)
        slots = ctypes.addressof(self._data(IMPORTS))
        place = ctypes.addressof(self._data(IMPORT_NAMES))
        libraries = [ctypes.CDLL(None)]
        with suppress(OSError):  # a C library that has it inside
            libraries.append(ctypes.CDLL(_MATH_LIBRARY))
        while name := ctypes.string_at(place):
            ctypes.c_void_p.from_address(slots).value = _address(libraries, name.decode())
            slots += ctypes.sizeof(ctypes.c_void_p)
            place += len(name) + 1

    def address(self, symbol: str) -> int:
        """Return the address of the function *symbol*; raise CompileError if there is none."""
        return _address([self._library], symbol)

    def _data(self, symbol: str) -> ctypes.c_char:
        try:
            return ctypes.c_char.in_dll(self._library, symbol)
        except ValueError as error:
            raise CompileError(f"shared object: {error}; compile the model again") from error


def _opened(path: Path) -> ctypes.CDLL:
    """Return the library *path*; from a copy in memory where its folder may not hold code."""
    try:
        return ctypes.CDLL(_name_for_loader(path))
    except OSError as error:
        with suppress(OSError):
            return _opened_copy(path)
        raise CompileError(f"{path}: the system does not map it: {error}") from error


def _name_for_loader(path: Path) -> str:
    """Return a name of *path* by which no other file was loaded.

    The system's loader takes what it knows by a name, also if the file was replaced since, and the
    old one was cut off.
    """
    status = os.stat(path)
    numbers = _FILES_BY_PATH.setdefault(os.fspath(path), {})
    number = numbers.setdefault((status.st_dev, status.st_ino), len(numbers))
    return os.path.join(path.parent, *["."] * number, path.name)


def _opened_copy(path: Path) -> ctypes.CDLL:
    """Return the library from a copy, whose number stays taken: the loader knows it by its name."""
    number = os.memfd_create(path.name)
    try:
        with open(number, "wb", closefd=False) as copy:
            copy.write(path.read_bytes())
        return ctypes.CDLL(f"/proc/self/fd/{number}")
    except OSError:
        os.close(number)
        raise


def _address(libraries: list[ctypes.CDLL], symbol: str) -> int:
    for library in libraries:
        with suppress(AttributeError):
            address = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
            if address:
                return address
    raise CompileError(f"symbol {symbol}: no library defines it; compile the model again")
