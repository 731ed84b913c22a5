"""Programs in memory that processes share: written once, mapped by each process that runs them."""

from __future__ import annotations

import threading
import weakref

from glow_nb.codegen.native_program import NativeProgram
from glow_nb.runtime.devices.shared_memory import AnonymousFile

_LOCK = threading.Lock()
_FILES: weakref.WeakKeyDictionary[NativeProgram, weakref.ref[AnonymousFile]]
_FILES = weakref.WeakKeyDictionary()


def program_file(native: NativeProgram) -> AnonymousFile:
    """Return a file with *native*, the same one as long as it is referenced.

    Raises:
        OSError: The system has not so much memory.
    """
    with _LOCK:
        known = _FILES.get(native)
        file = known() if known else None
        if file is None:
            file = AnonymousFile.holding(native.to_bytes())
            _FILES[native] = weakref.ref(file)
        return file
