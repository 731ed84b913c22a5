"""Reductions of rows of a few elements that their kernels compute: LLVM has ended the process.

They are compiled by a process of their own, so that its end is an error of the test.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import glow_nb
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.codegen.pool import WORKERS_VARIABLE
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Value
from tests.unit.kernels.cases import random_array

Producer = Callable[[Builder, ElementKind, tuple[int, ...]], Value]


def _operands(b: Builder, kind: ElementKind, *shapes: tuple[int, ...]) -> list[Value]:
    return [b.input("x", TensorType(kind, shape)) for shape in shapes]


def _select(b: Builder, kind: ElementKind, shape: tuple[int, ...]) -> Value:
    (condition,) = _operands(b, ElementKind.BOOL, shape)
    return b.emit(ops.Select(condition, *_operands(b, kind, shape, shape)))


def _select_row(b: Builder, kind: ElementKind, shape: tuple[int, ...]) -> Value:
    ones = (1,) * (len(shape) - 1)
    (condition,) = _operands(b, ElementKind.BOOL, (*ones, shape[-1]))
    return b.emit(ops.Select(condition, *_operands(b, kind, shape, (*ones, 1))))


def _select_equal(b: Builder, kind: ElementKind, shape: tuple[int, ...]) -> Value:
    x, y, z = _operands(b, kind, shape, shape, shape)
    return b.emit(ops.Select(b.emit(ops.Equal(x, y)), z, x))


def _negative_select(b: Builder, kind: ElementKind, shape: tuple[int, ...]) -> Value:
    return b.emit(ops.Neg(_select(b, kind, shape)))


def _clipped_select(b: Builder, kind: ElementKind, shape: tuple[int, ...]) -> Value:
    return b.emit(ops.Clip(_select(b, kind, shape), minimum=-5.0, maximum=5.0))


def _quotient(b: Builder, kind: ElementKind, shape: tuple[int, ...]) -> Value:
    return b.emit(ops.Div(*_operands(b, kind, shape, shape)))


def _remainder(b: Builder, kind: ElementKind, shape: tuple[int, ...]) -> Value:
    x, y = _operands(b, kind, shape, shape)
    return b.emit(ops.Modulo(x, y))


def _shift(b: Builder, kind: ElementKind, shape: tuple[int, ...]) -> Value:
    x, y = _operands(b, kind, shape, shape)
    return b.emit(ops.BitShift(x, y, direction="left"))


def _masked(b: Builder, kind: ElementKind, shape: tuple[int, ...]) -> Value:
    (mask,), (x,) = _operands(b, ElementKind.BOOL, shape), _operands(b, kind, shape)
    return b.emit(ops.Mul(x, b.emit(ops.ConvertTo(mask, kind))))


def _sign(b: Builder, kind: ElementKind, shape: tuple[int, ...]) -> Value:
    return b.emit(ops.Sign(*_operands(b, kind, shape)))


def _magnitude(b: Builder, kind: ElementKind, shape: tuple[int, ...]) -> Value:
    return b.emit(ops.Abs(*_operands(b, kind, shape)))


PRODUCERS: tuple[Producer, ...] = (
    _select,
    _select_row,
    _select_equal,
    _negative_select,
    _clipped_select,
    _quotient,
    _remainder,
    _shift,
    _masked,
    _sign,
    _magnitude,
)
SIGNED_ONLY = (_negative_select, _sign, _magnitude)
UNSIGNED_ONLY = (_shift,)
REDUCTIONS = (ops.ReduceSum, ops.ReduceProd, ops.ReduceMax, ops.ReduceMin)
KINDS = [kind for kind in ElementKind if kind.value.startswith(("int", "uint")) and kind.bits >= 8]


def _makes(producer: Producer, kind: ElementKind) -> bool:
    return producer not in (UNSIGNED_ONLY if kind.is_signed else SIGNED_ONLY)


def _check(
    monkeypatch: pytest.MonkeyPatch,
    kind: ElementKind,
    shape: tuple[int, ...],
    producers: tuple[Producer, ...],
    reductions: tuple[type[ops.ReduceSum | ops.ReduceProd | ops.ReduceMax | ops.ReduceMin], ...],
) -> None:
    """Compile all reductions of what all producers make; compare with the interpreter."""
    monkeypatch.setenv(WORKERS_VARIABLE, "1")
    b = Builder("main")
    axes = (len(shape) - 1,)
    for producer in producers:
        for reduction in reductions:
            reduced = b.emit(reduction(producer(b, kind, shape), axes=axes, keep_dims=False))
            b.save(reduced, f"y{len(b.outputs)}")
        (addend,) = _operands(b, kind, shape[:-1])
        total = b.emit(ops.ReduceSum(producer(b, kind, shape), axes=axes, keep_dims=False))
        b.save(b.emit(ops.Add(total, addend)), f"y{len(b.outputs)}")
    function, rng = b.function(), np.random.default_rng(0)
    feeds = {x.name: random_array(rng, x.type, specials=False) for x in function.inputs}
    made = glow_nb.compile(function, threads=1).run(feeds)
    wanted = glow_nb.compile(function, backend="interpreter").run(feeds)
    for name, array in wanted.items():
        np.testing.assert_allclose(made[name], array, 1e-5, err_msg=name)


@pytest.mark.jit
def test_two_chosen_integers_are_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    _check(monkeypatch, ElementKind.INT64, (3, 2), (_select,), (ops.ReduceProd,))


@pytest.mark.slow
@pytest.mark.jit
@pytest.mark.parametrize("kind", [*KINDS, ElementKind.FLOAT32, ElementKind.FLOAT64])
@pytest.mark.parametrize("shape", [(2,), *((3, extent) for extent in range(1, 10))])
def test_reductions_of_short_computed_rows(
    kind: ElementKind, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    floats = tuple(each for each in PRODUCERS if each not in (_shift, _quotient, _remainder))
    made = floats if kind.is_float else tuple(each for each in PRODUCERS if _makes(each, kind))
    _check(monkeypatch, kind, shape, made, REDUCTIONS)
