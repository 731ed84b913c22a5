"""The element kinds that an ONNX operator takes, and the replacement for other kinds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

import onnx

from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.schema.element_kinds import tensor_type
from glow_nb.formats.onnx.schema.schemas import NEWEST_OPSET, find_schema
from glow_nb.hlir.ops.families import keeps_every_number


@cache
def schema_of(op: str, opset: int) -> onnx.defs.OpSchema:
    """Return the definition of an operator of ONNX."""
    schema = find_schema("", op, opset)
    assert schema is not None, f"ONNX has no {op} in opset {opset}"
    return schema


@cache
def _kinds_by_variable(op: str, opset: int) -> Mapping[str, frozenset[ElementKind]]:
    """Return the kinds that each type variable of an operator may be."""
    return {
        constraint.type_param_str: frozenset(
            kind for kind in ElementKind if tensor_type(kind) in constraint.allowed_type_strs
        )
        for constraint in schema_of(op, opset).type_constraints
    }


def variables_of(op: str, opset: int, count: int, *, of_outputs: bool = False) -> list[str]:
    """Return the type variable, or the type, of each of the first *count* inputs or outputs."""
    schema = schema_of(op, opset)
    formal = list(schema.outputs if of_outputs else schema.inputs)
    return [formal[min(index, len(formal) - 1)].type_str for index in range(count)]


def is_optional_output(op: str, opset: int, index: int) -> bool:
    """Return whether a node may leave out this output."""
    outputs = schema_of(op, opset).outputs
    option = onnx.defs.OpSchema.FormalParameterOption.Optional
    return index < len(outputs) and outputs[index].option == option


def takes(op: str, opset: int, variable: str, kind: ElementKind) -> bool:
    """Return whether *variable* of an operator may be *kind*; an unknown operator takes none."""
    if find_schema("", op, opset) is None:
        return False
    kinds = _kinds_by_variable(op, opset)
    return variable not in kinds or kind in kinds[variable]


def opset_that_takes(op: str, opset: int, variable: str, kind: ElementKind) -> int | None:
    """Return the first operator set from *opset* on in which *variable* may be *kind*, or None."""
    newer = range(opset, NEWEST_OPSET + 1)
    return next((number for number in newer if takes(op, number, variable, kind)), None)


def stand_in(op: str, opset: int, variable: str, kind: ElementKind) -> ElementKind | None:
    """Return the smallest kind that the operator takes and that holds every number of *kind*.

    Integers wrap around alike in a wider kind, once they are converted back.
    """
    kinds: Iterable[ElementKind] = (
        wide
        for wide in ElementKind
        if wide in _kinds_by_variable(op, opset)[variable] and keeps_every_number(kind, wide)
    )
    return min(kinds, key=lambda wide: (wide.is_float, wide.size_bytes), default=None)
