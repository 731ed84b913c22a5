"""How many nodes bodies of functions, branches and loops make, each time they are imported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx

from glow_nb.errors import ModelError
from glow_nb.importers.onnx.functions import FunctionKey, key_of

MAX_NODES = 50_000
"""Nodes of bodies that are imported at most; those of the model's own graph do not count."""

_DEEPEST = 64
"""Bodies inside of each other that are looked into."""


class TooManyNodesError(ModelError):
    """The bodies in a model make more nodes than are imported, whichever branches are taken."""


class Expansion:
    """Counts the nodes of all bodies that are imported: of a function called twice, twice.

    Functions that call each other double their nodes at each level. So a body is refused as soon as
    the calls in it are seen to make too many, before any of them is expanded.
    """

    def __init__(self, functions: Mapping[FunctionKey, onnx.FunctionProto]) -> None:
        """Count from 0; *functions* are those that the model brings along."""
        self._functions = functions
        self._sizes: dict[FunctionKey, int] = {}
        self._count = 0

    def enter(self, body: onnx.FunctionProto | onnx.GraphProto, place: str) -> None:
        """Count the nodes of *body*, which the node at *place* imports now; raise as `check`."""
        self.check(body, place)
        self._count += len(body.node)

    def check(self, body: onnx.FunctionProto | onnx.GraphProto, place: str, times: int = 1) -> None:
        """Raise TooManyNodesError if *body*, imported so many *times*, makes too many nodes."""
        count = self._count + times * self._size(body.node, 0)
        if count > MAX_NODES:
            raise TooManyNodesError(
                f"{place}: calls of functions, branches and steps of loops make {count} nodes of "
                f"the model, at most {MAX_NODES} are imported; export it with fewer of them"
            )

    def _size(self, nodes: Iterable[onnx.NodeProto], depth: int) -> int:
        """Return how many nodes *nodes* make: both branches count, a loop as one step."""
        return sum(1 + self._size_inside(node, depth + 1) for node in nodes)

    def _size_inside(self, node: onnx.NodeProto, depth: int) -> int:
        if depth > _DEEPEST:
            return 0
        key = key_of(node)
        function = self._functions.get(key)
        if function is None:
            return sum(self._size(a.g.node, depth) for a in node.attribute if a.HasField("g"))
        if key not in self._sizes:
            self._sizes[key] = 0  # which it calls itself, if it does
            self._sizes[key] = self._size(function.node, depth)
        return self._sizes[key]
