"""Information for Linux' perf about code in memory, which is in no file that it could read.

A map, ``/tmp/perf-PID.map``, has a line for each function: its address, its size and its name. A
dump, ``jit-PID.dump`` in the folder for temporary files, has the code, too, so that perf can show
instructions: ``perf record -k mono``, then ``perf inject --jit``. perf finds the dump because the
process maps its first page as code.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import stat
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from glow_nb.base.errors import GlowError, OptionError, UnsupportedError
from glow_nb.codegen.debugging import PERF_VARIABLE
from glow_nb.codegen.elf_objects import MACHINE_X86_64, elf_symbols
from glow_nb.codegen.threads import Code

MAP, DUMP = "map", "jitdump"
LONGEST_NAME = 200
_MAP_FOLDER = Path("/tmp")

_HEADER = struct.Struct("<IIIIIIQQ")
_MAGIC, _VERSION = 0x4A695444, 1
_RECORD = struct.Struct("<IIQIIQQQQ")
_LOAD = 0
"""The kind of a record of code that was loaded."""


def chosen() -> str:
    """Return what the environment asks for, ``map`` or ``jitdump``; nothing if it asks for nothing.

    Raises:
        OptionError: It asks for something else.
        UnsupportedError: This system has no perf.
    """
    wanted = os.environ.get(PERF_VARIABLE, "")
    if wanted not in ("", MAP, DUMP):
        raise OptionError(
            f"{PERF_VARIABLE}={wanted!r:.40}: give {MAP} for /tmp/perf-PID.map, or {DUMP} for what "
            "perf inject --jit reads"
        )
    if wanted and not sys.platform.startswith("linux"):
        raise UnsupportedError(f"{PERF_VARIABLE}={wanted}: perf is a tool of Linux; unset it")
    return wanted


def tell_perf(code: Code, objects: Mapping[str, bytes], nodes: Mapping[str, str]) -> None:
    """Tell perf of *objects*, which are loaded as *code*, if the environment asks for that.

    *nodes* says by the symbols of kernels what they compute.

    Raises:
        GlowError: The file cannot be written.
        OptionError, UnsupportedError: As :func:`chosen`.
    """
    wanted = chosen()
    if not wanted:
        return
    functions = [
        (code.address(symbol), size, _named(symbol, nodes.get(symbol, "")))
        for payload in objects.values()
        for symbol, size in _functions(payload)
    ]
    path = _MAP_FOLDER / f"perf-{os.getpid()}.map"
    if wanted == DUMP:
        path = Path(tempfile.gettempdir()) / f"jit-{os.getpid()}.dump"
    try:
        with _LOCK:
            if wanted == MAP:
                _append_to_map(path, functions)
            else:
                _append_to_dump(path, functions)
    except OSError as error:
        raise GlowError(
            f"{path}: cannot be written: {error.strerror}; remove it or make room, or unset "
            f"{PERF_VARIABLE}"
        ) from error


def _functions(payload: bytes) -> Iterator[tuple[str, int]]:
    """Yield the global functions of an object, and how many bytes they take."""
    for name, is_global, place in elf_symbols(payload):
        if is_global and place is not None:
            yield name, place.size_bytes


def _named(symbol: str, nodes: str) -> str:
    """Return what perf shows of a function; names of a model cannot end a line or a name."""
    printable = "".join(letter if letter.isprintable() else "?" for letter in nodes)
    return f"{symbol} [{printable}]"[:LONGEST_NAME] if nodes else symbol


_Functions = list[tuple[int, int, str]]
_LOCK = threading.Lock()
_OPEN: dict[tuple[int, str], BinaryIO] = {}
"""The files of this process, by its number: a child of a fork has files of its own."""
_DUMPED: list[mmap.mmap] = []
_NUMBERS = itertools.count()


def _append_to_map(path: Path, functions: _Functions) -> None:
    stream = _OPEN.get((os.getpid(), MAP)) or _created(path, MAP)
    lines = "".join(f"{address:x} {size:x} {name}\n" for address, size, name in functions)
    stream.write(lines.encode())
    stream.flush()


def _append_to_dump(path: Path, functions: _Functions) -> None:
    stream = _OPEN.get((os.getpid(), DUMP))
    if stream is None:
        stream = _created(path, DUMP)
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        stream.write(
            _HEADER.pack(_MAGIC, _VERSION, _HEADER.size, MACHINE_X86_64, 0, os.getpid(), now, 0)
        )
        stream.flush()
        protection = mmap.PROT_READ | mmap.PROT_EXEC
        _DUMPED.append(mmap.mmap(stream.fileno(), _HEADER.size, mmap.MAP_PRIVATE, protection))
    for address, size, name in functions:
        encoded = name.encode() + b"\0"
        stream.write(
            _RECORD.pack(
                *(_LOAD, _RECORD.size + len(encoded) + size),
                time.clock_gettime_ns(time.CLOCK_MONOTONIC),
                *(os.getpid(), threading.get_native_id(), address, address, size, next(_NUMBERS)),
            )
            + encoded
            + ctypes.string_at(address, size)
        )
    stream.flush()


def _created(path: Path, kind: str) -> BinaryIO:
    """Return the new file *path*; one that an earlier process of this number has left gives way."""
    with suppress(FileNotFoundError):
        if stat.S_ISREG(path.lstat().st_mode):
            path.unlink()
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    stream = os.fdopen(number, "w+b")
    _OPEN[os.getpid(), kind] = stream
    return stream
