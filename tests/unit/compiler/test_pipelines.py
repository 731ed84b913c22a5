"""Pipelines as tables, and passes that are left out of them, those of the backend as well."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.backends import backend_named
from glow_nb.backends.interpreter import Interpreter
from glow_nb.base.errors import OptionError
from glow_nb.base.passes import PassRun
from glow_nb.base.steps import Repeat, Step, name_of_step
from glow_nb.base.types import Array
from glow_nb.compiler.pipelines import INFERENCE, INSTRUCTIONS, Pipeline
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops import Concat, Convolution, LogSoftmax, MatMul, Relu, Reshape, Slice
from glow_nb.hlir.optimize import GRAPH_PASSES
from glow_nb.llir.allocate import LiveRange
from glow_nb.network.compilation import build_program, lower_for, order_for
from glow_nb.scheduling.steps import Steps

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def product() -> glow_nb.Function:
    builder = glow_nb.Builder("product")
    weights = builder.constant("w", np.arange(12, dtype=np.float32).reshape(3, 4))
    made = builder.emit(MatMul(builder.input("x", "float32<2 x 3>"), weights))
    builder.save(builder.emit(Relu(made)), "y")
    return builder.function()


class Runs:
    """What an observer was told of, in order."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, run: PassRun, /) -> None:
        self.names.append(run.name)


def steps_of(backend: str, *without: str) -> tuple[set[str], glow_nb.Network]:
    runs = Runs()
    net = glow_nb.compile(product(), backend=backend, threads=1, without=without, observer=runs)
    return set(runs.names), net


def test_pass_runs_nowhere_if_it_is_left_out() -> None:
    names = ("fold_constants", "stack_instructions", "eliminate_noops")
    assert steps_of("interpreter")[0] >= set(names)
    ran, net = steps_of("interpreter", *names)
    assert not ran & set(names)
    wanted = glow_nb.evaluate(product(), X)["y"]
    np.testing.assert_allclose(net.run(X)["y"], wanted, rtol=1e-6)


@pytest.mark.jit
def test_passes_of_the_backend_are_left_out_too() -> None:
    names = ("fold_constants", "split_reductions", "sink_reshapes")
    assert steps_of("cpu")[0] >= set(names)
    ran, net = steps_of("cpu", *names)
    assert not ran & set(names)
    wanted = glow_nb.evaluate(product(), X)["y"]
    np.testing.assert_allclose(net.run(X)["y"], wanted, rtol=1e-6)


@pytest.mark.jit
@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_a_network_shows_every_step_that_made_it_in_order(backend: str) -> None:
    runs = Runs()
    net = glow_nb.compile(product(), backend=backend, threads=1, observer=runs)
    around = {"import", "backend", "share_weights", "free_memory", "repeat"}
    ran = [name for name in runs.names if name not in around]
    shown = [name_of_step(step) for step in net.pipeline.steps]
    assert list(dict.fromkeys(ran)) == list(dict.fromkeys(shown))
    for name in ("lower", "schedule", "check_placement", "stack_instructions"):
        assert ran.count(name) == shown.count(name)
    end = ran.index("schedule")  # what the backend runs of its own comes last, and once
    own = [name_of_step(step) for step in backend_named(backend).graph_pipeline if step]
    assert ran[end - len(own) : end] == own


def test_a_pipeline_is_printed_as_a_table_of_what_its_steps_do() -> None:
    net = glow_nb.compile(product(), backend="interpreter")
    lines = repr(net.pipeline).splitlines()
    assert lines[0].split() == ["step", "of", "what", "it", "does"]
    assert len(lines) == 1 + len(net.pipeline.steps)
    for line, step in zip(lines[1:], net.pipeline.steps, strict=True):
        name, does = name_of_step(step), line[lines[0].index("what") :]
        assert name in line.split()
        assert len(does) > 10, f"{name} does not say what it does"
        assert "`" not in does
    assert "compiler" in next(line for line in lines if " lower " in line)
    assert "<td" in net.pipeline._repr_html_()


def test_every_step_of_the_cpu_backend_says_what_it_does() -> None:
    order = order_for(backend_named("cpu")).whole
    own = [row for row in order.table.rows if row[2] == "cpu"]
    assert {"columns_to_rows", "select_packed_operators", "fold_constants", "load_code"} <= {
        row[1] for row in own
    }
    assert all(row[3] for row in own)


