"""Networks with open sizes on a host: one program, requests joined to exactly their rows."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest

from glow_nb.base.errors import FeedError, GlowWarning, OptionError
from glow_nb.base.types import Array
from glow_nb.runtime import DeviceDescription
from glow_nb.runtime.hosting.host import HostManager
from tests.unit.runtime.scripted_device import ScriptedDevice


def model(
    shape: Sequence[str | int], operator: str = "Softmax", output: Sequence[str | int] | None = None
) -> onnx.ModelProto:
    """Return a model of one operator, which keeps rows apart."""
    kind = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(operator, ["x"], ["y"])],
        "net",
        [onnx.helper.make_tensor_value_info("x", kind, shape)],
        [onnx.helper.make_tensor_value_info("y", kind, output or shape)],
    )
    opset = [onnx.helper.make_opsetid("", 18)]
    return onnx.helper.make_model(graph, opset_imports=opset, ir_version=9)


def drawn(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def softmax(x: Array) -> Array:
    powers = np.exp(x.astype(np.float64) - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True), np.float32)


def check(answer: Array, x: Array) -> None:
    np.testing.assert_allclose(answer, softmax(x), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", ["local", "process", "interpreter", "simulated"])
@pytest.mark.parametrize("max_batch", [1, 5])
def test_many_sizes_at_a_time(kind: str, max_batch: int) -> None:
    backend = "interpreter" if kind == "interpreter" else "cpu"
    device = DeviceDescription("d", kind, backend)
    with HostManager([device]) as host:
        host.add_network("net", model(["batch", "length"]).SerializeToString(), max_batch=max_batch)
        assert host.networks()["net"].batch_sizes == tuple(range(1, max_batch + 1))
        inputs = [drawn(n, 1 + n % 5, (3, 7, 64)[n % 3]) for n in range(40)]
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda x: host.run("net", {"x": x})["y"], inputs))
        for answer, x in zip(answers, inputs, strict=True):
            check(answer, x)


def test_requests_are_joined_without_padding_if_their_other_sizes_are_the_same() -> None:
    device = ScriptedDevice("a")
    with HostManager([device]) as host:
        host.add_network("net", model(["batch", "length"]).SerializeToString(), max_batch=8)
        assert len(device.keys) == 1  # one program
        device.may_run.clear()
        shapes = [(8, 9), (8, 9), (2, 4), (1, 3), (3, 4), (1, 3), (2, 4), (5, 3)]
        requests = [host.submit("net", drawn(n, *shape)) for n, shape in enumerate(shapes)]
        device.may_run.set()
        for number, (request, shape) in enumerate(zip(requests, shapes, strict=True)):
            check(request.result(30)["y"], drawn(number, *shape))
        batches = host.statistics().networks["net"].counters.batches
        assert batches == {8: 2, 7: 2}  # 2 + 3 + 2 of four columns, 1 + 1 + 5 of three


def test_a_batch_is_full_when_rows_that_run_together_are() -> None:
    device = ScriptedDevice("a")
    with HostManager([device]) as host:
        host.add_network(
            "net", model(["batch", "length"]).SerializeToString(), max_batch=4, max_delay=1000.0
        )
        requests = [host.submit("net", drawn(n, 2, 3 + n)) for n in range(3)]
        assert not any(request.done() for request in requests)
        requests.append(host.submit("net", drawn(3, 2, 3)))  # as the first one
        requests[0].result(30)
        assert requests[3].result(30)["y"].shape == (2, 3)
        assert requests[1].cancel()
        assert requests[2].cancel()


def test_what_does_not_fit_is_refused_by_name() -> None:
    with HostManager([ScriptedDevice("a")]) as host:
        open_model = model(["batch", "length"]).SerializeToString()
        host.add_network("net", open_model, max_batch=3)
        with pytest.raises(FeedError, match=r"'x': it has 4 rows, the network takes 1 to 3"):
            host.run("net", drawn(0, 4, 2))
        with pytest.raises(FeedError, match="'x'"):
            host.run("net", drawn(0, 4))
        with pytest.raises(OptionError, match=r"max_batch=2 joins.*'x' is float32<3 x length>"):
            host.add_network("wide", model([3, "length"]).SerializeToString(), max_batch=2)
        host.add_network("wide", model([3, "length"]).SerializeToString())
        check(host.run("wide", drawn(0, 3, 7))["y"], drawn(0, 3, 7))
        assert str(host.networks()["wide"].inputs["x"]) == "float32<3 x length>"


def test_what_has_no_program_for_all_sizes_is_loaded_for_batch_sizes() -> None:
    def flattened() -> onnx.ModelProto:
        """Return a model whose second size is a number that a run of one size has computed."""
        made = model(["batch", 4], "Relu")
        made.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, 4]), "shape"))
        made.graph.node[0].output[0] = "z"
        made.graph.node.append(onnx.helper.make_node("Reshape", ["z", "shape"], ["y"]))
        return made

    with HostManager([ScriptedDevice("a")]) as host:
        with pytest.warns(GlowWarning, match="'net': it is loaded for each batch size, as"):
            host.add_network("net", flattened().SerializeToString())
        assert host.run("net", drawn(0, 1, 4))["y"].shape == (1, 4)


def test_the_first_sizes_of_inputs_may_have_several_names() -> None:
    made = model(["", 4], "Relu")
    made.graph.input[0].type.tensor_type.shape.dim[0].Clear()
    made.graph.input.append(
        onnx.helper.make_tensor_value_info("more", onnx.TensorProto.FLOAT, ["other", 2])
    )
    made.graph.node.append(onnx.helper.make_node("Relu", ["more"], ["z"]))
    made.graph.output.append(
        onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, ["other", 2])
    )
    with HostManager([ScriptedDevice("a")]) as host:
        host.add_network("net", made.SerializeToString(), max_batch=3)
        found = host.run("net", {"x": np.ones((2, 4), np.float32), "more": np.ones((2, 2), "f")})
        assert [array.shape for array in found.values()] == [(2, 4), (2, 2)]
        with pytest.raises(FeedError, match="'more': it has 1 rows, but input 'x' has 2"):
            host.run("net", {"x": np.ones((2, 4), np.float32), "more": np.ones((1, 2), "f")})


def test_operators_that_a_device_is_kept_from_are_seen_in_open_graphs() -> None:
    def described(operator: str) -> DeviceDescription:
        return DeviceDescription(
            "d", "interpreter", "interpreter", options={"unsupported": [operator]}
        )

    made = model(["batch", "length"]).SerializeToString()
    with HostManager([described("mat_mul")]) as host:
        host.add_network("net", made)
    with HostManager([described("softmax")]) as host:
        with pytest.raises(OptionError, match=r"no device runs all of its operators.*shapes="):
            host.add_network("net", made)
