"""The definitions of operators that ONNX itself has."""

from __future__ import annotations

from functools import cache

import onnx

OLDEST_OPSET = 7
NEWEST_OPSET = onnx.defs.onnx_opset_version()
"""The operator sets of the default domain that are imported; the newest is that of ``onnx``."""

EARLY: dict[str, int] = {
    "LayerNormalization": 17,
    "MeanVarianceNormalization": 9,
    "ThresholdedRelu": 10,
}
"""Operators that models use before ONNX has them, and the operator set that then defines them.

Runtimes knew them before, and exporters wrote them.
"""


@cache
def onnx_domains() -> frozenset[str]:
    """Return the domains of operators that ONNX itself defines."""
    return frozenset(schema.domain for schema in onnx.defs.get_all_schemas())


def is_defined(domain: str, name: str) -> bool:
    """Return whether there may be an operator: False for one that ONNX lacks in its own domain."""
    return domain not in onnx_domains() or onnx.defs.has(name, domain)


@cache
def find_schema(domain: str, name: str, opset: int) -> onnx.defs.OpSchema | None:
    """Return the definition of an operator in *opset*, None if ONNX has none there.

    The first definition of operators that are EARLY holds in all operator sets before it.
    """
    opset = max(opset, EARLY.get(name, 0)) if not domain else opset
    try:
        return onnx.defs.get_schema(name, opset, domain)
    except onnx.defs.SchemaError:
        return None


def is_function(schema: onnx.defs.OpSchema) -> bool:
    """Return whether ONNX defines an operator by a graph of others."""
    return bool(schema.has_function or schema.has_context_dependent_function)
