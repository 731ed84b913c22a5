"""The whole text of graphs, programs and networks."""

from __future__ import annotations

import sys
from typing import IO, Literal

from glow_nb.base.arguments import described
from glow_nb.base.errors import OptionError
from glow_nb.hlir.graph import Function
from glow_nb.hlir.module import Module
from glow_nb.llir.program import Program
from glow_nb.network.ir_text import ir_text
from glow_nb.network.network import Network

Level = Literal["hlir", "llir", "source"]
"""What :func:`print_ir` prints of a network."""


def print_ir(
    ir: Function | Module | Program | Network,
    *,
    level: Level | None = None,
    file: IO[str] | None = None,
) -> None:
    """Print the whole text of *ir*; ``print(ir)`` leaves out the middle of a long one.

    Args:
        ir: A graph, a module of graphs, a program, or a network.
        level: For a network, which state: "hlir", the graph from which instructions were made,
            "llir", the allocated program, or "source", all generated kernels; "llir" by default.
        file: Where to print; standard output by default.

    Raises:
        OptionError: *ir* has no text, or not of this level.
    """
    text = _network_text(ir, level or "llir") if isinstance(ir, Network) else None
    if text is None:
        if level is not None:
            raise OptionError(f"level={level!r:.80}: {ir!r:.80} is no network and has one level")
        if not isinstance(ir, Function | Module | Program):
            raise OptionError(
                f"{described(ir)} is no IR; give a Function, a Module, a Program or a network"
            )
        text = ir_text(ir)
    (sys.stdout if file is None else file).write(text if text.endswith("\n") else f"{text}\n")


def _network_text(network: Network, level: str) -> str:
    match level:
        case "hlir" if network.function is not None:
            return ir_text(network.function)
        case "llir":
            return ir_text(network.program)
        case "source" if network.source:
            return network.source
        case "hlir":
            raise OptionError(f"level='hlir': {network!r:.80} was compiled from a program")
        case "source":
            raise OptionError(f"level='source': nothing was generated for {network!r:.80}")
    raise OptionError(f"level={level!r:.80}: give 'hlir', 'llir' or 'source'")
