"""Objects on disk: one file per compiled kernel or entry, shared by processes and sessions.

A file is the object itself, so that ``objdump -d`` reads it, followed by a trailer of a magic, the
key and a SHA-256 over key and object. What does not match in every byte is treated as absent and
compiled again: truncated files, files of another key, compiler, processor or program. Writes are
atomic, and a folder that cannot be written only means that objects are kept in memory, and that a
warning says so.

The folder holds machine code that will be run: it deserves the trust of a folder of programs.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from glow_nb.codegen.in_progress import KernelClaims
from glow_nb.codegen.kernel_locks import KernelLocks
from glow_nb.kernels.target import Target
from glow_nb.system.cache_folder import PART, default_folder, write_whole
from glow_nb.system.regular_files import open_regular

MAGIC = b"glow_nb1"
TRAILER_BYTES = len(MAGIC) + 32 + 32
SECONDS_OF_A_PART = 3600
"""It takes less than one to write such a file; one this old is of a process that was killed."""
LARGEST_OBJECT_BYTES = 256 << 20
"""No object comes near this; a larger file is not ours and is not read."""
FOLDER_LIMIT_BYTES = 512 << 20
"""What the folder may hold: the kernels of thousands of networks."""


def object_key(text: str, arguments: str, target: Target) -> str:
    """Return the hexadecimal key of the object compiled from *text*.

    Args:
        text: Source of the kernel or the entry.
        arguments: Whatever else decides its signature.
        target: Processor; only what decides the instructions enters the key, not the cache sizes.
    """
    parts = (text, arguments, target.triple, target.cpu, target.features, toolchain())
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()


_SHAPING = (
    "base/alignment.py",
    "base/dot_instruction.py",
    "codegen/c_library.py",
    "codegen/compact_lowering.py",
    "codegen/compile.py",
    "codegen/compile_runtime.py",
    "codegen/debugging/debug_files.py",
    "codegen/debugging/dwarf.py",
    "codegen/debugging/entry_lines.py",
    "codegen/debugging/kernel_lines.py",
    "codegen/kernel_lowering.py",
    "codegen/numba_contexts.py",
    "codegen/runtime.py",
    "codegen/separate_names.py",
    "codegen/target_machine.py",
    "codegen/translate.py",
    "codegen/translate_bytecode.py",
    "kernels/products/dot_choice.py",
    "numerics/cook_toom.py",
    "numerics/philox.py",
    "numerics/strassen.py",
    "scheduling/thread_grid.py",
    "base/element_kind.py",
    "base/types.py",
    "numerics/wichura.py",
)
"""Files that shape an object, beside those of the SIMD layer."""


@functools.cache
def toolchain() -> str:
    """Return what identifies the compiler: versions, and the source of what shapes an object."""
    package = Path(__file__).parent.parent
    shaping = [
        *sorted(package.glob("simd/*.py")),
        *(package / name for name in _SHAPING),
    ]
    digest = hashlib.sha256()
    for path in shaping:
        name = path.relative_to(package).as_posix()
        digest.update(f"{name}\n".encode() + path.read_bytes())
    versions = [f"{name} {_version(name)}" for name in ("glow_nb", "numba", "llvmlite")]
    return "\n".join([*versions, digest.hexdigest()])


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:  # run from a source tree
        return "unknown"


@dataclass(frozen=True)
class ObjectCache:
    """Objects by key, in ``folder`` where possible and otherwise in memory.

    ``name`` in the methods is the C symbol: it only makes the file easy to find.
    """

    folder: Path | None = field(default_factory=default_folder)
    _memory: dict[str, bytes] = field(default_factory=dict, repr=False)

    def path(self, name: str, key: str) -> Path | None:
        """Return where the object is or would be stored."""
        return self.folder / f"{name}.{key[:32]}.o" if self.folder else None

    def load(self, name: str, key: str) -> bytes | None:
        """Return the object stored under *key*, or None if there is none that is intact."""
        if key in self._memory:
            return self._memory[key]
        path = self.path(name, key)
        if path is None:
            return None
        try:
            with open_regular(path) as stream:
                if os.fstat(stream.fileno()).st_size > LARGEST_OBJECT_BYTES:
                    return None
                payload = _unseal(stream.read(), key)
        except OSError:
            return None
        with contextlib.suppress(OSError):  # the time of use, for trim; a folder may be read-only
            os.utime(path)
        return payload

    def store(self, name: str, key: str, payload: bytes) -> None:
        """Keep *payload* under *key*; in this process only, if the folder does not take it."""
        path = self.path(name, key)
        if path is None or not write_whole(path, _seal(payload, key)):
            self._memory[key] = payload

    def load_or_make(self, name: str, key: str, make: Callable[[], bytes]) -> bytes:
        """Return the object stored under *key*; what there is not is made, and kept.

        What another thread or process is making is waited for.
        """
        while True:
            with KernelClaims() as claims, KernelLocks(self.folder) as locks:
                theirs = claims.claim((name, key))
                if theirs is None:
                    payload = self.load(name, key)
                    if payload is None:
                        payload = locks.wait_for(key, partial(self.load, name, key))
                    if payload is None:
                        payload = make()
                        self.store(name, key, payload)
                    claims.finish((name, key), payload)
                    return payload
            made = theirs.result()
            if made is not None:
                return made

    def trim_after(self, keys: Iterable[str]) -> None:
        """Trim the folder after objects were stored under *keys*, once in sixteen objects.

        To look at every file of a full folder takes as long as compiling a small kernel; keys are
        hashes, so that a digit of theirs is a fair draw that needs no memory of earlier ones.
        """
        if any(key.startswith("0") for key in keys):
            self.trim()

    def trim(self, limit_bytes: int = FOLDER_LIMIT_BYTES) -> None:
        """Delete the objects that were used longest ago until the folder holds *limit_bytes*.

        Also what processes that were killed have left half-written, an hour ago or earlier.
        What another process is about to load may go: it compiles it again.
        """
        if self.folder is None:
            return
        with contextlib.suppress(OSError):  # another process trims, or the folder is not ours
            with os.scandir(self.folder) as entries:
                found = [(entry.path, entry.name, entry.stat()) for entry in entries]
            files = [(path, status) for path, name, status in found if _is_object(name)]
            for path, name, status in found:
                if name.endswith(PART) and time.time() - status.st_mtime > SECONDS_OF_A_PART:
                    Path(path).unlink(missing_ok=True)
            excess = sum(status.st_size for _, status in files) - limit_bytes
            if excess <= 0:
                return
            for path, status in sorted(files, key=lambda file: file[1].st_mtime_ns):
                Path(path).unlink(missing_ok=True)
                excess -= status.st_size
                if excess <= 0:
                    return


def _is_object(file_name: str) -> bool:
    return file_name.startswith("glow_") and file_name.endswith(".o")


def _seal(payload: bytes, key: str) -> bytes:
    raw_key = bytes.fromhex(key)
    return payload + MAGIC + raw_key + hashlib.sha256(raw_key + payload).digest()


def _unseal(content: bytes, key: str) -> bytes | None:
    payload, trailer = content[:-TRAILER_BYTES], content[-TRAILER_BYTES:]
    raw_key = bytes.fromhex(key)
    expected = MAGIC + raw_key + hashlib.sha256(raw_key + payload).digest()
    return payload if payload and trailer == expected else None
