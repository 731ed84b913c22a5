"""The cost of an instruction: arithmetic, and bytes that must move however it is computed.

Arithmetic is counted twice. *Nominal* is that of the operator, the same for every kernel that
computes it: the count of a direct convolution. *Executed* is what the kernel really does; a
convolution by Winograd's algorithm, and a product by Strassen's, execute fewer multiply-adds than
their nominal count.

Bytes are compulsory traffic: each byte of an operand once, however often the kernel comes back to
it. What caches are too small for makes the real traffic larger, never smaller.
"""

from __future__ import annotations

from glow_nb.base.costs import Cost, InstructionCost
from glow_nb.base.schema import per_item
from glow_nb.hlir.cost import total_cost
from glow_nb.llir.in_place import is_same_memory
from glow_nb.llir.instructions.gather import GatherElementsInst, GatherInst, GatherNDInst
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.instructions.scatter import ScatterElementsInst, ScatterNDInst
from glow_nb.llir.program import Buffer, Instruction, Register, Weight, mutated, read
from glow_nb.llir.stack import StackInst

_GATHERS = (GatherInst, GatherElementsInst, GatherNDInst)
_SCATTERS = (ScatterElementsInst, ScatterNDInst)


@per_item
def instruction_cost(instruction: Instruction) -> InstructionCost:
    """Return the cost of *instruction*; that of a stack is that of its body.

    Values that a stack keeps in registers move no bytes.
    """
    parts = instruction.body if isinstance(instruction, StackInst) else (instruction,)
    nodes = [part.as_node() for part in parts if isinstance(part, NodeInstruction)]
    reads = {buffer: _bytes_read(instruction, buffer) for buffer in read(instruction)}
    constants = sum(size for buffer, size in reads.items() if isinstance(buffer.root, Weight))
    return InstructionCost(
        nominal=total_cost(nodes),
        executed=sum((node.executed_cost() for node in nodes), Cost()),
        constant_bytes=constants,
        read_bytes=sum(reads.values()) - constants,
        written_bytes=sum(
            _bytes_written(instruction, buffer) for buffer in set(mutated(instruction))
        ),
    )


def _bytes_read(instruction: Instruction, buffer: Buffer) -> int:
    """Return the bytes of *buffer* that are read.

    Of a table these are only as many as are picked, and of what a scatter writes over none, or
    those that updates are combined with.
    """
    if (
        isinstance(instruction, _SCATTERS)
        and buffer is instruction.data
        and _is_in_place(instruction)
    ):
        return 0 if instruction.reduction == "none" else _bytes_written(instruction, buffer)
    if isinstance(instruction, _GATHERS) and buffer is instruction.input:
        return min(buffer.type.size_bytes, instruction.dest.type.size_bytes)
    return _size_bytes(buffer)


def _bytes_written(instruction: Instruction, buffer: Buffer) -> int:
    """Return the bytes of *buffer* that are written: a scatter over its data writes the updates."""
    if isinstance(instruction, _SCATTERS) and _is_in_place(instruction):
        return min(buffer.type.size_bytes, instruction.updates.type.size_bytes)
    return _size_bytes(buffer)


def _is_in_place(scatter: ScatterElementsInst | ScatterNDInst) -> bool:
    return is_same_memory(scatter.dest, scatter.data)


def _size_bytes(buffer: Buffer) -> int:
    return 0 if isinstance(buffer, Register) else buffer.type.size_bytes
