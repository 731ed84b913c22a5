"""Choose how Fourier transforms are computed: by radix passes, or as products with roots."""

from __future__ import annotations

from glow_nb.base.types import TensorType
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import FourierTransform
from glow_nb.hlir.ops.families import fitted
from glow_nb.hlir.ops.fourier import LONGEST_PRODUCT, lower_fourier_transform
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.hlir.rounding import in_float32, is_narrow
from glow_nb.kernels.fourier.cost import pass_cycles, product_cycles
from glow_nb.kernels.fourier.plan import REGISTERS_OF_EIGHT, FourierPlan
from glow_nb.kernels.operators import FastFourier
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.vectors import native_lanes


@register_pass
def select_fourier_transforms(function: Function, *, target: Target | None = None) -> Function:
    """Transform long sequences by passes, short ones by a matrix, whichever seems faster.

    *target* is the processor, by default this one. Transforms of 16-bit floats are made in float32.

    ::

        %y = fourier_transform(%x) {length = 1024, ...} : <1 x 1024 x 2>
        ->
        %y = fast_fourier(%x, %roots) {length = 1024, ..., lanes = 8} : <1 x 1024 x 2>
    """
    chosen = target or Target.host()

    def rule(node: FourierTransform, rewriter: Rewriter) -> Replacement:
        lanes = native_lanes(chosen, node.type.kind)
        has_eight = chosen.vector_registers >= REGISTERS_OF_EIGHT
        plan = FourierPlan.of(node, lanes, has_eight=has_eight)
        by_passes = pass_cycles(node, plan, chosen)
        if node.length <= LONGEST_PRODUCT and product_cycles(node, chosen) < by_passes:
            return lower_fourier_transform(node, rewriter)
        table = fitted(plan.table(), TensorType(node.type.kind, (plan.table_size,)))
        roots = rewriter.constant("roots", table)
        return rewriter.emit(
            FastFourier(
                node.input,
                roots,
                length=node.length,
                inverse=node.inverse,
                onesided=node.onesided,
                lanes=lanes,
                has_eight=has_eight,
            ),
            node.name,
        )

    def widened(node: FourierTransform, rewriter: Rewriter) -> Replacement:
        return in_float32(node, rewriter) if is_narrow(node.type) else None

    wide = rewrite(function, widened, FourierTransform)
    return rewrite(wide, rule, FourierTransform, for_all_sizes=False)
