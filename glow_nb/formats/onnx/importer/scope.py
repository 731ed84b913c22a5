"""Names of one graph or function body, and their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx

from glow_nb.base.errors import ModelError
from glow_nb.base.schema import closest
from glow_nb.formats.onnx.schema.element_kinds import kind_of
from glow_nb.hlir.graph import Value


@dataclass
class Scope:
    """The tensors that nodes of one graph may read.

    Attributes:
        opsets: Version of each operator set by domain.
        values: The value of each name; None for an operand that a function's caller left out.
        unknown: Names that nodes we cannot import should have defined.
        outer: The scope of the graph around a subgraph.
        attributes: In a function's body, the attributes its caller gave or their defaults.
        callers: The functions that are being expanded, to see one that calls itself.
        path: The prefix of the names of nodes in errors.
    """

    opsets: Mapping[str, int]
    path: str
    values: dict[str, Value | None] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    outer: Scope | None = None
    attributes: Mapping[str, onnx.AttributeProto] | None = None
    callers: tuple[tuple[str, str, str], ...] = ()

    def __contains__(self, name: object) -> bool:
        return self.owner_of(name) is not None

    def __getitem__(self, name: str) -> Value | None:
        owner = self.owner_of(name)
        return owner.values.get(name) if owner is not None else None

    def is_unknown(self, name: str) -> bool:
        """Return whether *name* should have been defined by a node we cannot import."""
        owner = self.owner_of(name)
        return owner is not None and name in owner.unknown

    def owner_of(self, name: object) -> Scope | None:
        """Return the scope that defines *name*, this one or one around it."""
        scope: Scope | None = self
        while scope is not None and name not in scope.values and name not in scope.unknown:
            scope = scope.outer
        return scope

    def nested(self) -> Scope:
        """Return the scope of a subgraph: what is known here is known there."""
        return Scope(
            self.opsets,
            self.path,
            outer=self,
            attributes=self.attributes,
            callers=self.callers,
        )


def output_value(info: onnx.ValueInfoProto, scope: Scope, place: str) -> Value | None:
    """Return the value of a graph output, None if it could not be imported."""
    where = f"{place}: output {info.name!r}"
    value = scope[info.name]
    if value is None and scope.is_unknown(info.name):
        return None
    if value is None:
        raise ModelError(
            f"{where}: no node computes it{closest(info.name, scope.values)}; "
            "the model is not complete"
        )
    declared = info.type.tensor_type.elem_type
    if declared and kind_of(declared, where) is not value.type.kind:
        raise ModelError(
            f"{where} is declared {kind_of(declared, where).value}, but the graph computes "
            f"{value.type}; export the model again"
        )
    return value
