"""A static library: objects in an archive, with the table by which a linker finds their symbols."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from glow_nb.codegen.symbols import read_symbols

_MAGIC = b"!<arch>\n"
_HEADER_BYTES = 60


def archive_of(members: Mapping[str, bytes]) -> bytes:
    """Return the archive of *members*, objects by names of at most 15 letters.

    The layout is that of System V and GNU. No time and no user is written: equal objects give
    equal archives.
    """
    defined = {name: _defined(payload) for name, payload in members.items()}
    names = [symbol for symbols in defined.values() for symbol in symbols]
    texts = b"".join(symbol.encode() + b"\0" for symbol in names)
    table_bytes = 4 + 4 * len(names) + len(texts)
    place = len(_MAGIC) + _HEADER_BYTES + table_bytes + table_bytes % 2
    offsets: list[int] = []
    for name, payload in members.items():
        offsets += [place] * len(defined[name])
        place += _HEADER_BYTES + len(payload) + len(payload) % 2
    table = struct.pack(f">{1 + len(offsets)}I", len(offsets), *offsets) + texts
    pieces = [_member("", table), *(_member(*member) for member in members.items())]
    return _MAGIC + b"".join(pieces)


def _defined(payload: bytes) -> list[str]:
    symbols = read_symbols(payload)
    return sorted(symbols.defined) if symbols else []


def _member(name: str, content: bytes) -> bytes:
    """Return a member with its header, filled up to an even number of bytes."""
    assert len(name) <= 15
    header = f"{name + '/':16}{0:<12}{0:<6}{0:<6}{'644':8}{len(content):<10}`\n".encode("ascii")
    return header + content + b"\n" * (len(content) % 2)
