"""Values of an ONNX model by their own names, and by those of the nodes that compute them."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from glow_nb.base.errors import OptionError
from glow_nb.base.schema import closest


def watched_values(graph: onnx.GraphProto, names: Iterable[str]) -> dict[str, str]:
    """Return the value of *graph* that each of *names* means.

    That is a value's own name, or the name of a node with one output. Inputs and weights are values
    as well; what is inside the bodies of ``If``, ``Loop``, ``Scan`` and of functions is none.

    Raises:
        OptionError: A name is that of no value and no node, or it means several values.
    """
    known = _Names(graph)
    return {name: known.value(name) for name in names}


def value_names(graph: onnx.GraphProto) -> list[str]:
    """Return names that :func:`watched_values` takes for all values that nodes of *graph* make."""
    known = _Names(graph)
    names = (known.unique_name(value) for value in known.makers)
    return [name for name in names if name is not None]


def named_nodes(graph: onnx.GraphProto) -> dict[str, tuple[str, ...]]:
    """Return all names in *graph*, each with its nodes, as kernels name them.

    That is the node of this name or that makes the value; for what is inside of a body of ``If``,
    ``Loop`` or ``Scan``, the node that has the body; and nothing for inputs and weights.
    """
    found: dict[str, tuple[str, ...]] = dict.fromkeys(_stored_names(graph), ())
    for node in graph.node:
        outputs = [output for output in node.output if output]
        own = node.name or next(iter(outputs), node.op_type)
        for name in dict.fromkeys([own, *outputs, *_names_inside(node)]):
            found[name] = (*found.get(name, ()), own)
    return found


def _stored_names(graph: onnx.GraphProto) -> list[str]:
    """Return the names of what no node of *graph* makes: inputs and weights."""
    tensors = [*graph.input, *graph.initializer, *(t.values for t in graph.sparse_initializer)]
    return [tensor.name for tensor in tensors]


def _names_inside(node: onnx.NodeProto) -> list[str]:
    """Return the names of nodes and values inside of the bodies of *node*."""
    names: list[str] = []
    bodies = [body for a in node.attribute for body in (a.g, *a.graphs)]
    while bodies:
        body = bodies.pop()
        for inner in body.node:
            names += filter(None, [inner.name, *inner.output])
            bodies += (more for a in inner.attribute for more in (a.g, *a.graphs))
    return names


class _Names:
    """The meaning of the names in a graph.

    Attributes:
        makers: The name of the node that makes each value, empty if it has none.
    """

    def __init__(self, graph: onnx.GraphProto) -> None:
        """Collect the names of nodes, and those of values."""
        self.makers: dict[str, str] = {}
        self._made_by: dict[str, list[str]] = {}
        for node in graph.node:
            outputs = [output for output in node.output if output]
            self.makers.update(dict.fromkeys(outputs, node.name))
            if node.name:
                self._made_by.setdefault(node.name, []).extend(outputs)
        self._values = dict.fromkeys([*_stored_names(graph), *self.makers])

    def _meanings(self, name: str) -> list[str]:
        own = [name] if name in self._values else []
        return list(dict.fromkeys([*own, *self._made_by.get(name, ())]))

    def unique_name(self, value: str) -> str | None:
        """Return a name that means *value* alone; None if there is none."""
        names = (value, self.makers[value])
        return next((name for name in names if self._meanings(name) == [value]), None)

    def value(self, name: str) -> str:
        """Return the one value that *name* means, or raise OptionError."""
        meant = self._meanings(name)
        if len(meant) == 1:
            return meant[0]
        if not meant:
            near = closest(name, [*self._values, *self._made_by])
            raise OptionError(f"watch: the model has no value and no node {name!r}{near}")
        if name in meant:
            others, maker = meant[1:], self.makers.get(name)
            instead = f", or {maker!r} for the value" if maker else ""
            raise OptionError(
                f"watch: {name!r} is a value, and a node of this name makes {others}; watch "
                f"{others} for the node{instead}"
            )
        raise OptionError(f"watch: nodes called {name!r} make {meant}; choose one of these values")
