"""The outputs that become inputs: names, or patterns of names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from glow_nb.base.arguments import described
from glow_nb.base.errors import OptionError
from glow_nb.base.schema import listed


def as_caches(caches: object, sizes: object = None) -> Mapping[str, str]:
    """Return the argument ``caches=``, or raise OptionError; *sizes* is another argument."""
    if isinstance(sizes, str) and sizes == "each":
        raise OptionError(
            "sizes='each', caches=...: a network with caches has one program for all sizes; say "
            "how large they may be, sizes={'past': (0, 1024)}"
        )
    if not isinstance(caches, Mapping) or not all(
        isinstance(name, str) for pair in caches.items() for name in pair
    ):
        raise OptionError(
            f"caches={described(caches)}: give the output that becomes each input, "
            "{'past_key_values.*': 'present.*'}"
        )
    for name, output in caches.items():
        if name.count("*") != output.count("*"):
            raise OptionError(
                f"caches={{{name!r}: {output!r}}}: {name.count('*')} stars on the left and "
                f"{output.count('*')} on the right; each matches the same text on both sides"
            )
    return dict(caches)


def caches_of(caches: Mapping[str, str], inputs: Iterable[str]) -> dict[str, str]:
    """Return the output of each input that *caches* name, among *inputs* where there are stars.

    Raises:
        OptionError: A pattern matches no input, or two patterns match the same input.
    """
    known, found = list(inputs), dict[str, str]()
    for name, output in caches.items():
        for one, its_output in _pairs(name, output, known):
            if found.setdefault(one, its_output) != its_output:
                raise OptionError(
                    f"caches=: input {one!r} becomes both {found[one]!r} and {its_output!r}; "
                    "give one output"
                )
    outputs = list(found.values())
    for output in outputs:
        if outputs.count(output) > 1:
            raise OptionError(f"caches=: several inputs become {output!r}; give one")
    return found


def _pairs(name: str, output: str, known: list[str]) -> list[tuple[str, str]]:
    if "*" not in name:
        return [(name, output)]
    pattern = re.compile("(.*)".join(map(re.escape, name.split("*"))), re.DOTALL)
    found = []
    for one in known:
        match = pattern.fullmatch(one)
        if match:
            pieces = iter(match.groups())
            filled = "".join(
                part if part != "*" else next(pieces) for part in re.split(r"(\*)", output)
            )
            found.append((one, filled))
    if not found:
        raise OptionError(
            f"caches={{{name!r}: {output!r}}}: no input of the model fits; it has {listed(known)}"
        )
    return found


def refuse_caches(caches: Mapping[str, str]) -> None:
    """Raise OptionError if there are *caches*, of a model all of whose sizes are fixed."""
    if caches:
        raise OptionError(
            f"caches={dict(caches)!s:.80}: all sizes of the model are fixed, and a cache has an "
            "open one along which it grows; give a model with a size such as past"
        )
