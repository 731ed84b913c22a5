"""The rules of the importer: which function expresses which ONNX operator."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import onnx

from glow_nb.errors import DefinitionError
from glow_nb.hlir.graph import Value

if TYPE_CHECKING:
    from glow_nb.importers.onnx.context import Context
    from glow_nb.importers.onnx.node import OnnxNode

Rule = Callable[["Context", "OnnxNode"], Value | tuple[Value, ...]]
"""Returns the values of the operator's outputs.

The node that computes them may be returned before it is emitted: it then gets the tensor's name. A
node with several results stands for all of them.
"""

RULES: dict[tuple[str, str], dict[int, Rule]] = {}
"""Domain and operator to rules by the first operator set they hold for."""


def onnx_op(*names: str, since: int = 7, domain: str = "") -> Callable[[Rule], Rule]:
    """Register a rule for operators *names* from operator set *since* on."""

    def register(rule: Rule) -> Rule:
        for name in names:
            versions = RULES.setdefault((domain, name), {})
            if since in versions:
                raise DefinitionError(f"{name} has an import rule since {since} already")
            versions[since] = rule
        return rule

    return register


def find_rule(domain: str, name: str, opset: int) -> Rule | None:
    """Return the newest rule for an operator that holds in *opset*."""
    versions = RULES.get((domain, name), {})
    fitting = [since for since in versions if since <= opset]
    return versions[max(fitting)] if fitting else None


@cache
def onnx_domains() -> frozenset[str]:
    """Return the domains of operators that ONNX itself defines."""
    return frozenset(schema.domain for schema in onnx.defs.get_all_schemas())


@cache
def find_schema(domain: str, name: str, opset: int) -> onnx.defs.OpSchema | None:
    """Return the definition of an operator in *opset*, None if ONNX has none there."""
    try:
        return onnx.defs.get_schema(name, opset, domain)
    except onnx.defs.SchemaError:
        return None
