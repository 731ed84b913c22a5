"""The layers that a user wants to stay as they are, by names and globs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase

from glow_nb.base.arguments import described
from glow_nb.base.errors import OptionError
from glow_nb.base.schema import closest
from glow_nb.hlir.graph import Function


def kept_by_name(
    function: Function, keep: Iterable[str], *, must_fit: bool = True
) -> dict[str, str]:
    """Return the names of the nodes that *keep* asks to stay float, and which pattern does.

    Args:
        function: The graph.
        keep: Names, or globs, of nodes; names of imported nodes count, too.
        must_fit: Whether a pattern that fits no node is an error.

    Raises:
        OptionError: A pattern fits no node.
    """
    if isinstance(keep, str) or not isinstance(keep, Iterable):
        raise OptionError(f"keep={described(keep)}: give a list of names or globs of nodes")
    keep = tuple(keep)  # which may be read once only
    if must_fit:
        require_kept([function], keep)
    found: dict[str, str] = {}
    names = {node.name: (node.name, *function.origins_of(node)) for node in function.nodes}
    for pattern in keep:
        fitting = [
            name for name, known in names.items() if any(_fits(pattern, each) for each in known)
        ]
        found |= dict.fromkeys(fitting, f"keep={pattern!r}")
    return found


def require_kept(functions: Sequence[Function], keep: Collection[str]) -> None:
    """Raise OptionError unless each pattern of *keep* fits a node of one of *functions*."""
    known = {
        name
        for function in functions
        for node in function.nodes
        for name in (node.name, *function.origins_of(node))
    }
    for pattern in keep:
        if not any(_fits(pattern, name) for name in known):
            called, hint = functions[0].name, closest(str(pattern), known)
            raise OptionError(f"keep: {described(pattern)} fits no node of {called!r}{hint}")


def _fits(pattern: object, name: str) -> bool:
    return pattern == name or fnmatchcase(name, str(pattern))
