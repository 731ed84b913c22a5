"""Finding the kernel that makes a wrong value of right ones.

A program is cut after an instruction, and what lives there is written out. The backend's result is
compared with the interpreter's. Where all that lives agrees, whatever goes wrong goes wrong later;
where it does not, earlier. So halving finds an instruction with right operands and a wrong result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from glow_nb.backends.backend import Backend
from glow_nb.backends.interpreter import POISON, Interpreter
from glow_nb.base.distance import distance
from glow_nb.base.types import Array
from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.probes import free_name, names_in
from glow_nb.llir.program import (
    Activation,
    Alloc,
    Arena,
    Bound,
    Buffer,
    Dealloc,
    Instruction,
    Program,
    is_marker,
    mutated,
)

Report = Callable[[int, int], None]
"""Called with the instructions between which the culprit is."""


def first_bad_instruction(
    program: Program,
    backend: Backend,
    inputs: Sequence[Array],
    tolerance: float,
    *,
    threads: int,
    report: Report | None = None,
) -> Instruction | None:
    """Return the instruction whose kernel is wrong; None if the results agree this time.

    Args:
        program: Allocated; its outputs differ between *backend* and the interpreter.
        backend: The backend that makes the kernels.
        inputs: In the program's order.
        tolerance: The largest distance of results that agree.
        threads: Cores that share each kernel.
        report: Called with the progress.
    """
    good, bad = 0, len(program.work)
    if _agrees(program, bad, backend, inputs, tolerance, threads):
        return None
    while bad - good > 1:
        if report:
            report(good, bad)
        middle = (good + bad) // 2
        if _agrees(program, middle, backend, inputs, tolerance, threads):
            good = middle
        else:
            bad = middle
    return program.work[bad - 1]


def _agrees(
    program: Program,
    count: int,
    backend: Backend,
    inputs: Sequence[Array],
    tolerance: float,
    threads: int,
) -> bool:
    cut = cut_after(program, count)
    expected = Interpreter().compile(cut).run(inputs)
    found = backend.compile(cut, threads=threads).run(inputs)
    pairs = zip(expected, found, strict=True)
    return all(distance_of_written(right, wrong) <= tolerance for right, wrong in pairs)


def cut_after(program: Program, count: int) -> Program:
    """Return the first *count* instructions that compute; all that lives then is an output.

    So is what they have written to states.
    """
    kept: list[Instruction] = []
    live: dict[Buffer, None] = {}
    written: set[Buffer] = set()
    for instruction in program.instructions:
        if not is_marker(instruction):
            if not count:
                break
            count -= 1
            written.update(buffer.root for buffer in mutated(instruction))
        match instruction:
            case Alloc(dest=Activation() as buffer):
                live[buffer] = None
            case Dealloc(dest=Activation() as buffer):
                del live[buffer]
        kept.append(instruction)
    taken = names_in(program)
    probes = {
        buffer: Bound(free_name(f"{buffer.name}_probe", taken), buffer.type)
        for buffer in (*live, *program.state)
        if buffer in written
    }
    kept += [CopyInst(probe, buffer, name=buffer.name) for buffer, probe in probes.items()]
    kept += [Dealloc(buffer) for buffer in live]
    outputs = tuple(output for output in program.outputs if output in written)
    return dataclasses.replace(
        program,
        outputs=(*outputs, *probes.values()),
        instructions=tuple(kept),
        arena=_arena_of(program, kept),
    )


def _arena_of(program: Program, kept: Sequence[Instruction]) -> Arena | None:
    if program.arena is None:
        return None
    used = {i.dest for i in kept if isinstance(i, Alloc)}
    offsets = {b: offset for b, offset in program.arena.offsets.items() if b in used}
    return dataclasses.replace(program.arena, offsets=offsets)


def distance_of_written(expected: Array, found: Array) -> float:
    """Return the :func:`distance` where *expected* does not hold the bytes of poisoned memory."""
    flat = np.ascontiguousarray(expected).reshape(-1).view(np.uint8)
    written = (flat.reshape(expected.size, expected.itemsize) != POISON).any(axis=1)
    return distance(expected.reshape(-1)[written], found.reshape(-1)[written])
