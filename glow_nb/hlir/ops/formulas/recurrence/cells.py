"""Recurrent cells: the formulas of a step, and in which order it multiplies.

A cell has gates. For each there is a part ``x`` that comes from the inputs, made for all steps
before, and a part ``p`` that is a product of a state with the recurrent weights. The rest of a step
is elementwise. Most cells multiply once a step. A GRU that resets the hidden state before it
multiplies has two phases: the product of the second needs what the first has computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from glow_nb.hlir.ops.activation import Clip
from glow_nb.hlir.ops.formulas.recurrence.activations import ACTIVATIONS
from glow_nb.hlir.ops.formulas.terms import Term

RNN, GRU, LSTM = "rnn", "gru", "lstm"
FORWARD, REVERSE, BIDIRECTIONAL = "forward", "reverse", "bidirectional"

HIDDEN, MEMORY = "hidden", "memory"
"""The states: what a step shows, and what an LSTM remembers."""
RESET, UPDATE = "reset", "update"
"""The two values that a GRU keeps: the hidden state times the reset gate, and the update gate."""

GATES = {RNN: 1, GRU: 3, LSTM: 4}
"""Gates of each cell, in the order of ONNX: z, r, h of a GRU; i, o, f, c of an LSTM."""

DEFAULTS = {RNN: ("tanh",), GRU: ("sigmoid", "tanh"), LSTM: ("sigmoid", "tanh", "tanh")}
"""Activations of each cell."""

Read = Callable[[str], Term]
"""Gives the term of a name: ``x0``, ``p0``, ``hidden``, ``memory``, ``bias``, ``peephole0``, ..."""
Results = dict[str, Term]
Formulas = Callable[["Cell", Read], Results]


@dataclass(frozen=True)
class Phase:
    """A part of a step: a product, and then formulas of elements.

    Attributes:
        multiplied: The operand of the recurrent weights: the hidden state, or a result of an
            earlier phase.
        first: The first gate that the product is for.
        gates: Gates that it is for.
        formulas: The formulas that are computed after that.
    """

    multiplied: str
    first: int
    gates: int
    formulas: Formulas


@dataclass(frozen=True)
class Cell:
    """The parts of a recurrent node's step that its attributes determine.

    Attributes:
        kind: ``rnn``, ``gru`` or ``lstm``.
        activations: Names of the functions, in the order of ONNX.
        alpha: A number for each function; those without one do not look at it.
        beta: The same.
        clip: Bound of what goes into an activation, 0 for none.
        flag: Of a GRU: the reset gate is applied after the product (``linear_before_reset``). Of
            an LSTM: the forget gate is 1 less the input gate (``input_forget``).
        has_peepholes: An LSTM has peepholes.
        has_bias: The product that a GRU resets has a bias.
    """

    kind: str
    activations: tuple[str, ...]
    alpha: tuple[float, ...]
    beta: tuple[float, ...]
    clip: float
    flag: bool
    has_peepholes: bool
    has_bias: bool

    @classmethod
    def of(cls, node: Any, *, has_bias: bool | None = None) -> Cell:
        """Return the cell of a node; by default it has a bias if *node* has."""
        names = node.activations or DEFAULTS[node.cell]
        known = [ACTIVATIONS[name] for name in names]
        return cls(
            node.cell,
            names,
            node.alpha or tuple(each.alpha or 0.0 for each in known),
            node.beta or tuple(each.beta or 0.0 for each in known),
            node.clip,
            node.flag,
            node.peepholes is not None,
            node.bias is not None if has_bias is None else has_bias,
        )

    @property
    def gates(self) -> int:
        """The number of its gates."""
        return GATES[self.kind]

    @property
    def states(self) -> tuple[str, ...]:
        """The values that are passed from step to step."""
        return (HIDDEN, MEMORY) if self.kind == LSTM else (HIDDEN,)

    @property
    def apart(self) -> tuple[str, ...]:
        """The products whose gradients are not those of the inputs of the same gates."""
        return ("p2",) if self.kind == GRU and self.flag else ()

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """The phases of a step, in order."""
        if self.kind == GRU and not self.flag:
            return Phase(HIDDEN, 0, 2, _gru_gates), Phase(RESET, 2, 1, _gru_state)
        return (Phase(HIDDEN, 0, self.gates, _WHOLE_STEPS[self.kind]),)

    def step(self, read: Read) -> Results:
        """Return all that the phases compute, if the products are known."""
        found: Results = {}
        for phase in self.phases:
            found |= phase.formulas(self, partial(_found_or_read, found, read))
        return found

    def activate(self, index: int, x: Term) -> Term:
        """Return activation *index* of *x*."""
        if self.clip:
            bounded = Clip(x.value, minimum=-self.clip, maximum=self.clip)
            x = Term(x.builder, x.builder.emit(bounded))
        activation = ACTIVATIONS[self.activations[index]]
        return activation.formula(x, self.alpha[index], self.beta[index])


def _found_or_read(found: Results, read: Read, name: str) -> Term:
    return found[name] if name in found else read(name)


def _sum(read: Read, gate: int) -> Term:
    return read(f"x{gate}") + read(f"p{gate}")


def _rnn(cell: Cell, read: Read) -> Results:
    """``h = f(x + p)``."""
    return {HIDDEN: cell.activate(0, _sum(read, 0))}


def _lstm(cell: Cell, read: Read) -> Results:
    """``c = f c + i g(...)``, ``h = o h(c)`` with gates in the order i, o, f, c."""
    memory = read(MEMORY)

    def gate(index: int, place: int, seen: Term) -> Term:
        total = _sum(read, index)
        return total + read(f"peephole{place}") * seen if cell.has_peepholes else total

    entering = cell.activate(0, gate(0, 0, memory))
    candidate = cell.activate(1, _sum(read, 3))
    kept = 1 - entering if cell.flag else cell.activate(0, gate(2, 2, memory))
    new = kept * memory + entering * candidate
    leaving = cell.activate(0, gate(1, 1, new))
    return {HIDDEN: leaving * cell.activate(2, new), MEMORY: new}


def _gru_gates(cell: Cell, read: Read) -> Results:
    """The update gate, and the hidden state times the reset gate."""
    update, reset = (cell.activate(0, _sum(read, gate)) for gate in (0, 1))
    return {UPDATE: update, RESET: reset * read(HIDDEN)}


def _gru_state(cell: Cell, read: Read) -> Results:
    """``h = (1 - z) g(x + p) + z h``."""
    return {HIDDEN: _blend(read(UPDATE), read(HIDDEN), cell.activate(1, _sum(read, 2)))}


def _gru_reset_after(cell: Cell, read: Read) -> Results:
    """``h = (1 - z) g(x + r (p + bias)) + z h``."""
    update, reset = (cell.activate(0, _sum(read, gate)) for gate in (0, 1))
    product = read("p2") + read("bias") if cell.has_bias else read("p2")
    candidate = cell.activate(1, read("x2") + reset * product)
    return {HIDDEN: _blend(update, read(HIDDEN), candidate)}


def _blend(gate: Term, on: Term, off: Term) -> Term:
    return gate * on + (1 - gate) * off


_WHOLE_STEPS: dict[str, Formulas] = {RNN: _rnn, GRU: _gru_reset_after, LSTM: _lstm}
