"""The files of a saved network, and the checksums that show whether they are complete.

``SHA256SUMS`` has a line for each file, as ``sha256sum --check`` reads it. A folder whose files do
not have these sums, or that has none, is damaged.
"""

from __future__ import annotations

import errno
import mmap
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from glow_nb.base.alignment import Bytes
from glow_nb.base.errors import ModelError
from glow_nb.system.file_digests import FileDigests
from glow_nb.system.regular_files import open_regular
from glow_nb.system.sha256 import sha256

MANIFEST = "network.json"
CONSTANTS = "constants.bin"
SUMS = "SHA256SUMS"

PAGE_BYTES = 4096

LARGE_BYTES = 1 << 20
"""Constants of this number of bytes are a file of their own, which tells its content: folders of
the cache share it."""

Region = tuple[str, int, int]
"""The name of a file of constants, and the begin and the size of a part of it."""

_OF_THE_PROCESS = {errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EPERM, errno.ENOMEM}
"""Errors of the system that tell nothing of a file, but of who wants to read it."""


class UnreadableError(ModelError):
    """A saved network that this process cannot read at the moment, which is no damage."""


_CONSTANTS = re.compile(r"constants(-[0-9a-f]{40})?\.bin")
_LINE = re.compile(r"([0-9a-f]{64})  ([a-z][a-z0-9.-]{0,60})")


def code_file(number: int, content: bytes) -> str:
    """Return the name of the file with the code of function *number*.

    It tells the content: the system's loader takes a file of the same name for the same code.
    """
    return f"code-{number}-{sha256(content).hexdigest()[:16]}.so"


def constants_file(digest: str) -> str:
    """Return the name of the file with large constants of this *digest*."""
    return f"constants-{digest[:40]}.bin"


def program_file(number: int) -> str:
    """Return the name of the file with the text of the program of function *number*."""
    return f"program-{number}.glow"


def graph_file(number: int) -> str:
    """Return the name of the file with the text of its graph."""
    return f"graph-{number}.glow"


def levels_file(number: int) -> str:
    """Return the name of the file that says where the constants of both texts are."""
    return f"levels-{number}.json"


def check_sums(folder: Path, digests: FileDigests) -> Mapping[str, str]:
    """Return the sum of each file; raise ModelError unless all are there and have their sums."""
    wanted = _sums(folder)
    paths = [folder / name for name in wanted]
    try:
        if digests.of(paths) == list(wanted.values()):
            return wanted
        found = digests.of(paths, again=True)  # a note may be damaged, too
    except OSError as error:
        raise unreadable(folder, error, "save the network again") from error
    changed = [n for (n, sum), is_ in zip(wanted.items(), found, strict=True) if sum != is_]
    if changed:
        raise ModelError(
            f"{folder}: damaged: {', '.join(changed)} differ from their sums in {SUMS}; save the "
            "network again"
        )
    return wanted


def unreadable(folder: Path, error: OSError, remedy: str = "") -> ModelError:
    """Return the error about a file in *folder* that cannot be read; *remedy* is for damage."""
    problem = f"{error.filename or 'a file'} cannot be read: {error.strerror or error}"
    if error.errno in _OF_THE_PROCESS:
        return UnreadableError(f"{folder}: {problem}")
    return ModelError(f"{folder}: damaged: {problem}; {remedy}")


def _sums(folder: Path) -> dict[str, str]:
    """Return the sum of each file by its name."""
    try:
        with open_regular(folder / SUMS) as stream:
            text = stream.read(1 << 20).decode("ascii", "replace")
    except OSError as error:
        if error.errno in _OF_THE_PROCESS:
            raise unreadable(folder, error) from error
        raise ModelError(
            f"{folder}: no saved network: {SUMS} cannot be read: {error.strerror}; give a folder "
            "that net.save wrote"
        ) from error
    *whole, rest = text.split("\n")
    lines = [_LINE.fullmatch(line) for line in (*whole, *filter(None, [rest]))]
    sums = {match[2]: match[1] for match in lines if match}
    if len(sums) != len(lines) or not {MANIFEST, CONSTANTS} <= sums.keys():
        raise ModelError(f"{folder}: damaged: {SUMS} is no list of sums; save the network again")
    return sums


def map_regions(folder: Path, places: Iterable[Region]) -> list[Bytes]:
    """Return the parts of files of constants in *folder* that lie at *places*.

    The files are mapped: read-only, shared by processes, and read ahead.

    Raises:
        OSError: One cannot be mapped.
        ModelError: No file is called so, or a part is outside of it, or does not begin on a page.
    """
    mapped: dict[str, Bytes] = {}
    regions = []
    for name, begin, size in places:
        if not _CONSTANTS.fullmatch(name):
            raise ModelError(f"{name!r:.80} is no file of constants")
        if name not in mapped:
            mapped[name] = _mapped(folder / name)
        content = mapped[name]
        if begin % PAGE_BYTES or not 0 <= begin <= begin + size <= content.nbytes:
            raise ModelError(
                f"{name}: bytes {begin} to {begin + size} are no part of a file of "
                f"{content.nbytes} bytes that begins on a page"
            )
        regions.append(content[begin : begin + size])
    return regions


def _mapped(path: Path) -> Bytes:
    with open_regular(path) as stream:
        if not stream.seek(0, 2):
            return np.empty(0, np.uint8)
        mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    if hasattr(mmap, "MADV_WILLNEED"):
        mapped.madvise(mmap.MADV_WILLNEED)
    content: Bytes = np.frombuffer(mapped, np.uint8)
    return content
