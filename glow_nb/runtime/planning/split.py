"""Makes a program of each part: what goes between parts becomes its inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from glow_nb.backends.backend import Backend
from glow_nb.base.steps import Entries, step_names
from glow_nb.compiler.driver import run_to
from glow_nb.hlir.graph import Function
from glow_nb.llir.lifetimes import mark_lifetimes
from glow_nb.llir.program import (
    Activation,
    Bound,
    Buffer,
    Program,
    StateBuffer,
    Weight,
    mutated,
    read,
)
from glow_nb.llir.substitute import substitute
from glow_nb.network.compilation import program_order

STACKING = "stack_instructions"
"""The pass that decides what becomes one kernel: a program is cut after it."""


def stacked_program(function: Function, backend: Backend) -> Program:
    """Return a lowered *function* as a program whose kernels are decided, and not yet placed."""
    return run_to(Program, function, _order(backend)[0])


def placed_program(program: Program, backend: Backend) -> Program:
    """Return *program*, whose kernels are decided, after all other passes of *backend*."""
    return run_to(Program, program, _order(backend)[1])


def _order(backend: Backend) -> tuple[Entries, Entries]:
    """Return the steps that decide what becomes one kernel, and those after them."""
    order = program_order(backend)
    decided = [n for n, entry in enumerate(order) if STACKING in step_names((entry,))]
    count = decided[-1] + 1 if decided else step_names(order).index("generate") + 1
    return order[:count], order[count:]


class Splitter:
    """Makes programs of parts of one program, whose kernels are decided.

    A tensor that goes between parts keeps its name.
    """

    def __init__(self, program: Program) -> None:
        """Look at which instructions touch each region of *program*."""
        self._program, self._work = program, program.work
        self._users: dict[Buffer, set[int]] = {}
        for number, instruction in enumerate(self._work):
            for buffer in (*read(instruction), *mutated(instruction)):
                self._users.setdefault(buffer.root, set()).add(number)
        self._crossing: dict[Buffer, Bound] = {}

    def part(self, numbers: Iterable[int], name: str) -> Program:
        """Return the instructions *numbers* as a program called *name*, whose memory is not placed.

        What they write, no others write.
        """
        inside = set(numbers)
        work = [self._work[number] for number in sorted(inside)]
        touched = dict.fromkeys(b.root for i in work for b in (*read(i), *mutated(i)))
        crossing: dict[Buffer, Buffer] = {
            root: self._crossing.setdefault(root, Bound(root.name, root.type))
            for root in touched
            if isinstance(root, Activation) and not self._users[root] <= inside
        }
        regions = [crossing.get(root, root) for root in touched]
        bound = [buffer for buffer in regions if isinstance(buffer, Bound)]
        made = {crossing.get(b.root, b.root) for i in work for b in mutated(i)}
        fed = [b for b in bound if b not in made or b in self._program.inputs]
        return Program(
            name,
            weights=tuple(root for root in touched if isinstance(root, Weight)),
            state=tuple(root for root in touched if isinstance(root, StateBuffer)),
            inputs=_in_order(fed, self._program.inputs),
            outputs=_in_order([b for b in bound if b in made], self._program.outputs),
            instructions=mark_lifetimes(substitute(work, crossing)),
        )


def _in_order(found: Sequence[Buffer], known: Sequence[Bound]) -> tuple[Bound, ...]:
    """Return *found*, those of the whole network first and in its order."""
    others = [b for b in found if b not in known]
    return tuple(b for b in (*known, *others) if isinstance(b, Bound) and b in found)