def test_a_pipeline_without_a_pass_is_a_pipeline() -> None:
    shorter = INFERENCE.without("sink_transposes", "fold_constants")
    left = {name_of_step(step) for step in INFERENCE.steps}
    assert {name_of_step(step) for step in shorter.steps} == left - {
        "sink_transposes",
        "fold_constants",
    }
    net = glow_nb.compile(product(), backend="interpreter", pipeline=shorter)
    assert "sink_transposes" not in repr(net.pipeline)
    with pytest.raises(OptionError, match="no pass 'sink_transposes' would run"):
        shorter.without("sink_transposes")


def nothing(ir: Any) -> Any:
    """Do nothing."""
    return ir


def test_a_pass_is_inserted_beside_another_wherever_it_stands() -> None:
    pipeline = Pipeline(("fold_pads", Repeat(("sink_reshapes", Repeat(("fold_pads",)))), "lower"))
    assert pipeline.inserted(nothing, after="fold_pads") == (
        "fold_pads",
        nothing,
        Repeat(("sink_reshapes", Repeat(("fold_pads", nothing)))),
        "lower",
    )
    two = (Step(nothing), "merge_clips")
    before = pipeline.inserted(*two, before="lower")
    assert isinstance(before, Pipeline)
    assert before == (*pipeline[:2], *two, "lower")
    assert before.inserted("peephole", before=nothing)[2:4] == ("peephole", two[0])


