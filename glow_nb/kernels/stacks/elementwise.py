"""One loop nest for a whole run of data-parallel instructions, and copies through views.

Dimensions in which all tensors agree are collapsed. The innermost loop takes several vectors at a
time as one wide vector, which LLVM splits into registers; a broadcast operand has stride 0 there
and is loaded before it. What is left at the end of a row is a narrower piece or a masked one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from glow_nb.base.size import bounds, hinted, surely, symbols_of
from glow_nb.fuse.loop_body import LoopBody
from glow_nb.fuse.vector_code import Vector, VectorCode
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import index_text, plus
from glow_nb.kernels.writing.loops import ENOUGH_ROWS, Nest, loops, row_shares, share
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import (
    ceil_power_of_two,
    floor_power_of_two,
    native_lanes,
    only_last_thread,
)
from glow_nb.llir.program import Buffer, Instruction, kernel_operands
from glow_nb.llir.scalar_functions import CostClass

_VARIABLE = re.compile(r"\b[vx]\d+\b")


def elementwise_source(instruction: Instruction, target: Target) -> KernelSource:
    """Return the kernel of one data-parallel *instruction*: a loop over it alone."""
    return loop_source(LoopBody.of(instruction), target, kernel_operands(instruction))


def loop_source(
    body: LoopBody, target: Target, arguments: Sequence[Buffer] | None = None
) -> KernelSource:
    """Return the kernel that runs *body* as one loop nest over memory.

    Args:
        body: Its operands may broadcast, and may be strided views.
        target: Decides the width of vectors.
        arguments: The pointer arguments; ``body.arguments`` if not given. A buffer may occur twice.
    """
    arguments = body.arguments if arguments is None else arguments
    names = _pointer_names(body, arguments)
    out = SourceWriter()
    with out.block(f"def kernel({', '.join([*names, 'scratch, thread, threads'])}):"):
        if surely(prod(body.shape), "==", 0):
            out.line("return")
        else:
            pointers = dict(zip(reversed(arguments), reversed(names), strict=True))
            _plan(body, target, pointers).write(out)
    return KernelSource("elementwise", out.text, tuple(b.type.kind for b in arguments))


def _pointer_names(body: LoopBody, arguments: Sequence[Buffer]) -> list[str]:
    """Return ``dest0, dest1, ..., src0, src1, ...``; a lone result is ``dest``."""
    dests = [buffer for buffer in arguments if buffer in body.stored]
    counts = {"dest": iter(range(len(arguments))), "src": iter(range(len(arguments)))}
    names = []
    for buffer in arguments:
        role = "dest" if buffer in body.stored else "src"
        number = next(counts[role])
        names.append("dest" if role == "dest" and len(dests) == 1 else f"{role}{number}")
    return names


def _plan(body: LoopBody, target: Target, pointers: dict[Buffer, str]) -> _Loop:
    buffers = (*body.stored, *body.inputs)
    nest = _vectorizable(Nest.over(body.shape, buffers), len(body.stored))
    strides = dict(zip(buffers, nest.strides, strict=True))
    trial = body.trial()
    kinds = {buffer.type.kind for buffer in body.arguments} | {kind for _, kind in trial.calls}
    native = native_lanes(target, *kinds)
    most = floor_power_of_two(bounds(nest.sizes[-1])[1])
    lanes = min(native * vectors_at_once(trial, target), most)
    if any(stride[-1] not in (0, 1) for stride in nest.strides):
        lanes = 1
    is_light = trial.operations <= 2
    return _Loop(body, nest.sizes, strides, pointers, lanes, min(native, lanes), is_light)


def _vectorizable(nest: Nest, stored: int) -> Nest:
    """Return *nest* with a loop inside in which vectors can be loaded and stored, if there is one.

    The first *stored* tensors are written.
    """
    fit = [
        loop
        for loop in range(len(nest.sizes))
        if all(tensor[loop] in (0, 1) for tensor in nest.strides)
        and all(tensor[loop] == 1 for tensor in nest.strides[:stored])
    ]
    return nest.with_innermost(max(fit, key=lambda loop: hinted(nest.sizes[loop]))) if fit else nest


def vectors_at_once(code: VectorCode, target: Target) -> int:
    """Return how many vectors at a time suit what *code* calls, and the registers of *target*."""
    is_long = any(
        function.cost is CostClass.LIBRARY or (function.name == "div" and not kind.is_float)
        for function, kind in code.calls
    )
    if is_long:
        return 1
    fitting = floor_power_of_two(max(1, target.vector_registers // (1 + live_vectors(code.lines))))
    return min(fitting, target.machine.unroll_vectors)


def live_vectors(lines: Sequence[str]) -> int:
    """Return how many vectors are alive at once in *lines* of vector code, ``v3 = mul(x0, v1)``."""
    mentions = [set(_VARIABLE.findall(line)) for line in lines]
    spans: dict[str, tuple[int, int]] = {}
    for number, names in enumerate(mentions):
        for name in names:
            spans[name] = (spans.get(name, (number, number))[0], number)
    alive = (
        sum(first <= number <= last for first, last in spans.values())
        for number in range(len(lines))
    )
    return max(alive, default=1)


@dataclass(frozen=True)
class _Loop:
    """A loop nest, its body and the width of its vectors.

    Attributes:
        body: The formulas.
        sizes: Steps of each loop, the vectorised one last.
        strides: Strides of each buffer, in elements.
        pointers: Name of the argument that points to each buffer.
        lanes: Elements of the wide vectors; 1 if elements of a row do not lie side by side.
        rest_lanes: Elements of the vectors after them in rows of an open length.
        is_light: The code of a piece is short enough to be repeated.
    """

    body: LoopBody
    sizes: tuple[int, ...]
    strides: dict[Buffer, tuple[int, ...]]
    pointers: dict[Buffer, str]
    lanes: int
    rest_lanes: int
    is_light: bool

    def write(self, out: SourceWriter) -> None:
        """Write the whole nest, for the share of one thread."""
        *outer, columns = self.sizes
        rows, blocks = prod(outer), columns // self.lanes
        if rows != 1 and (surely(rows, ">=", ENOUGH_ROWS) or surely(rows, ">=", blocks)):
            with loops(out, outer, shared=True) as indices:
                offsets = self._write_offsets(out, indices)
                self._write_blocks(out, offsets, blocks)
                self._write_rest(out, offsets, blocks * self.lanes)
        elif rows != 1 and symbols_of(rows, blocks):
            with row_shares(out, outer, (columns + (self.lanes - 1)) // self.lanes) as indices:
                self._write_columns(out, self._write_offsets(out, indices))
        else:
            with loops(out, outer, shared=False) as indices:
                offsets = self._write_offsets(out, indices)
                self._write_shared_row(out, offsets, blocks)

    def _write_shared_row(self, out: SourceWriter, offsets: dict[Buffer, str], blocks: int) -> None:
        """Write the thread's share of the wide vectors of a row; the last thread has the rest."""
        whole = 0 if blocks == 1 else blocks
        if whole != 0:
            self._write_shared_blocks(out, offsets, whole)
        if self.sizes[-1] != whole * self.lanes:
            with only_last_thread(out):
                self._write_rest(out, offsets, whole * self.lanes)

    def _write_offsets(self, out: SourceWriter, indices: Sequence[str]) -> dict[Buffer, str]:
        """Write the offset of the present row of each buffer; equal ones have one name."""
        offsets: dict[Buffer, str] = {}
        names: dict[str, str] = {"0": "0"}
        for buffer, strides in self.strides.items():
            text = index_text(indices, strides[:-1])
            if text not in names:
                names[text] = text if text in indices else f"row{len(names) - 1}"
                if text not in indices:
                    out.line(f"{names[text]} = {text}")
            offsets[buffer] = names[text]
        return offsets

    def _write_blocks(self, out: SourceWriter, offsets: dict[Buffer, str], blocks: int) -> None:
        """Write the whole wide vectors of a row."""
        if blocks in (0, 1):
            self._write_rest(out, offsets, 0, blocks * self.lanes)
            return
        piece = self._begin_piece(out, offsets, self.lanes)
        with out.block(f"for j in range(0, {blocks * self.lanes}, {self.lanes}):"):
            piece.write(out, "j")

    def _write_columns(self, out: SourceWriter, offsets: dict[Buffer, str]) -> None:
        """Write the columns from ``panel_begin`` to ``panel_end``, counted in wide vectors."""
        columns, lanes = self.sizes[-1], self.lanes
        out.line(f"begin = panel_begin * {lanes}")
        out.line(f"end = min(panel_end * {lanes}, {columns})")
        piece = self._begin_piece(out, offsets, lanes)
        with out.block(f"for j in range(begin, end - {lanes - 1}, {lanes}):"):
            piece.write(out, "j")
        if columns % lanes != 0:
            self._write_open_rest(out, offsets, f"max(begin, end // {lanes} * {lanes})", "end")

    def _write_shared_blocks(
        self, out: SourceWriter, offsets: dict[Buffer, str], blocks: int
    ) -> None:
        """Write the thread's share of the whole wide vectors of a row."""
        piece = self._begin_piece(out, offsets, self.lanes)
        with out.block(f"for block in {share(blocks)}:"):
            out.line(f"j = block * {self.lanes}")
            piece.write(out, "j")

    def _write_rest(
        self, out: SourceWriter, offsets: dict[Buffer, str], begin: int, end: int | None = None
    ) -> None:
        """Write the elements from column *begin* on in pieces that are no wider than needed."""
        end = self.sizes[-1] if end is None else end
        if symbols_of(end - begin):
            self._write_open_rest(out, offsets, f"{begin}", f"{end}")
            return
        for lanes, count in pieces(end - begin, self.lanes, self.is_light):
            self._begin_piece(out, offsets, lanes).write(out, f"{begin}", count)
            begin += count or lanes

    def _write_open_rest(
        self, out: SourceWriter, offsets: dict[Buffer, str], begin: str, end: str
    ) -> None:
        """Write the elements from column *begin* to the last one, which only a run knows."""
        lanes, at = self.rest_lanes, begin
        if lanes < self.lanes:
            piece = self._begin_piece(out, offsets, lanes)
            with out.block(f"for c in range({begin}, {end} - {lanes - 1}, {lanes}):"):
                piece.write(out, "c")
            at = f"max({begin}, {end} // {lanes} * {lanes})"
        if lanes == 1:
            return
        out.line(f"c = {at}")
        with out.block(f"if c < {end}:"):
            self._begin_piece(out, offsets, lanes).write(out, "c", f"{end} - c")

    def _begin_piece(self, out: SourceWriter, offsets: dict[Buffer, str], lanes: int) -> _Piece:
        """Write the loads of what stays the same along the row."""
        code = VectorCode(lanes)
        invariant = {
            buffer: code.assign(
                f"broadcast({self.pointers[buffer]}, {offsets[buffer]}, {lanes})", buffer.type.kind
            )
            for buffer in self.body.inputs
            if not self.strides[buffer][-1]
        }
        for line in code.lines:
            out.line(line)
        return _Piece(self, offsets, code, invariant, len(code.lines))


