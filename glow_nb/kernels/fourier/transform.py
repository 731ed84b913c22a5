"""The kernel of a fast Fourier transform: one sequence after the other, in scratch.

Real and imaginary parts lie in buffers of their own, so that a vector holds a part of neighbouring
numbers. An inverse transform is a forward one of numbers whose parts have changed places.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from math import prod
from typing import Any

from glow_nb.base.types import ElementKind
from glow_nb.kernels.fourier.butterflies import ComplexCode, Pair
from glow_nb.kernels.fourier.plan import FourierPlan, Pass
from glow_nb.kernels.operators.fast_fourier import FastFourierInst
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.loops import share
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import Block, blocks_of

BUFFERS = (("ar", "ai"), ("br", "bi"))
"""The pointers to the parts of the two buffers."""


@kernel_for(FastFourierInst)
def fast_fourier_source(instruction: FastFourierInst, target: Target) -> KernelSource:
    """Return the kernel ``(dest, input, roots)`` of a transform."""
    kind, lanes = instruction.dest.type.kind, instruction.lanes
    plan = FourierPlan.of(instruction, lanes, has_eight=instruction.has_eight)
    out = SourceWriter()
    out.line(
        f"# {plan.node_length} numbers as {plan.length}, {plan.rows} x {plan.columns}"
        f"{' around a chirp' if plan.is_convolution else ''}"
    )
    with out.block("def kernel(dest, input, roots, scratch, thread, threads):"):
        if instruction.dest.type.size:
            _Writer(out, instruction, plan, kind).write()
        else:
            out.line("return")
    scratch = len(BUFFERS) * 2 * plan.buffer * kind.size_bytes
    return KernelSource("fast_fourier", out.text, (kind,) * 3, scratch)


@dataclass
class _Writer:
    """Writes the loop over sequences.

    Attributes:
        out: Receives the lines.
        node: The instruction.
        plan: The passes of the transform.
        kind: The kind of all parts.
        now: The number of the buffer that has the numbers.
    """

    out: SourceWriter
    node: Any
    plan: FourierPlan
    kind: ElementKind
    now: int = 0

    def _code(self, lanes: int, prefix: str = "v") -> ComplexCode:
        return ComplexCode(self.out, self.kind, lanes, prefix)

    def _ordered(self, pair: Pair) -> Pair:
        """Return *pair*, with its parts changed if the transform is inverse."""
        return (pair[1], pair[0]) if self.node.inverse else pair

    def write(self) -> None:
        """Write the body of the kernel."""
        out, plan = self.out, self.plan
        out.line(f"parts = as_{self.kind.value}(scratch)")
        for number, name in enumerate(name for pair in BUFFERS for name in pair):
            out.line(f"{name} = at(parts, {number * plan.buffer + plan.lanes})")
        if plan.padded_rows * plan.padded_columns != plan.size:  # what fills vectors up is computed
            out.line(f"clear(parts, 0, {4 * plan.buffer})")
        shape = self.node.input.type.shape
        with out.block(f"for line in {share(prod(shape[:-2]))}:"):
            out.line(f"begin = line * {prod(shape[-2:])}")
            out.line(f"to = line * {prod(self.node.dest.type.shape[-2:])}")
            self.now = 0 if plan.columns == plan.padded_columns else 1
            self._load()
            if self.now:
                self._move_rows(plan.rows, plan.columns, plan.padded_columns)
            if plan.is_convolution:
                self._write_convolution()
            else:
                self._write_passes()
            if plan.padded_rows != plan.rows:
                self._move_rows(plan.columns, plan.padded_rows, plan.rows)
            if plan.is_paired:
                self._bring_together()
            self._store()

    def _move_rows(self, count: int, source: int, wanted: int) -> None:
        """Write the move of rows to the other buffer, where they are *wanted* elements apart."""
        other, size = 1 - self.now, min(source, wanted)
        with self.out.block(f"for row in range({count}):"):
            for to, origin in zip(BUFFERS[other], BUFFERS[self.now], strict=True):
                place, start = times("row", wanted), times("row", source)
                self.out.line(f"copy({to}, {place}, {origin}, {start}, {size})")
        self.now = other

    def _load(self) -> None:
        """Write the loads of a sequence to the buffer that is now, real and imaginary parts."""
        plan, out = self.plan, self.out
        real, imaginary = self._ordered(BUFFERS[self.now])
        is_complex = plan.is_paired or self.node.input.type.shape[-1] == 2
        count = plan.length if plan.is_paired else self.node.input.type.shape[-2]
        for block in blocks_of(out, count, plan.lanes):
            if is_complex:
                pair = _twice(block)
                out.line(f"x = {pair.load('input', plus('begin', pair.column))}")
                parts = "even(x)", "odd(x)"
            else:
                loaded = block.load("input", plus("begin", block.column))
                parts = loaded, f"splat_{self.kind.value}(0.0, {block.lanes})"
            out.line(block.store(real, block.column, parts[0]))
            out.line(block.store(imaginary, block.column, parts[1]))
        for block in blocks_of(out, plan.length - count, plan.lanes):
            self._mirror(block, count, (real, imaginary), plan.length)
            place = plus(str(count), block.column)
            out.line(block.store(real, place, "mr"))
            out.line(block.store(imaginary, place, "mi"))

    def _mirror(self, block: Block, first: int, parts: Pair, length: int) -> None:
        """Write ``mr`` and ``mi``: of a symmetric spectrum the numbers from *first* on."""
        last = f"{length - first - block.lanes + 1} - {block.column}"
        self.out.line(f"mr = reverse(load({parts[0]}, {last}, {block.lanes}))")
        self.out.line(f"mi = neg(reverse(load({parts[1]}, {last}, {block.lanes})))")

    def _write_passes(self) -> None:
        """Write the passes from the first buffer on, with the twist between."""
        for number, each in enumerate(self.plan.passes(is_second=False)):
            self._write_pass(each, f"p{number}_")
        self._write_twist()
        for number, each in enumerate(self.plan.passes(is_second=True)):
            self._write_pass(each, f"s{number}_")

    def _write_pass(self, step: Pass, tag: str) -> None:
        """Write ``y[q + run * (radix * p + k)] = root ** (p k) * sum over j of ...``."""
        out, lanes, code = self.out, self.plan.lanes, self._code(self.plan.lanes, tag)
        source, dest = BUFFERS[self.now], BUFFERS[1 - self.now]
        turned = step.turns > 1
        with out.block(f"for p in range({step.turns}):") if turned else nullcontext():
            roots: list[Pair] = []
            for k in range(2 * (step.radix - 1) if turned else 0):
                place = f"{step.roots + k} + p * {2 * (step.radix - 1)}"
                out.line(f"{tag}w{k} = broadcast(roots, {place}, {lanes})")
                if k % 2:
                    roots.append((f"{tag}w{k - 1}", f"{tag}w{k}"))
            with out.block(f"for q in range(0, {step.run}, {lanes}):"):
                start = plus("q", times("p", step.run)) if turned else "q"
                wide = plus("q", times("p", step.run * step.radix)) if turned else "q"
                gap = step.run * step.turns
                x = [
                    (
                        code.name(f"load({source[0]}, {plus(start, j * gap)}, {lanes})"),
                        code.name(f"load({source[1]}, {plus(start, j * gap)}, {lanes})"),
                    )
                    for j in range(step.radix)
                ]
                for k, y in enumerate(code.butterfly(x)):
                    y = code.product(y, roots[k - 1]) if k and turned else y
                    for name, part in zip(dest, y, strict=True):
                        out.line(f"store({name}, {plus(wide, k * step.run)}, {part})")
        self.now = 1 - self.now

    def _write_twist(self) -> None:
        """Write the product of the matrix with its roots, transposed."""
        out, plan, lanes = self.out, self.plan, self.plan.lanes
        source, dest = BUFFERS[self.now], BUFFERS[1 - self.now]
        code = self._code(lanes, "t")
        with out.block(f"for a in range(0, {plan.padded_rows}, {lanes}):"):
            with out.block(f"for b in range(0, {plan.padded_columns}, {lanes}):"):
                at, root = f"a * {plan.padded_columns} + b", f"a * {plan.columns} + b"
                x = [
                    code.name(
                        f"tile_load({name}, {at}, {plan.padded_columns}, {lanes}, 1, {lanes})"
                    )
                    for name in source
                ]
                w = [
                    code.name(f"tile_load(roots, {place}, {plan.columns}, {lanes}, 1, {lanes})")
                    for place in (root, f"{plan.size} + {root}")
                ]
                for name, part in zip(dest, code.product((x[0], x[1]), (w[0], w[1])), strict=True):
                    turned = f"tile_transpose({part}, {lanes})"
                    place = f"b * {plan.padded_rows} + a"
                    out.line(f"tile_store({name}, {place}, {plan.padded_rows}, {turned})")
        self.now = 1 - self.now

    def _write_convolution(self) -> None:
        """Write the transform of any length: a product of transforms around two of a chirp."""
        out, plan, lanes = self.out, self.plan, self.plan.lanes
        spectrum = plan.chirp_roots + 2 * plan.length
        self._multiply_by_chirp(BUFFERS[0])
        for name in BUFFERS[0]:
            out.line(f"clear({name}, {plan.length}, {plan.size - plan.length})")
        with out.block("for turn in range(2):"):
            self._write_passes()
            real, imaginary = BUFFERS[self.now]
            with out.block("if turn == 0:"), out.block(f"for c in range(0, {plan.size}, {lanes}):"):
                code = self._code(lanes, "z")
                x = _load_pair(code, (real, imaginary), "c", "c", lanes)
                places = plus(spectrum, "c"), plus(spectrum + plan.size, "c")
                y = code.product(x, _load_pair(code, ("roots", "roots"), *places, lanes))
                out.line(f"store(ar, c, {y[1]})")  # the second transform is an inverse one
                out.line(f"store(ai, c, {y[0]})")
        self._multiply_by_chirp((imaginary, real))

    def _multiply_by_chirp(self, parts: Pair) -> None:
        plan = self.plan
        with self.out.block(f"for c in range(0, {plan.length}, {plan.lanes}):"):
            code = self._code(plan.lanes, "h")
            places = plus(plan.chirp_roots, "c"), plus(plan.chirp_roots + plan.length, "c")
            x = _load_pair(code, parts, "c", "c", plan.lanes)
            y = code.product(x, _load_pair(code, ("roots", "roots"), *places, plan.lanes))
            for name, part in zip(BUFFERS[self.now], y, strict=True):
                self.out.line(f"store({name}, c, {part})")

    def _bring_together(self) -> None:
        """Write the spectrum of real numbers from that of pairs, ``length + 1`` numbers.

        Even and odd numbers of the sequence have the spectra ``(z + r) / 2`` and ``(z - r) / 2i``,
        where r is the conjugate of z, backwards; the whole one is their sum, the second one times
        a root.
        """
        out, plan, lanes = self.out, self.plan, self.plan.lanes
        source, dest = BUFFERS[self.now], BUFFERS[1 - self.now]
        for name in source:
            out.line(f"put({name}, {plan.length}, get({name}, 0))")
        with out.block(f"for c in range(0, {plan.length + 1}, {lanes}):"):
            code = self._code(lanes, "g")
            zr, zi = _load_pair(code, source, "c", "c", lanes)
            back = f"{plan.length - lanes + 1} - c"
            rr, ri = (code.name(f"reverse(load({n}, {back}, {lanes}))") for n in source)
            half = code.name(code.splat(0.5))
            even = (
                code.name(f"mul(add({zr}, {rr}), {half})"),
                code.name(f"mul(sub({zi}, {ri}), {half})"),
            )
            odd = (
                code.name(f"mul(add({zi}, {ri}), {half})"),
                code.name(f"mul(sub({rr}, {zr}), {half})"),
            )
            places = plus(plan.pair_roots, "c"), plus(plan.pair_roots + plan.length + 1, "c")
            root = _load_pair(code, ("roots", "roots"), *places, lanes)
            whole = code.add(even, code.product(odd, root))
            for name, part in zip(dest, whole, strict=True):
                out.line(f"store({name}, c, {part})")
        self.now = 1 - self.now

    def _store(self) -> None:
        """Write the results, divided by the length of an inverse transform."""
        plan, out, count = self.plan, self.out, self.node.dest.type.shape[-2]
        parts = self._ordered(BUFFERS[self.now])
        is_real = self.node.dest.type.shape[-1] == 1
        known = min(count, plan.length + 1 if plan.is_paired else plan.length)
        for block in blocks_of(out, known, plan.lanes):
            shown = [
                self._scaled(f"load({n}, {block.column}, {block.lanes})", block) for n in parts
            ]
            if is_real:
                out.line(block.store("dest", plus("to", block.column), shown[0]))
            else:
                self._store_pair(_twice(block), 0, *shown)
        for block in blocks_of(out, count - known, plan.lanes):
            self._mirror(block, known, parts, plan.node_length)
            self._store_pair(_twice(block), 2 * known, "mr", "mi")

    def _scaled(self, vector: str, block: Block) -> str:
        if not self.node.inverse:
            return vector
        return f"mul({vector}, {self._code(block.lanes).splat(1 / self.plan.node_length)})"

    def _store_pair(self, block: Block, first: int, real: str, imaginary: str) -> None:
        place = plus("to", first, block.column)
        self.out.line(block.store("dest", place, f"interleave({real}, {imaginary})"))


def _twice(block: Block) -> Block:
    """Return the block of the parts of the numbers of *block*, in turn."""
    count = None if block.count is None else 2 * block.count
    column = block.column if block.column == "0" else f"2 * {block.column}"
    return Block(column, 2 * block.lanes, count)


def _load_pair(code: ComplexCode, names: Pair, real: str, imaginary: str, lanes: int) -> Pair:
    """Write the loads of both parts and return them."""
    return (
        code.name(f"load({names[0]}, {real}, {lanes})"),
        code.name(f"load({names[1]}, {imaginary}, {lanes})"),
    )
