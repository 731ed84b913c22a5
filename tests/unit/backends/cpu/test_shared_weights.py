"""Weights of several programs: equal ones are held once, as long as somebody reads them."""

from __future__ import annotations

import gc

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import glow_nb
from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.backends.cpu.constant_block import ConstantBlock
from glow_nb.backends.cpu.executable import CpuExecutable
from glow_nb.backends.cpu.shared_weights import SharedWeights
from glow_nb.base.payload import Payload
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.graph import Constant
from glow_nb.hlir.ops import Transpose
from glow_nb.hlir.recipe import NodeRecipe
from glow_nb.llir.program import Weight
from glow_nb.network.dynamic import DynamicNetwork
from glow_nb.network.network import CompiledNetwork


def weight(name: str, payload: Payload, like: Array) -> Weight:
    return Weight(name, TensorType.of(like), payload)


def transposed(array: Array) -> NodeRecipe:
    constant = Constant.of("c", array)
    return NodeRecipe(Transpose(constant, (1, 0)))


def filled(weights: list[Weight], shared: SharedWeights) -> ConstantBlock:
    block = ConstantBlock(weights, shared)
    with block.being_filled():
        pass
    return block


NUMBERS = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_equal_weights_lie_in_the_first_block() -> None:
    shared = SharedWeights()
    first = filled([weight("a", NUMBERS, NUMBERS)], shared)
    second = filled([weight("b", NUMBERS.copy(), NUMBERS), weight("c", -NUMBERS, NUMBERS)], shared)
    assert second.blocks[1] is first.blocks[0]
    assert second.memory(0).arrays["b"].ctypes.data == first.memory(0).arrays["a"].ctypes.data
    np.testing.assert_array_equal(second.memory(0).arrays["c"], -NUMBERS)
    assert second.size_bytes == 2 * first.size_bytes


def test_what_is_made_alike_of_the_same_numbers_is_equal() -> None:
    shared, like = SharedWeights(), NUMBERS.T
    first = filled([weight("a", transposed(NUMBERS), like)], shared)
    second = filled([weight("b", transposed(NUMBERS.copy()), like)], shared)
    other = filled([weight("c", transposed(NUMBERS + 1), like)], shared)
    assert second.memory(0).arrays["b"].ctypes.data == first.memory(0).arrays["a"].ctypes.data
    assert len(other.blocks) == 1
    np.testing.assert_array_equal(other.memory(0).arrays["c"], (NUMBERS + 1).T)


@pytest.mark.parametrize(
    "other",
    [
        NUMBERS.reshape(4, 3),
        NUMBERS.view(np.int32),
        NUMBERS[:, ::-1],
        np.arange(1, 13, dtype=np.float32).reshape(3, 4),
        np.where(NUMBERS == 0, np.float32(-0.0), NUMBERS),
    ],
)
def test_what_differs_is_not_shared(other: Array) -> None:
    shared = SharedWeights()
    assert shared.key(NUMBERS) != shared.key(other)
    first = filled([weight("a", NUMBERS, NUMBERS)], shared)
    second = filled([weight("b", other, other)], shared)
    assert len(second.blocks) == 1 and first.blocks[0] is not second.blocks[0]
    np.testing.assert_array_equal(second.memory(0).arrays["b"], other)


def test_views_of_different_parts_differ() -> None:
    shared = SharedWeights()
    assert shared.key(NUMBERS[:1]) != shared.key(NUMBERS[1:2])


def test_nobody_keeps_a_block_that_is_not_read() -> None:
    shared = SharedWeights()
    first = filled([weight("a", NUMBERS, NUMBERS)], shared)
    del first
    gc.collect()
    assert len(filled([weight("b", NUMBERS, NUMBERS)], shared).blocks) == 1


def test_a_backend_of_ones_own_stays_what_it_is() -> None:
    class Own(CpuBackend):
        name = "own"

    assert isinstance(Own().for_variants(), Own)


def products() -> onnx.ModelProto:
    """y = relu(x @ a) @ b, for any number of rows."""
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(256, 256)).astype(np.float32) for _ in range(2)]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "a"], ["m"]),
            helper.make_node("Relu", ["m"], ["r"]),
            helper.make_node("MatMul", ["r", "b"], ["y"]),
        ],
        "products",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 256])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 256])],
        [onnx.numpy_helper.from_array(w, n) for w, n in zip(weights, "ab", strict=True)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def own_bytes(network: CompiledNetwork) -> int:
    assert isinstance(network.executable, CpuExecutable)
    return int(network.executable.native.memory.constants.nbytes)


@pytest.mark.jit
@pytest.mark.usefixtures("sharing_is_free")
def test_sizes_of_a_network_share_their_weights_and_compute_the_same() -> None:
    net = glow_nb.compile(products(), threads=2, sizes="each", max_variants=2)
    assert isinstance(net, DynamicNetwork)
    rng = np.random.default_rng(1)
    for rows in (96, 108, 120, 108):  # the first goes, what the others read of it stays
        x = rng.normal(size=(rows, 256)).astype(np.float32)
        plain = glow_nb.compile(products(), threads=2, shapes={"rows": rows})
        np.testing.assert_array_equal(net.run(x)["y"], plain.run(x)["y"])
        assert net.memory.constant_bytes == plain.memory.constant_bytes
        assert len(net.profile(x, runs=2, limits=False).kernels) == len(net.kernels)
    assert [own_bytes(variant) for variant in net.variants] == [0, 0]
