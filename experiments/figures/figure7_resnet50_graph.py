"""What does the compiler make of a residual block? The paper's Figure 7 again.

The figure shows a subgraph of ResNet50 optimized for the CPU backend, whose convolutions are nodes
of the backend's own, with filters in another memory layout. This is a residual block of the twin of
ResNet50, lowered and optimized: the transposes have cancelled, the batch normalizations are folded,
each convolution is packed or in Winograd's form::

    python -m experiments.figures.figure7_resnet50_graph --block 1 --output figure7.dot

writes it in Graphviz' language, and its picture where Graphviz is installed. Values that stay in
the registers of one kernel have dotted edges.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import glow_nb
from experiments.figures.graph_picture import write_graph
from experiments.networks.twins import make_twin
from glow_nb.backends import backend_named
from glow_nb.base.errors import OptionError
from glow_nb.base.schema import map_operands, operands_of
from glow_nb.hlir.graph import Function, Node, Placeholder, Value, producer_of
from glow_nb.hlir.ops import Add, Relu
from glow_nb.hlir.save import Save
from glow_nb.llir.program import Program, Register, mutated
from glow_nb.llir.stack import StackInst
from glow_nb.network import compilation as compiler


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


def main() -> None:
    """Compile the twin and draw one of its blocks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--block", type=int, default=1, help="residual block, from 1 to 16")
    parser.add_argument("--output", type=Path, default=Path("figure7.dot"))
    arguments = parser.parse_args()
    backend = backend_named("cpu")
    imported = glow_nb.load(make_twin("resnet50"))
    lowered = glow_nb.lower_for(imported, backend)
    block = residual_block(lowered, arguments.block)
    print(f"{len(imported.nodes)} nodes of the imported graph became {len(lowered.nodes)}")
    in_registers = names_in_registers(compiler.build_program(lowered, backend))
    write_graph(block, arguments.output, in_registers=in_registers)


if __name__ == "__main__":
    main()
