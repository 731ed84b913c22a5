"""Objects into this process: one LLVM engine links them and gives the addresses of their symbols.

Only llvmlite is needed; numba stays out of a process whose objects come from the cache.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable
from typing import Any

import llvmlite.binding as llvm

from glow_nb.base.errors import CompileError
from glow_nb.codegen.symbols import read_symbols
from glow_nb.codegen.target_machine import target_machine
from glow_nb.kernels.target import Target

_MATH_LIBRARIES = {"linux": "libm.so.6", "darwin": "libSystem.dylib"}


class LoadedCode:
    """Machine code of a set of objects, in memory as long as this object lives."""

    def __init__(self, objects: Iterable[bytes], target: Target) -> None:
        """Link *objects* with each other and with the C library.

        Raises:
            CompileError: An object is broken, or needs a symbol that nothing defines.
        """
        payloads = list(objects)
        machine = target_machine(target)
        module = llvm.parse_assembly("")  # an engine begins with one
        self._engine: Any = llvm.create_mcjit_compiler(module, machine)
        self._engine.remove_module(module)  # or it would be compiled
        defined = _link_check(payloads)
        for payload in payloads:
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(payload))
        self._engine.finalize_object()
        # Now, as LLVM has a lock: a forked child may find it taken forever by a thread that is
        # not there.
        self._addresses: dict[str, int] = {
            name: self._engine.get_function_address(name) for name in defined
        }

    def address(self, symbol: str) -> int:
        """Return the address of the function *symbol*; raise CompileError if there is none."""
        if symbol not in self._addresses:
            raise CompileError(f"symbol {symbol}: not defined by the loaded objects")
        return self._addresses[symbol]


def _link_check(payloads: list[bytes]) -> set[str]:
    """Return all symbols defined; LLVM would end the process at the first that is missing."""
    defined: set[str] = set()
    undefined: set[str] = set()
    for payload in payloads:
        try:
            symbols = read_symbols(payload)
        except (struct.error, ValueError, IndexError):
            symbols = None
        if symbols is None:
            raise CompileError(
                f"object of {len(payload)} bytes: not a whole object file; empty the cache folder"
            )
        defined |= symbols.defined
        undefined |= symbols.undefined
    missing = sorted(name for name in undefined - defined if name and not _resolves(name))
    if missing:
        raise CompileError(f"symbols {', '.join(missing)}: needed by an object, defined by nothing")
    return defined


def _resolves(name: str) -> bool:
    """Return whether the C library has *name*; load its mathematical part where needed."""
    if llvm.address_of_symbol(name) is None and sys.platform in _MATH_LIBRARIES:
        llvm.load_library_permanently(_MATH_LIBRARIES[sys.platform])
    return llvm.address_of_symbol(name) is not None
