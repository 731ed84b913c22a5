"""What integers gain: which kernels belong together, and the times of both."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typing_extensions import get_protocol_members, override

from glow_nb import quant
from glow_nb.backends.backend import Executable
from glow_nb.backends.interpreter import Interpreter
from glow_nb.hlir.graph import Function
from glow_nb.llir.program import Program
from glow_nb.quant.gain import Gains, LayerGain, Predictor, Times
from glow_nb.quant.layers import Layer, connected, match
from tests.unit.quant.networks import branching, convolutional, random


def integers_of(function: Function) -> Function:
    sample = random(*function.inputs[0].type.shape)
    ranges = quant.calibrate(function, [sample], backend="interpreter")
    return quant.quantize(function, ranges, least_gain=0)


def test_groups_that_share_members_are_one() -> None:
    found = connected([["a", "b"], ["c"], ["d", "e"], ["e", "c"], [], ["a"]])
    assert sorted(map(sorted, found)) == [["a", "b"], ["c", "d", "e"]]


def test_kernels_of_the_same_nodes_are_a_layer() -> None:
    floats = [("a", "b"), ("c",), ("d",)]
    integers = [("q",), ("q", "a"), ("b", "r"), ("r", "d"), ("c",)]
    assert match(floats, integers) == [
        Layer(("q",), (), (0,)),
        Layer(("a", "b"), (0,), (1, 2)),
        Layer(("d",), (2,), (3,)),
        Layer(("c",), (1,), (4,)),
    ]
    linked = match(floats, integers, [[0, 1], [2, 3]])
    assert linked == [Layer(("a", "b", "d"), (0, 2), (0, 1, 2, 3)), Layer(("c",), (1,), (4,))]


def test_a_layer_without_a_kernel_is_none() -> None:
    assert match([("a",)], [("b",)]) == [Layer(("b",), (), (0,)), Layer(("a",), (0,), ())]
    assert match([], []) == []


def test_gains_are_ratios_of_times() -> None:
    gains = Gains(
        (
            LayerGain(("x_quantize",), Times(0.0, 500.0), Times(0.0, 400.0)),
            LayerGain(("conv", "relu"), Times(4000.0, 1000.0), Times(3000.0, 1100.0)),
        )
    )
    assert gains.predicted.gain == pytest.approx(4000 / 1500)
    assert gains.measured == Times(3000.0, 1500.0)
    assert [line.split() for line in str(gains).splitlines()] == [
        "layer predicted: float us integer us gain measured: float us integer us gain".split(),
        "x_quantize 0.0 0.5 - 0.0 0.4 -".split(),
        "conv and 1 more 4.0 1.0 4.00 3.0 1.1 2.73".split(),
        "all kernels 4.0 1.5 2.67 3.0 1.5 2.00".split(),
    ]
    predicted = Gains(tuple(LayerGain(each.names, each.predicted) for each in gains.layers))
    assert predicted.measured is None
    assert str(predicted).splitlines()[-1].split() == ["all", "kernels", "4.0", "1.5", "2.67"]


def test_every_kernel_is_predicted_in_one_layer() -> None:
    for function in (convolutional(), branching()):
        integers = integers_of(function)
        layers, islands = Predictor(function).gains(integers)
        itself, none = Predictor(function).gains(function)
        assert none.layers == ()
        assert itself.predicted.gain == 1
        assert layers.predicted.floats == pytest.approx(itself.predicted.floats)
        assert all(island.predicted.integers > 0 for island in islands.layers)
        assert layers.predicted.integers >= islands.predicted.integers
        names = [name for layer in layers.layers for name in layer.names]
        assert len(names) == len(set(names))


@pytest.mark.jit
def test_drift_shows_predicted_beside_measured_gains() -> None:
    function, samples = convolutional(), random(2, 8, 8, 3)
    integers = integers_of(function)
    found = quant.drift(function, integers, samples, threads=1, runs=2)
    assert found.gains is not None
    assert found.gains.measured is not None
    assert [layer.names[0] for layer in found.gains.layers] == [
        "x_quantize",
        "conv0",
        "pool0",
        "conv1",
        "pool1",
        "scores",
    ]
    predicted, _ = Predictor(function).gains(integers)
    for layer, alone in zip(found.gains.layers, predicted.layers, strict=True):
        assert layer.names == alone.names
        assert layer.predicted == pytest.approx(alone.predicted)
        assert layer.measured is not None
        assert layer.measured.integers > 0
    assert str(found).splitlines()[-1].startswith("all kernels")


class Timeless(Interpreter):
    """A backend whose programs do not tell how long their kernels take."""

    @override
    def compile(self, program: Program, *, threads: int = 1) -> Any:
        made = super().compile(program, threads=threads)
        known = get_protocol_members(Executable)
        return SimpleNamespace(**{name: getattr(made, name) for name in known})


@pytest.mark.parametrize(
    "options", [{"runs": 0, "backend": "interpreter"}, {"runs": 2, "backend": Timeless()}]
)
def test_without_times_there_are_no_gains(options: dict[str, Any]) -> None:
    function, samples = convolutional(), np.zeros((2, 8, 8, 3), np.float32)
    assert quant.drift(function, function, samples, **options).gains is None
