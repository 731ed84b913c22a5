"""Channels first: operators that ONNX has that way are transposed, and the transposes cancel.

An image with the channels last passes through a transpose before and after each such operator. In
a graph that was imported these meet the importer's, which are their inverses::

    %a = transpose(%x) {permutation = [0, 2, 3, 1]}    ->
    %b = convolution(%a, ...)
    %c = transpose(%b) {permutation = [0, 3, 1, 2]}        %c = channels_first_convolution(%x, ...)

In any other graph they sink until they meet each other, as those of an importer do on the way to a
backend, which wants the channels last.
"""

from __future__ import annotations

from typing import cast

from glow_nb.exporters.onnx.channels_first import ChannelsFirst, to_first, to_last
from glow_nb.exporters.onnx.registry import CHANNELS_FIRST
from glow_nb.hlir.graph import Constant, Function, Node, Value, producer_of
from glow_nb.hlir.ops import Transpose
from glow_nb.hlir.optimize import GRAPH_PASSES
from glow_nb.hlir.optimize.uniform import is_known
from glow_nb.hlir.permutation import Permutation, inverse
from glow_nb.hlir.recipe import folded
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.passes import Pipeline, Repeat
from glow_nb.schema import attributes_of, operand_specs, operands_of

SUFFIX = "_transpose"
"""What the importer adds to the name of a constant whose axes it reorders."""


def lay_out(function: Function) -> Function:
    """Return *function* with the channels first wherever ONNX has them there."""
    moved = GRAPH_PASSES.run(_Layout().run(function), ("eliminate_dead_nodes",))
    return GRAPH_PASSES.run(moved, SINKING) if _has_transposed_images(moved) else moved


class _Layout:
    """Puts the channels first, node by node."""

    def __init__(self) -> None:
        self._moved: dict[tuple[Value, Permutation], Value] = {}

    def run(self, function: Function) -> Function:
        """Return *function* with transposes around what has the channels first."""
        return rewrite(function, self._rule)

    def _rule(self, node: Node, rewriter: Rewriter) -> Replacement:
        if isinstance(node, Transpose):
            return _taken_over(node, rewriter)
        export = CHANNELS_FIRST.get(type(node))
        if export is None or export.made is None or not export.says(node):
            return None
        operands = {spec.name: getattr(node, spec.name) for spec in operand_specs(type(node))}
        for name in export.made.images:
            operands[name] = self._channels_first(operands[name], rewriter)
        made = rewriter.emit(export.made(**operands, **attributes_of(node)), node.name)
        return tuple(
            rewriter.emit(Transpose(result, to_last(result.type.rank))) for result in made.results
        )

    def _channels_first(self, value: Value, rewriter: Rewriter) -> Value:
        """Return *value* with the channels first, the same each time."""
        permutation = to_first(value.type.rank)
        if (value, permutation) not in self._moved:
            self._moved[value, permutation] = _transposed(value, permutation, rewriter)
        return self._moved[value, permutation]


def _transposed(value: Value, permutation: Permutation, rewriter: Rewriter) -> Value:
    if isinstance(value, Transpose) and value.permutation == inverse(permutation):
        return value.input
    node = Transpose(value, permutation)
    if is_known(value):
        return folded(node, rewriter.unique_name(_name_of_transposed(cast("Constant", value))))
    return rewriter.emit(node)


def _name_of_transposed(constant: Constant) -> str:
    """Return the name of a constant that is reordered: the importer's own back again."""
    plain = constant.name.removesuffix(SUFFIX)
    return plain if plain not in ("", constant.name) else f"{constant.name}{SUFFIX}"


def _taken_over(node: Transpose, rewriter: Rewriter) -> Replacement:
    """A transpose back to the channels first: what is under it takes its place, and its name."""
    match node.input:
        case Transpose(input=ChannelsFirst() as image, permutation=permutation) if (
            permutation == inverse(node.permutation) and rewriter.use_count(node.input) == 1
        ):
            return rewriter.emit(image.copied(name=""), node.name)
    return None


def _has_transposed_images(function: Function) -> bool:
    """True if a transpose is left before or after an operator with the channels first."""
    for node in function.nodes:
        sources = tuple(map(producer_of, operands_of(node)))
        wanted = Transpose if isinstance(node, ChannelsFirst) else ChannelsFirst
        is_between = isinstance(node, ChannelsFirst | Transpose)
        if is_between and any(isinstance(source, wanted) for source in sources):
            return True
    return False


def _fold_transposes(function: Function) -> Function:
    """Reorder constants at once instead of by a node."""

    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        match node:
            case Transpose(input=Constant() as constant) if is_known(constant):
                return _transposed(constant, node.permutation, rewriter)
        return None

    return rewrite(function, rule)


SINKING: Pipeline = (
    Repeat(
        (
            "sink_transposes",  # they meet their inverses, and both are dropped
            _fold_transposes,  # what sinks below a node transposes its constants the other way
            "eliminate_noops",  # a transpose of axes of size 1 has become a reshape
            "eliminate_common_nodes",  # several readers of an image have it transposed once
            "eliminate_dead_nodes",
        ),
        limit=20,
    ),
)
"""How the transposes of a graph that had the channels last get away."""
