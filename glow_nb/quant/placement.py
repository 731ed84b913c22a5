"""Where a graph changes from floats to integers and back.

The operands of products are quantized. From there, quantization is propagated upwards: functions of
one element before a quantized value are computed in the epilogue of the product that they read;
sums, pools and concats become sums, pools and concats of integers. A value that only float
operators read stays float, since each conversion rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function, Node, Value, producer_of
from glow_nb.hlir.save import Save
from glow_nb.quant.operators import (
    ARITHMETIC,
    FLOAT32,
    PRODUCTS,
    QUANTIZED,
    activations_of,
    has_finite_weights,
    is_function_of_one,
    is_mover,
    is_product_of_weights,
)

READ_BY_FLOATS = "its results are read only by operators on floats"


@dataclass(frozen=True)
class Kept:
    """An operator that computes with floats, and why.

    Attributes:
        name: Name of the node.
        opcode: Opcode of the node.
        reason: Why it is not quantized.
    """

    name: str
    opcode: str
    reason: str


@dataclass
class Placement:
    """The values that become integers.

    Attributes:
        reads: For each operator on integers, the operands that it reads as integers.
        roots: For each quantized value, the representative of all values with the same scale.
        kept: The operators that compute with floats.
    """

    reads: dict[Node, list[Value]] = field(default_factory=dict)
    roots: dict[Value, Value] = field(default_factory=dict)
    kept: list[Kept] = field(default_factory=list)

    def root(self, value: Value) -> Value:
        """Return the representative of all values with the scale of *value*."""
        while self.roots[value] is not value:
            value = self.roots[value]
        return value

    def members(self) -> dict[Value, list[Value]]:
        """Return all values of each scale by their representative."""
        found: dict[Value, list[Value]] = {}
        for value in self.roots:
            found.setdefault(self.root(value), []).append(value)
        return found


def place(
    function: Function, kept: Mapping[str, str], is_known: Callable[[Value], bool]
) -> Placement:
    """Return which values of an optimized *function* become integers.

    Args:
        function: The graph.
        kept: The names of nodes that stay float in any case, and why.
        is_known: Whether a value has a range.
    """
    return _Placer(function, kept, is_known).placement()


class _Placer:
    """Goes through a graph from the end to the beginning."""

    def __init__(
        self, function: Function, kept: Mapping[str, str], is_known: Callable[[Value], bool]
    ) -> None:
        self._function, self._kept, self._is_known = function, kept, is_known
        self._users = function.users()
        self._order = {node: index for index, node in enumerate(function.nodes)}
        self._leads: set[Value] = set()  # to what is quantized, through functions of one element
        self._found = Placement()

    def placement(self) -> Placement:
        for node in reversed(self._function.nodes):
            if isinstance(node, Save):
                continue
            reason = self._reason_against(node)
            if reason:
                self._found.kept.insert(0, Kept(node.name, node.opcode, reason))
        return self._found

    def _reason_against(self, node: Node) -> str:
        """Quantize what *node* reads, or return why it stays float; empty for mere movement."""
        is_wanted = any(r in self._found.roots or r in self._leads for r in node.results)
        if node.name in self._kept:
            reason = self._kept[node.name]
        elif is_function_of_one(node):
            self._leads.update(activations_of(node) if is_wanted else ())
            reason = "" if is_wanted else READ_BY_FLOATS
        elif not isinstance(node, QUANTIZED) and not is_mover(node):
            reason = "it has no form for integers"
        else:
            reason = self._reason_of_operands(node)
            if not reason and not (is_wanted or isinstance(node, tuple(PRODUCTS))):
                reason = READ_BY_FLOATS
            if not reason:
                self._take(node)
        return reason if _computes(node) else ""

    def _reason_of_operands(self, node: Node) -> str:
        if node.type.kind is not FLOAT32 or node.predicate is not None:
            return f"it computes {node.type}, not plain float32"
        if isinstance(node, tuple(PRODUCTS)):
            if not is_product_of_weights(node):
                return "its weights are not constant"
            if not has_finite_weights(node):
                return "a weight, or a number of its bias, is not finite"
        activations = activations_of(node)
        if isinstance(node, ARITHMETIC) and len(activations) < 2:
            return "one of its operands is constant"
        if isinstance(node, ops.Concat) and len(activations) < len(node.inputs):
            return "one of its operands is constant"
        needed = [*activations, node] if isinstance(node, ops.Concat) else activations
        unknown = [value.name for value in needed if not self._is_known(value)]
        return f"{unknown[0]!r} has no range" if unknown else ""

    def _take(self, node: Node) -> None:
        """Let *node* compute with integers, or one operand be what a product makes for it."""
        operands = activations_of(node)
        if isinstance(node, ARITHMETIC):
            behind = self._computed_just_before(node)
            self._leads.update(behind)
            operands = [value for value in operands if value not in behind]
        self._read(node, operands)
        if isinstance(node, ops.Concat):
            self._found.roots.setdefault(node, node)
            for operand in filter(self._is_for_concats, operands):
                self._join(operand, node)
        elif is_mover(node):
            for result in node.results:
                self._move(operands[0], result)

    def _move(self, operand: Value, result: Value) -> None:
        """Give *result*, some of the numbers of *operand*, the scale of that, and the same."""
        if result.type.kind is FLOAT32:
            self._found.roots.setdefault(result, result)
            self._join(operand, result)

    def _is_for_concats(self, operand: Value) -> bool:
        """Return whether concats alone read *operand*: their scale is as good as its own."""
        return all(isinstance(user, ops.Concat) for user in self._users[operand])

    def _join(self, first: Value, second: Value) -> None:
        """Let two values, and all that have their scales, have the same."""
        self._found.roots[self._found.root(first)] = self._found.root(second)

    def _read(self, node: Node, values: list[Value]) -> None:
        self._found.reads[node] = values
        for value in values:
            self._found.roots.setdefault(value, value)

    def _computed_just_before(self, node: Node) -> list[Value]:
        """Return the operand of *node* that a product makes for it alone, the last of such.

        The kernel of the product does the work of *node* as well, on sums that are not rounded.
        """
        made = [value for value in activations_of(node) if self._is_made_for_one(value)]
        latest = max(made, key=lambda value: self._place_of(value), default=None)
        return [] if latest is None else [latest]

    def _is_made_for_one(self, value: Value) -> bool:
        node = producer_of(value)
        if node is None or len(self._users[value]) != 1 or value in self._found.roots:
            return False
        if is_product_of_weights(node):
            return node.name not in self._kept
        return is_function_of_one(node) and self._is_made_for_one(activations_of(node)[0])

    def _place_of(self, value: Value) -> int:
        node = producer_of(value)
        return -1 if node is None else self._order[node]


def _computes(node: Node) -> bool:
    cost = node.cost()
    return bool(cost.multiply_adds or cost.others)
