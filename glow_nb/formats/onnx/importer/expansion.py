"""The number of nodes of functions, branches and loops, each time they are imported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import onnx

from glow_nb.base.errors import ModelError
from glow_nb.formats.onnx.importer.functions import FunctionKey, key_of

MAX_NODES = 50_000
"""Nodes of bodies that are imported at most; those of the model's own graph do not count."""

_DEEPEST = 64
"""Bodies inside of each other that are looked into."""

Body = onnx.FunctionProto | onnx.GraphProto

Branches = Callable[[Iterable[int]], int]
"""How many nodes an If makes of those of its branches: their sum or the smaller one."""


class TooManyNodesError(ModelError):
    """The bodies in a model make more nodes than are imported, whichever branches are taken."""


class Expansion:
    """Counts the nodes of all bodies that are imported: of a function called twice, twice.

    Functions that call each other double their nodes at each level. So a body is refused as soon as
    the calls in it are seen to make too many, before any of them is expanded. Of an If that has not
    been reached, it is not known whether its condition is decided at import. At least one of its
    branches is imported, the smaller one, and both may be.
    """

    def __init__(self, functions: Mapping[FunctionKey, onnx.FunctionProto]) -> None:
        """Count from 0; *functions* are those that the model brings along."""
        self._functions = functions
        self._sizes: dict[tuple[FunctionKey, Branches], int] = {}
        self._count = 0

    def enter(self, body: Body, place: str) -> None:
        """Count the nodes of *body*, which the node at *place* imports now; raise as `check`."""
        self.check([body], place)
        self._count += len(body.node)

    def check(self, bodies: Iterable[Body], place: str, times: int = 1) -> None:
        """Raise TooManyNodesError if *bodies*, imported *times* times, make too many nodes."""
        self._check(bodies, place, times, min)

    def check_both(self, branches: Iterable[Body], place: str) -> None:
        """Raise as `check` for *branches* that are both imported, as those inside of them may be.

        So a model whose conditions are all decided by a run is refused before its branches, and
        the branches in these, are imported one after the other.
        """
        self._check(branches, place, 1, sum)

    def _check(self, bodies: Iterable[Body], place: str, times: int, branches: Branches) -> None:
        count = self._count + times * sum(self._size(body.node, 0, branches) for body in bodies)
        if count > MAX_NODES:
            raise TooManyNodesError(
                f"{place}: calls of functions, branches and steps of loops make {count} nodes of "
                f"the model, at most {MAX_NODES} are imported; export it with fewer of them"
            )

    def _size(self, nodes: Iterable[onnx.NodeProto], depth: int, branches: Branches) -> int:
        """Return how many nodes *nodes* make: a loop counts as one step, an If as *branches*."""
        return sum(1 + self._size_inside(node, depth + 1, branches) for node in nodes)

    def _size_inside(self, node: onnx.NodeProto, depth: int, branches: Branches) -> int:
        if depth > _DEEPEST:
            return 0
        key = key_of(node)
        function = self._functions.get(key)
        if function is None:
            graphs = [a.g.node for a in node.attribute if a.HasField("g")]
            combine = branches if graphs and key[:2] == ("", "If") else sum
            return combine(self._size(graph, depth, branches) for graph in graphs)
        if (key, branches) not in self._sizes:
            self._sizes[key, branches] = 0  # which it calls itself, if it does
            self._sizes[key, branches] = self._size(function.node, depth, branches)
        return self._sizes[key, branches]