@dataclass(frozen=True)
class _Piece:
    """The code of a loop for the elements of a few neighbouring columns.

    Attributes:
        loop: The nest it stands in.
        offsets: Offsets of the present row of each buffer.
        code: Its lines, of which the first *written* are.
        invariant: The operands that are loaded already.
        written: The number of lines that are written.
    """

    loop: _Loop
    offsets: dict[Buffer, str]
    code: VectorCode
    invariant: dict[Buffer, Vector]
    written: int

    def write(self, out: SourceWriter, column: str, count: int | str | None = None) -> None:
        """Write it for the lanes from *column* on, or *count* of them, which may be a text."""
        suffix, mask = ("", "") if count is None else ("_masked", f", {count}")
        vectors = dict(self.invariant)
        for buffer in self.loop.body.inputs:
            if buffer not in vectors:
                text = f"load{suffix}({self._place(buffer, column)}, {self.code.lanes}{mask})"
                vectors[buffer] = self.code.assign(text, buffer.type.kind)
        results = self.loop.body.write(self.code, vectors, self.loop.pointers)
        for line in self.code.lines[self.written :]:
            out.line(line)
        for buffer in self.loop.body.stored:
            place = self._place(buffer, column)
            out.line(f"store{suffix}({place}, {results[buffer].name}{mask})")

    def _place(self, buffer: Buffer, column: str) -> str:
        """Return pointer and index of the first element of *buffer* in the piece."""
        along = index_text([column], [self.loop.strides[buffer][-1]])
        return f"{self.loop.pointers[buffer]}, {plus(self.offsets[buffer], along)}"


def pieces(count: int, widest: int, is_light: bool) -> Iterator[tuple[int, int | None]]:
    """Yield how to take *count* elements: lanes, and how many of them if they are masked.

    A masked store is slow on some processors, so light code is repeated for whole pieces.
    """
    yield from ((widest, None) for _ in range(count // widest))
    rest = count % widest
    if is_light:
        bits = reversed(range(rest.bit_length()))
        yield from ((1 << bit, None) for bit in bits if rest >> bit & 1)
    elif rest:
        lanes = ceil_power_of_two(rest)
        yield lanes, None if lanes == rest else rest
