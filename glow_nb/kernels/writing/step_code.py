"""Elementwise functions of the graph as vector code, on vectors or register tiles."""

from __future__ import annotations

from collections.abc import Callable

from glow_nb.fuse.loop_body import LoopBody
from glow_nb.fuse.vector_code import Vector, VectorCode
from glow_nb.hlir.graph import Function
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.llir.generate import generate
from glow_nb.llir.program import Alloc, Buffer, Dealloc, Weight


class StepCode:
    """Writes a function such as a step of a recurrent layer.

    Attributes:
        reads: The names of what it reads.
        makes: The names of its outputs.
    """

    def __init__(self, function: Function) -> None:
        """Write *function*, whose nodes all have formulas."""
        program = generate(function)
        work = [i for i in program.instructions if not isinstance(i, Alloc | Dealloc)]
        self._outputs = program.outputs
        self._body = LoopBody(tuple(work), program.outputs)
        self.reads = tuple(buffer.name for buffer in program.inputs)
        self.makes = tuple(buffer.name for buffer in program.outputs)

    def write(
        self, out: SourceWriter, prefix: str, lanes: int, load: Callable[[str], str]
    ) -> dict[str, str]:
        """Write the code and return the variable that holds each output.

        Args:
            out: Receives the lines.
            prefix: The prefix of the names of variables.
            lanes: Elements of a vector.
            load: Gives what an operand of this name is loaded by: a tile, or a vector.
        """
        code = VectorCode(lanes, prefix)
        vectors: dict[Buffer, Vector] = {}
        for buffer in self._body.inputs:
            if isinstance(buffer, Weight):  # a number of a formula
                vectors[buffer] = code.splat(buffer.array.item(), buffer.type.kind)
            else:
                vectors[buffer] = code.assign(load(buffer.name), buffer.type.kind)
        made = self._body.write(code, vectors, {})
        for line in code.lines:
            out.line(line)
        return {output.name: made[output].name for output in self._outputs}
