"""The levels of a compilation as lists of items, each with the nodes of the model after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from glow_nb.base.kernel_report import KernelReport
from glow_nb.base.model_node import ModelNode
from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.print import print_node
from glow_nb.llir.print import print_instruction
from glow_nb.llir.program import Instruction, Program, is_marker, mutated
from glow_nb.llir.stack import StackInst
from glow_nb.report.data import Item, Stage

SAYS = {
    "model": ("Model", "The nodes of the model as it was given."),
    "graph": ("Graph", "The graph after import and optimization, before it is lowered."),
    "lowered": ("Lowered graph", "The graph that instructions are made from."),
    "program": ("Program", "The instructions that compute, in the order in which they run."),
    "kernels": ("Kernels", "The different kernels: instructions that are alike share one."),
}
"""Title and meaning of each stage."""


class Numbering:
    """The nodes of a model by their names, as what is made of them calls its origins."""

    def __init__(self, names: Iterable[str]) -> None:
        """Number *names* in order."""
        self._numbers: dict[str, int] = {}
        for number, name in enumerate(names):
            self._numbers.setdefault(name, number)

    def __call__(self, names: Iterable[str]) -> tuple[int, ...]:
        """Return the numbers of those of *names* that the model has."""
        found = (self._numbers.get(name) for name in names)
        return tuple(dict.fromkeys(number for number in found if number is not None))


def missing(key: str, reason: str) -> Stage:
    """Return the stage *key* without items."""
    title, says = SAYS[key]
    return Stage(key, title, says, missing=reason)


def model_of_nodes(nodes: Sequence[ModelNode]) -> Stage:
    """Return the stage of a model that is a file."""
    items = tuple(
        Item(each.name, each.operator, "", _model_text(each), (number,))
        for number, each in enumerate(nodes)
    )
    return Stage("model", *SAYS["model"], items)


def model_of_function(function: Function) -> Stage:
    """Return the stage of a model that is a graph."""
    items = tuple(
        Item(node.name, node.opcode, _types(node), print_node(node), (number,))
        for number, node in enumerate(function.nodes)
    )
    return Stage("model", *SAYS["model"], items)


def graph_stage(key: str, function: Function, numbers: Numbering) -> Stage:
    """Return the stage *key*, which *function* is, with origins by *numbers*."""
    items = tuple(
        Item(
            node.name,
            node.opcode,
            _types(node),
            print_node(node),
            numbers(function.origins_of(node)),
        )
        for node in function.nodes
    )
    return Stage(key, *SAYS[key], items)


def program_stage(program: Program, lowered: Function | None, numbers: Numbering) -> Stage:
    """Return the instructions of *program* that compute, each with the lowered nodes in it."""
    nodes = {} if lowered is None else {node.name: n for n, node in enumerate(lowered.nodes)}
    items = tuple(
        Item(
            one.name or one.opcode,
            opcode_of(one),
            ", ".join(dict.fromkeys(str(buffer.type) for buffer in mutated(one))),
            print_instruction(one),
            numbers(one.imported_names),
            _made_of(one, nodes),
        )
        for one in program.instructions
        if not is_marker(one)
    )
    return Stage("program", *SAYS["program"], items)


def opcode_of(instruction: Instruction) -> str:
    """Return the opcode, of a stack those of its members."""
    if isinstance(instruction, StackInst):
        return " + ".join(dict.fromkeys(part.opcode for part in instruction.body))
    return instruction.opcode


def kernel_stage(
    reports: Sequence[tuple[int, KernelReport]], program: Stage
) -> tuple[Stage, tuple[int, ...]]:
    """Return the different kernels, and the number of the kernel of each of *reports*.

    These are of instructions, which are named by their numbers in *program*.
    """
    kernels: dict[str, int] = {}
    users: list[list[int]] = []
    first: list[KernelReport] = []
    numbers: list[int] = []
    for number, report in reports:
        found = kernels.setdefault(report.symbol or f"{report.family} {number}", len(kernels))
        if found == len(users):
            users.append([])
            first.append(report)
        users[found].append(number)
        numbers.append(found)
    items = tuple(
        Item(
            report.symbol or report.family,
            report.family,
            "",
            f"{len(own)} x {report.family}" if report.symbol else report.instruction,
            tuple(dict.fromkeys(n for one in own for n in program.items[one].origins)),
            tuple(own),
        )
        for report, own in zip(first, users, strict=True)
    )
    return Stage("kernels", *SAYS["kernels"], items), tuple(numbers)


def cut(text: str, letters: int) -> str:
    """Return *text*, without its end if it is longer than *letters*, which it then says."""
    if len(text) <= letters:
        return text
    return f"{text[:letters]}\n... {len(text) - letters} letters are left out"


def _types(node: Node) -> str:
    return ", ".join(map(str, node.result_types))


def _model_text(node: ModelNode) -> str:
    attributes = f" {{{node.attributes}}}" if node.attributes else ""
    return f"{', '.join(node.outputs)} = {node.operator}({', '.join(node.inputs)}){attributes}"


def _made_of(instruction: Instruction, nodes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the lowered nodes that *instruction* computes: its members have their names."""
    members = instruction.body if isinstance(instruction, StackInst) else (instruction,)
    return tuple(dict.fromkeys(nodes[one.name] for one in members if one.name in nodes))
