"""Names in C: of a bundle, which its maker chooses, and of its functions, which a model does."""

from __future__ import annotations

import re
from collections.abc import Iterable

from glow_nb.base.arguments import described
from glow_nb.base.errors import OptionError

_LONGEST = 60
_LONGEST_FUNCTION = 40

_HEADERS = frozenset(
    """
    assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign
    stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar
    wchar wctype alloca dirent endian fcntl features memory pthread sched strings syslimits unistd
    """.split()
)
_LIBRARIES = frozenset({"c", "dl", "gcc", "m", "rt", "util"})

_OF_THE_BUNDLE = (
    *("alignment", "arena_bytes", "constants", "constants_bytes", "function", "functions"),
    *("initialize", "max_rank", "no_such_share", "not_initialized", "misaligned", "pool"),
    *("pool_start", "pool_stop", "states", "state_count", "tensor", "tensors_bytes", "threads"),
    *("variant", "wrong_constants", "wrong_processor"),
)
_OF_A_FUNCTION = (
    *("", "_inputs", "_outputs", "_phases", "_share", "_input_count", "_output_count"),
)

ONLY_FUNCTION = "run"
"""What the entry of a bundle with one function is called."""


def checked_name(name: object) -> str:
    """Return *name*, which a bundle may have.

    Raises:
        OptionError: It is no identifier of C, or there is a header or library of this name.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name, re.ASCII):
        raise OptionError(
            f"name={described(name)}: no identifier of C; give a letter, then letters, digits and "
            "underscores"
        )
    if len(name) > _LONGEST:
        raise OptionError(f"name={name!r:.80}: {len(name)} letters; give at most {_LONGEST}")
    if name.lower() in _HEADERS | _LIBRARIES:
        raise OptionError(
            f"name={name!r}: C has a header or a library of this name, which the bundle would "
            "hide; choose another one"
        )
    return name


def identifier_of(text: str) -> str:
    """Return an identifier of C that reminds of *text*; empty if nothing of it can stand in one."""
    found = re.sub(r"[^A-Za-z0-9]+", "_", text[: 2 * _LONGEST]).strip("_")[:_LONGEST]
    return found if not found[:1].isdigit() else f"n{found}"[:_LONGEST]


def function_identifiers(names: Iterable[str]) -> list[str]:
    """Return for each function of these *names* an identifier that no other name in C has.

    Macros are written in capitals, so names that differ in these alone are the same.
    """
    names = list(names)
    if len(names) == 1:
        return [ONLY_FUNCTION]
    taken, found = set(_OF_THE_BUNDLE), []
    for number, name in enumerate(names):
        stem = identifier_of(name)[:_LONGEST_FUNCTION] or f"function_{number}"
        candidate, again = stem, 1
        while not taken.isdisjoint(_names_of(candidate)):
            again += 1
            candidate = f"{stem}_{again}"
        taken |= _names_of(candidate)
        found.append(candidate)
    return found


def _names_of(identifier: str) -> set[str]:
    names = {f"{identifier}{ending}" for ending in _OF_A_FUNCTION} | {f"pool_{identifier}"}
    return {name.lower() for name in names}


def c_string(text: str) -> str:
    """Return *text*, which may be anything, as a literal of C that may stand in a comment, too."""
    return '"' + "".join(map(_escaped, text.encode("utf-8", "surrogatepass"))) + '"'


def _escaped(byte: int) -> str:
    letter = chr(byte)
    is_plain = letter.isascii() and (letter.isalnum() or letter in " _.,:;+-=()[]<>@#/")
    return letter if is_plain else f"\\{byte:03o}"
