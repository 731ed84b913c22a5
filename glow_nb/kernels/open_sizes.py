"""Kernels of instructions whose sizes are known only when the network runs.

A generator writes such a kernel as any other: an open size prints itself as an expression, such as
``(2 * size0 + 1)``, whether it is formatted or made a ``str``. Here the sizes get names of ours
before, and the kernel gets one argument more behind, ``sizes``, an array that it reads them from.
What a generator asks of a size is answered by the sizes of the example, and is a guard of the
kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from glow_nb.base.errors import CompileError, UnsupportedError
from glow_nb.base.map_sizes import renaming
from glow_nb.base.open_size_error import OpenSizeError
from glow_nb.base.size import Symbol
from glow_nb.base.size_as_code import printed_as_code
from glow_nb.base.types import ElementKind
from glow_nb.kernels.writing.source import INDENT, KernelSource
from glow_nb.llir.program import Instruction
from glow_nb.llir.with_sizes import Sizing, symbols_of_instruction

_HEAD = re.compile(r"def kernel\((.*?)scratch, thread, threads\):\n", re.DOTALL)


def open_kernel(
    instruction: Instruction, write: Callable[[Instruction], KernelSource]
) -> KernelSource:
    """Return the kernel that *write* writes of *instruction*, with its sizes as an argument.

    Raises:
        UnsupportedError: It needs numbers where sizes are open.
    """
    symbols = symbols_of_instruction(instruction)
    own = {
        symbol: Symbol(f"size{number}", symbol.hint, symbol.low, symbol.high)
        for number, symbol in enumerate(symbols)
    }
    try:
        with printed_as_code():
            source = write(Sizing(renaming(own)).instruction(instruction))
        text = _with_sizes(source.text, len(symbols))
    except (CompileError, OpenSizeError) as error:
        raise _needs_numbers(instruction, symbols) from error
    guards = tuple(dict.fromkeys(guard for symbol in own.values() for guard in symbol.guards))
    return replace(
        source,
        text=text,
        arguments=(*source.arguments, ElementKind.INT64),
        symbols=tuple(own.values()),
        guards=guards,
    )


def _needs_numbers(instruction: Instruction, symbols: Sequence[Symbol]) -> UnsupportedError:
    names = ", ".join(symbol.name for symbol in symbols)
    return UnsupportedError(
        f"{instruction!r}: its kernel needs numbers, and sizes are open: {names}; compile the "
        "model for each set of sizes (leave sizes= out), or give these by shapes="
    )


def _with_sizes(text: str, count: int) -> str:
    """Return *text* with the argument ``sizes``, and what it reads of that in front."""
    head = _HEAD.search(text)
    if head is None:
        raise CompileError("the kernel does not end its arguments with scratch, thread, threads")
    body = text[head.end() :]
    used = [n for n in range(count) if re.search(rf"\bsize{n}\b", body)]
    lines = "".join(f"{INDENT}size{n} = get(sizes, {n})\n" for n in used)
    begin = f"def kernel({head[1]}sizes, scratch, thread, threads):\n"
    return text[: head.start()] + begin + lines + body
