"""The loop of recurrent layers: the steps over states, after the product with the inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.schema import OneOf, attribute_specs
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.families import FLOATS, fits, fitted, require_kind, require_type, wide
from glow_nb.hlir.ops.formulas.recurrence.activations import ACTIVATIONS
from glow_nb.hlir.ops.formulas.recurrence.cells import (
    BIDIRECTIONAL,
    DEFAULTS,
    FORWARD,
    GATES,
    GRU,
    LSTM,
    REVERSE,
    RNN,
    Cell,
)
from glow_nb.hlir.ops.formulas.recurrence.panels import packed_elements, parts_of, plain_matrix
from glow_nb.hlir.ops.formulas.recurrence.steps import (
    DOWN,
    NEXT,
    UP,
    backward_step,
    evaluated,
    forward_step,
    gates_of,
    step_type,
)

CellName = Annotated[str, OneOf(RNN, GRU, LSTM)]
Direction = Annotated[str, OneOf(FORWARD, REVERSE, BIDIRECTIONAL)]
Activations = Annotated[tuple[str, ...], OneOf(*ACTIVATIONS)]

LENGTHS = frozenset({ElementKind.INT32})
_STEP_OPERATIONS = 6
"""Operations of a gate beside its product, about."""


def directions_of(direction: str) -> tuple[bool, ...]:
    """Return for each direction whether it goes from the last step to the first."""
    return {FORWARD: (False,), REVERSE: (True,), BIDIRECTIONAL: (False, True)}[direction]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Cellular(Node):
    """Base of operators that take the steps of a recurrent cell: what kind of cell it is.

    Attributes:
        cell: ``rnn``, ``gru`` or ``lstm``.
        direction: ``forward``; ``reverse``, from the last step to the first; ``bidirectional``,
            one of each.
        activations: Functions of the cell, empty for the usual ones.
        alpha: A number for each function, where it has one; empty for the defaults.
        beta: The same.
        clip: Bound of what goes into a function, 0 for none.
        flag: ``linear_before_reset`` of a GRU, ``input_forget`` of an LSTM.
    """

    cell: CellName
    direction: Direction
    activations: Activations = ()
    alpha: tuple[float, ...] = ()
    beta: tuple[float, ...] = ()
    clip: float = 0.0
    flag: bool = False

    @property
    def cell_attributes(self) -> dict[str, Any]:
        """The attributes of the cell, by name."""
        return {spec.name: getattr(self, spec.name) for spec in attribute_specs(Cellular)}


def check_cell(node: Any) -> None:
    """Raise VerifyError unless the attributes of a recurrent node fit each other."""
    wanted = len(DEFAULTS[node.cell])
    for name in ("activations", "alpha", "beta"):
        count = len(getattr(node, name))
        node.require(
            count in (0, wanted),
            f"{name} has {count} items, but the functions of {node.cell!r} are {wanted}",
        )
    numbers = (*node.alpha, *node.beta)
    node.require(all(map(math.isfinite, numbers)), f"alpha and beta {numbers} must be finite")
    node.require(
        0 <= node.clip < math.inf,
        f"clip is {node.clip}, but must be positive and finite, or 0 for none",
    )
    node.require(node.cell != RNN or not node.flag, "flag is set, which means nothing for 'rnn'")
    node.require(
        node.cell == LSTM or node.peepholes is None, f"'peepholes' is given to {node.cell!r}"
    )


def order_of(steps: int, is_backward: bool) -> range:
    """Return the steps in the order of a direction."""
    return range(steps - 1, -1, -1) if is_backward else range(steps)


def run_cell(
    cell: Cell,
    direction: str,
    inputs: Array,
    recurrent: Array,
    bias: Array | None,
    initial: Array,
    peepholes: Array | None,
    lengths: Array | None,
) -> Array:
    """Return the states ``[S, steps, D, B, H]`` of all steps, in float64; see Recurrence."""
    steps, rows, _, _ = inputs.shape
    states, directions, _, size = initial.shape
    type = step_type(ElementKind.FLOAT64, rows, size)
    found = np.zeros((states, steps, directions, rows, size))
    if not found.size:
        return found
    for d, is_backward in enumerate(directions_of(direction)):
        values = _rows_of(d, bias, peepholes)
        state = initial[:, d]
        for t in order_of(steps, is_backward):
            values |= dict(zip(cell.states, state, strict=True))
            values |= _gates("x", inputs[t, :, d], size)
            made: dict[str, Array] = {}
            for phase in cell.phases:
                columns = slice(phase.first * size, (phase.first + phase.gates) * size)
                product = (made | values)[phase.multiplied] @ recurrent[d, :, columns]
                known = values | made | _gates("p", product, size, phase.first)
                results = evaluated(forward_step(cell, phase, type), known)
                made |= {name.removeprefix(NEXT): x for name, x in results.items()}
            new = np.stack([made[name] for name in cell.states])
            if lengths is not None:
                new = np.where(t < lengths[:, None], new, state)
            found[:, t, d] = state = new
    return found


def _rows_of(d: int, bias: Array | None, peepholes: Array | None) -> dict[str, Array]:
    """Return by name what all rows of a direction share."""
    found = {} if bias is None else {"bias": bias[d, None]}
    if peepholes is not None:
        found |= {f"peephole{i}": peepholes[d, i, None] for i in range(3)}
    return found


def _gates(prefix: str, values: Array, size: int, first: int = 0) -> dict[str, Array]:
    """Return the gates of ``[rows, gates H]`` by name."""
    return {
        f"{prefix}{first + i}": np.ascontiguousarray(values[:, i * size : (i + 1) * size])
        for i in range(values.shape[1] // size)
    }


def _wide_or_none(array: Array | None) -> Array | None:
    return None if array is None else wide(array)


@define_node("recurrence")
class Recurrence(Cellular):
    """Take the steps of a recurrent layer, one after the other.

    ``inputs`` is ``[steps, B, D, gates * H]``: for each step, sample and direction, what the gates
    get from the inputs, biases included; the gates follow one another as in ONNX. ``recurrent`` is
    ``[D, H, gates * H]``, and a step computes ``p = h @ recurrent`` and the formulas of
    :mod:`~glow_nb.hlir.ops.formulas.recurrence.cells`. The result, ``[S, steps, D, B, H]``, holds
    the hidden state after each step and, of an LSTM (``S = 2``), the memory. ``initial``,
    ``[S, D, B, H]``, is what the first step begins with, by default 0; weights that are not finite
    may then not spread in that step, as a kernel need not multiply zeros. A sample whose entry of
    ``lengths``, ``[B]``, is not above the number of a step keeps its states in that step.

    ``bias``, ``[D, H]``, is added to a product that is then reset (a GRU with *flag*);
    ``peepholes`` of an LSTM is ``[D, 3, H]``, for the gates i, o and f.

    Attributes:
        panel: 0, or columns of each gate in a panel: ``recurrent`` is then packed
            (:mod:`glow_nb.hlir.ops.formulas.recurrence.panels`).
    """

    inputs: Value
    recurrent: Value
    bias: Value | None
    initial: Value | None
    peepholes: Value | None
    lengths: Value | None
    panel: int = 0

    @override
    def infer_type(self) -> TensorType:
        steps, rows, directions, size = check_loop(self)
        cell = Cell.of(self)
        type = self.inputs.type.with_shape((len(cell.states), directions, rows, size))
        if self.initial is not None:
            found = self.initial.type
            self.require(fits(found, type), f"'initial' is {found}, but the states are {type}")
        return type.with_shape((len(cell.states), steps, directions, rows, size))

    @override
    def evaluate(
        self,
        inputs: Array,
        recurrent: Array,
        bias: Array | None,
        initial: Array | None,
        peepholes: Array | None,
        lengths: Array | None,
    ) -> Array:
        cell, (states, _, directions, rows, size) = Cell.of(self), self.type.shape
        begin = np.zeros((states, directions, rows, size)) if initial is None else wide(initial)
        weights = wide(recurrent)
        if self.panel:
            parts = parts_of(cell.phases, size, transposed=False)
            weights = plain_matrix(weights, parts, size, self.panel, transposed=False)
        operands = (_wide_or_none(bias), begin, _wide_or_none(peepholes), lengths)
        found = run_cell(cell, self.direction, wide(inputs), weights, *operands)
        return fitted(found, self.type)

    @override
    def cost(self) -> Cost:
        return _loop_cost(self)


def check_loop(node: Any) -> tuple[int, int, int, int]:
    """Check what the loops of both passes share; return steps, B, D and H."""
    check_cell(node)
    inputs: TensorType = node.inputs.type
    require_kind(node, "inputs", inputs, FLOATS)
    directions, gates = len(directions_of(node.direction)), GATES[node.cell]
    node.require(
        inputs.rank == 4 and inputs.shape[3] % gates == 0,
        f"'inputs' is {inputs}, but must be [steps, batch, directions, {gates} H]",
    )
    steps, rows, _, width = inputs.shape
    size = width // gates
    wanted = inputs.with_shape((steps, rows, directions, width))
    require_type(node, "inputs", wanted, node.direction)
    node.require(node.panel >= 0, f"panel is {node.panel}, but must be positive, or 0 for none")
    _check_weights(node, directions, size)
    if node.lengths is not None:
        require_kind(node, "lengths", node.lengths.type, LENGTHS)
        require_type(node, "lengths", TensorType(node.lengths.type.kind, (rows,)), "the batch")
    return steps, rows, directions, size


def _check_weights(node: Any, directions: int, size: int) -> None:
    type: TensorType = node.inputs.type
    gates = GATES[node.cell]
    wanted = type.with_shape((directions, size, gates * size))
    if node.panel:
        parts = parts_of(
            Cell.of(node).phases, size, transposed=isinstance(node, RecurrenceGradient)
        )
        wanted = type.with_shape((directions, packed_elements(parts, size, node.panel)))
    require_type(node, "recurrent", wanted, "inputs")
    if node.bias is not None:
        node.require(
            node.cell == GRU and node.flag, "'bias' is given, but only a GRU with flag has it"
        )
        require_type(node, "bias", type.with_shape((directions, size)), "inputs")
    require_type(node, "peepholes", type.with_shape((directions, 3, size)), "inputs")


def _loop_cost(node: Any) -> Cost:
    size = node.inputs.type.shape[3] // GATES[node.cell]
    elements = node.inputs.type.size
    return Cost(elements * size, _STEP_OPERATIONS * elements)


@define_node("recurrence_gradient")
class RecurrenceGradient(Cellular):
    """Take the steps of a :class:`Recurrence` backwards: gradients of its inputs and first states.

    ``upstream`` is the gradient of the result, ``[S, steps, D, B, H]``. ``inputs``, ``recurrent``,
    ``bias``, ``peepholes`` and ``lengths`` are those of the recurrence. ``products``,
    ``[steps, B, D, gates * H]``, are what its steps have multiplied, and ``previous``,
    ``[S, steps, D, B, H]``, the states before each step. Nothing but the sums over steps is left
    for others: the results are the gradient of ``inputs`` and that of ``initial``. A step does::

        gradients of x and of the states, from upstream + what the next step has handed on
        gradient of h += gradient of p @ transpose(recurrent)

    The cell and its *direction* are those of the recurrence, whose steps are taken backwards.

    Attributes:
        panel: 0, or columns in a panel of the transposed weights.
    """

    upstream: Value
    inputs: Value
    products: Value
    previous: Value
    recurrent: Value
    bias: Value | None
    peepholes: Value | None
    lengths: Value | None
    panel: int = 0

    @override
    def infer_types(self) -> tuple[TensorType, ...]:
        steps, rows, directions, size = check_loop(self)
        inputs, count = self.inputs.type, len(Cell.of(self).states)
        states = inputs.with_shape((count, steps, directions, rows, size))
        for name, wanted in (("upstream", states), ("products", inputs), ("previous", states)):
            require_type(self, name, wanted, "inputs")
        return inputs, inputs.with_shape((count, directions, rows, size))

    @override
    def evaluate(
        self,
        upstream: Array,
        inputs: Array,
        products: Array,
        previous: Array,
        recurrent: Array,
        bias: Array | None,
        peepholes: Array | None,
        lengths: Array | None,
    ) -> tuple[Array, Array]:
        cell, (states, directions, rows, size) = Cell.of(self), self.result_types[1].shape
        weights = wide(recurrent)
        if self.panel:
            parts = parts_of(cell.phases, size, transposed=True)
            weights = plain_matrix(weights, parts, size, self.panel, transposed=True)
        bias, peepholes = _wide_or_none(bias), _wide_or_none(peepholes)
        x, p, ups, befores = map(wide, (inputs, products, upstream, previous))
        gradient, first = np.zeros(x.shape), np.zeros((states, directions, rows, size))
        senses = directions_of(self.direction) if x.size else ()
        for d, is_backward in enumerate(senses):
            down = first[:, d]
            for t in reversed(order_of(len(x), is_backward)):
                values = _rows_of(d, bias, peepholes)
                values |= _gates("x", x[t, :, d], size) | _gates("p", p[t, :, d], size)
                values |= dict(zip(cell.states, befores[:, t, d], strict=True))
                total = ups[:, t, d] + down
                new, slopes = _step_back(cell, values, total, weights[d])
                if lengths is not None:
                    is_running = t < lengths[:, None]
                    new = np.where(is_running, new, total)
                    slopes = np.where(is_running, slopes, 0)
                down[...] = new
                gradient[t, :, d] = slopes
        return fitted(gradient, self.result_types[0]), fitted(first, self.result_types[1])

    @override
    def cost(self) -> Cost:
        return _loop_cost(self)


def _step_back(
    cell: Cell, values: dict[str, Array], upstream: Array, recurrent: Array
) -> tuple[Array, Array]:
    """Return the gradients of the states before a step, and of what it gets from the inputs."""
    rows, size = upstream.shape[1:]
    type = step_type(ElementKind.FLOAT64, rows, size)
    down = {name: np.zeros((rows, size)) for name in cell.states}
    slopes = np.zeros((rows, cell.gates * size))
    ups = dict(zip(cell.states, upstream, strict=True))
    for phase in reversed(cell.phases):
        known = values | {UP + name: up for name, up in ups.items()}
        found = evaluated(backward_step(cell, phase, type), known)
        for gate in gates_of(found, f"{DOWN}x"):
            slopes[:, gate * size : (gate + 1) * size] = found[f"{DOWN}x{gate}"]
        for name in cell.states:
            down[name] = down[name] + found.get(DOWN + name, 0)
        columns = slice(phase.first * size, (phase.first + phase.gates) * size)
        of_products = slopes[:, columns]
        for gate in gates_of(found, f"{DOWN}p"):  # where they are not those of the inputs
            of_products = of_products.copy()
            place = (gate - phase.first) * size
            of_products[:, place : place + size] = found[f"{DOWN}p{gate}"]
        ups = {phase.multiplied: of_products @ recurrent[:, columns].T}
    for name, handed in ups.items():  # to what the first phase has multiplied
        down[name] += handed
    return np.stack([down[name] for name in cell.states]), slopes
