"""Loops that are unrolled: several iterations in a row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from glow_nb.simd.lanes import I32
from glow_nb.simd.types import INDEX


@contextmanager
def turns(builder: Any, count: Any, at_once: int) -> Iterator[Any]:
    """Write a loop of *count* iterations, unrolled *at_once* times; yield the iteration's number.

    The number is counted once for all iterations of a turn, which takes fewer instructions then.
    That matters most on a core whose other hardware thread is busy, too, as both share what the
    core can decode and issue in a cycle.
    """
    with cgutils.for_range(builder, count, intp=INDEX) as loop:
        yield loop.index
        last = builder.basic_block
    last.terminator.set_metadata("llvm.loop", _unrolled(builder.module, at_once))


def _unrolled(module: Any, times: int) -> Any:
    """Return the metadata by which LLVM unrolls a loop *times* times; it must name itself."""
    order = module.add_metadata(["llvm.loop.unroll.count", ir.Constant(I32, times)])
    loop = ir.MDValue(module, [], name=str(len(module.metadata)))
    loop.operands = (loop, order)
    return loop
