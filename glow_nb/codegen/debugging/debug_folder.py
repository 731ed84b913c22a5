"""The folder that a debugger reads: a network's code with debug info, and the sources of it.

Each program has a folder of its own, named by its content, below ``debug`` in the cache folder. It
stays when the process ends, for memory dumps and profiles that are read later; those that were used
longest ago are removed when there are more than MOST_FOLDERS.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from glow_nb.base.errors import GlowError, UnsupportedError
from glow_nb.codegen.linked_code import IS_SUPPORTED
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.codegen.shared_object import link_shared_object
from glow_nb.system.cache_folder import CACHE_VARIABLE, default_folder
from glow_nb.system.replaced_folders import new_folder

CODE, CALLS, COMMANDS = "network.so", "calls.json", "gdb_commands.py"
MOST_FOLDERS = 64
SECONDS_OF_A_PART = 3600
"""It takes a few to write a folder; one this old is of a process that was killed."""


def require_debug_support() -> None:
    """Raise UnsupportedError where debug information cannot be loaded."""
    if not IS_SUPPORTED:
        raise UnsupportedError(
            "debug=True: debug information is written on Linux for x86-64 alone; compile without"
        )


def debug_texts(natives: Iterable[NativeProgram]) -> dict[str, str]:
    """Return the texts that a debugger reads, by the names of their files: those of *natives*.

    There are none unless one has been compiled with debug information.
    """
    told = [(native.entry.symbol, native.debug) for native in natives if native.debug is not None]
    if not told:
        return {}
    texts = {name: text for _, debug in told for name, text in debug.sources.items()}
    networks = [
        {"entry": symbol, "file": debug.lines.file_name, "calls": debug.calls}
        for symbol, debug in told
    ]
    texts[CALLS] = json.dumps(networks)
    texts[COMMANDS] = Path(__file__).with_name(COMMANDS).read_text(encoding="utf-8")
    return texts


def write_debug_folder(native: NativeProgram) -> Path:
    """Write the code of *native*, and what belongs to its debug information; return the folder.

    Raises:
        GlowError: The folder cannot be written.
    """
    cache = default_folder()
    if cache is None:
        raise GlowError(f"debug=True: there is no cache folder; set {CACHE_VARIABLE} to one")
    base = cache / "debug"
    contents = {name: text.encode() for name, text in debug_texts([native]).items()}
    digest = hashlib.sha256()
    for part in (*contents.values(), *native.objects.values()):
        digest.update(hashlib.sha256(part).digest())
    folder = base / digest.hexdigest()[:20]
    contents[CODE] = link_shared_object(native.objects.values(), os.fspath(folder))
    try:
        if not _holds(folder, contents):
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
            with new_folder(folder, lambda _: True, "debug information") as new:
                for name, content in contents.items():
                    (new / name).write_bytes(content)
    except (OSError, GlowError) as error:
        raise GlowError(
            f"debug=True: {error}; make room or give access, or set {CACHE_VARIABLE} to another "
            "folder"
        ) from error
    with suppress(OSError):  # the time of use; a folder may be read-only
        os.utime(folder)
    _remove_oldest(base)
    return folder


def _holds(folder: Path, contents: Mapping[str, bytes]) -> bool:
    """Return whether *folder* has these files and no others."""
    try:
        found = list(folder.iterdir())
        return {path.name for path in found} == contents.keys() and all(
            path.is_file() and path.read_bytes() == contents[path.name] for path in found
        )
    except OSError:
        return False


def _remove_oldest(base: Path) -> None:
    """Remove all folders but those used last, and what killed writers left."""
    with suppress(OSError):
        found = sorted((path.stat().st_mtime, path) for path in base.iterdir())
        left = [(when, path) for when, path in found if path.name.startswith(".")]
        whole = [path for _, path in found if not path.name.startswith(".")]
        old = [path for when, path in left if time.time() - when > SECONDS_OF_A_PART]
        for path in (*old, *whole[:-MOST_FOLDERS]):
            shutil.rmtree(path, ignore_errors=True)
