"""The kernel of attention: for blocks of keys, scores, running softmax and sums of values.

No matrix of queries and keys is stored (Milakov and Gimelshein 2018; Dao and others 2022). Each
row of queries has a peak ``m``, the largest score so far, a total ``l`` of exponentials and sums
``o`` of values. A block of keys with scores ``s`` changes them to::

    m' = max(m, s),  e = exp(s - m'),  l' = l * exp(m - m') + sum(e),  o' = o * exp(m - m') + e @ v

and the result is ``o / l``. Where all scores so far are -inf, 0 takes the place of ``m'``, so that
nothing becomes NaN; a total of 0 is left then. Any ``m'`` near the largest score does as well: it
stays as it is until a score is greater by some units, so that little is multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.base.dot_instruction import dot_named_by
from glow_nb.base.plan import Plan
from glow_nb.base.size import surely
from glow_nb.fuse.vector_code import number_text
from glow_nb.hlir.ops.attention import ZERO, ZERO_FOR_NAN
from glow_nb.kernels.attention.matrix_packing import MatrixPacking
from glow_nb.kernels.attention.matrix_products import MatrixProducts, split_factor
from glow_nb.kernels.attention.packing import Packing
from glow_nb.kernels.attention.plan import ATTENTION, AttentionPlan, plan_attention
from glow_nb.kernels.attention.products import Products
from glow_nb.kernels.attention.shape import AttentionShape
from glow_nb.kernels.attention.softmax import LOG2_E, RunningSoftmax
from glow_nb.kernels.registry import kernel_for, plan_of
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import index_text, plus, times
from glow_nb.kernels.writing.loops import loops
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import blocks_of
from glow_nb.llir.instructions.attention import AttentionInst
from glow_nb.llir.program import kernel_operands
from glow_nb.llir.traits import KernelTraits


def plan_attention_kernel(
    instruction: AttentionInst,
    target: Target,
    fusion: Fusion,
) -> Plan | None:
    """Plan the tiles and blocks of an attention; None if there is nothing to sum up.

    A plan that names the dot instruction alone has the rest of it from here.
    """
    if not _has_sums(instruction):
        return None
    given = instruction.plan
    wanted = dot_named_by(given).name if given is not None and given.has("dot") else None
    return plan_attention(AttentionShape.of(instruction), target, wanted).as_plan()


def _has_sums(instruction: AttentionInst) -> bool:
    return AttentionShape.of(instruction).keys != 0 and instruction.dest.type.size != 0


@kernel_for(
    AttentionInst,
    traits=KernelTraits(strided=("dest", "query", "key", "value"), any_rows=True),
    planner=plan_attention_kernel,
)
def attention_source(instruction: AttentionInst, target: Target) -> KernelSource:
    """Return the kernel ``(dest, query, key, value[, mask])`` of an attention."""
    shape = AttentionShape.of(instruction)
    kinds = tuple(buffer.type.kind for buffer in kernel_operands(instruction))
    out = SourceWriter()
    heads = f"{shape.batch} x {shape.groups} x {shape.share} heads"
    sizes = f"{shape.queries} queries, {shape.keys} keys of {shape.depth}, values of {shape.width}"
    out.line(f"# attention of {shape.kind.value}: {heads}, {sizes}")
    mask = "mask, " if shape.mask else ""
    header = f"def kernel(dest, query, key, value, {mask}scratch, thread, threads):"
    if not _has_sums(instruction):
        with out.block(header):
            if instruction.dest.type.size != 0:
                _write_zeros(out, shape)
            else:
                out.line("return")
        return KernelSource("attention", out.text, kinds)
    plan = AttentionPlan.from_plan(plan_of(instruction, ATTENTION), shape, target)
    out.line(f"# {_described(plan)}")
    with out.block(header):
        _AttentionWriter(out, shape, plan, instruction).write()
    return KernelSource("attention", out.text, kinds, plan.scratch_bytes)


def _described(plan: AttentionPlan) -> str:
    tiles = f"tiles of {plan.rows} rows x {plan.score_vectors} and {plan.sum_vectors} vectors"
    blocks = f"blocks of {plan.block_rows} rows and {plan.block_keys} keys"
    dot = f"{plan.dot}, " if plan.is_matrix else ""
    return f"{dot}{tiles} of {plan.lanes}, {blocks}, chunks of {plan.chunk_rows} rows"


def _write_zeros(out: SourceWriter, shape: AttentionShape) -> None:
    """Write the sums of no values."""
    sizes = [shape.batch, shape.groups * shape.share, shape.queries]
    with loops(out, sizes, shared=True) as indices:
        place = shape.dest
        at = index_text(indices, [place.image, place.head, place.token])
        out.line(f"clear(dest, {at}, {shape.width})")


@dataclass(frozen=True)
class _AttentionWriter:
    """Writes the loops of one kernel, from the outside in.

    Attributes:
        out: Receives the lines.
        shape: The attention.
        plan: Its blocks.
        instruction: The attention.
    """

    out: SourceWriter
    shape: AttentionShape
    plan: AttentionPlan
    instruction: AttentionInst

    def write(self) -> None:
        """Write the body: each thread has a share of the tiles of all heads."""
        out, shape, plan = self.out, self.shape, self.plan
        if not surely(shape.keys, ">", 0):
            with out.block(f"if {shape.keys} == 0:"):
                _write_zeros(out, shape)
                out.line("return")
        for name, offset in plan.offsets.items():
            place = f"at(scratch, {offset})" if offset else "scratch"
            out.line(f"{name} = as_{plan.regions[name][1].value}({place})")
        self._packing.write_start(out)
        self._products.write_start(out)
        tiles = -(-shape.rows // plan.rows)
        pieces = shape.units * tiles
        out.line(f"piece = thread * {pieces} // threads")
        out.line(f"piece_end = (thread + 1) * {pieces} // threads")
        with out.block("while piece < piece_end:"):
            out.line(f"unit = piece // {tiles}")
            out.line(f"first = piece % {tiles}")
            out.line(f"count = min(piece_end - piece, {tiles} - first)")
            out.line(f"count = min(count, {plan.block_rows // plan.rows})")
            out.line("piece = piece + count")
            out.line(f"first = {times('first', plan.rows)}")
            out.line(f"count = min({times('count', plan.rows)}, {shape.rows} - first)")
            out.line(f"image = unit // {shape.groups}")
            out.line(f"group = unit % {shape.groups}")
            for name, tensor in (("key", shape.key), ("value", shape.value)):
                at = index_text(["image", "group"], [tensor.image, tensor.head])
                out.line(f"first_{name} = {at}")
            self._write_queries()
            self._write_blocks()
            self._write_results()
        if plan.is_matrix:
            out.line("matrix_release()")

    @property
    def _packing(self) -> Packing:
        return (MatrixPacking if self.plan.is_matrix else Packing)(self.shape, self.plan)

    @property
    def _products(self) -> Products:
        form = MatrixProducts if self.plan.is_matrix else Products
        return form(self.shape, self.plan, self._packing)

    @property
    def _factors(self) -> tuple[float, float]:
        """The factors of queries and of scores."""
        factor = self.instruction.scale / (self.instruction.softcap or 1.0)
        if not self.plan.is_matrix:
            return factor, 1.0
        return split_factor(factor * LOG2_E if self._softmax(1.0).takes_powers_of_two else factor)

    def _softmax(self, factor: float) -> RunningSoftmax:
        softcap, fill = self.instruction.softcap, self.instruction.fill
        return RunningSoftmax(self.shape, self.plan, softcap, fill, factor)

    def _write_queries(self) -> None:
        """Copy the queries of the block, multiplied; nothing is summed up yet."""
        out, shape, lanes = self.out, self.shape, self.plan.lanes
        kind, packing, depth = shape.computed.value, self._packing, self.plan.copied_depth
        factor = number_text(self._factors[0])
        with out.block("for row in range(count):"):
            out.line(f"query_at = {shape.place_of('first + row', shape.query)}")
            for block in blocks_of(out, shape.depth, lanes):
                x = packing.widened(block.load("query", plus("query_at", block.column)))
                x = f"mul({x}, splat_{kind}({factor}, {block.lanes}))"
                at = plus(times("row", depth), block.column)
                out.line(block.store("queries", at, packing.copied(x)))
            if depth != shape.depth:
                at = plus(times("row", depth), shape.depth)
                out.line(f"clear(queries, {at}, {depth - shape.depth})")
            out.line(f"store(peaks, {times('row', lanes)}, splat_{kind}(-1e999, {lanes}))")
        out.line(f"clear(totals, 0, {times('count', lanes)})")
        out.line(f"clear(sums, 0, {times('count', self.plan.width)})")

    def _write_blocks(self) -> None:
        """Write the loop over the blocks of keys that some row sees."""
        out, shape, plan = self.out, self.shape, self.plan
        packing = self._packing
        first_chunk = "0"
        out.line(f"end = {shape.keys}")
        seen = "end"
        if shape.offset is not None:
            last = shape.query_of("first + count - 1")
            seen = f"min(end, max({plus(last, shape.offset + 1)}, 0))"
            row = f"max({shape.first_row('begin')} - first, 0)"
            first_chunk = f"{row} // {plan.chunk_rows} * {plan.chunk_rows}"
        with out.block(f"for begin in range(0, {seen}, {plan.block_keys}):"):
            out.line(f"length = min({plan.block_keys}, end - begin)")
            if plan.packs_keys:
                packing.write_keys(out)
            if plan.packs_values:
                packing.write_values(out)
            with out.block(f"for chunk in range({first_chunk}, count, {plan.chunk_rows}):"):
                self._write_chunk()

    def _write_chunk(self) -> None:
        """Write what a block of keys does to a chunk of rows."""
        out, shape, plan = self.out, self.shape, self.plan
        out.line(f"chunk_rows = min({plan.chunk_rows}, count - chunk)")
        out.line(f"tiles = (chunk_rows + {plan.rows - 1}) // {plan.rows}")
        is_causal = shape.offset is not None
        reach = shape.limit_of("first + chunk + chunk_rows - 1") if is_causal else "length"
        out.line(f"reach = {reach}")
        self._products.write_scores(out)
        self._softmax(self._factors[1]).write(out)
        self._products.write_sums(out)

    def _write_results(self) -> None:
        """Divide the sums by the totals."""
        out, shape, plan = self.out, self.shape, self.plan
        kind, lanes = shape.computed.value, plan.lanes
        with out.block("for row in range(count):"):
            out.line(f"dest_at = {shape.place_of('first + row', shape.dest)}")
            out.line(f"total = reduce_add(load(totals, {times('row', lanes)}, {lanes}))")
            for block in blocks_of(out, shape.width, lanes):
                total = f"splat_{kind}(total, {block.lanes})"
                at = plus(times("row", plan.width), block.column)
                sums, zero = f"load(sums, {at}, {block.lanes})", f"splat_{kind}(0.0, {block.lanes})"
                y = _quotient(sums, total, zero, self.instruction.masked_rows)
                y = y if shape.result is shape.computed else f"convert_{shape.result.value}({y})"
                out.line(block.store("dest", plus("dest_at", block.column), y))


def _quotient(sums: str, total: str, zero: str, masked_rows: str) -> str:
    """Return the text of *sums* by *total*, vectors like *zero*.

    For a row of which nothing is seen the total is 0, and the quotient NaN. *masked_rows* says
    whether it is 0 there, or also where the total is NaN.
    """
    y = f"mul({sums}, reciprocal({total}))"
    if masked_rows == ZERO:
        return f"where(equal({total}, {zero}), {zero}, {y})"
    if masked_rows == ZERO_FOR_NAN:
        return f"where(greater({total}, {zero}), {y}, {zero})"
    return y
