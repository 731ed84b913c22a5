"""Which writer the loops of a product with panels have."""

from __future__ import annotations

from glow_nb.kernels.products.matrix_product import MatrixProductWriter
from glow_nb.kernels.products.product_loops import ProductWriter
from glow_nb.kernels.products.product_nest import ProductNest
from glow_nb.kernels.products.written_panels import WidenedPanels


def writer_of(nest: ProductNest) -> type[ProductWriter]:
    """Return what writes the loops of *nest*, a product with panels that lie in memory."""
    if nest.kinds.dot.is_matrix:
        return MatrixProductWriter
    return WidenedPanels if nest.kinds.is_widened else ProductWriter
