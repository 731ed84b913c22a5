"""Fourier transforms by radix passes, with their roots in a table."""

from __future__ import annotations

from typing_extensions import override

from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.graph import Value, define_node
from glow_nb.hlir.ops.fourier import Transforming
from glow_nb.kernels.fourier.plan import FourierPlan
from glow_nb.llir.instructions.derived import derive_instruction


@define_node("fast_fourier")
class FastFourier(Transforming):
    """Transform sequences like :class:`~glow_nb.hlir.ops.fourier.FourierTransform`, by passes.

    ``roots`` is the table of its :class:`~glow_nb.kernels.fourier.plan.FourierPlan`, of the kind of
    ``input``, float32 or float64.

    Attributes:
        lanes: Elements of the vectors that the table is for.
        has_eight: There are passes of radix 8.
    """

    input: Value
    roots: Value
    lanes: int = 4
    has_eight: bool = False

    @override
    def infer_type(self) -> TensorType:
        result, roots = self.transformed_type(self.input.type), self.roots.type
        self.require(
            0 < self.lanes <= 64 and not self.lanes & (self.lanes - 1),
            f"lanes is {self.lanes}, but must be a power of two up to 64",
        )
        plan = FourierPlan.of(self, self.lanes, has_eight=self.has_eight)
        wanted = TensorType(self.input.type.kind, (plan.table_size,))
        self.require(roots == wanted, f"'roots' is {roots}, but the plan needs {wanted}")
        return result

    @override
    def evaluate(self, input: Array, roots: Array) -> Array:
        return self.transformed(input)


FastFourierInst = derive_instruction(FastFourier)
