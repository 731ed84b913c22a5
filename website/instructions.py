"""The reference of instructions: operands with how they are touched, attributes, formula."""

from __future__ import annotations

import glow_nb.kernels.cpu_kernels  # noqa: F401  (which registers them)
from glow_nb.base.schema import FieldSpec, attribute_specs, operand_specs
from glow_nb.kernels.registry import CPU_KERNELS
from glow_nb.llir.instructions.derived import known_instructions
from glow_nb.llir.program import Instruction
from glow_nb.llir.traits import PLAIN
from website.markdown import code, summary, table
from website.operators import default_of, kind_of, operators


def instructions() -> dict[str, type[Instruction]]:
    """Return the instructions of the package by opcode, in alphabetical order."""
    known = known_instructions()
    return {o: known[o] for o in sorted(known) if known[o].__module__.startswith("glow_nb.")}


def reference() -> str:
    """Return a table of the instructions: those of operators, and those that kernels add."""
    public = {operator.opcode for operator in operators()}
    of_operators = [i for o, i in instructions().items() if o in public]
    others = [i for o, i in instructions().items() if o not in public]
    return "\n".join(
        [
            "## Instructions of operators\n",
            "Each has the attributes of the operator of its name ([Operators](operators.md)).\n",
            table(
                ("instruction", "operands", "formula", "in place", "its cpu kernel can"),
                map(_row, of_operators),
            ),
            "## Other instructions\n",
            "Most are made by passes of the cpu backend: their weights lie as kernels read them.\n",
            *map(_entry, others),
        ]
    )


def _row(instruction: type[Instruction]) -> tuple[str, ...]:
    opcode = instruction.opcode
    return (
        f"[`{opcode}`](operators.md#{opcode})",
        operands_of(instruction),
        code(instruction.scalar),
        ", ".join(f"`{out}` over `{operand}`" for out, operand in instruction.inplace),
        _abilities(instruction),
    )


def _entry(instruction: type[Instruction]) -> str:
    rows = [
        (code(s.name), kind_of(s), default_of(instruction, s)) for s in attribute_specs(instruction)
    ]
    parts = [
        f"### `{instruction.opcode}` {{ #{instruction.opcode} }}\n",
        summary(instruction) + "\n",
        f"Operands: {operands_of(instruction)}.\n" if operand_specs(instruction) else "",
        table(("attribute", "kind", "default"), rows) if rows else "",
    ]
    return "\n".join(part for part in parts if part)


def operands_of(instruction: type[Instruction]) -> str:
    """Return the operands of *instruction* as text declares them."""
    return ", ".join(map(_operand, operand_specs(instruction)))


def _operand(spec: FieldSpec) -> str:
    qualifier = spec.qualifier.name if spec.qualifier else "in"
    note = " or `none`" if spec.is_optional else " (list)" if spec.is_variadic else ""
    return f"`@{qualifier} {spec.name}`{note}"


def _abilities(instruction: type[Instruction]) -> str:
    if instruction.scalar and instruction not in CPU_KERNELS:
        return "be part of a stack"
    traits = CPU_KERNELS.traits.get(instruction, PLAIN)
    found = ["compute an epilogue"] * traits.fuses_epilogue
    found += [f"compute `{traits.prologue_operand}` by a prologue"] * bool(traits.prologue_operand)
    found += [f"reach gaps in {', '.join(map(code, traits.strided))}"] * bool(traits.strided)
    return "; ".join(found)
