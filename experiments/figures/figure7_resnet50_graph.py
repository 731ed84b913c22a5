"""What does the compiler make of a residual block? The paper's Figure 7 again.

The figure shows a subgraph of ResNet50 optimized for the CPU backend, whose convolutions are nodes
of the backend's own, with filters in another memory layout. This is a residual block of the twin of
ResNet50, lowered and optimized: the transposes have cancelled, the batch normalizations are folded,
each convolution is packed or in Winograd's form::

    python -m experiments.figures.figure7_resnet50_graph --block 1 --output figure7.png

writes the picture, and the same subgraph in Graphviz' dot language beside it (``figure7.dot``).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import glow_nb
from experiments.networks.twins import make_twin
from glow_nb.backends import backend_named
from glow_nb.base.errors import OptionError
from glow_nb.base.schema import attributes_of, map_operands, operands_of
from glow_nb.hlir.dot import print_dot
from glow_nb.hlir.graph import Constant, Function, Node, Placeholder, Value, producer_of
from glow_nb.hlir.ops import Add, Relu
from glow_nb.hlir.save import Save
from glow_nb.llir.program import Program, Register, mutated
from glow_nb.llir.stack import StackInst
from glow_nb.network import compilation as compiler
from glow_nb.system.replaced_files import replace_file
from glow_nb.tools.plots.graph import draw, drawing_of

LAYOUTS = {
    ("packed_convolution", "filter"): "groups, depth/N, y, x, channels, N",
    ("packed_convolution", "bias"): "depth",
    ("winograd_convolution", "filter"): "transformed: groups, depth/N, tile, channels, N",
    ("winograd_convolution", "bias"): "depth",
}
"""What the dimensions of a constant mean, by operator and operand."""

SHOWN = ("kernel", "stride", "pads", "tile", "block")
"""Attributes that are written into the boxes."""

PLAIN = ((1, 1), (0, 0, 0, 0))
"""Strides and pads that go without saying."""


def residual_block(function: Function, number: int) -> Function:
    """Return the subgraph of the residual block *number*, counting from 1, as a function.

    Raises:
        OptionError: There are not as many blocks.
    """
    adds = [n for n in function if isinstance(n, Add) and all(map(producer_of, operands_of(n)))]
    if not 1 <= number <= len(adds):
        raise OptionError(f"block {number}: the graph has {len(adds)} residual blocks")
    add = adds[number - 1]
    above = [_ancestors(operand) for operand in operands_of(add)]
    shared = set.intersection(*above)
    fork = next(node for node in reversed(function.nodes) if node in shared)
    inside = set.union(*above) - _ancestors(fork) | {add}
    last = next((n for n in function.users()[add] if isinstance(n, Relu)), add)
    nodes = [node for node in function if node in inside or node is last]
    return _cut_out(function, nodes, fork)


def _ancestors(value: Value) -> set[Node]:
    """Return the nodes that *value* is computed from, its own included."""
    found: set[Node] = set()
    pending = [value]
    while pending:
        node = producer_of(pending.pop())
        if node is not None and node not in found:
            found.add(node)
            pending += operands_of(node)
    return found


def _cut_out(function: Function, nodes: Sequence[Node], fork: Node) -> Function:
    """Return *nodes* as a function of the result of *fork*."""
    entry = Placeholder(fork.name, fork.type)
    renewed: dict[Value, Value] = {fork: entry}
    kept: list[Node] = []
    for node in nodes:
        new = map_operands(node, lambda value: renewed.get(value, value))
        renewed[node] = new
        kept.append(new)
    output = Placeholder(f"{kept[-1].name}_out", kept[-1].type)
    kept.append(Save(kept[-1], output, name="save"))
    return Function("block", (entry,), (output,), tuple(kept), function.origins)


def names_in_registers(program: Program) -> set[str]:
    """Return the names of the values that only live in the registers of a kernel."""
    stacks = (i for i in program.work if isinstance(i, StackInst))
    return {
        buffer.name
        for stack in stacks
        for instruction in stack.body
        for buffer in mutated(instruction)
        if isinstance(buffer, Register)
    }


def describe(node: Node, function: Function, operators: dict[str, str]) -> list[str]:
    """Return the lines below an operator: attributes, and the nodes of the model that it is."""
    attributes = {key: value for key, value in attributes_of(node).items() if key in SHOWN}
    lines = [
        _attribute(key, value)
        for key, value in attributes.items()
        if key == "kernel" or value not in PLAIN
    ]
    origins = (operators.get(name, name) for name in function.origins_of(node))
    return [*lines, f"from {' + '.join(origins)}"]


def _attribute(key: str, value: object) -> str:
    if not isinstance(value, tuple):
        return f"{'N' if key == 'block' else key} = {value}"
    separator = ", " if key == "pads" else " × "
    return f"{key} {separator.join(map(str, value))}"


def describe_constant(node: Node, name: str, constant: Constant) -> list[str]:
    """Return the shape of a filter or bias and what its dimensions are."""
    shape = " × ".join(map(str, constant.type.shape))
    meaning = LAYOUTS.get((node.opcode, name))
    return [shape, *([meaning] if meaning else [])]


def main() -> None:
    """Compile the twin and draw one of its blocks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--block", type=int, default=1, help="residual block, from 1 to 16")
    parser.add_argument("--output", type=Path, default=Path("figure7.png"))
    arguments = parser.parse_args()
    model = make_twin("resnet50")
    backend = backend_named("cpu")
    imported = glow_nb.load(model)
    assert isinstance(imported, Function)
    lowered = glow_nb.lower_for(imported, backend)
    block = residual_block(lowered, arguments.block)
    operators = {node.name or node.output[0]: node.op_type for node in model.graph.node}
    drawing = drawing_of(
        block,
        describe=lambda node: describe(node, block, operators),
        describe_constant=describe_constant,
        in_registers=names_in_registers(compiler.build_program(lowered, backend)),
    )
    dot = arguments.output.with_suffix(".dot")
    text = print_dot(block, constants=True)
    replace_file(dot, lambda place: place.write_text(text, encoding="utf-8"))
    draw(
        drawing,
        arguments.output,
        title=f"ResNet50, residual block {arguments.block}, optimized for the CPU",
        subtitle=f"{len(imported.nodes)} nodes of the imported graph became {len(lowered.nodes)}.",
        note="Dashed: values that stay in the registers of one kernel. Grey: constants, laid out "
        "for the kernels when the network is compiled.",
    )
    print(f"wrote {arguments.output} and {dot}")


if __name__ == "__main__":
    main()
