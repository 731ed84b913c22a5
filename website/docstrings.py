"""Docstrings as the site needs them: roles of Sphinx become links, blocks of code are fenced."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import griffe
from typing_extensions import override

from website.markdown import with_fences

_ROLE = re.compile(r":(?:func|class|meth|attr|data|mod):`~?([\w.]+)`")


class Docstrings(griffe.Extension):
    """Rewrites all docstrings of a package when it is read."""

    @override
    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        for item in _documented(pkg):
            item.docstring.value = as_markdown(item.docstring.value, resolver_of(item))


def _documented(item: Any) -> Iterator[Any]:
    """Yield *item* and what is in it, as far as it has docstrings."""
    if item.is_alias:
        return
    if item.docstring is not None:
        yield item
    for member in item.members.values():
        yield from _documented(member)


def resolver_of(item: Any) -> Callable[[str], str]:
    """Return a function that makes a name in the docstring of *item* a whole one."""

    def resolve(name: str) -> str:
        first, dot, rest = name.partition(".")
        try:
            return f"{item.resolve(first)}{dot}{rest}"
        except griffe.NameResolutionError:
            return name

    return resolve


def as_markdown(docstring: str, resolve: Callable[[str], str] = str) -> str:
    """Return a *docstring* as Markdown.

    Args:
        docstring: Text with roles such as ``:func:`load```, and blocks after ``::``.
        resolve: Returns the whole name of what a role names.
    """

    def linked(role: re.Match[str]) -> str:
        shown = role[1].removeprefix("glow_nb.")
        return f'<autoref identifier="{resolve(role[1])}" optional><code>{shown}</code></autoref>'

    return with_fences(_ROLE.sub(linked, docstring + "\n")).rstrip("\n")
