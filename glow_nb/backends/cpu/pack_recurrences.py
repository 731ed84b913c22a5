"""Pack the weights of recurrent layers into panels, as their kernels read them."""

from __future__ import annotations

import dataclasses

from glow_nb.base.size import hinted
from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.ops import Recurrence, RecurrenceGradient
from glow_nb.hlir.ops.formulas.recurrence.cells import Cell
from glow_nb.hlir.ops.formulas.recurrence.panels import emit_panels
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.hlir.rounding import in_float32, is_narrow
from glow_nb.kernels.recurrence.plan import panel_width
from glow_nb.kernels.target import Target


@register_pass
def pack_recurrences(function: Function, *, target: Target | None = None) -> Function:
    """Lay recurrent weights out in panels as wide as the kernels' register tiles.

    Constant weights are packed at compile time. *target* is the processor, by default this one.
    Loops over 16-bit floats become loops over float32. ::

        %y = recurrence(%x, %w : <1 x 64 x 256>, ...) {cell = "lstm", ..., panel = 0}
        ->
        %panels = ... slice, pad, reshape and transpose of %w
        %y = recurrence(%x, %panels : <1 x 16384>, ...) {cell = "lstm", ..., panel = 8}
    """
    chosen = target or Target.host()

    def widen(node: Node, rewriter: Rewriter) -> Replacement:
        return in_float32(node, rewriter) if is_narrow(node.type) else None

    def pack(node: Node, rewriter: Rewriter) -> Replacement:
        if not isinstance(node, Recurrence | RecurrenceGradient) or node.panel:
            return None
        cell, transposed = Cell.of(node), isinstance(node, RecurrenceGradient)
        rows, size = hinted(node.inputs.type.shape[1]), node.recurrent.type.shape[1]
        kind = node.inputs.type.kind
        width = panel_width(cell, rows, size, kind, chosen, is_transposed=transposed)
        panels = emit_panels(rewriter, node.recurrent, cell.phases, width, transposed=transposed)
        packed = rewriter.emit(
            dataclasses.replace(node, recurrent=panels, panel=width, name=""), node.name
        )
        return packed.results

    loops = (Recurrence, RecurrenceGradient)
    return rewrite(rewrite(function, widen, *loops), pack, *loops)
