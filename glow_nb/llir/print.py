"""The text of the low-level IR, after the paper's Figure 3; parse.py reads it back.

::

    declare @main {
      %filter = weight float32<64 x 7 x 7 x 3>, external
      %runs = state int64<>, splat 0
      %data = input float32<1 x 224 x 224 x 3>
      %prob = output float32<1 x 1000>
    }
    program arena 2408448 of at least 2408448 {
      %conv = alloc float32<1 x 112 x 112 x 64> at 0
      convolution @out %conv, @in %data, @in %filter, @in %bias {kernel = [7, 7]} from %conv
      %flat = tensor_view %conv {start = 0, steps = [1]} : float32<802816>
      stack {
        %sum = register float32<802816>
        add @out %sum, @in %flat, @in %other from %sum of %add1, %add2
        relu @out %relu, @in %sum from %relu
      }
      dealloc %conv
    }
Sizes that are known only when the program runs are declared with it, and what holds for them:
``declare @main<batch in 1..64 like 8 where batch >= 2> {``.
``from`` names the node that an instruction was made from, ``of`` the imported nodes that this one
stands for, where it is not the node itself.
"""

from __future__ import annotations

from glow_nb.base.literals import format_attributes
from glow_nb.base.schema import FieldSpec, operand_specs, said_attributes_of
from glow_nb.base.size_text import format_symbols
from glow_nb.base.text import format_name, format_plan, text_of
from glow_nb.base.types import Array
from glow_nb.hlir.print import format_names, is_external, print_initializer
from glow_nb.llir.program import (
    Activation,
    Alloc,
    Arena,
    Buffer,
    Dealloc,
    Instruction,
    Program,
    Register,
    StateBuffer,
    TensorView,
    View,
    Weight,
    mutated,
)
from glow_nb.llir.stack import StackInst
from glow_nb.llir.with_sizes import guards_of, sizes_of


@text_of.register
def print_program(program: Program) -> str:
    """Return *program* as text, with its placement once it is allocated."""
    body = [print_instruction(i, program.arena) for i in program.instructions]
    return f"{_print_head(program)}{_indented(body)}}}\n"


def instruction_lines(program: Program) -> tuple[int, list[int]]:
    """Return where :func:`print_program` has the instructions: lines that are counted from 1.

    The first number is the line in front of them. That of a stack is the line of its first member.
    """
    begin = line = len(_print_head(program).splitlines())
    lines: list[int] = []
    for instruction in program.instructions:
        lines.append(line + 1)
        if isinstance(instruction, StackInst):
            lines[-1] += 1 + len(_registers(instruction.body[0]))
        line += len(print_instruction(instruction, program.arena).splitlines())
    return begin, lines


def _print_head(program: Program) -> str:
    """Return the text up to the first instruction."""
    known: tuple[Weight | StateBuffer, ...] = (*program.weights, *program.state)
    weights = [print_weight(region) for region in known]
    inputs = [f"{b!r} = input {b.type}" for b in program.inputs]
    outputs = [f"{b!r} = output {b.type}{b.counted or ''}" for b in program.outputs]
    arena = program.arena
    header = f" arena {arena.size_bytes} of at least {arena.lower_bound_bytes}" if arena else ""
    symbols = sizes_of(program)
    guards = [g for g in guards_of(program) if set(symbols).issuperset(g.symbols)]
    return (
        f"declare @{format_name(program.name)}{format_symbols(symbols, guards)}"
        f" {{\n{_indented(weights + inputs + outputs)}}}\n"
        f"program{header} {{\n"
    )


def print_weight(region: Weight | StateBuffer) -> str:
    """Return the declaration of one weight or state."""
    role = "weight" if isinstance(region, Weight) else "state"
    return f"{region!r} = {role} {region.type}, {print_initializer(region.payload)}"


def external_weights(program: Program) -> dict[str, Array]:
    """Return the arrays that belong beside the text, by the name of the weight or state."""
    regions: tuple[Weight | StateBuffer, ...] = (*program.weights, *program.state)
    return {region.name: region.array for region in regions if is_external(region)}


def print_instruction(instruction: Instruction, arena: Arena | None = None) -> str:
    """Return one line; an ``alloc`` shows its place in *arena*."""
    match instruction:
        case Alloc(dest=Activation() as buffer):
            place = f" at {arena.offsets[buffer]}" if arena else ""
            return f"{buffer!r} = alloc {buffer.type}{place}"
        case Dealloc():
            return f"dealloc {instruction.dest!r}"
        case TensorView(dest=View() as view):
            attributes = format_attributes({"start": view.start, "steps": view.strides})
            return f"{view!r} = tensor_view {view.base!r}{attributes} : {view.type}"
        case StackInst():
            return f"stack {{\n{_indented(_print_body(instruction))}}}"
    specs = operand_specs(type(instruction))
    operands = ", ".join(_print_operand(s, getattr(instruction, s.name)) for s in specs)
    predicate = f" if {instruction.predicate!r}" if instruction.predicate else ""
    origin = f" from %{format_name(instruction.name)}" if instruction.name else ""
    if instruction.name and instruction.imported_names != (instruction.name,):
        origin += f" of {format_names(instruction.imported_names)}"
    attributes = format_attributes(said_attributes_of(instruction))
    plan = format_plan(instruction.plan)
    return f"{instruction.opcode} {operands}{attributes}{predicate}{plan}{origin}"


def _print_body(stack: StackInst) -> list[str]:
    """Return the lines of a stack's body: each register is declared where it is written."""
    lines: list[str] = []
    for instruction in stack.body:
        registers = _registers(instruction)
        lines += [f"{register!r} = register {register.type}" for register in registers]
        lines.append(print_instruction(instruction))
    return lines


def _registers(instruction: Instruction) -> list[Register]:
    """Return the registers that a member of a stack writes, which are declared in front of it."""
    return [buffer for buffer in mutated(instruction) if isinstance(buffer, Register)]


def _print_operand(spec: FieldSpec, value: Buffer | tuple[Buffer, ...] | None) -> str:
    qualifier = spec.qualifier.name if spec.qualifier else "in"
    if value is None:
        return f"@{qualifier} none"
    if isinstance(value, tuple):
        return f"@{qualifier} [" + ", ".join(map(repr, value)) + "]"
    return f"@{qualifier} {value!r}"


def _indented(lines: list[str]) -> str:
    return "".join(f"  {line}\n" for text in lines for line in text.splitlines())
