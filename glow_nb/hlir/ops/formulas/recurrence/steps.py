"""The steps of a cell as functions of the graph: evaluated, emitted, or written into a kernel.

Their inputs are called as :data:`~glow_nb.hlir.ops.formulas.recurrence.cells.Read` says, and exist
if they are read. A forward function has an output ``next_<name>`` for each name that a phase
computes. A backward function gets gradients ``up_<name>`` of results, and has outputs
``down_<name>``, the gradients of what the step reads; where one is not a result, it is 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops.formulas.recurrence.cells import Cell, Phase
from glow_nb.hlir.ops.formulas.terms import Term

NEXT, UP, DOWN = "next_", "up_", "down_"


class _Reader:
    """Makes an input of each name that is read."""

    def __init__(self, builder: Builder, type: TensorType) -> None:
        self.builder, self.type, self.terms = builder, type, dict[str, Term]()

    def __call__(self, name: str) -> Term:
        if name not in self.terms:
            is_row = name.startswith(("peephole", "bias"))
            type = self.type.with_shape((1, self.type.shape[1])) if is_row else self.type
            self.terms[name] = Term(self.builder, self.builder.input(name, type))
        return self.terms[name]


@lru_cache(maxsize=256)
def forward_step(cell: Cell, phase: Phase, type: TensorType) -> Function:
    """Return what *phase* computes, for states of *type*, ``[rows, H]``."""
    builder = Builder("step")
    for name, term in phase.formulas(cell, _Reader(builder, type)).items():
        builder.save(term.value, NEXT + name)
    return builder.function()


@lru_cache(maxsize=256)
def backward_step(cell: Cell, phase: Phase, type: TensorType) -> Function:
    """Return the gradients that flow through a step to the operands of a product.

    The gradients come from what the step gives (*phase* is the last one), or from what the product
    of the phase behind *phase* has multiplied.
    """
    import glow_nb.hlir.gradients  # noqa: F401  registers the rules
    from glow_nb.hlir.backpropagate import backpropagate, dependent_on, total
    from glow_nb.hlir.backward import Backward

    builder = Backward("backward_step")
    read = _Reader(builder, type)
    results = cell.step(read)
    ups = cell.states if phase is cell.phases[-1] else (behind(cell, phase).multiplied,)
    names = [n for n in read.terms if n.startswith("x") or n in (*cell.states, *cell.apart)]
    wanted = {name: read.terms[name].value for name in names}
    nodes = tuple(builder.nodes)
    builder.dependent = dependent_on(wanted.values(), nodes)
    sums: dict[Value, list[Value]] = {}
    for name in ups:
        sums.setdefault(results[name].value, []).append(read(UP + name).value)
    backpropagate(builder, nodes, sums)
    for name, value in wanted.items():
        gradient = total(value, sums, builder)
        if gradient is not None:
            builder.save(gradient, DOWN + name)
    return _without_dead_nodes(builder.function())


def behind(cell: Cell, phase: Phase) -> Phase:
    """Return the phase after *phase*."""
    return cell.phases[cell.phases.index(phase) + 1]


def _without_dead_nodes(function: Function) -> Function:
    """Return *function* without nodes and inputs that no output needs."""
    from glow_nb.hlir.optimize.eliminate_dead_nodes import eliminate_dead_nodes

    slim = eliminate_dead_nodes(function)
    inputs = tuple(value for value in slim.inputs if slim.use_counts.get(value))
    return Function(slim.name, inputs, slim.outputs, slim.nodes)


def evaluated(function: Function, values: Mapping[str, Array]) -> dict[str, Array]:
    """Return the outputs of a step for *values*, of which it takes those that it reads."""
    return evaluate(function, {place.name: values[place.name] for place in function.inputs})


def step_type(kind: ElementKind, rows: int, size: int) -> TensorType:
    """Return the type of the states of a step."""
    return TensorType(kind, (rows, size))


def gates_of(values: Iterable[str], prefix: str) -> list[int]:
    """Return the numbers of the gates among names such as ``x0`` or ``down_x0``."""
    return [int(name.removeprefix(prefix)) for name in values if name.startswith(prefix)]
