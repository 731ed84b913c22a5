"""Products of matrices that come at run time, whose sizes are known only then."""

from __future__ import annotations

import pytest

from glow_nb.base.size import Symbol
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function
from tests.open_programs import check_sizes
from tests.targets import SMALL_CORE

BATCH = Symbol("batch", 2, 1, 64).size
QUERIES = Symbol("queries", 40, 1, 512).size
KEYS = Symbol("keys", 30, 1, 512).size

SETS = [
    {"batch": 2, "queries": 1, "keys": 1},
    {"batch": 1, "queries": 7, "keys": 50},
    {"batch": 3, "queries": 29, "keys": 257},
]


def _product(
    left: tuple[int, ...],
    right: tuple[int, ...],
    *,
    is_transposed: bool = False,
    kind: ElementKind = ElementKind.FLOAT32,
) -> Function:
    """Return ``relu(left x right)``, of which the right matrix may be transposed before."""
    builder = Builder("product")
    lhs, rhs = (builder.input(n, TensorType(kind, s)) for n, s in (("x", left), ("y", right)))
    matrix = builder.emit(ops.Transpose(rhs, (0, 2, 1))) if is_transposed else rhs
    builder.save(builder.emit(ops.Relu(builder.emit(ops.MatMul(lhs, matrix)))), "z")
    return builder.function()


PRODUCTS = {
    "scores": lambda kind: _product(
        (BATCH, QUERIES, 20), (BATCH, KEYS, 20), is_transposed=True, kind=kind
    ),
    "weighted values": lambda kind: _product((BATCH, QUERIES, KEYS), (BATCH, KEYS, 20), kind=kind),
    "of rows": lambda kind: _product((QUERIES, KEYS), (KEYS, QUERIES), kind=kind),
    "one row": lambda kind: _product(
        (BATCH, 1, 20), (BATCH, KEYS, 20), is_transposed=True, kind=kind
    ),
    "all open, transposed": lambda kind: _product(
        (BATCH, QUERIES, KEYS), (BATCH, QUERIES, KEYS), is_transposed=True, kind=kind
    ),
    "batch": lambda kind: _product((BATCH, 5, 33), (BATCH, 33, 20), kind=kind),
}


def _check(function: Function, sets: list[dict[str, int]], tolerance: float, threads: int) -> None:
    names = {symbol.name for symbol in function.sizes}
    own = [{name: size for name, size in each.items() if name in names} for each in sets]
    check_sizes(function, own, threads=threads, target=SMALL_CORE, tolerance=tolerance)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("name", "threads"), [("scores", 1), ("weighted values", 2), ("one row", 2)]
)
def test_sizes_of_matrices_may_be_open(name: str, threads: int) -> None:
    _check(PRODUCTS[name](ElementKind.FLOAT32), SETS[1:2], 1e-6, threads)


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("kind", [ElementKind.FLOAT32, ElementKind.FLOAT64, ElementKind.INT32])
@pytest.mark.parametrize("name", PRODUCTS)
def test_all_products_of_open_matrices(name: str, kind: ElementKind) -> None:
    for threads in (1, 2):
        _check(PRODUCTS[name](kind), SETS, 1e-5, threads)


@pytest.mark.jit
def test_open_sizes_may_be_nothing() -> None:
    batch, queries, keys = (Symbol(name, 2, 0, 64).size for name in ("batch", "queries", "keys"))
    function = _product((batch, queries, keys), (batch, keys, 20))
    sets = [{"batch": 2, "queries": 3, "keys": 0}, {"batch": 0, "queries": 3, "keys": 5}]
    _check(function, sets, 0, 1)
