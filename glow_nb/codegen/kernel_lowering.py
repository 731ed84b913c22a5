"""A pass of numba: its lowering of a kernel to LLVM, without questions whose answer is known.

numba may have an own implementation of an operator for operands that it knows as numbers, and tries
three of them for each operator. A pass of its own would have to find these operands, which kernels
do without: what LLVM is given is the same, after a quarter of the time for an operator.
"""

from __future__ import annotations

from typing import Any

from numba.core import ir, lowering, typed_passes
from numba.core.compiler_machinery import register_pass
from typing_extensions import override


class KernelLower(lowering.Lower):
    """Emits LLVM instructions of a kernel."""

    @override
    def lower_binop(self, resty: Any, expr: Any, op: Any) -> Any:
        """Return the value of the operator *op* on the operands of *expr*, of the type *resty*."""
        if expr.static_lhs is not ir.UNDEFINED or expr.static_rhs is not ir.UNDEFINED:
            return super().lower_binop(resty, expr, op)
        context, typing_context = self.context, self.context.typing_context
        function = typing_context.resolve_value_type(op)
        signature = self.fndesc.calltypes[expr]
        operands = [
            context.cast(self.builder, self.loadvar(operand.name), self.typeof(operand.name), type)
            for operand, type in zip((expr.lhs, expr.rhs), signature.args, strict=True)
        ]
        found = function.get_call_type(typing_context, signature.args, {})
        result = context.get_function(function, found)(self.builder, operands)
        return context.cast(self.builder, result, signature.return_type, resty)


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelLowering(typed_passes.NativeLowering):
    """Lower a kernel to LLVM's instructions."""

    _name = "native_lowering_of_kernels"

    @property
    @override
    def lowering_class(self) -> type[lowering.Lower]:
        return KernelLower
