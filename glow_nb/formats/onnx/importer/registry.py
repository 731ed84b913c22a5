"""The rules of the importer: which function expresses which ONNX operator."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import onnx

from glow_nb.base.errors import UnsupportedError
from glow_nb.base.schema import RuleTable
from glow_nb.formats.onnx.schema.schemas import OLDEST_OPSET, find_schema, is_function, onnx_domains
from glow_nb.hlir.graph import Value

if TYPE_CHECKING:
    from glow_nb.formats.onnx.importer.context import Context
    from glow_nb.formats.onnx.importer.node import OnnxNode

Rule = Callable[["Context", "OnnxNode"], Value | tuple[Value | None, ...]]
"""Returns the values of the operator's outputs, None for one that nothing reads.

The node that computes them may be returned before it is emitted: it then gets the tensor's name. A
node with several results stands for all of them.
"""

RULES: dict[tuple[str, str], RuleTable[int, Rule]] = {}
"""Domain and operator to rules by the first operator set they hold for."""

STEPWISE: set[Rule] = set()
"""Rules of operators whose definition says in which kind each step is computed."""

OWN: set[tuple[str, str]] = set()
"""Domain and operator of the rules of users: these go before the body that a model brings."""


def onnx_op(
    *names: str, since: int = 7, domain: str = "", stepwise: bool = False
) -> Callable[[Rule], Rule]:
    """Register a rule for all operators *names*, or for none, from operator set *since* on.

    A rule that the same module registers again replaces the first, with a notice.

    Unless ONNX defines the kind of each step, *stepwise*, a rule of several steps computes them in
    float32 for 16-bit floats (:mod:`glow_nb.formats.onnx.importer.widening`).
    """

    def register(rule: Rule) -> Rule:
        for name in names:
            if (domain, name) in RULES:
                RULES[domain, name].check(since, rule)
        if stepwise:
            STEPWISE.add(rule)
        for name in names:
            kind = f"import rule of {name!r} since opset"
            RULES.setdefault((domain, name), RuleTable(kind)).add(since, rule)
        return rule

    return register


def find_rule(domain: str, name: str, opset: int) -> Rule | None:
    """Return the newest rule for an operator that holds in *opset*."""
    versions: Mapping[int, Rule] = RULES.get((domain, name), {})
    fitting = [since for since in versions if since <= opset]
    return versions[max(fitting)] if fitting else None


def require_unchanged(schema: onnx.defs.OpSchema) -> None:
    """Raise UnsupportedError if an operator of an old opset has changed since."""
    now = find_schema("", schema.name, OLDEST_OPSET)
    if now is None or now.since_version != schema.since_version:
        raise UnsupportedError(
            f"it means something else since opset {now.since_version if now else OLDEST_OPSET}; "
            "convert the model with onnx.version_converter"
        )


def as_standard(
    ctx: Context, node: OnnxNode, op: str, opset: int, inputs: tuple[Value | None, ...]
) -> Value | tuple[Value | None, ...]:
    """Return what ONNX's operator *op* of *opset* makes of *inputs*, with *node*'s attributes."""
    rule, schema = find_rule("", op, opset), find_schema("", op, opset)
    assert rule is not None, f"there is no rule for {op}"
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    proto.op_type = op
    changed = dataclasses.replace(node, proto=proto, schema=schema, opset=opset, inputs=inputs)
    return rule(ctx, changed)


_COMMAND_LINE = "on the command line: --import FILE.py"
_REMEDY = f"glow_nb.extend.imports registers a rule; {_COMMAND_LINE}"
_REMEDY_OF_OTHERS = f"register it with glow_nb.extend.onnx_operator or imports; {_COMMAND_LINE}"


def _unknown(domain: str, op: str, opset: int) -> str:
    """Return why there is no rule for an operator that ONNX does not define."""
    if (domain, op) in RULES and not opset:
        return f"the model does not say which operator set of domain {domain!r} it uses"
    if (domain, op) in RULES:
        return f"its rule holds from operator set {min(RULES[domain, op])} on"
    known = sorted(name for where, name in RULES if where == domain)
    what = f"of domain {domain!r}, {', '.join(known)} are known"
    return f"{what if known else f'domain {domain!r} is not known'} ({_REMEDY_OF_OTHERS})"


def find_import(
    domain: str, op: str, opset: int, *, has_function: bool
) -> tuple[Rule | None, onnx.defs.OpSchema | None]:
    """Return rule and definition of an operator; raise UnsupportedError if it has neither."""
    schema = find_schema(domain, op, opset)
    rule = find_rule(domain, op, opset if domain else max(opset, OLDEST_OPSET))
    if has_function and (rule is None or (domain, op) not in OWN):
        return None, None
    if schema is None and domain in onnx_domains():
        raise UnsupportedError("the operator set has no such operator")
    if schema is None and rule is None:
        raise UnsupportedError(_unknown(domain, op, opset))
    if schema is not None and schema.deprecated and not (rule or is_function(schema)):
        raise UnsupportedError("the operator is deprecated and no longer in this operator set")
    if schema is not None and not domain and opset < OLDEST_OPSET:
        require_unchanged(schema)
    if rule is None and schema is not None and not is_function(schema):
        raise UnsupportedError(f"there is no import rule for it ({_REMEDY})")
    return rule, schema
