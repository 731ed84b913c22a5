"""Debug information of a program: its text, its kernels, and where operands are."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from glow_nb.backends.cpu.annotated_source import Use, kernel_comment
from glow_nb.codegen.debugging.debug_files import DebugFiles, EntryLines
from glow_nb.codegen.entry import Call, Region
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.print import instruction_lines, print_program
from glow_nb.llir.program import Buffer, Instruction, Program, kernel_operands
from glow_nb.llir.stack import StackInst


def kernel_nodes(calls: Sequence[Call], uses: Sequence[Use]) -> dict[str, str]:
    """Return by the symbol of each kernel which nodes of the model it computes."""
    nodes: dict[str, list[str]] = {}
    for call, use in zip(calls, uses, strict=True):
        nodes.setdefault(call.source.symbol, []).append(use.nodes)
    return {symbol: "; ".join(filter(None, names)) for symbol, names in nodes.items()}


def with_debug_info(calls: Sequence[Call]) -> list[Call]:
    """Return *calls* of kernels whose objects say which lines their code comes from."""
    return [replace(call, source=replace(call.source, has_lines=True)) for call in calls]


def debug_files(
    program: Program, work: Sequence[Instruction], calls: Sequence[Call], uses: Sequence[Use]
) -> DebugFiles:
    """Return the debug information of *program*, whose instructions *work* are executed by
    *calls*.
    """
    first, all_lines = instruction_lines(program)
    places = {id(i): line for i, line in zip(program.instructions, all_lines, strict=True)}
    lines = tuple(places[id(instruction)] for instruction in work)
    kernels: dict[KernelSource, list[Use]] = {}
    for call, use in zip(calls, uses, strict=True):
        kernels.setdefault(call.source, []).append(use)
    # Comments stand after the text: its lines are those that the code comes from.
    sources = {
        source.file_name: f"{source.text}\n{kernel_comment(source, of)}"
        for source, of in kernels.items()
    }
    text = print_program(program)
    file_name = f"program_{hashlib.sha256(text.encode()).hexdigest()[:8]}.glow"
    return DebugFiles(
        lines=EntryLines(file_name, first, lines),
        sources={file_name: text, **sources},
        calls=tuple(map(_described, lines, work, calls)),
    )


def _described(line: int, instruction: Instruction, call: Call) -> dict[str, Any]:
    operands = zip(call.source.parameters, kernel_operands(instruction), call.operands, strict=True)
    return {
        "line": line,
        "nodes": _names(instruction),
        "kernel": call.source.symbol,
        "operands": [_operand(*operand) for operand in operands],
    }


def _names(instruction: Instruction) -> list[str]:
    """Return the names that the nodes have in the model, and those after all passes."""
    members = instruction.body if isinstance(instruction, StackInst) else (instruction,)
    own = (member.name for member in members if member.name)
    return list(dict.fromkeys([*instruction.imported_names, *own]))


def _operand(parameter: str, buffer: Buffer, region: Region) -> dict[str, Any]:
    """Return what an operand is, and where its first element lies."""
    return {
        "parameter": parameter,
        "buffer": repr(buffer),
        "type": str(buffer.type),
        "kind": buffer.type.kind.value,
        "element_bytes": buffer.type.kind.size_bytes,
        "shape": list(buffer.type.shape),
        "strides": list(buffer.strides),
        "mode": region.mode,
        "space": region.space,
        "binding": region.binding,
        "offset_bytes": region.offset_bytes + region.lead_bytes,
    }
