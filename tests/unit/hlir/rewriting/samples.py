"""Functions to which rules are applied."""

from __future__ import annotations

from typing import Any

from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.verify import verify


def built(make: Any, *shapes: str) -> Function:
    """Return the function whose output is what *make* builds of a builder and inputs."""
    b = Builder()
    inputs = [b.input(f"i{n}", shape) for n, shape in enumerate(shapes or ("float32<4>",))]
    made = make(b, *inputs)
    for index, value in enumerate(made if isinstance(made, list) else [made]):
        b.save(value, f"y{index}" if index else "y")
    return b.function()


def chain(*kinds: Any) -> Function:
    """Return a function of operators of one operand, one after the other."""

    def make(b: Builder, value: Value) -> Value:
        for kind in kinds:
            value = b.emit(kind(value))
        return value

    return built(make)


def shown(function: Function) -> list[str]:
    verify(function)
    return [node.opcode for node in function if node.opcode != "save"]