def test_inserted_passes_run_on_both_levels() -> None:
    runs = Runs()
    glow_nb.compile(
        product(),
        backend="interpreter",
        pipeline=INFERENCE.inserted(nothing, after="simplify_arithmetic"),
        program_pipeline=INSTRUCTIONS.inserted(nothing, before="stack_instructions"),
        observer=runs,
    )
    for place, name in enumerate(runs.names):
        if name == "simplify_arithmetic":
            assert runs.names[place + 1] == "nothing"
    assert runs.names[runs.names.index("stack_instructions") - 1] == "nothing"


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ({}, r"before=None, after=None\): give one of the two"),
        ({"before": "lower", "after": "lower"}, "give one of the two"),
        ({"after": "fold_constant"}, "no pass 'fold_constant' is .*; did you mean 'fold_constants"),
        (
            {"before": nothing},
            "no pass 'nothing' is in the pipeline; it has eliminate_dead_nodes, ",
        ),
    ],
)
def test_a_pass_is_inserted_beside_one_that_is_there(places: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        INFERENCE.inserted("merge_clips", **places)


@pytest.mark.jit
def test_the_cpu_plans_kernels_whatever_the_pipeline_is() -> None:
    for passes in ((), (nothing,), None):
        net = glow_nb.compile(product(), threads=1, program_pipeline=passes)
        assert "rows = " in str(net.program)
        assert "plan_kernels" not in net.pipeline.optional


def test_a_step_has_a_label() -> None:
    labels = [step.label for step in Pipeline(("lower", nothing, Step(nothing))).steps]
    assert labels == ["lower", "nothing", "nothing"]


def test_a_pass_given_as_a_function_is_left_out_by_its_name() -> None:
    def mine(function: glow_nb.Function) -> glow_nb.Function:
        """Do nothing."""
        return function

    pipeline = Pipeline(("fold_constants", mine, Step(mine), Repeat((mine,))))
    assert pipeline.without("mine") == ("fold_constants", Repeat(()))
    assert "Do nothing." in repr(pipeline)


NEEDED = {
    *("select_packed_operators", "select_gradient_kernels"),
    *("pack_recurrences", "pack_dequantizing_products", "select_fourier_transforms"),
    "plan_kernels",
}
"""Passes that the cpu backend cannot run without, or that something else would do."""


def test_passes_that_the_backend_needs_stay_and_say_why() -> None:
    order = order_for(backend_named("cpu"))
    steps = Pipeline((*order.graph, *order.program)).steps
    assert {name_of_step(step) for step in steps if step.needed} == NEEDED
    with pytest.raises(OptionError, match="'load_code' cannot be left out: it is a step of the"):
        order.whole.without("load_code")
    for name in NEEDED:
        with pytest.raises(OptionError, match=f"'{name}' cannot be left out: .*kernels"):
            glow_nb.compile(product(), without=(name,))


def small_network() -> glow_nb.Function:
    """Return one whose nodes give many passes something to do."""
    rng = np.random.default_rng(0)
    builder = glow_nb.Builder("small")

    def weights(name: str, *shape: int) -> Value:
        return builder.constant(name, rng.standard_normal(shape).astype(np.float32))

    x = builder.input("x", "float32<1 x 6 x 6 x 4>")
    window: dict[str, Any] = {
        "kernel": (3, 3),
        "stride": (1, 1),
        "pads": (1, 1, 1, 1),
        "dilation": (1, 1),
    }
    convolved = Convolution(x, weights("f", 8, 3, 3, 4), weights("b", 8), group=1, **window)
    left, right = (builder.emit(Relu(builder.emit(node))) for node in (convolved, convolved))
    both = builder.emit(Concat((left, right), axis=3))
    flat = builder.emit(Reshape(both, (36, 16)))
    scores = builder.emit(
        MatMul(flat, builder.emit(MatMul(weights("u", 16, 5), weights("v", 5, 5))))
    )
    first = builder.emit(Slice(scores, (0, 0), (1, 5), (1, 1)))
    builder.save(builder.emit(LogSoftmax(first, axis=1)), "y")
    return builder.function()


def optional_passes(backend: str) -> tuple[str, ...]:
    return order_for(backend_named(backend)).whole.optional


@cache
def image_and_result() -> tuple[Array, Array]:
    image = np.random.default_rng(1).standard_normal((1, 6, 6, 4)).astype(np.float32)
    return image, glow_nb.evaluate(small_network(), image)["y"]


def test_numbers_stay_whatever_pass_is_left_out() -> None:
    cpu, image = backend_named("cpu"), image_and_result()[0]
    for name in optional_passes("cpu"):
        lowered = lower_for(small_network(), cpu, without=(name,))
        program = build_program(lowered, cpu, without=(name,))
        (found,) = Interpreter().compile(program).run([image])  # it knows packed operators, too
        np.testing.assert_allclose(found, image_and_result()[1], rtol=1e-4, err_msg=name)


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("name", optional_passes("cpu"))
def test_machine_code_computes_the_same_whatever_pass_is_left_out(name: str) -> None:
    image, wanted = image_and_result()
    for threads in (1, 2):
        net = glow_nb.compile(small_network(), threads=threads, without=(name,))
        np.testing.assert_allclose(net.run(image)["y"], wanted, rtol=1e-4)


@pytest.mark.parametrize(
    ("without", "message"),
    [
        ("fold_constants", "give a tuple of names"),
        (5, "give a tuple of names"),
        (("fold_constant",), "no pass 'fold_constant' would run; did you mean 'fold_constants'"),
        (("lower",), "'lower' is a step of the compiler, which always runs"),
        (("zzz",), "no pass 'zzz' would run; there run eliminate_dead_nodes"),
        ((3,), "no pass 3 would run"),
    ],
)
def test_what_is_no_pass_is_refused(without: object, message: str) -> None:
    with pytest.raises(OptionError, match=f"without.*{message}"):
        glow_nb.compile(product(), backend="interpreter", without=without)  # type: ignore[arg-type]


def test_of_a_program_that_is_given_no_pass_is_left_out() -> None:
    program = glow_nb.compile(product(), backend="interpreter").program
    net = glow_nb.compile(program, backend="interpreter")
    assert [name_of_step(s) for s in net.pipeline.steps] == ["check_placement", "compile"]
    with pytest.raises(OptionError, match="no pass 'fold_constants' would run"):
        glow_nb.compile(program, backend="interpreter", without=("fold_constants",))
    without_effect: dict[str, Any] = {
        **{"pipeline": (), "program_pipeline": (), "scheduler": as_given},
        "plan": {"product": "direct"},
    }
    for name, given in without_effect.items():
        with pytest.raises(OptionError, match=f"^{name}=.*the model is a program"):
            glow_nb.compile(program, **{name: given})


def as_given(steps: Steps) -> Sequence[int]:
    return range(len(steps.before))


def end_to_end(live_ranges: Sequence[LiveRange]) -> list[int]:
    offsets, end = [], 0
    for live in live_ranges:
        offsets.append(end)
        end += -(-live.size_bytes // 64) * 64
    return offsets


def test_a_scheduler_of_ones_own_orders_nodes_and_instructions() -> None:
    called: list[int] = []

    def reversed_where_allowed(steps: Steps) -> list[int]:
        called.append(len(steps.before))
        order: list[int] = []
        while len(order) < len(steps.before):
            ready = (n for n in range(len(steps.before)) if set(steps.before[n]) <= set(order))
            order.append(max(n for n in ready if n not in order))
        return order

    image, wanted = image_and_result()
    for scheduler in (reversed_where_allowed, as_given):
        net = glow_nb.compile(small_network(), backend="interpreter", scheduler=scheduler)
        np.testing.assert_allclose(net.run(image)["y"], wanted, rtol=1e-5)
    assert len(called) == 2  # of the graph, and of the program


def test_an_allocator_of_ones_own_places_the_activations() -> None:
    image, wanted = image_and_result()
    net = glow_nb.compile(small_network(), backend="interpreter", allocator=end_to_end)
    arena = net.program.arena
    assert arena is not None
    assert (
        arena.size_bytes
        > glow_nb.compile(small_network(), backend="interpreter").memory.arena_bytes
    )
    np.testing.assert_allclose(net.run(image)["y"], wanted, rtol=1e-5)


def test_an_allocator_of_ones_own_places_a_program_that_is_placed_again() -> None:
    program = glow_nb.compile(small_network(), backend="interpreter").program
    again = glow_nb.compile(program, backend="interpreter", allocator=end_to_end)
    assert again.program.arena != program.arena


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "it returned None; return a list of numbers"),
        ([0], "it returned .* steps; return each of the numbers 0 to"),
        ("backwards", r"step \d+ \(%\w+\) comes before step \d+ \(%\w+\), which it needs"),
        ([0.5] * 9, "return each of the numbers"),
    ],
)
def test_a_wrong_order_is_refused(returned: object, message: str) -> None:
    def mine(steps: Steps) -> object:
        backwards = range(len(steps.before) - 1, -1, -1)
        return backwards if returned == "backwards" else returned

    with pytest.raises(OptionError, match=f"scheduler '.*mine'.*{message}"):
        glow_nb.compile(small_network(), backend="interpreter", scheduler=mine)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (lambda ranges: None, "allocator .* returned None; return a list of offsets"),
        (lambda ranges: [0], "allocator .* return one whole number of bytes for each"),
        (lambda ranges: [0.0] * len(ranges), "allocator .* return one whole number"),
        (
            lambda ranges: [0] * len(ranges),
            r"allocator .*range 1 \(%\w+, steps 2 to 10, 2304 bytes\) at 0, where it overlaps with "
            r"live range 0 \(%\w+, steps 0 to 6, 1152 bytes\) at 0",
        ),
        (lambda ranges: [1, *range(len(ranges) - 1)], "at 1; give a multiple of 64 that is not"),
        (lambda ranges: [-64] * len(ranges), "allocator .* at -64; give a multiple of 64"),
    ],
)
def test_a_wrong_placement_is_refused(place: object, message: str) -> None:
    with pytest.raises(glow_nb.GlowError, match=message):
        glow_nb.compile(small_network(), backend="interpreter", allocator=place)  # type: ignore[arg-type]


