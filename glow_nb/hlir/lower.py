"""Node lowering: operators become simpler ones, until none is left to lower (paper 3.4).

The rules stand beside the operators (:mod:`glow_nb.hlir.rules`). A backend that does an operator
better in one piece keeps it by its ``should_lower``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from glow_nb.base.errors import PassError
from glow_nb.base.foreign import foreign, name_of
from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.hlir.rounding import computes_wide, in_float32, reads_or_makes_narrow
from glow_nb.hlir.rules import LOWERINGS, LoweringRule
from glow_nb.hlir.strip_quantized_types import computes_on_quantized, strip_quantized_types

MAX_ROUNDS = 16
"""No chain of rules is longer; one that is goes round in circles."""


def always(node: Node) -> bool:
    """Lower every node that has a rule."""
    return True


def lower(
    function: Function,
    should_lower: Callable[[Node], bool] = always,
    rules: Mapping[type[Node], LoweringRule] = LOWERINGS,
) -> Function:
    """Return *function* with the nodes that have one of *rules* replaced by what the rules emit.

    Nodes that a rule emits are lowered in their turn. Nodes for which *should_lower* is false, and
    those whose rule declines, stay. The same function comes back when nothing was lowered. A node
    of 16-bit floats whose rule computes becomes one of float32 first, rounded at its end. No
    quantized type is left: operators on them are lowered whatever *should_lower* says.

    Raises:
        OpenSizeError: A rule needs a number where a size is open; names the node.
        PassError: The rules go round in circles; names the operators that are left. Or one raised
            an error that is not ours; names the rule and the node.
    """

    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        lowering = rules.get(type(node))
        if lowering is None or not (should_lower(node) or computes_on_quantized(node)):
            return None
        mark = rewriter.mark()
        with foreign(PassError, f"lowering rule {name_of(lowering)!r} of {node!r}"):
            lowered = lowering(node, rewriter)
        emitted = rewriter.nodes[mark[0] :]
        if not reads_or_makes_narrow(node) or all(map(computes_wide, emitted)):
            return lowered
        rewriter.reset(mark)
        rewriter.begin(node)
        return in_float32(node, rewriter)

    for _ in range(MAX_ROUNDS):
        lowered = rewrite(function, rule, *rules, for_all_sizes=False)
        if lowered is function:
            return strip_quantized_types(function)
        function = lowered
    left = ", ".join(sorted({n.opcode for n in function.nodes if type(n) in rules}))
    raise PassError(
        f"lowering: still replacing nodes after {MAX_ROUNDS} rounds, left are {left}; "
        "a rule emits, in the end, the operator that it lowers"
    )
