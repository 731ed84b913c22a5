"""Kernels whose sizes are open: one compiled kernel against its operator for several sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from glow_nb.base.size import Symbol, at
from glow_nb.base.types import Array
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import Target
from glow_nb.llir.program import Instruction, mutated, read
from glow_nb.llir.with_sizes import Sizing, symbols_of_instruction
from tests.unit.kernels.cases import assert_close, expected_of, random_array
from tests.unit.kernels.running import RunningKernel, guarded, guards_are_intact

Sizes = Mapping[str, int]


def open_size(name: str, hint: int, low: int = 1, high: int = 4096) -> int:
    """Return an open size."""
    size: int = Symbol(name, hint, low, high).size
    return size


def check_open(
    instruction: Instruction,
    sets: Iterable[Sizes],
    target: Target,
    *,
    threads: Sequence[int] = (1, 2, 3),
    specials: bool = False,
    operands_of: Callable[[Any], Sequence[Array]] | None = None,
    **tolerance: Any,
) -> None:
    """Generate the kernel of *instruction* once, and compare it with its operator for each set.

    Nothing may be asked of sizes that their ranges do not answer.
    """
    source = generate_kernel(instruction, target)
    assert not source.guards, "; ".join(map(str, source.guards))
    symbols = symbols_of_instruction(instruction)
    rng = np.random.default_rng(0)
    for sizes in sets:
        static = with_sizes(instruction, sizes)
        if operands_of is None:
            operands = [random_array(rng, b.type, specials=specials) for b in read(static)]
        else:
            operands = list(operands_of(static))
        given = np.array([sizes[symbol.name] for symbol in symbols], np.int64)
        own = {new.name: sizes[old.name] for new, old in zip(source.symbols, symbols, strict=True)}
        kernel = RunningKernel(replace(source, scratch_bytes=at(source.scratch_bytes, own)), target)
        for count in threads:
            results = [guarded(b.type.shape, b.type.kind) for b in mutated(static)]
            kernel(*(inner for inner, _ in results), *operands, given, threads=count)
            for (found, whole), wanted in zip(results, expected_of(static, operands), strict=True):
                assert guards_are_intact(whole), f"{sizes}: wrote outside of the result"
                assert_close(found, wanted, **tolerance)


def with_sizes(instruction: Instruction, sizes: Sizes) -> Instruction:
    """Return *instruction* with *sizes* by name."""
    return Sizing(lambda size: at(size, sizes)).instruction(instruction)
