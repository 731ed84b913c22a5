"""What instructions have in common whose kernels are alike."""

from __future__ import annotations

from glow_nb.base.schema import attributes_of, operand_specs
from glow_nb.llir.program import Buffer, Instruction, Register, View
from glow_nb.llir.stack import StackInst

Form = tuple[object, ...]
"""A key: instructions of equal forms have the same kernel."""


def form_of(instruction: Instruction) -> Form:
    """Return the form of *instruction*: all that a kernel generator may look at.

    That is classes, attributes, plans, types, and which operands lie where in one region; neither
    names nor contents. Attributes compare as they are printed, so that ``-0.0`` differs from
    ``0.0``.
    """
    numbers: dict[Buffer, int] = {}

    def place(buffer: Buffer | None) -> Form | None:
        if buffer is None:
            return None
        number = numbers.setdefault(buffer, len(numbers))
        root = numbers.setdefault(buffer.root, len(numbers))
        strides = buffer.strides if isinstance(buffer, View) else None
        return number, root, buffer.type, strides, buffer.offset, isinstance(buffer, Register)

    def form(item: Instruction) -> Form:
        operands: list[object] = [place(item.predicate)]
        for spec in operand_specs(type(item)):
            value = getattr(item, spec.name)
            operands.append(tuple(map(place, value)) if spec.is_variadic else place(value))
        attributes = tuple(repr(value) for value in attributes_of(item).values())
        body = tuple(map(form, item.body)) if isinstance(item, StackInst) else ()
        return type(item), tuple(operands), attributes, item.plan, body

    return form(instruction)
