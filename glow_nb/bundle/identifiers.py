"""Names in C: of a bundle, which its maker chooses, and of its functions, which a model does."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import Path

from glow_nb.base.arguments import described
from glow_nb.base.errors import OptionError

TEMPLATES = Path(__file__).with_name("templates")
"""The texts that are filled for a bundle."""

_NAMES_OF_C = Path(__file__).with_name("names_of_c.txt")
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

_FAMILIES = ("atomic", "memory_order", "pthread", "stdc")
"""What all names of a header of C begin with."""

_OF_THE_BUNDLE = (
    *("alignment", "arena_bytes", "constants", "constants_bytes", "function", "functions"),
    *("initialize", "max_rank", "no_such_share", "not_initialized", "misaligned", "pool"),
    *("pool_start", "pool_stop", "states", "state_count", "tensor", "tensors_bytes", "threads"),
    *("variant", "wrong_constants", "wrong_processor"),
    *("measure", "no_such_size", "other_sizes", "range", "ranges", "size_count", "sizes"),
    *("too_large", "too_small"),
)
_OF_A_FUNCTION = (
    *("", "_inputs", "_outputs", "_phases", "_share", "_tensors", "_input_count", "_output_count"),
)

ONLY_FUNCTION = "run"
"""What the entry of a bundle with one function is called."""


def template(name: str) -> str:
    """Return the template in the file *name*."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


def checked_name(name: object) -> str:
    """Return *name*, which a bundle may have.

    Raises:
        OptionError: It is no identifier of C, there is a header or library of this name, or names
            of C begin with it.
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
    if f"{name}_".lower().startswith(tuple(f"{family}_" for family in _FAMILIES)):
        raise OptionError(
            f"name={name!r}: names of C begin so, which those of the bundle could be; choose "
            "another one"
        )
    for own in (ONLY_FUNCTION, *_OF_THE_BUNDLE):
        if f"{name}_{own}" in _names_of_c():
            raise OptionError(
                f"name={name!r}: C calls something {name}_{own}, which is a name of the bundle, "
                "too; choose another one"
            )
    return name


def identifier_of(text: str) -> str:
    """Return an identifier of C that reminds of *text*; empty if nothing of it can stand in one."""
    found = re.sub(r"[^A-Za-z0-9]+", "_", text[: 2 * _LONGEST]).strip("_")[:_LONGEST]
    return found if not found[:1].isdigit() else f"n{found}"[:_LONGEST]


def function_identifiers(bundle: str, names: Iterable[str]) -> list[str]:
    """Return what functions of these *names* are called in C, after the name of their *bundle*.

    No two names in C are the same then. Identifiers are written in small letters: macros are not,
    so that none is like a function.
    """
    names = list(names)
    if len(names) == 1:
        return [ONLY_FUNCTION]
    taken, found = _names_in_c(bundle), []
    for number, name in enumerate(names):
        stem = identifier_of(name)[:_LONGEST_FUNCTION].lower() or f"function_{number}"
        candidate, again = stem, 1
        while _is_type(candidate) or not taken.isdisjoint(_names_of(candidate)):
            again += 1
            candidate = f"{stem}_{again}"
        taken |= _names_of(candidate)
        found.append(candidate)
    return found


def _is_type(identifier: str) -> bool:
    """Return whether POSIX keeps a name with this end for types."""
    return f"_{identifier}".endswith("_t")


def _names_in_c(bundle: str) -> set[str]:
    """Return what no function of *bundle* may be called: with its name before it, C knows it."""
    begin = f"{bundle.lower()}_"
    behind = {word[len(begin) :] for word in _names_of_c() if word.lower().startswith(begin)}
    return {*_OF_THE_BUNDLE, *behind}


@functools.cache
def _names_of_c() -> frozenset[str]:
    """Return the names of several words of C's headers and libraries, and of the templates."""
    lines = _NAMES_OF_C.read_text(encoding="utf-8").splitlines()
    words = [word for line in lines if not line.startswith("#") for word in line.split()]
    for path in TEMPLATES.glob("*.[ch]"):
        words += re.findall(r"[a-z0-9]+_[a-z0-9_]*", path.read_text(encoding="utf-8"))
    return frozenset(words)


def _names_of(identifier: str) -> set[str]:
    return {f"{identifier}{ending}" for ending in _OF_A_FUNCTION} | {f"pool_{identifier}"}


def c_string(text: str) -> str:
    """Return *text*, which may be anything, as a literal of C that may stand in a comment, too."""
    return '"' + "".join(map(_escaped, text.encode("utf-8", "surrogatepass"))) + '"'


def _escaped(byte: int) -> str:
    letter = chr(byte)
    is_plain = letter.isascii() and (letter.isalnum() or letter in " _.,:;+-=()[]<>@#/")
    return letter if is_plain else f"\\{byte:03o}"
