"""Cost models and algorithms of users."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

import glow_nb
from glow_nb.backends.cpu.algorithms import ALGORITHMS, Algorithm, Problem, register_algorithm
from glow_nb.backends.cpu.products import Product
from glow_nb.base.errors import CompileError, DefinitionError, OptionError
from glow_nb.base.plan import Plan
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops import Convolution, MatMul, Reshape, Transpose
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.kernels.operators import PackedConvolution, PackedMatMul
from glow_nb.kernels.target import Target
from tests.unit.backends.cpu.plan_samples import RNG, chosen, convolution


def test_a_cost_model_decides() -> None:
    def only_direct(plan: Plan, problem: Problem, target: Target, cycles: float) -> float:
        return cycles if plan.algorithm == "direct" else 1e12

    assert chosen(convolution(), cost_model=only_direct) == [PackedConvolution]


@pytest.mark.parametrize(
    ("cost_model", "message"),
    [
        (3, "cost_model=3: give a function"),
        (lambda *_: None, r"cost_model: direct .*: it gave None; give cycles, a number"),
        (lambda *_: float("nan"), r"it gave nan"),
        (lambda *_: 1 // 0, r"cost_model: direct .*: ZeroDivisionError"),
        (
            lambda plan, *_: plan.sizes("tile"),
            r"^cost_model: direct .*: 'tile' must be a list of whole numbers, got no such setting; "
            r"it has dot, block; test plan.algorithm, or plan.has\(name\), first$",
        ),
    ],
)
def test_what_is_wrong_with_a_cost_model_is_said(cost_model: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        glow_nb.plans(convolution(), cost_model=cost_model, winograd="off")


@pytest.fixture
def own_algorithm() -> Iterator[str]:
    """Register an algorithm for pointwise convolutions as a script would; remove it again."""

    @register_algorithm
    class AsProduct(Algorithm):
        """Multiply the pixels, as rows of a matrix, by the filter."""

        name = "as_product"

        @override
        def plans(self, problem: Problem, target: Target) -> Sequence[Plan]:
            shape = problem.shape
            is_pointwise = set(shape.kernel) == set(shape.stride) == {1} and not any(shape.pads)
            suits = problem.product is None and is_pointwise and shape.group == 1
            return [Plan.of("as_product", block=16)] if suits else []

        @override
        def cycles(self, plan: Plan, problem: Problem, target: Target) -> float:
            return 1.0

        @override
        def emit(self, plan: Plan, node: Product, rewriter: Rewriter) -> Value:
            assert isinstance(node, Convolution)
            *outer, channels = node.input.type.shape
            depth = node.type.shape[-1]
            rows = rewriter.emit(Reshape(node.input, (int(np.prod(outer)), channels)))
            matrix = rewriter.emit(Reshape(node.filter, (depth, channels)))
            made = rewriter.emit(MatMul(rows, rewriter.emit(Transpose(matrix, (1, 0)))))
            direct = ALGORITHMS["direct"].emit(
                Plan.of("direct", dot="tile_dot", block=16), made, rewriter
            )
            bias = rewriter.emit(Reshape(node.bias, (1, depth)))
            return rewriter.emit(
                Reshape(rewriter.emit(glow_nb.hlir.ops.Add(direct, bias)), node.type.shape)
            )

    yield AsProduct.name
    del ALGORITHMS[AsProduct.name]


@pytest.mark.jit
def test_an_algorithm_from_outside_computes_pointwise_convolutions(own_algorithm: str) -> None:
    function = convolution(32, 1, 9)
    x = RNG.normal(size=(1, 9, 9, 32)).astype(np.float32)
    expected = evaluate(function, {"x": x})["y"]
    assert chosen(function) == [PackedMatMul]
    table = glow_nb.plans(function)
    assert str(table["conv1"].weighed[0].candidate.plan).startswith(own_algorithm)
    net = glow_nb.compile(function, threads=1)
    np.testing.assert_allclose(net.run({"x": x})["y"], expected, atol=1e-4)
    forbidden = glow_nb.compile(function, threads=1, plan={"conv1": f"not {own_algorithm}"})
    np.testing.assert_allclose(forbidden.run({"x": x})["y"], expected, atol=1e-4)


def test_a_class_that_is_no_algorithm_is_refused() -> None:
    class Half(Algorithm):
        name = "half"

        @override
        def plans(self, problem: Problem, target: Target) -> Sequence[Plan]:
            return []

    with pytest.raises(DefinitionError, match="algorithm 'half': it has no cycles, emit"):
        register_algorithm(Half)
    nothing: Any = object
    with pytest.raises(DefinitionError, match="inherits from Algorithm and has a name"):
        register_algorithm(nothing)


@pytest.mark.parametrize(
    ("plans", "message"),
    [([None], "it offered None; offer its own plans"), (None, "plans: TypeError")],
)
def test_plans_of_an_algorithm_from_outside_are_checked(
    own_algorithm: str, monkeypatch: pytest.MonkeyPatch, plans: Any, message: str
) -> None:
    monkeypatch.setattr(type(ALGORITHMS[own_algorithm]), "plans", lambda *_: plans)
    with pytest.raises(CompileError, match=f"algorithm '{own_algorithm}'.*{message}"):
        glow_nb.plans(convolution(17, 1, 5))
