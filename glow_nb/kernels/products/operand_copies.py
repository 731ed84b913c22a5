"""The operands of the tiles of a product of panels: in place, or copied to scratch.

A plan says so: operands of 16-bit floats are ``widened``, left rows lie in ``planes`` for matrix
registers.
"""

from __future__ import annotations

from glow_nb.base.plan import Plan
from glow_nb.kernels.products.matrix_product import MatrixProductWriter
from glow_nb.kernels.products.planes import in_best_place, in_place_of_plan
from glow_nb.kernels.products.product_loops import ProductWriter
from glow_nb.kernels.products.product_nest import ProductNest
from glow_nb.kernels.products.product_plan import plan_nest
from glow_nb.kernels.products.widening import can_widen, pays_to_widen
from glow_nb.kernels.products.written_panels import WidenedPanels
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target


def plan_panels(nest: ProductNest, target: Target, fusion: Fusion) -> Plan:
    """Return the fastest loops of *nest*, of panels.

    ``widened`` is set where that is faster, and ``planes`` where left rows are copied to planes.
    """
    if pays_to_widen(nest, target):
        return plan_nest(nest.widened(), target, fusion).updated(widened=True)
    nest = in_best_place(nest, target)
    return plan_nest(nest, target, fusion).updated(planes=nest.is_in_planes or None)


def nest_of_plan(nest: ProductNest, plan: Plan) -> ProductNest:
    """Return *nest*, or what tiles read of it if *plan* says that it is widened, or in planes.

    Raises:
        UnsupportedError: Nothing of this product can be widened, or be in planes.
    """
    if not plan.is_set("widened"):
        return in_place_of_plan(nest, plan)
    if not can_widen(nest):
        kinds = f"{nest.kinds.left.value} and {nest.kinds.right.value}"
        raise plan.unfit(f"{nest.kinds.dot.name} of {kinds} in panels has nothing to widen")
    return nest.widened()


def writer_of(nest: ProductNest) -> type[ProductWriter]:
    """Return what writes the loops of *nest*, a product with panels that lie in memory."""
    if nest.kinds.dot.is_matrix:
        return MatrixProductWriter
    return WidenedPanels if nest.kinds.is_widened else ProductWriter
