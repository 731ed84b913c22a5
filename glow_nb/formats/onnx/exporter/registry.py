"""The rules of the exporter: which ONNX operator says what an operator of the graph says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glow_nb.base.schema import RuleTable, attribute_specs
from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.exporter.channels_first import ChannelsFirst, channels_first_class
from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.rules import LOWERINGS, LoweringRule

if TYPE_CHECKING:
    from glow_nb.formats.onnx.exporter.writer import Writer

OLDEST_OPSET = 20
"""The operator set that a model gets unless its operators or element kinds need a newer one."""

ExportRule = Callable[["Writer", Any], Value | tuple[Value, ...]]
"""Writes a node, and returns the values of its results."""

Condition = Callable[[Any], bool]


def always(node: Node) -> bool:
    """Say any node."""
    return True


@dataclass(frozen=True)
class Export:
    """How nodes of a class are expressed in ONNX.

    Attributes:
        rule: Writes one.
        since: The operator set that has brought what the rule writes.
        says: Whether the rule can write this very node.
        made: What such a node becomes first if ONNX has the channels first; else None.
    """

    rule: ExportRule
    since: int
    says: Condition
    made: type[ChannelsFirst] | None = None

    def fits(self, node: Node, opset: int) -> bool:
        """Return whether the rule can write *node* in *opset*."""
        return self.since <= opset and self.says(node)


EXPORTS: RuleTable[type[Node], Export] = RuleTable("export rule of")
CHANNELS_FIRST: RuleTable[type[Node], Export] = RuleTable("channels first export rule of")
"""Rules of operators that have the channels last here, and first in ONNX."""

COMPOSITIONS: RuleTable[type[Node], LoweringRule] = RuleTable("composition of")
"""Nodes that no rule above can write, expressed by nodes that can be written.

Where there is none, the lowering of the operator takes its place.
"""


def exports(
    *node_classes: type[Node], since: int = OLDEST_OPSET, says: Condition = always
) -> Callable[[ExportRule], ExportRule]:
    """Register a function as what writes nodes of *node_classes*."""

    def register(rule: ExportRule) -> ExportRule:
        for node_class in node_classes:
            EXPORTS.add(node_class, Export(rule, since, says))
        return rule

    return register


def exports_channels_first(
    node_class: type[Node], *images: str, says: Condition = always
) -> Callable[[ExportRule], ExportRule]:
    """Register a function as what writes nodes of *node_class* with the channels first.

    *images* are the operands whose channels are moved, and with them those of all results.
    """

    def register(rule: ExportRule) -> ExportRule:
        made = channels_first_class(node_class, images)
        CHANNELS_FIRST.add(node_class, Export(rule, OLDEST_OPSET, says, made))
        return rule

    return register


composes = COMPOSITIONS.register


def exports_of(node: Node) -> list[Export]:
    """Return how nodes of the class of *node* may be written."""
    found = (table.get(type(node)) for table in (CHANNELS_FIRST, EXPORTS))
    return [export for export in found if export is not None]


def rule_of(node: Node) -> ExportRule:
    """Return what writes *node*, of a class that has a rule."""
    if isinstance(node, ChannelsFirst):
        return CHANNELS_FIRST[node.plain].rule
    return EXPORTS[type(node)].rule


def can_write(node: Node, opset: int) -> bool:
    """Return whether a rule writes *node* in *opset*."""
    return any(export.fits(node, opset) for export in exports_of(node))


def expansions() -> dict[type[Node], LoweringRule]:
    """Return the rules that express a node by others."""
    return {**LOWERINGS, **COMPOSITIONS}


def is_single(number: float, kind: ElementKind) -> bool:
    """Return whether ONNX can hold *number* in an attribute, for an operator on *kind*.

    Attributes are float32; this is exact enough unless the operator computes in float64.
    """
    with np.errstate(over="ignore"):
        return kind is not ElementKind.FLOAT64 or float(np.float32(number)) == number


def has_single_attributes(node: Node) -> bool:
    """Return whether ONNX can hold all float attributes of *node*."""
    numbers = (getattr(node, s.name) for s in attribute_specs(type(node)) if s.annotation is float)
    return all(is_single(number, node.type.kind) for number in numbers)
