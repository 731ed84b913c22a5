"""Import, export, import: meaning, names and constants are kept.

ONNX's own node tests are imported, exported, checked by ONNX's own checker, and must still give
what the suite expects: when they are imported again, and in ONNX Runtime where it has kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors
from typing_extensions import override

import glow_nb
from experiments.networks import mobile as mobile_networks
from experiments.networks.transformers import NETWORKS as TRANSFORMERS
from experiments.networks.twins import NAMES, make_twin
from glow_nb.base.distance import largest_distance
from glow_nb.base.errors import UnsupportedError
from glow_nb.base.types import Array
from glow_nb.formats.onnx.export import export_onnx
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from glow_nb.onnx_backend import GlowBackendRep
from glow_nb.tools.conformance import PASSED, check, run_test
from glow_nb.tools.duel.feeds import random_feeds
from tests.in_turn import marked

SHARES = 20
"""Into how many parts the node tests are cut; the default run has one."""

NEWEST_IN_ONNXRUNTIME = 26
"""The newest operator set that ONNX Runtime reads."""

QUICK = ("shufflenet", "squeezenet")
"""Twins in the default run."""

Outputs = dict[str, Array]


class RoundTrip(GlowBackendRep):
    """Runs a model by ``evaluate``, after it was exported and imported again."""

    @override
    def _build(
        self, shapes: Mapping[str, Sequence[int]], constants: Mapping[str, Array]
    ) -> tuple[Function, Callable[[Mapping[str, Array]], Outputs]]:
        function = import_onnx(self._model, shapes=shapes, constants=constants)
        exported = export_onnx(function)
        onnx.checker.check_model(exported, full_check=True)
        again = import_onnx(exported)
        assert [str(i) for i in again.inputs] == [str(i) for i in function.inputs]
        return again, partial(self._run, again, exported)

    def _run(
        self, function: Function, exported: onnx.ModelProto, feeds: Mapping[str, Array]
    ) -> Outputs:
        return evaluate(function, feeds)


class InOnnxRuntime(RoundTrip):
    """Runs the exported model in ONNX Runtime, which has no arrays of some element kinds."""

    @override
    def _run(
        self, function: Function, exported: onnx.ModelProto, feeds: Mapping[str, Array]
    ) -> Outputs:
        kinds = {placeholder.type.kind for placeholder in function.placeholders}
        if any(kind.dtype.isbuiltin != 1 for kind in kinds):
            raise UnsupportedError(f"{kinds}")
        if exported.opset_import[0].version > NEWEST_IN_ONNXRUNTIME:
            raise UnsupportedError("a newer operator set")
        try:
            session = session_of(exported)
        except ort_errors.NotImplemented as error:
            raise UnsupportedError(str(error)) from error
        names = [output.name for output in exported.graph.output]
        return dict(zip(names, session.run(names, dict(feeds)), strict=True))


def session_of(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    providers = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers)


def outcome_of(case: Any, kind: type[RoundTrip]) -> str:
    """Return what went wrong with a test, nothing if it passed, or that it is not supported."""
    try:
        network = kind(case.model, "evaluate", 1, False, 4)
        for inputs, expected in case.data_sets:
            operands, wanted = list(map(_array, inputs)), list(map(_array, expected))
            check(case, operands, wanted, list(network.run(operands)))
    except UnsupportedError:
        return "unsupported"
    except AssertionError as error:
        return f"wrong: {error}"
    return ""


def _array(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


@pytest.mark.parametrize(
    "share", [pytest.param(n, marks=[pytest.mark.slow] if n else []) for n in range(SHARES)]
)
@pytest.mark.filterwarnings("ignore")  # numpy_helper's, and those of references
def test_node_tests_pass_after_a_round_trip(node_cases: list[Any], share: int) -> None:
    wrong, counts = {}, Counter[str]()
    for case in node_cases[share::SHARES]:
        if run_test(case, "evaluate")[0] != PASSED:
            continue
        for kind in (RoundTrip, InOnnxRuntime):
            outcome = outcome_of(case, kind)
            counts[f"{kind.__name__} {outcome[:11]}"] += 1
            if outcome and (kind is RoundTrip or outcome != "unsupported"):
                wrong[case.name, kind.__name__] = outcome
    assert not wrong
    assert counts["InOnnxRuntime "] > counts["RoundTrip "] * 0.7


def constants_of(function: Function) -> dict[str, bytes]:
    return {constant.name: constant.array.tobytes() for constant in function.constants}


def check_network(model: onnx.ModelProto) -> None:
    """Check that names and constants come back, and that ONNX Runtime gives the same numbers."""
    function = import_onnx(model)
    exported = glow_nb.export_onnx(function)
    onnx.checker.check_model(exported, full_check=True)
    again = import_onnx(exported)
    assert [str(p) for p in again.placeholders] == [str(p) for p in function.placeholders]
    assert constants_of(again) == constants_of(function)
    assert {node.name for node in again.nodes} <= {node.name for node in function.nodes}
    feeds = random_feeds(model)
    expected, found = (session_of(each).run(None, feeds) for each in (model, exported))
    assert largest_distance(expected, found) <= 1e-5


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in NAMES]
)
def test_twins_keep_names_constants_and_meaning(name: str) -> None:
    check_network(make_twin(name, 1))


@pytest.mark.parametrize(
    "name",
    [n if n.startswith("odd") else pytest.param(n, marks=pytest.mark.slow) for n in TRANSFORMERS],
)
def test_transformers_keep_names_constants_and_meaning(name: str) -> None:
    check_network(TRANSFORMERS[name]())


SEEN = ("efficientnet_b0", "mobilenet_v1", "mobilenet_v2", "resnext50")
ALIKE = [each for each in mobile_networks.NETWORKS if each.__name__ in SEEN]
"""Networks for the slow run: others have depthwise and grouped convolutions and residuals, too."""


@pytest.mark.parametrize("network", marked(mobile_networks.NETWORKS, slow=ALIKE))
def test_optimized_networks_mean_the_same(network: Callable[[], onnx.ModelProto]) -> None:
    model = network()
    function = glow_nb.optimize(import_onnx(model))
    exported = glow_nb.export_onnx(function)
    onnx.checker.check_model(exported, full_check=True)
    feeds = random_feeds(model)
    expected, found = (session_of(each).run(None, feeds) for each in (model, exported))
    assert largest_distance(expected, found) <= 1e-4
    moved = [node for node in exported.graph.node if node.op_type == "Transpose"]
    assert len(moved) <= sum(node.op_type == "Transpose" for node in model.graph.node)
