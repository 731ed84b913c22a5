"""The table of matrix products beside other engines."""

import statistics

import numpy as np
import pytest

from experiments.benchmarks.products import (
    BLAS,
    GLOW_NB,
    TABLE,
    Options,
    Product,
    Row,
    open_product,
)

PRODUCTS = [
    Product(2, 3, 5, "constant"),
    Product(2, 3, 5, "run-time", "transposed"),
    Product(2, 3, 5, "transposed", batch=4),
]


@pytest.mark.jit
@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_every_engine_computes_the_same_product(product: Product) -> None:
    ours, theirs = (open_product(engine, product, Options())() for engine in (GLOW_NB, BLAS))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_the_table_has_forty_products() -> None:
    assert len(set(TABLE)) == 40


def test_a_row_compares_with_the_better_peer() -> None:
    times = {GLOW_NB: [2.0, 4.0], "onnxruntime": [6.0, 6.0], BLAS: [3.0, 9.0]}
    row = Row(Product(1, 2, 3, "constant"), times, 0.0)
    assert row.ratio() == 3.0 / 2.0
    assert row.ratio(statistics.median) == 6.0 / 3.0
    assert row.text(lambda size: 24 / 4.0).split()[-1] == "2.00"  # 24 bytes in 2 s, not in 4