@pytest.mark.parametrize("argument", ["scheduler", "allocator"])
def test_what_cannot_be_called_is_refused(argument: str) -> None:
    wrong: dict[str, Any] = {argument: 3}
    with pytest.raises(OptionError, match=f"{argument}=3: give a function of .*glow_nb.extend"):
        glow_nb.compile(small_network(), backend="interpreter", **wrong)


def test_what_a_scheduler_raises_is_our_error() -> None:
    def broken(steps: Steps) -> list[int]:
        raise KeyError("mine")

    with pytest.raises(glow_nb.PassError, match="scheduler 'broken': KeyError: 'mine'"):
        glow_nb.compile(product(), backend="interpreter", scheduler=broken)


def test_an_allocator_that_raises_is_named() -> None:
    def broken(ranges: Sequence[LiveRange]) -> list[int]:
        raise KeyError("mine")

    with pytest.raises(glow_nb.PassError, match=r"allocator 'broken': KeyError: 'mine'"):
        glow_nb.compile(product(), backend="interpreter", allocator=broken)


def test_no_pass_runs_another_one() -> None:
    for name, run in GRAPH_PASSES.passes.items():  # nobody could leave out what it runs
        others = GRAPH_PASSES.passes.keys() & set(run.__code__.co_names) - {name}
        assert not others, f"{name} runs {others}"
