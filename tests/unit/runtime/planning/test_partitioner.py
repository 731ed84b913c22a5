"""What plans hold, whatever they are made for."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_nb
from glow_nb.base.errors import OptionError, PartitionError
from glow_nb.base.types import Array
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import MatMul, Tanh
from glow_nb.llir.cost import instruction_cost
from glow_nb.runtime import DeviceDescription, Link, Partitioning, compile_part, partition
from glow_nb.runtime.planning.timing import VALUES, Objective, busy_seconds, latency, memory_bytes
from tests.in_turn import one_in
from tests.unit.runtime.networks import branches, chain, devices, product, residual

NETWORKS: dict[str, Callable[[], Function]] = {
    "chain": lambda: chain([16, 64, 32, 64, 16, 32]),
    "branches": lambda: branches(4, 32),
    "residual": lambda: residual(32),
}
BFLOAT16 = {"precision": "bfloat16"}


def run(plan: Partitioning, feeds: dict[str, Array]) -> dict[str, Array]:
    """Run the parts of *plan* one after the other in the interpreter."""
    from glow_nb.backends.interpreter import InterpretedProgram

    known = dict(feeds)
    for part in plan.parts:
        results = InterpretedProgram(part.program).run([known[name] for name, _ in part.inputs])
        known.update(zip((name for name, _ in part.outputs), results, strict=True))
    return {name: known[name] for name, _ in plan.outputs}


def check(plan: Partitioning, function: Function) -> None:
    """Assert that *plan* is legal and means what *function* does."""
    made = {name for name, _ in plan.inputs}
    for part in plan.parts:
        assert {name for name, _ in part.inputs} <= made
        outputs = {name for name, _ in part.outputs}
        made |= outputs
    assert {name for name, _ in plan.outputs} <= made
    used = memory_bytes(plan)
    assert all(used[name] <= device.memory_bytes for name, device in plan.devices.items())
    assert plan.value == VALUES[plan.objective](plan)
    assert 0 < plan.lower_bound <= plan.value
    random = np.random.default_rng(0)
    feeds = {
        p.name: random.standard_normal(p.type.shape).astype(np.float32) for p in function.inputs
    }
    for name, wanted in evaluate(function, feeds).items():
        np.testing.assert_allclose(run(plan, feeds)[name], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("objective", VALUES)
@pytest.mark.parametrize("share", one_in(2, [1.0, 0.8, 0.6]))
def test_plans_are_legal_and_near_their_bound(
    name: str, objective: Objective, share: float
) -> None:
    function = NETWORKS[name]()
    (whole,) = partition(function, devices(1, backend="interpreter")).parts
    room = int(whole.memory_bytes * share)
    slow = Link(1e6, 1e-6)
    made = devices(4, backend="interpreter", memory_bytes=room, link=slow)
    plan = partition(function, made, objective=objective)
    check(plan, function)
    if name == "chain":
        assert plan.gap == 0


def test_one_device_gets_all_of_what_fits() -> None:
    function = chain([16, 16, 16])
    plan = partition(function, devices(3, backend="interpreter"))
    assert [part.device for part in plan.parts] == ["d0"]
    assert plan.gap == 0


def test_throughput_is_shared_out() -> None:
    function = chain([64] * 9, rows=64)
    free = Link(1e15)
    alike = devices(4, backend="interpreter", link=free)
    plan = partition(function, alike, objective="throughput")
    assert len({part.device for part in plan.parts}) == 4
    busy = busy_seconds(plan).values()
    assert max(busy) == pytest.approx(min(busy), rel=0.01)


def test_branches_run_side_by_side() -> None:
    b = Builder("two")
    x = b.input("x", "float32<64 x 256>")
    for index in range(2):
        value = product(b, b.emit(Tanh(x)), 256)
        b.save(product(b, product(b, value, 256 + index), 256), f"y{index}")
    function = b.function()
    one = partition(function, devices(1, backend="interpreter"))
    two = partition(function, devices(2, backend="interpreter"))
    assert two.value < 0.7 * one.value
    check(two, function)


def test_a_slow_device_gets_less() -> None:
    function = chain([64] * 9, rows=64)
    fast, slow = devices(2, backend="interpreter", link=Link(1e15))
    slow = dataclasses.replace(slow, multiply_adds_per_second=fast.multiply_adds_per_second / 3)
    plan = partition(function, [fast, slow], objective="throughput")
    work = dict.fromkeys(plan.devices, 0)
    for part in plan.parts:
        costs = map(instruction_cost, part.program.work)
        work[part.device] += sum(cost.executed.multiply_adds for cost in costs)
    assert work["d0"] == 3 * work["d1"]


def test_a_named_link_is_used() -> None:
    function = chain([8, 64, 64, 64, 64, 8])
    (whole,) = partition(function, devices(1, backend="interpreter")).parts
    room = int(whole.memory_bytes * 0.8)
    slow, fast = Link(1e5), Link(1e12)
    first, second, third = devices(3, backend="interpreter", memory_bytes=room, link=slow)
    near = [
        dataclasses.replace(first, links={"d2": fast}),
        second,
        dataclasses.replace(third, links={"d0": fast}),
    ]
    plan = partition(function, near)
    assert {part.device for part in plan.parts} == {"d0", "d2"}


def test_operators_are_kept_off_a_device_that_does_not_run_them() -> None:
    function = residual(16)
    able, unable = devices(2, backend="interpreter")
    able = dataclasses.replace(able, multiply_adds_per_second=1e9, memory_bytes_per_second=1e8)
    unable = dataclasses.replace(unable, options={"unsupported": ["softmax", "add"]})
    plan = partition(function, [able, unable])
    check(plan, function)
    for part in plan.parts:
        opcodes = {i.opcode for i in part.program.work}
        assert part.device == "d0" or not opcodes & {"softmax", "add"}
    assert {part.device for part in plan.parts} == {"d0", "d1"}


def test_an_operator_of_an_imported_model_is_kept_off_by_its_name() -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 16, 8, 8))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 16, 8, 8))
    filters = numpy_helper.from_array(np.ones((16, 16, 3, 3), np.float32), "filters")
    nodes = [
        helper.make_node("Conv", ["x", "filters"], ["c"], "conv", pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["y"], "relu"),
    ]
    graph = helper.make_graph(nodes, "small", [x], [y], [filters])
    function = glow_nb.load(helper.make_model(graph))
    unable, able = devices(2, multiply_adds_per_second=1e9)
    unable = dataclasses.replace(
        unable, multiply_adds_per_second=1e12, options={"unsupported": ["convolution"]}
    )
    plan = partition(function, [unable, able])
    for part in plan.parts:
        convolves = any("convolution" in i.opcode for i in part.program.work)
        assert part.device == "d1" or not convolves
    with pytest.raises(PartitionError, match="no device runs 'conv'"):
        partition(function, [unable])


def test_limits_are_kept() -> None:
    function = chain([64, 64, 64, 64])
    made = devices(3, backend="interpreter")
    plan = partition(function, made, limits={"d0": 30_000, "d1": 60_000, "d2": 10})
    used = memory_bytes(plan)
    assert used["d0"] <= 30_000
    assert used["d1"] <= 60_000
    assert used["d2"] == 0


def test_assigned_nodes_are_where_they_are_wanted() -> None:
    function = chain([16, 16, 16, 16])
    made = devices(3, backend="interpreter")
    plan = partition(function, made, assignment={"layer0": "d2", "layer[12]": "d1"})
    found = {
        name: part.device
        for part in plan.parts
        for i in part.program.work
        for name in i.imported_names
    }
    assert found["layer0"] == "d2"
    assert found["layer1"] == found["layer2"] == "d1"


def test_a_cycle_in_an_assignment_is_named() -> None:
    with pytest.raises(PartitionError, match=r"'d0' has 'layer2', which needs 'layer1' of 'd1'"):
        partition(
            chain([16, 16, 16, 16]),
            devices(2, backend="interpreter"),
            assignment={"layer0": "d0", "layer1": "d1", "layer2": "d0"},
        )


def test_nodes_of_one_kernel_go_to_one_device() -> None:
    b = Builder()
    x = b.input("x", "float32<4 x 4>")
    b.save(b.emit(Tanh(b.emit(Tanh(x, name="first")), name="second")), "y")
    with pytest.raises(PartitionError, match="'first' on 'd0', 'second' on 'd1'"):
        partition(
            b.function(),
            devices(2, backend="interpreter"),
            assignment={"first": "d0", "second": "d1"},
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"objective": "speed"}, "objective='speed': give one of latency, throughput, memory"),
        ({"limits": {"d7": 1}}, "there is no device 'd7'"),
        ({"limits": {"d0": -1}}, "limits"),
        ({"objective": np.zeros(99)}, "objective=a ndarray: give one of latency"),
        ({"assignment": {"layer0": "e0"}}, "there is no device 'e0'"),
        ({"assignment": {"layr0": "d0"}}, "no node is called so.*layer0"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        partition(chain([8, 8]), devices(2, backend="interpreter"), **arguments)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ([], "there is none"),
        (devices(1) * 2, r"several are called \['d0'\]"),
        (["d0"], "'d0' is no DeviceDescription"),
        ([np.zeros(99)], "devices: a ndarray is no DeviceDescription"),
        ([DeviceDescription("d0", backend="gpu")], "unknown backend 'gpu'"),
        ([DeviceDescription("d0", options={"unsupported": "add"})], "give a list of operators"),
        (
            [DeviceDescription("d0", options={"unsupported": ["sofmax"]})],
            "no operator 'sofmax'; did you mean 'softmax'",
        ),
        (
            [DeviceDescription("d0"), DeviceDescription("d1", options=BFLOAT16)],
            "'d0' has precision='float32', keep=.*, device 'd1' precision='bfloat16'.*: a network",
        ),
        (
            devices(2, options=BFLOAT16 | {"keep": ["layr0"]}),
            "'layr0' fits no node of 'chain'; did you mean 'layer0'",
        ),
    ],
)
def test_wrong_devices_are_refused(made: list[DeviceDescription], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        partition(chain([8, 8]), made)


@pytest.mark.parametrize(
    ("rooms", "message"),
    [
        ([10_000, 15_000], r"32768 bytes, the devices hold 25000 bytes .* 7768 bytes are missing"),
        ([16_000] * 3, "needs 18432 bytes.* none can have it"),
    ],
)
def test_a_network_that_fits_nowhere_is_refused(rooms: list[int], message: str) -> None:
    made = [
        DeviceDescription(f"d{index}", backend="interpreter", memory_bytes=room)
        for index, room in enumerate(rooms)
    ]
    with pytest.raises(PartitionError, match=message):
        partition(chain([64, 64, 64]), made)


def test_an_operator_that_no_device_runs_is_named() -> None:
    made = devices(2, backend="interpreter", options={"unsupported": ["softmax"]})
    with pytest.raises(PartitionError, match="no device runs .* made of .*softmax"):
        partition(residual(8), made)


def test_parts_multiply_bfloat16_if_all_devices_do() -> None:
    function = chain([32, 32, 32, 32])
    plan = partition(
        function,
        devices(2, backend="interpreter", memory_bytes=6_500, options=BFLOAT16),
    )
    assert len(plan.parts) == 2
    feeds = {"x": np.random.default_rng(0).standard_normal((4, 32)).astype(np.float32)}
    exact, found = evaluate(function, feeds)["y"], run(plan, feeds)["y"]
    assert 0 < np.abs(found - exact).max() < 0.02 * np.abs(exact).max()


def test_a_network_of_thousands_of_nodes_is_planned() -> None:
    b = Builder("long")
    x = b.input("x", "float32<64 x 64>")
    value: Value = x
    for _ in range(700):
        value = b.emit(MatMul(value, x))
    b.save(value, "y")
    function = b.function()
    plan = partition(function, devices(5, backend="interpreter"), objective="throughput")
    assert len(plan.parts) == 5
    assert plan.gap < 0.1


def test_equal_parts_are_one_program_for_the_cache() -> None:
    plan = partition(chain([32] * 5), devices(4, backend="interpreter"), objective="memory")
    assert len(plan.parts) == 4
    for one, other in itertools.combinations(plan.parts[1:3], 2):
        assert one.constant_bytes == other.constant_bytes


@pytest.mark.jit
def test_a_compiled_part_takes_the_memory_that_was_planned() -> None:
    function = residual(64, rows=16)
    whole = glow_nb.compile(function, threads=1)
    made = devices(2, memory_bytes=200_000)
    plan = partition(function, made, objective="memory")
    for part in plan.parts:
        deployed = compile_part(part, plan.devices[part.device])
        assert (deployed.name, deployed.inputs, deployed.outputs) == (
            part.name,
            part.inputs,
            part.outputs,
        )
        assert (deployed.constant_bytes, deployed.run_bytes) == (
            part.constant_bytes,
            part.run_bytes,
        )
    assert whole.memory.constant_bytes == sum(part.constant_bytes for part in plan.parts)
    (alone,) = partition(function, devices(1)).parts
    deployed = compile_part(function, devices(1)[0])
    assert deployed.memory_bytes == alone.memory_bytes


def test_latency_counts_the_way_to_the_host_and_between_devices() -> None:
    function = chain([64, 64, 64], rows=16)
    link = Link(1e6, 0.25)
    made = devices(2, backend="interpreter", memory_bytes=30_000, link=link)
    plan = partition(function, made)
    assert len(plan.parts) == 2
    size = 16 * 64 * 4
    kernels = sum(part.seconds for part in plan.parts)
    assert latency(plan) == pytest.approx(kernels + 3 * (0.25 + size / 1e6))
