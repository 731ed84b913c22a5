"""One copy of the weights: what was compiled looks at those that the executable holds."""

from __future__ import annotations

import dataclasses

from glow_nb.backends.backend import Executable, WeightHolder
from glow_nb.hlir.graph import Constant, Function, Value
from glow_nb.hlir.rewrite import substitute as substitute_values
from glow_nb.llir.program import Buffer, Program, Weight
from glow_nb.llir.substitute import substitute

Compiled = tuple[Function | None, Program]


def share_weights(function: Function | None, program: Program, executable: Executable) -> Compiled:
    """Return *function* and *program* with arrays that lie in the memory of *executable*.

    The arrays that they had are freed once they are no longer referenced. Constants that the
    program does not read stay as they are.
    """
    if not isinstance(executable, WeightHolder):
        return function, program
    arrays = executable.held_weights
    weights = tuple(Weight(w.name, w.type, arrays.get(w.name, w.payload)) for w in program.weights)
    held: dict[Buffer, Buffer] = dict(zip(program.weights, weights, strict=True))
    shared = dataclasses.replace(
        program, weights=weights, instructions=substitute(program.instructions, held)
    )
    if function is None:
        return None, shared
    by_payload = {id(w.payload): arrays[w.name] for w in program.weights if w.name in arrays}
    constants: dict[Value, Value] = {
        c: Constant(c.name, c.type, by_payload[id(c.payload)])
        for c in function.constants
        if id(c.payload) in by_payload
    }
    return substitute_values(function, constants), shared
