"""Registers that go through a function in step, so that the processor has work while one waits.

The instructions of a polynomial wait for each other. A vector of four registers is four chains of
such instructions, which a processor works on at a time if it finds them near each other: an AMD
core looks for instructions that can start among the next 64. Where registers are few, LLVM's
scheduler puts one chain after the other. An empty piece of assembly with four registers as its
operands and results costs nothing, and no chain can pass it before the others have reached it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from typing_extensions import override

from glow_nb.simd.instruction_sets import has_instruction_set
from glow_nb.simd.lanes import Lanes, joined

MOST_REGISTERS = 4
"""Registers that one piece of assembly ties together: with more, none is left for constants."""
_REGISTER_BYTES = (64, 32, 16)


class InStep(Lanes):
    """A vector under construction, whose registers are multiplied and added to in step."""

    @override
    def fma(self, factor: Lanes | float, addend: Lanes | float) -> Lanes:
        """``self * factor + addend``; none of its registers is used before all are ready."""
        return _in_step(super().fma(factor, addend))


def all_in_step(operation: Callable[[Lanes], Lanes], parts: list[Lanes]) -> list[Lanes]:
    """Return *operation* of each of some vectors of one size, up to four of them at a time."""
    results: list[Lanes] = []
    while len(results) < len(parts):
        rest = parts[len(results) :]
        count = next(n for n in (MOST_REGISTERS, 2, 1) if n <= len(rest))
        x = joined(rest[:count])
        results += operation(InStep(x.builder, x.value, x.kind, x.lanes)).split(count)
    return results


def _in_step(x: Lanes) -> Lanes:
    """Return *x* as its registers leave empty pieces of assembly, each of up to four of them."""
    bytes = x.lanes * x.kind.size_bytes
    size = next((n for n in _REGISTER_BYTES if has_instruction_set(x.builder, f"tie_{n}")), bytes)
    if bytes <= size or not x.kind.is_float:
        return x
    parts = x.split(bytes // size)
    groups = range(0, len(parts), MOST_REGISTERS)
    tied = [part for begin in groups for part in _tied(parts[begin:][:MOST_REGISTERS])]
    return x.like(joined(tied).value)


def _tied(parts: list[Lanes]) -> list[Lanes]:
    """Return *parts*, each a register, as they leave an empty piece of assembly."""
    builder, values = parts[0].builder, [part.value for part in parts]
    types = [value.type for value in values]
    form = ir.FunctionType(ir.LiteralStructType(types), types)
    # Each operand is in the register of the result of the same number.
    constraints = ["=v"] * len(parts) + [str(number) for number in range(len(parts))]
    made: Any = builder.asm(form, "", ",".join(constraints), values, side_effect=False)
    return [part.like(builder.extract_value(made, n)) for n, part in enumerate(parts)]
