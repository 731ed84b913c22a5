"""Plans of single layers that users force, forbid or choose by a function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.backends.cpu.algorithms import Candidate
from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.backends.cpu.products import Product, product_key
from glow_nb.backends.cpu.select_packed_operators import candidates_of, select_packed_operators
from glow_nb.base.errors import OptionError, PassError, UnsupportedError
from glow_nb.base.plan import Plan
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from glow_nb.hlir.module import Module
from glow_nb.hlir.ops import Relu
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.operators import DepthwiseConvolution, PackedConvolution, WinogradConvolution
from glow_nb.network.compilation import build_program, lower_for
from tests.targets import SMALL_CORE
from tests.unit.backends.cpu.plan_samples import RNG, chosen, convolution, plans_of


def test_an_algorithm_is_forced_or_forbidden_for_a_layer() -> None:
    function = convolution()
    assert chosen(function) == [WinogradConvolution]
    assert chosen(function, plan={"conv1": "direct"}) == [PackedConvolution]
    assert chosen(function, plan={"conv1": "not winograd"}) == [PackedConvolution]
    assert chosen(function, plan={"conv1": "winograd"}) == [WinogradConvolution]


def test_options_of_all_layers_hold_beside_a_choice() -> None:
    not_direct = {"plan": {"conv1": "not direct"}}
    with pytest.raises(OptionError, match="no algorithm that is allowed"):
        chosen(convolution(), winograd="off", **not_direct)
    forced = {"plan": {"conv1": "winograd"}}
    assert chosen(convolution(), winograd="off", **forced) == [WinogradConvolution]


class Measured:
    """A tuner that picks the last of the algorithms that it is asked about."""

    def choose(
        self, nodes: Sequence[Product], winograd: str, strassen: str
    ) -> dict[str, Candidate]:
        return {product_key(node): candidates_of(node, SMALL_CORE, winograd)[-1] for node in nodes}


def test_measurements_do_not_override_a_choice() -> None:
    assert chosen(convolution(), tuner=Measured()) == [PackedConvolution]
    forced = {"plan": {"conv1": "winograd"}}
    assert chosen(convolution(), tuner=Measured(), **forced) == [WinogradConvolution]


def test_another_algorithm_means_the_same() -> None:
    depthwise = convolution(16, group=16)
    assert chosen(depthwise) == [DepthwiseConvolution]
    direct = select_packed_operators(depthwise, target=SMALL_CORE, plan={"conv1": "not depthwise"})
    assert any(isinstance(node, PackedConvolution) for node in direct)
    x = RNG.normal(size=(1, 28, 28, 16)).astype(np.float32)
    np.testing.assert_allclose(
        evaluate(direct, {"x": x})["y"], evaluate(depthwise, {"x": x})["y"], atol=1e-5
    )


def test_a_function_chooses_among_the_candidates() -> None:
    asked: list[tuple[str, Sequence[Candidate]]] = []

    def second(layer: str, candidates: Sequence[Candidate]) -> Candidate:
        asked.append((layer, candidates))
        return candidates[1]

    made = select_packed_operators(convolution(), target=SMALL_CORE, plan=second)
    (node,) = (n for n in made if isinstance(n, (WinogradConvolution, PackedConvolution)))
    assert [layer for layer, _ in asked] == ["conv1"]
    assert node.plan == asked[0][1][1].plan


def plan_of(function: Function, said: Any = None) -> str:
    """Return the plan that the layer ``conv1`` gets if *said* is said of it."""
    return str(plans_of(function, said).chosen.plan)


def test_what_is_printed_of_a_plan_forces_it() -> None:
    function = convolution()
    free = plan_of(function)
    for weighed in plans_of(function).weighed:
        plan = weighed.candidate.plan
        for said in (plan, str(plan), f"plan {plan}", weighed.candidate):
            assert plan_of(function, {"conv1": said}) == str(plan)
    assert plan_of(function, {"conv1": f"not {free}"}) != free
    assert plan_of(function, {"conv1": "not winograd {block = 17}"}) == free
    assert "tile = [2, 2]" in plan_of(function, {"conv1": "winograd {tile = [2, 2]}"})
    assert plan_of(function, {"conv1": None}) == free


def test_a_plan_may_be_one_that_is_not_tried_by_default() -> None:
    function = convolution(80)
    narrow = Plan.of("direct", dot="tile_dot", block=32)
    assert narrow not in {each.candidate.plan for each in plans_of(function).weighed}
    assert plan_of(function, {"conv1": narrow}) == str(narrow)


@pytest.mark.parametrize("said", ["own choice", "plan", "text", "candidate"])
def test_a_function_may_return_a_plan_or_leave_the_choice_to_the_compiler(said: str) -> None:
    function = convolution()

    def choose(layer: str, candidates: Sequence[Candidate]) -> object:
        last = candidates[-1]
        return {"own choice": None, "plan": last.plan, "text": str(last.plan)}.get(said, last)

    is_own = plan_of(function, choose) == plan_of(function)
    assert is_own == (said == "own choice")


def test_what_a_function_leaves_to_the_compiler_is_measured() -> None:
    made = chosen(convolution(), tuner=Measured(), plan=lambda layer, candidates: None)
    assert made == [PackedConvolution]


@pytest.mark.jit
@pytest.mark.parametrize("function", [convolution(16, 1, 4), convolution(16, 3, 6, group=16)])
def test_the_plan_of_a_kernel_forces_its_loops_as_well(function: Function) -> None:
    (kernel,) = glow_nb.compile(function, threads=1).kernels
    text = kernel.instruction.partition(" plan ")[2].partition(" from ")[0]
    assert "rows = " in text
    (again,) = glow_nb.compile(function, threads=1, plan={"conv1": text}).kernels
    assert again.instruction == kernel.instruction
    with pytest.raises(UnsupportedError, match="no setting 'panel_inside'"):
        glow_nb.compile(
            function, threads=1, plan={"conv1": text.replace("{", "{panel_inside = true, ")}
        )


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (3, r"plan=3: give a dict of algorithms or plans by layer"),
        ({"conv1": "winogard"}, r"no algorithm; did you mean 'winograd'\?; give one of"),
        ({"conv1": 3}, r"layer 'conv1' has 3, which is no algorithm"),
        ({"conv1": ""}, r"layer 'conv1' has '', which is no algorithm"),
        ({3: "direct"}, r"plan: 3 is no name of a layer"),
        ({"conv1": Plan.of("separable")}, r"layer 'conv1' has 'separable', which is no algorithm"),
        ({"conv1": "direct block"}, r"layer 'conv1': the plan:1:8: expected the end of the plan"),
        ({"conv1": "direct {block = 7}"}, r"direct {block = 7} is no plan of layer 'conv1'; give"),
        ({"conv2": "direct"}, r"'conv2' is no convolution .*; did you mean 'conv1'\?"),
        ({"conv1": "unpacked"}, r"no algorithm that is allowed computes layer 'conv1'"),
        (lambda layer, found: 3, r"the function returned 3 for layer 'conv1'; return one of"),
        (lambda layer, found: "dircet", r"layer 'conv1' has 'dircet', .*did you mean 'direct'"),
        (
            lambda layer, found: found[0].plan.word("tile"),
            r"function for layer 'conv1': 'tile' must",
        ),
        (lambda layer, found: found[9999], r"function for layer 'conv1'.*IndexError"),
    ],
)
def test_what_is_wrong_with_a_choice_is_said(plan: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        select_packed_operators(convolution(), target=SMALL_CORE, plan=plan)


def test_compile_tells_of_a_wrong_choice() -> None:
    with pytest.raises(PassError, match=r"'conv2' is no convolution"):
        glow_nb.compile(convolution(), plan={"conv2": "direct"})
    with pytest.raises(OptionError, match=r"'winogard', which is no algorithm"):
        glow_nb.compile(convolution(), plan={"conv1": "winogard"})


def two_functions() -> Module:
    """Return a module of a function with the layer ``conv1`` and one without a product."""
    builder = glow_nb.Builder("copy")
    builder.save(builder.emit(Relu(builder.input("a", "float32<4>"))), "b")
    return Module((convolution(16, 1, 4), builder.function()))


@pytest.mark.jit
def test_a_layer_that_is_named_is_in_one_function_of_a_module() -> None:
    net = glow_nb.compile(two_functions(), threads=1, plan={"conv1": "direct"})
    assert "plan direct" in str(net["network"].program)


def test_a_wrong_name_is_told_before_any_function_of_a_module_is_compiled() -> None:
    steps: list[str] = []
    with pytest.raises(OptionError, match=r"'conv2' is no convolution .*; did you mean 'conv1'\?"):
        glow_nb.compile(
            two_functions(),
            threads=1,
            plan={"conv2": "direct"},
            observer=lambda run: steps.append(run.name),
        )
    assert steps == ["import", "backend"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"panel_inside": True}, "no setting 'panel_inside'; did you mean 'panels_inside'"),
        ({"ahaed": 1}, "no setting 'ahaed'; did you mean 'ahead'"),
        ({"units": None, "unit": 2}, "'units' must be .*, got no such setting, but 'unit'"),
        ({"stream_steps": 2}, "no setting 'stream_steps'; did you mean 'streams'"),
    ],
)
def test_a_setting_that_no_writer_asks_for_is_refused(wrong: Any, message: str) -> None:
    backend = CpuBackend(SMALL_CORE, threads=1)
    program = build_program(lower_for(convolution(16, 1, 4), backend), backend)
    (instruction,) = (each for each in program.work if each.plan is not None)
    assert instruction.plan is not None
    changed = replace(instruction, plan=instruction.plan.updated(**wrong))
    with pytest.raises(UnsupportedError, match=message):
        generate_kernel(changed, backend.target)
