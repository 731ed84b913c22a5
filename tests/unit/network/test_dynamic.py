"""Open sizes: checked at compile, compiled once for the sizes of each feed."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import glow_nb
from glow_nb.base.errors import FeedError, ModelError, OptionError, UnsupportedError
from glow_nb.base.passes import PassRun
from glow_nb.network.dynamic import DynamicNetwork
from glow_nb.network.network import CompiledNetwork, Network
from glow_nb.network.request import MAX_VARIANTS


def model() -> onnx.ModelProto:
    """y = reshape(relu(x), [batch, -1]) + z, with batch and width unknown."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Concat", ["n", "rest"], ["t"], axis=0),
        helper.make_node("Reshape", ["r", "t"], ["flat"]),
        helper.make_node("Add", ["flat", "z"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "symbolic",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 2, "width"]),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, ["batch", 1]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "columns"])],
        [
            helper.make_tensor("zero", TensorProto.INT64, [1], [0]),
            helper.make_tensor("rest", TensorProto.INT64, [1], [-1]),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def feeds(batch: int, width: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(batch)
    return {
        "x": rng.normal(size=(batch, 2, width)).astype(np.float32),
        "z": rng.normal(size=(batch, 1)).astype(np.float32),
    }


def check(net: Network, batch: int, width: int) -> None:
    given = feeds(batch, width)
    expected = np.maximum(given["x"], 0).reshape(batch, -1) + given["z"]
    np.testing.assert_allclose(net.run(given)["y"], expected, rtol=1e-6)


def dynamic(**options: object) -> DynamicNetwork:
    net = glow_nb.compile(model(), backend="interpreter", **options)  # type: ignore[arg-type]
    assert isinstance(net, DynamicNetwork)
    return net


class Gate:
    """An observer that holds compilations up until it is opened."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self, run: PassRun) -> None:
        self.reached.set()
        assert self.opened.wait(30)


class TestSizes:
    def test_shapes_bind_at_compile_time(self) -> None:
        net = glow_nb.compile(model(), backend="interpreter", shapes={"batch": 3, "width": 5})
        assert isinstance(net, CompiledNetwork)
        assert [str(t) for t in net.inputs.values()] == ["float32<3 x 2 x 5>", "float32<3 x 1>"]
        check(net, 3, 5)

    def test_the_first_run_binds_what_is_open_and_keeps_it(self) -> None:
        runs: list[PassRun] = []
        net = dynamic(observer=runs.append, sizes="each")
        assert not runs
        check(net, 3, 5)
        compiled = len(runs)
        assert compiled > 0
        check(net, 3, 5)
        assert len(runs) == compiled
        check(net, 2, 4)
        assert len(runs) > compiled

    def test_what_is_bound_at_compile_time_stays_bound(self) -> None:
        net = dynamic(shapes={"batch": 3})
        assert str(net.inputs["x"]) == "float32<3 x 2 x width>"
        assert str(net.outputs["y"]) == "float32<3 x columns>"
        check(net, 3, 5)
        with pytest.raises(FeedError, match=r"shape is \[2, 2, 5\], the network takes \[3, 2, 'wi"):
            net.run(feeds(2, 5))

    def test_feeds_that_do_not_fit_are_refused_before_anything_is_compiled(self) -> None:
        net, given = dynamic(), feeds(3, 5)
        with pytest.raises(FeedError, match=r"'x': shape is \[3, 5\], the network takes \['batch'"):
            net.run({**given, "x": given["x"][:, 0]})
        with pytest.raises(FeedError, match="dimension 'batch' is 3 in input 'x' but 2 in 'z'"):
            net.run({**given, "z": given["z"][:2]})
        with pytest.raises(FeedError, match="'z': dtype is float64, the network takes float32"):
            net.run({**given, "z": given["z"].astype(np.float64)})
        assert not net.variants

    def test_calling_is_running(self) -> None:
        given = feeds(2, 3)
        np.testing.assert_equal(dynamic()(given), dynamic().run(given))


class TestWhatIsShown:
    def test_types_have_the_names_of_open_sizes_before_and_after_a_run(self) -> None:
        net = dynamic()
        for _ in range(2):
            assert [str(t) for t in net.inputs.values()] == [
                "float32<batch x 2 x width>",
                "float32<batch x 1>",
            ]
            assert [str(t) for t in net.outputs.values()] == ["float32<batch x columns>"]
            check(net, 3, 5)

    def test_nothing_is_said_of_sizes_that_are_not_compiled(self) -> None:
        net = dynamic()
        assert repr(net) == (
            "<DynamicNetwork (x: float32<batch x 2 x width>, z: float32<batch x 1>) -> "
            "(y: float32<batch x columns>), not compiled for any sizes yet>"
        )
        for what in ("memory", "kernels", "source", "program", "function"):
            with pytest.raises(glow_nb.GlowError, match="not compiled for any sizes yet .* run it"):
                getattr(net, what)

    def test_reports_name_the_sizes_that_were_used_last(self) -> None:
        net = dynamic(sizes="each")
        check(net, 3, 5)
        check(net, 2, 4)
        assert "compiled for batch = 3, width = 5; batch = 2, width = 4>" in repr(net)
        assert str(net.memory).startswith("for batch = 2, width = 4: arena")
        assert str(net.kernels).startswith("for batch = 2, width = 4:\n")
        assert net.source.startswith("# for batch = 2, width = 4\n")
        check(net, 3, 5)
        assert str(net.memory).startswith("for batch = 3, width = 5: ")

    def test_outputs_of_undeclared_shape_say_so(self) -> None:
        proto = model()
        proto.graph.output[0].type.tensor_type.ClearField("shape")
        net = glow_nb.compile(proto, backend="interpreter")
        assert str(net.outputs["y"]) == "float32<any shape>"
        check(net, 2, 2)

    def test_an_output_without_any_type_gets_its_kind_from_the_graph(self) -> None:
        proto = model()
        proto.graph.output[0].ClearField("type")
        net = glow_nb.compile(proto, backend="interpreter")
        assert str(net.outputs["y"]) == "float32<any shape>"


class TestChecksAtCompile:
    def test_all_unknown_operators_are_told(self) -> None:
        proto = model()
        proto.graph.node[0].op_type = "Frobnicate"
        proto.graph.node[5].op_type = "Defrobnicate"
        with pytest.raises(UnsupportedError, match=r"(?s)Frobnicate.*Defrobnicate"):
            glow_nb.compile(proto)

    def test_an_operator_is_told_though_its_operand_has_impossible_sizes(self) -> None:
        # 7 columns fit neither of the sizes that are tried.
        proto = model()
        proto.graph.node.insert(1, helper.make_node("Reshape", ["r", "seven"], ["odd"]))
        proto.graph.initializer.append(helper.make_tensor("seven", TensorProto.INT64, [2], [-1, 7]))
        proto.graph.node.insert(2, helper.make_node("Frobnicate", ["odd"], ["more"]))
        with pytest.raises(UnsupportedError, match="Frobnicate"):
            glow_nb.compile(proto)
        del proto.graph.node[2]
        net = glow_nb.compile(proto, backend="interpreter")
        check(net, 7, 2)
        with pytest.raises(ModelError, match="'odd' \\(Reshape\\)"):
            net.run(feeds(2, 2))

    def test_an_operator_inside_a_function_is_told(self) -> None:
        proto = model()
        body = helper.make_node("Frobnicate", ["a"], ["b"])
        opsets = [helper.make_opsetid("", 17)]
        proto.functions.append(helper.make_function("own", "Twice", ["a"], ["b"], [body], opsets))
        proto.opset_import.append(helper.make_opsetid("own", 1))
        proto.graph.node[0].CopyFrom(helper.make_node("Twice", ["x"], ["r"], domain="own"))
        with pytest.raises(UnsupportedError, match="Frobnicate"):
            glow_nb.compile(proto)

    def test_a_broken_graph_is_told(self) -> None:
        proto = model()
        proto.graph.node[5].input[0] = "nowhere"
        with pytest.raises(ModelError, match="reads 'nowhere', which no input"):
            glow_nb.compile(proto)
        proto = model()
        proto.graph.node[5].attribute.append(helper.make_attribute("axis", 1))
        with pytest.raises(ModelError, match="has no attribute 'axis'"):
            glow_nb.compile(proto)

    def test_an_attribute_that_is_not_supported_is_told(self) -> None:
        proto = model()
        node = helper.make_node("Cast", ["x"], ["r"], to=TensorProto.COMPLEX64)
        proto.graph.node[0].CopyFrom(node)
        with pytest.raises(UnsupportedError, match="complex64"):
            glow_nb.compile(proto)

    def test_bad_options_are_told(self) -> None:
        with pytest.raises(OptionError, match="no symbolic dimension 'bath'; did you mean 'batch'"):
            glow_nb.compile(model(), shapes={"bath": 3})
        with pytest.raises(OptionError, match="max_variants=0"):
            glow_nb.compile(model(), max_variants=0)
        with pytest.raises(OptionError, match="no_such_pass"):
            glow_nb.compile(model(), pipeline=("no_such_pass",))
        with pytest.raises(OptionError, match="no_such_pass"):
            glow_nb.compile(model(), program_pipeline=("no_such_pass",))


class TestTheModelIsReadOnce:
    def test_files_may_go_after_compile(self, tmp_path: Path) -> None:
        path = tmp_path / "model.onnx"
        weights = np.arange(4096, dtype=np.float32).reshape(2, 2048)
        proto = weighted(weights)
        onnx.save(proto, path, save_as_external_data=True, location="weights.bin")
        net = glow_nb.compile(path, backend="interpreter")
        path.unlink()
        (tmp_path / "weights.bin").write_bytes(b"something else")
        for batch in (1, 3):
            given = np.ones((batch, 2), np.float32)
            np.testing.assert_array_equal(net.run(given)["y"], given @ weights)

    def test_missing_external_data_are_told(self, tmp_path: Path) -> None:
        path = tmp_path / "model.onnx"
        proto = weighted(np.ones((2, 2048), np.float32))
        onnx.save(proto, path, save_as_external_data=True, location="weights.bin")
        (tmp_path / "weights.bin").unlink()
        with pytest.raises(ModelError, match="cannot be read from 'weights.bin'"):
            glow_nb.compile(path)

    def test_a_message_may_change_after_compile(self) -> None:
        proto = model()
        net = glow_nb.compile(proto, backend="interpreter")
        proto.graph.node[0].op_type = "Sigmoid"
        check(net, 2, 2)


def weighted(weights: np.ndarray) -> onnx.ModelProto:
    """y = x @ weights, for any number of rows."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "weighted",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", weights.shape[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", weights.shape[1]])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class TestVariants:
    def test_old_sizes_are_forgotten_not_piled_up(self) -> None:
        net = dynamic(sizes="each")
        for batch in range(1, MAX_VARIANTS + 4):
            check(net, batch, 1)
        assert len(net.variants) == MAX_VARIANTS

    def test_the_least_recently_used_sizes_go_first(self) -> None:
        net = dynamic(max_variants=2, sizes="each")
        for batch in (1, 2, 1, 3):
            check(net, batch, 1)
        sizes = [variant.sizes for variant in net.variants]
        assert sizes == ["batch = 1, width = 1", "batch = 3, width = 1"]

    def test_sizes_that_are_ready_run_while_others_are_compiled(self) -> None:
        gate = Gate()
        gate.opened.set()
        net = dynamic(observer=gate)
        check(net, 1, 1)
        gate.opened.clear()
        gate.reached.clear()
        future = net.prepare({"batch": 2, "width": 2})
        assert gate.reached.wait(30)
        check(net, 1, 1)  # would never come back
        assert not future.done()
        gate.opened.set()
        assert future.result(30).sizes == "batch = 2, width = 2"

    def test_threads_that_feed_the_same_new_sizes_share_one_compilation(self) -> None:
        gate, schedules = Gate(), []

        def observer(run: PassRun) -> None:
            schedules.extend([run] if run.name == "schedule" else [])
            gate(run)

        net = dynamic(observer=observer)
        threads = [threading.Thread(target=check, args=(net, 4, 2)) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert gate.reached.wait(30)
        gate.opened.set()
        for thread in threads:
            thread.join(30)
        assert len(schedules) == 1
