"""What users say about plans: forced, forbidden and own algorithms, and cost models."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

import glow_nb
from glow_nb.backends.cpu.algorithms import (
    ALGORITHMS,
    Algorithm,
    Candidate,
    Problem,
    register_algorithm,
)
from glow_nb.backends.cpu.algorithms.explain import LayerPlans, PlanTable, explain
from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.backends.cpu.options import CpuOptions
from glow_nb.backends.cpu.products import Product, product_key
from glow_nb.backends.cpu.select_packed_operators import (
    candidates_of,
    select_packed_operators,
)
from glow_nb.base.errors import (
    CompileError,
    DefinitionError,
    OptionError,
    PassError,
    UnsupportedError,
)
from glow_nb.base.plan import Plan
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.module import Module
from glow_nb.hlir.ops import Convolution, MatMul, Relu, Reshape, Transpose
from glow_nb.hlir.ops.windows import Window
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.operators import (
    DepthwiseConvolution,
    PackedConvolution,
    PackedMatMul,
    StrassenMatMul,
    UnpackedMatMul,
    WinogradConvolution,
)
from glow_nb.kernels.target import Target
from glow_nb.network.compilation import build_program, lower_for
from tests.targets import SMALL_CORE

ROOT = Path(__file__).parents[3]
RNG = np.random.default_rng(3)


def convolution(channels: int = 64, taps: int = 3, size: int = 28, *, group: int = 1) -> Function:
    """Return a convolution called ``conv1`` of an image."""
    builder = glow_nb.Builder("network")
    x = builder.input("x", f"float32<1 x {size} x {size} x {channels}>")
    shape = (channels, taps, taps, channels // group)
    filter = builder.constant("w", RNG.normal(scale=0.1, size=shape).astype(np.float32))
    bias = builder.constant("b", RNG.normal(size=channels).astype(np.float32))
    pads = (taps // 2,) * 4
    window = Window((taps, taps), (1, 1), pads, (1, 1)).attributes
    convolution = Convolution(x, filter, bias, **window, group=group)
    builder.save(builder.emit(convolution, name="conv1"), "y")
    return builder.function()


def chosen(function: Function, **options: Any) -> list[type[Node]]:
    kinds = (
        *(DepthwiseConvolution, PackedConvolution, PackedMatMul),
        *(StrassenMatMul, UnpackedMatMul, WinogradConvolution),
    )
    made = select_packed_operators(function, target=SMALL_CORE, **options)
    return [type(node) for node in made if isinstance(node, kinds)]


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


def plans_of(function: Function, said: Any = None) -> LayerPlans:
    """Return the candidates of the layer ``conv1`` if *said* is said of it."""
    return explain(function, SMALL_CORE, CpuOptions(plan=said))["conv1"]


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


def test_the_page_says_which_settings_candidates_have() -> None:
    page = (ROOT / "docs" / "howto" / "cost_models.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ((?:`\w+`,? ?)+) \| (none|(?:`\w+`,? ?)+) \|$", page, re.M)
    said = {
        algorithm: re.findall(r"`(\w+)`", settings)
        for algorithms, settings in rows
        for algorithm in re.findall(r"`(\w+)`", algorithms)
    }
    assert set(said) == set(ALGORITHMS)
    for function in (convolution(), convolution(256, 1), convolution(16, group=16)):
        for each in plans_of(function).weighed:
            plan = each.candidate.plan
            assert [name for name, _ in plan.settings] == said[plan.algorithm]


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


def test_a_cost_model_decides() -> None:
    def only_direct(plan: Plan, problem: Problem, target: Target, cycles: float) -> float:
        return cycles if plan.algorithm == "direct" else 1e12

    assert chosen(convolution(), cost_model=only_direct) == [PackedConvolution]


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


def test_a_table_says_which_layers_would_be_measured() -> None:
    tuned = glow_nb.plans(convolution(), threads=1, tune=True)
    assert "best estimate; tune=True measures" in str(tuned)
    assert "chosen" not in str(tuned)
    forced = glow_nb.plans(convolution(), threads=1, tune=True, plan={"conv1": "direct"})
    assert "chosen" in str(forced)


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


def test_the_table_says_what_is_chosen_and_why() -> None:
    table = glow_nb.plans(convolution(), threads=1)
    assert list(table) == ["conv1"]
    notes = {one.note for one in table["conv1"].weighed}
    assert "chosen" in notes
    assert "conv1  convolution  " in str(table)
    forced = glow_nb.plans(convolution(), threads=1, plan={"conv1": "direct"})
    assert forced["conv1"].chosen.plan.algorithm == "direct"
    assert "left out by plan" in {one.note for one in forced["conv1"].weighed}
    assert "conv1" in table
    assert "conv" not in table
    assert table.get("conv") is None
    with pytest.raises(OptionError, match="no layer 'conv'.*did you mean 'conv1'"):
        table["conv"]


def test_a_layer_has_the_names_of_all_nodes_that_went_into_it() -> None:
    plain = convolution(16, 1, 4)
    folded = plain.with_nodes(plain.nodes, {"conv1": ("conv1", "norm")})
    table = glow_nb.plans(folded, threads=1)
    assert list(table) == ["norm"]
    assert table["conv1"] is table["norm"]
    assert table["norm"].names == ("norm", "conv1")
    same = {"conv1": "direct", "norm": "direct {}"}
    forced = glow_nb.plans(folded, threads=1, plan=same)["norm"].chosen
    assert forced.plan.algorithm == "direct"
    with pytest.raises(OptionError, match=r"\['conv1', 'norm'\] are names of one layer"):
        glow_nb.plans(folded, threads=1, plan={**same, "norm": "not direct"})
    with pytest.raises(OptionError, match=r"no layer 'fc' .*product; those are \['norm'\]"):
        table["fc"]
    layers = [replace(table["norm"], name=name) for name in ("left", "right")]
    with pytest.raises(OptionError, match=r"'norm' went into several layers.*\['left', 'right'\]"):
        PlanTable(layers)["norm"]


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


def test_an_unknown_argument_of_plans_is_refused() -> None:
    with pytest.raises(OptionError, match=r"plans\(\) has no argument 'threds'"):
        glow_nb.plans(convolution(), threds=1)


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


def test_a_function_is_asked_once_for_the_table() -> None:
    asked: list[str] = []

    def first(layer: str, candidates: Sequence[Candidate]) -> Candidate:
        asked.append(layer)
        return candidates[0]

    glow_nb.plans(convolution(), plan=first)
    assert asked == ["conv1"]
