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
    made_by: dict[str, list[str]] = {}
    makers: dict[str, str] = {}
    for node in graph.node:
        outputs = [output for output in node.output if output]
        makers.update(dict.fromkeys(outputs, node.name))
        if node.name:
            made_by.setdefault(node.name, []).extend(outputs)
    stored = [info.name for info in graph.input]
    stored += [tensor.name for tensor in graph.initializer]
    stored += [tensor.values.name for tensor in graph.sparse_initializer]
    values = dict.fromkeys([*stored, *makers])
    found: dict[str, str] = {}
    for name in names:
        meant = dict.fromkeys([*([name] if name in values else []), *made_by.get(name, ())])
        if len(meant) != 1:
            raise OptionError(f"watch: {_problem(name, list(meant), [*values, *made_by], makers)}")
        (found[name],) = meant
    return found


def _problem(name: str, meant: list[str], known: list[str], makers: dict[str, str]) -> str:
    if not meant:
        return f"the model has no value and no node {name!r}{closest(name, known)}"
    if name in meant:
        maker = f"; the value {name!r} is the output of node {makers[name]!r}" * bool(
            makers.get(name)
        )
        others = [value for value in meant if value != name]
        return f"{name!r} is a value, and a node of this name makes {others}; watch these{maker}"
    return f"{name!r} is a node that makes {meant}, or several of this name; choose one of these"
