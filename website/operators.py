"""The reference of operators: operands, attributes, formula and gradient of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import glow_nb.hlir.gradients  # noqa: F401  (which registers them)
from glow_nb.base.schema import FieldSpec, attribute_specs, operand_specs
from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.schema.same import SAME
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Node
from glow_nb.hlir.ops.families import ALL, COMPUTED, FLOATS, INTEGERS, NUMBERS
from glow_nb.hlir.rules import GRADIENTS, LOWERINGS, WITHOUT_GRADIENT
from website.markdown import code, description, items_of, summary, table

_SETS = {
    ALL: "all",
    COMPUTED: "all that are computed with",
    NUMBERS: "all numbers that are computed with",
    FLOATS: "floats",
    INTEGERS: "integers that are computed with",
}


def operators() -> list[type[Node]]:
    """Return the operators of the graph by opcode; those of kernels alone are left out."""
    found: list[type[Node]] = [getattr(ops, name) for name in ops.__all__]
    return sorted(found, key=lambda operator: operator.opcode)


def reference() -> str:
    """Return a table of all operators, and what is known of each."""
    rows = [(f"[`{c.opcode}`](#{c.opcode})", summary(c)) for c in operators()]
    return "\n".join([table(("operator", "does"), rows), *map(_entry, operators())])


def family_of(operator: type[Node]) -> str:
    """Return the name of the file in ``glow_nb/hlir/ops/`` that has *operator*."""
    return operator.__module__.rpartition(".")[2]


def _entry(operator: type[Node]) -> str:
    head = f"### `{operator.opcode}` {{ #{operator.opcode} }}\n"
    specs = operand_specs(operator)
    operands = ", ".join(_shown(spec) for spec in specs) or "none"
    facts = "".join(f"- {fact}\n" for fact in _facts(operator))
    parts = [
        head,
        f"`glow_nb.hlir.ops.{operator.__name__}` ({family_of(operator)}), operands: {operands}\n",
        description(operator) + "\n",
        _attributes(operator),
        facts,
    ]
    return "\n".join(part for part in parts if part.strip())


def _shown(spec: FieldSpec) -> str:
    note = " (may be absent)" if spec.is_optional else " (any number)" if spec.is_variadic else ""
    return f"`{spec.name}`{note}"


def _attributes(operator: type[Node]) -> str:
    specs = attribute_specs(operator)
    meanings: dict[str, str] = {}
    for base in reversed(operator.__mro__):
        meanings |= items_of(base, "Attributes")
    rows = [
        (code(s.name), kind_of(s), default_of(operator, s), meanings.get(s.name, "")) for s in specs
    ]
    return table(("attribute", "kind", "default", "meaning"), rows) if rows else ""


def kind_of(spec: FieldSpec) -> str:
    """Return the kind of an attribute as text, or the words that it may be."""
    if spec.words:
        return ", ".join(f'`"{word}"`' for word in spec.words)
    name = getattr(spec.annotation, "__name__", "")
    return code(
        name if isinstance(spec.annotation, type) and name != "tuple" else str(spec.annotation)
    )


def default_of(cls: type[Any], spec: FieldSpec) -> str:
    """Return the default of an attribute as text; nothing if it has none."""
    if not spec.has_default:
        return ""
    (value,) = (f.default for f in dataclasses.fields(cls) if f.name == spec.name)
    if value is dataclasses.MISSING:
        return "made when it is asked for"
    return code(
        value.value
        if isinstance(value, ElementKind)
        else f'"{value}"'
        if isinstance(value, str)
        else repr(value)
    )


def _facts(operator: type[Node]) -> Iterator[str]:
    kinds = getattr(operator, "kinds", None)
    if kinds is not None:
        named = ", ".join(code(kind.value) for kind in ElementKind if kind in kinds)
        yield f"Element kinds: {_SETS.get(kinds, named)}."
    if operator.scalar:
        yield f"Formula of one element: `{operator.scalar}`."
    if operator in LOWERINGS:
        yield "It has a lowering to simpler operators, for backends without a kernel."
    yield f"Gradient: {_gradient(operator)}."
    onnx = sorted({same.name for same in SAME if same.node_class is operator})
    if onnx:
        yield f"In ONNX: {', '.join(map(code, onnx))}."


def _gradient(operator: type[Node]) -> str:
    if operator in WITHOUT_GRADIENT:
        return f"none, {WITHOUT_GRADIENT[operator]}"
    if operator in GRADIENTS:
        return "by a rule of its own"
    return "that of its lowering" if operator in LOWERINGS else "that of its formula"
