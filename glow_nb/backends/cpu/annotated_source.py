"""Generated source as people read it: each call and each kernel names the nodes that it computes.

The text that is hashed, compiled and cached knows nothing of a model, so that equal kernels of two
models are one. What is added here is comments, for reading alone.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from glow_nb.base.literals import format_attributes
from glow_nb.base.schema import attributes_of
from glow_nb.base.text import format_name
from glow_nb.codegen.entry import Call, generate_entry
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.program import Buffer, Instruction, kernel_operands, mutated, read
from glow_nb.llir.stack import StackInst

LINE_LENGTH = 100
_MOST_NAMES = 8
"""Nodes that one comment names; a kernel may compute hundreds."""

_NAME_LENGTH = 80
"""Characters of one node's name; a model may have names of any length."""


@dataclass(frozen=True)
class Use:
    """One call of a kernel: its number in the entry, and the instruction that it computes."""

    number: int
    instruction: Instruction

    @property
    def nodes(self) -> str:
        """The names of the model's nodes that the call computes."""
        names = [f"%{format_name(name)}"[:_NAME_LENGTH] for name in self.instruction.imported_names]
        left_out = len(names) - _MOST_NAMES
        return ", ".join(names[:_MOST_NAMES]) + (f" and {left_out} more" if left_out > 0 else "")


def annotated_entry(calls: Sequence[Call], uses: Sequence[Use], threads: int) -> str:
    """Return the entry's text with the nodes of each call beside the kernel's family."""
    return generate_entry(calls, threads, labels=[use.nodes for use in uses]).text


def annotated_kernel(source: KernelSource, uses: Sequence[Use]) -> str:
    """Return the kernel's text below comments: what it computes, for which calls, on what shapes.

    ::

        # glow_convolution_...
        # calls 3 and 8: %conv2, %relu2; %conv5, %relu5
        #   packed_convolution {kernel = [1, 1], stride = [1, 1], ...}
        #   relu, applied to each result before it is stored
        #   dest float32<1 x 56 x 56 x 64> written, input float32<1 x 56 x 56 x 256> read, ...
    """
    return kernel_comment(source, uses) + source.text


def kernel_comment(source: KernelSource, uses: Sequence[Use]) -> str:
    """Return what :func:`annotated_kernel` says of a kernel."""
    groups: dict[tuple[str, ...], list[Use]] = {}
    for use in uses:
        groups.setdefault(tuple(_computation(use.instruction, source)), []).append(use)
    lines = [source.symbol]
    for computation, members in groups.items():
        lines += [_calls(members), *(f"  {line}" for line in computation)]
    return "".join(map(_comment, lines))


def _calls(uses: Sequence[Use]) -> str:
    """Return the numbers of some calls and the nodes of each."""
    numbers = [str(use.number) for use in uses]
    joined = f"{', '.join(numbers[:-1])} and {numbers[-1]}" if len(numbers) > 1 else numbers[0]
    nodes = "; ".join(use.nodes for use in uses if use.nodes)
    return f"call{'s' if len(uses) > 1 else ''} {joined}{': ' if nodes else ''}{nodes}"


def _computation(instruction: Instruction, source: KernelSource) -> list[str]:
    """Return what is computed, in order, and what each pointer argument is."""
    if isinstance(instruction, StackInst) and instruction.head:
        lines = [f"{_operation(i)}, computed as its result is read" for i in instruction.prologue]
        lines.append(_operation(instruction.head))
        lines += [
            f"{_operation(i)}, applied to each result before it is stored"
            for i in instruction.epilogue
        ]
    elif isinstance(instruction, StackInst):
        lines = [", then ".join(map(_operation, instruction.body))]
    else:
        lines = [_operation(instruction)]
    return [*lines, _pointers(instruction, source)]


def _operation(instruction: Instruction) -> str:
    return instruction.opcode + format_attributes(attributes_of(instruction))


def _pointers(instruction: Instruction, source: KernelSource) -> str:
    """Return name, type and use of each pointer argument of the kernel."""
    writes, reads = mutated(instruction), read(instruction)

    def use(buffer: Buffer) -> str:
        if buffer not in writes:
            return "read"
        return "read and written" if buffer in reads else "written"

    operands = kernel_operands(instruction)
    return ", ".join(
        f"{name} {buffer.type} {use(buffer)}"
        for name, buffer in zip(source.parameters, operands, strict=not source.symbols)
    )


def _comment(line: str) -> str:
    """Return *line* as a comment, continued on further lines where it is long."""
    indent = " " * (len(line) - len(line.lstrip()))
    wrapped = textwrap.wrap(
        line.strip(),
        LINE_LENGTH - 2,
        initial_indent=indent,
        subsequent_indent=indent + "    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "".join(f"# {part}\n" for part in wrapped)
