"""The scripts that replace a part of the compiler: they keep the numbers, and stay short."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import glow_nb
from experiments.passes import (
    ablation,
    allocator,
    cost_model,
    fusion_rule,
    graph_pass,
    instruction_pass,
    pattern_rule,
    scheduler,
)
from glow_nb.base.plan import Plan
from glow_nb.hlir.ops import Add, Convolution, MatMul, MaxPool, Relu, Softmax, Tanh
from glow_nb.scheduling.ordering import Scheduler
from glow_nb.scheduling.steps import Steps

X = np.linspace(-9, 9, 24, dtype=np.float32).reshape(4, 6)
FOLDER = Path(ablation.__file__).parent


def network() -> glow_nb.Function:
    builder = glow_nb.Builder("small")
    weights = builder.constant("w", np.linspace(-1, 1, 36, dtype=np.float32).reshape(6, 6))
    product = builder.emit(MatMul(builder.input("x", "float32<4 x 6>"), weights))
    left, right = builder.emit(Tanh(product)), builder.emit(Relu(product))
    builder.save(builder.emit(Softmax(builder.emit(Add(left, right)), axis=1)), "y")
    return builder.function()


def check_numbers(net: glow_nb.Network) -> None:
    wanted = glow_nb.evaluate(network(), X)["y"]
    np.testing.assert_allclose(net.run(X)["y"], wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_a_script_has_less_than_forty_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 40


def test_a_graph_pass_clips_activations() -> None:
    pipeline = (*glow_nb.INFERENCE, graph_pass.clip_activations)
    net = glow_nb.compile(network(), backend="interpreter", pipeline=pipeline)
    assert "clip_activations" in repr(net.pipeline)
    assert "= clip(" in str(net.function)
    assert "= relu(" not in str(net.function)


def test_an_instruction_pass_computes_in_place() -> None:
    passes = (instruction_pass.relu_in_place,)
    net = glow_nb.compile(network(), backend="interpreter", program_pipeline=passes)
    assert "relu @out %mat_mul, @in %mat_mul " in str(net.program)
    check_numbers(net)


def test_a_pattern_puts_pools_before_relus() -> None:
    builder = glow_nb.Builder("small")
    image = builder.input("x", "float32<1 x 4 x 6 x 3>")
    relu, two, no = builder.emit(Relu(image)), (2, 2), (0, 0, 0, 0)
    pool = MaxPool(relu, kernel=two, stride=two, pads=no, dilation=(1, 1))
    builder.save(builder.emit(pool), "y")
    function = builder.function()
    changed = glow_nb.optimize(function, pipeline=(pattern_rule.pools_first,))
    assert pattern_rule.rectified(changed) == 18 == pattern_rule.rectified(function) // 4
    feed = np.linspace(-9, 9, 72, dtype=np.float32).reshape(1, 4, 6, 3)
    for graph in (function, changed):
        wanted = np.maximum(feed.reshape(1, 2, 2, 3, 2, 3).max(axis=(2, 4)), 0)
        np.testing.assert_array_equal(glow_nb.evaluate(graph, feed)["y"], wanted)


def test_an_ablation_shows_what_passes_save() -> None:
    needs = ablation.ablations(network(), "interpreter")
    assert needs["stack_instructions"][0] > needs[""][0]
    assert all(found != needs[""] for name, found in needs.items() if name)


def test_a_rule_forbids_fusion() -> None:
    usual = glow_nb.compile(network(), backend="interpreter")
    net = glow_nb.compile(network(), backend=fusion_rule.NoEpilogues())
    assert len(net.kernels) > len(usual.kernels)
    check_numbers(net)


@pytest.mark.parametrize("order", [scheduler.greedy, scheduler.as_given])
def test_a_scheduler_orders_steps(order: Scheduler) -> None:
    seen: list[int] = []

    def watched(steps: Steps) -> list[int]:
        seen.append(len(steps.before))
        return list(order(steps))

    check_numbers(glow_nb.compile(network(), backend="interpreter", scheduler=watched))
    assert len(seen) == 2


def test_an_allocator_places_buffers() -> None:
    net = glow_nb.compile(network(), backend="interpreter", allocator=allocator.first_fit)
    assert net.memory.arena_bytes >= net.memory.lower_bound_bytes
    check_numbers(net)


def test_a_cost_model_chooses_the_algorithm() -> None:
    builder = glow_nb.Builder("layer")
    x = builder.input("x", "float32<1 x 56 x 56 x 64>")
    filters = builder.constant("f", np.full((64, 3, 3, 64), 0.1, np.float32))
    bias = builder.constant("b", np.zeros(64, np.float32))
    builder.save(
        builder.emit(
            Convolution(
                x, filters, bias, kernel=(3, 3), stride=(1, 1), pads=(1, 1, 1, 1), dilation=(1, 1)
            )
        ),
        "y",
    )
    graph = builder.function()
    direct = cost_model.operators(graph, glow_nb.Cpu(cost_model=cost_model.direct_sums))
    assert direct["packed_convolution"] == 1

    def winograd(plan: Plan, problem: object, target: object, cycles: float) -> float:
        return cycles if plan.algorithm == "winograd" else 1e6 * cycles

    other = cost_model.operators(graph, glow_nb.Cpu(cost_model=winograd))
    assert other["packed_convolution"] == 0
    assert other["winograd_convolution"] == 1
