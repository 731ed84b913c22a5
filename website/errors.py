"""The reference of errors: a tree of the classes, and each with what it means."""

from __future__ import annotations

from collections.abc import Iterator

import glow_nb
from glow_nb.base import errors
from glow_nb.base.errors import GlowError, GlowWarning
from glow_nb.base.finite import NonFiniteError
from glow_nb.base.open_size_error import OpenSizeError
from glow_nb.base.outputs import NoOutputError


def reference() -> str:
    """Return the tree of the classes, and a directive of mkdocstrings for each of them."""
    tree = "".join(_branch(GlowError))
    entries = "\n".join(f"::: {name_of(error)}\n" for error in classes())
    return f"```text\n{tree}{GlowWarning.__name__} (a UserWarning)\n```\n\n{entries}"


def classes() -> list[type]:
    """Return all errors and the warning, in the order of their definition."""
    known = (value for value in vars(errors).values() if isinstance(value, type))
    found = [error for error in known if issubclass(error, GlowError | GlowWarning)]
    return [*found, NoOutputError, NonFiniteError, OpenSizeError]


def name_of(error: type) -> str:
    """Return the whole name of *error*: the public one, if it has one."""
    public = error.__name__ in glow_nb.__all__
    return f"glow_nb.{error.__name__}" if public else f"{error.__module__}.{error.__name__}"


def _branch(error: type, indent: str = "") -> Iterator[str]:
    yield f"{indent}{error.__name__}\n"
    for other in classes():
        if error in other.__bases__:
            yield from _branch(other, indent + "    ")
