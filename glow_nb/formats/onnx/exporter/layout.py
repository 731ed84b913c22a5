"""Channels first: operators that ONNX has in that layout are transposed, and the transposes cancel.

An image with the channels last passes through a transpose before and after each such operator. In
a graph that was imported these meet the importer's, which are their inverses::

    %a = transpose(%x) {permutation = [0, 2, 3, 1]}    ->
    %b = convolution(%a, ...)
    %c = transpose(%b) {permutation = [0, 3, 1, 2]}        %c = channels_first_convolution(%x, ...)

In any other graph they sink until they meet each other, as those of an importer do before a
backend, which wants the channels last.
"""

from __future__ import annotations

from dataclasses import replace

from glow_nb.base.schema import attributes_of, map_operands, operand_specs, operands_of
from glow_nb.base.steps import Entries, Repeat
from glow_nb.formats.onnx.exporter.channels_first import ChannelsFirst, to_first, to_last
from glow_nb.formats.onnx.exporter.registry import CHANNELS_FIRST
from glow_nb.hlir.graph import Constant, Function, Node, Value, producer_of
from glow_nb.hlir.known import is_known
from glow_nb.hlir.ops import Transpose
from glow_nb.hlir.optimize import GRAPH_PASSES
from glow_nb.hlir.permutation import Permutation, inverse
from glow_nb.hlir.recipe import folded
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite, substitute

SUFFIX = "_transpose"
"""What the importer adds to the name of a constant whose axes it reorders."""


def lay_out(function: Function) -> Function:
    """Return *function* with the channels first wherever ONNX has them there."""
    return _Layout().run(function)


class _Layout:
    """Puts the channels of one function first, and keeps the names of its constants."""

    def __init__(self) -> None:
        self._moved: dict[tuple[Value, Permutation], Value] = {}
        self._names: dict[Value, str] = {}

    def run(self, function: Function) -> Function:
        """Return *function* with the channels first."""
        clean: Entries = ("eliminate_dead_nodes",)
        moved = GRAPH_PASSES.run(rewrite(function, self._put_first), clean)
        if _has_transposed_images(moved):
            moved = GRAPH_PASSES.run(moved, (Repeat(self._sinking, limit=20),))
        return self._with_names(moved)

    @property
    def _sinking(self) -> Entries:
        """How the transposes of a graph that had the channels last get away."""
        return (
            "sink_transposes",  # they meet their inverses, and both are dropped
            self._fold_transposes,  # what sinks below a node transposes its constants back
            "eliminate_noops",  # a transpose of axes of size 1 has become a reshape
            "eliminate_common_nodes",  # several readers of an image have it transposed once
            "eliminate_dead_nodes",
        )

    def _put_first(self, node: Node, rewriter: Rewriter) -> Replacement:
        if isinstance(node, Transpose):
            return _taken_over(node, rewriter)
        export = CHANNELS_FIRST.get(type(node))
        if export is None or export.made is None or not export.says(node):
            return None
        operands = {spec.name: getattr(node, spec.name) for spec in operand_specs(type(node))}
        for name in export.made.images:
            value = operands[name]
            operands[name] = self._transposed(value, to_first(value.type.rank), rewriter)
        made = rewriter.emit(export.made(**operands, **attributes_of(node)), node.name)
        return tuple(
            rewriter.emit(Transpose(result, to_last(result.type.rank))) for result in made.results
        )

    def _transposed(self, value: Value, permutation: Permutation, rewriter: Rewriter) -> Value:
        """Return *value* with its axes in another order, the same each time."""
        if isinstance(value, Transpose) and value.permutation == inverse(permutation):
            return value.input
        if (value, permutation) not in self._moved:
            self._moved[value, permutation] = self._made(value, permutation, rewriter)
        return self._moved[value, permutation]

    def _made(self, value: Value, permutation: Permutation, rewriter: Rewriter) -> Value:
        """Emit *value* transposed: constants at once, and what is computed of them alone, too.

        So integers of weights lie in the file as ONNX has weights, right before what dequantizes
        them, which is where engines look for them.
        """
        if isinstance(value, Constant) and is_known(value):
            return self._folded(Transpose(value, permutation), rewriter)
        if isinstance(value, Node) and value.data_parallel and value.predicate is None:
            operands = tuple(operands_of(value))
            if operands and all(o.type.rank == value.type.rank and is_known(o) for o in operands):
                node = map_operands(value, lambda o: self._transposed(o, permutation, rewriter))
                return rewriter.emit(node.copied(name=""), value.name)
        return rewriter.emit(Transpose(value, permutation))

    def _folded(self, node: Transpose, rewriter: Rewriter) -> Constant:
        """Return the constant that *node* makes of one."""
        source = node.input
        made = folded(node, rewriter.unique_name(f"{source.name}{SUFFIX}"))
        self._names[made] = self._names.get(source, source.name).removesuffix(SUFFIX) or source.name
        return made

    def _fold_transposes(self, function: Function) -> Function:
        """Reorder constants at once instead of by a node."""

        def rule(node: Node, rewriter: Rewriter) -> Replacement:
            if isinstance(node, Transpose) and is_known(node.input):
                return self._folded(node, rewriter)
            return None

        return rewrite(function, rule)

    def _with_names(self, function: Function) -> Function:
        """Return *function* with what was reordered called as before, where the name is free."""
        taken = {value.name for value in (*function.storage, *function.nodes)}
        renamed: dict[Value, Value] = {}
        for constant in function.constants:
            name = self._names.get(constant, constant.name)
            if name not in taken:
                taken.add(name)
                renamed[constant] = replace(constant, name=name)
        return substitute(function, renamed)


def _taken_over(node: Transpose, rewriter: Rewriter) -> Replacement:
    """A transpose back to the channels first: what is under it takes its place, and its name."""
    match node.input:
        case Transpose(input=ChannelsFirst() as image, permutation=permutation) if (
            permutation == inverse(node.permutation) and rewriter.use_count(node.input) == 1
        ):
            return rewriter.emit(image.copied(name=""), node.name)
    return None


def _has_transposed_images(function: Function) -> bool:
    """Return whether a transpose is left before or after an operator with the channels first."""
    for node in function.nodes:
        sources = tuple(map(producer_of, operands_of(node)))
        wanted = Transpose if isinstance(node, ChannelsFirst) else ChannelsFirst
        is_between = isinstance(node, ChannelsFirst | Transpose)
        if is_between and any(isinstance(source, wanted) for source in sources):
            return True
    return False
