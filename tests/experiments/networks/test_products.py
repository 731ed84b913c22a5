"""The products as networks."""

import numpy as np
import pytest

import glow_nb
from experiments.networks.products import TABLE, Product

PRODUCTS = [
    Product(2, 3, 5, "constant"),
    Product(2, 3, 5, "run-time", "transposed"),
    Product(2, 3, 5, "transposed", batch=4),
]


@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_a_product_is_that_of_its_operands(product: Product) -> None:
    operands = product.operands()
    net = glow_nb.compile(product.model(), backend="interpreter")
    left, right = operands["left"], operands["right"]
    left = left.swapaxes(-1, -2) if product.left == "transposed" else left
    right = right.swapaxes(-1, -2) if product.right == "transposed" else right
    feeds = {name: operands[name] for name in net.inputs}
    np.testing.assert_allclose(net.run(feeds)["result"], left @ right, rtol=1e-5, atol=1e-5)


def test_the_table_has_forty_products() -> None:
    assert len({product.file_name for product in TABLE}) == 40
