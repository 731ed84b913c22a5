"""Operators of ONNX compiled once for all sizes, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import glow_nb
from glow_nb.base.types import Array
from tests.unit.formats.onnx.importer.models import model as graph_of
from tests.unit.formats.onnx.importer.models import one, value, weight

Feeds = dict[str, Array]
INT64 = TensorProto.INT64
RNG = np.random.default_rng(0)
SETS = [(3, 4), (1, 1), (5, 17), (2, 9)]
"""Sizes of the two open dimensions; the first are the example."""


@dataclass(frozen=True)
class Case:
    """A model with the open sizes ``n`` and ``m``, and the feeds of some sizes."""

    model: onnx.ModelProto
    feeds: Callable[[int, int], Feeds]


def _floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def _lstm() -> Case:
    """A layer of n samples and m steps, as a voice detector has it."""
    size, features = 5, 3
    states: tuple[str | int, ...] = (2, "n", size)
    model = one(
        "LSTM",
        ("x", "w", "r", "b", "lengths", "hidden", "memory", "peepholes"),
        outputs=("y", "last", "cell"),
        inputs=[
            value("x", ["m", "n", features]),
            value("lengths", ["n"], TensorProto.INT32),
            value("hidden", states),
            value("memory", states),
        ],
        weights=[
            weight("w", _floats(2, 4 * size, features)),
            weight("r", _floats(2, 4 * size, size) / 2),
            weight("b", _floats(2, 8 * size)),
            weight("peepholes", _floats(2, 3 * size)),
        ],
        hidden_size=size,
        direction="bidirectional",
    )

    def feeds(n: int, m: int) -> Feeds:
        return {
            "x": _floats(m, n, features),
            "lengths": RNG.integers(1, m + 1, n).astype(np.int32),
            "hidden": _floats(2, n, size),
            "memory": _floats(2, n, size),
        }

    return Case(model, feeds)


def _integers(low: int, high: int, *shape: int) -> Array:
    return RNG.integers(low, high, shape)


def _scatter_elements() -> Case:
    types = [value("x", ["n", "m"]), value("at", ["n", 4], INT64), value("u", ["n", 4])]
    model = one(
        "ScatterElements", ("x", "at", "u"), opset=18, inputs=types, axis=1, reduction="add"
    )
    return Case(
        model, lambda n, m: {"x": _floats(n, m), "at": _integers(-m, m, n, 4), "u": _floats(n, 4)}
    )


def _scatter_nd() -> Case:
    types = [value("x", ["n", "m", 3]), value("at", [5, 2], INT64), value("u", [5, 3])]
    model = one("ScatterND", ("x", "at", "u"), opset=18, inputs=types, reduction="max")

    def feeds(n: int, m: int) -> Feeds:
        places = np.stack([_integers(0, n, 5), _integers(-m, m, 5)], axis=1)
        return {"x": _floats(n, m, 3), "at": places, "u": _floats(5, 3)}

    return Case(model, feeds)


def _top_k() -> Case:
    count = weight("k", np.array([300]))
    types = [value("x", ["n", "long"])]
    model = one("TopK", ("x", "k"), outputs=("y", "at"), inputs=types, weights=[count])
    return Case(model, lambda n, m: {"x": _floats(n, 300 * m)})


def _grid_sample() -> Case:
    types = [value("x", ["n", 3, "m", 9]), value("grid", ["n", "m", 5, 2])]
    model = one("GridSample", ("x", "grid"), inputs=types, padding_mode="reflection")
    return Case(model, lambda n, m: {"x": _floats(n, 3, m, 9), "grid": 2 * _floats(n, m, 5, 2)})


def _affine_grid() -> Case:
    """An image that a matrix turns, as a spatial transformer does it."""
    nodes = [
        helper.make_node("Shape", ["x"], ["size"]),
        helper.make_node("AffineGrid", ["theta", "size"], ["grid"]),
        helper.make_node("GridSample", ["x", "grid"], ["y"]),
    ]
    types = [value("x", ["n", 3, "m", 7]), value("theta", ["n", 2, 3])]
    return Case(
        graph_of(nodes, types, opset=20),
        lambda n, m: {"x": _floats(n, 3, m, 7), "theta": _floats(n, 2, 3)},
    )


def _roi_align() -> Case:
    types = [value("x", [2, 3, "m", 9]), value("boxes", ["n", 4]), value("at", ["n"], INT64)]
    model = one("RoiAlign", ("x", "boxes", "at"), inputs=types, output_height=2, output_width=3)

    def feeds(n: int, m: int) -> Feeds:
        corners = np.sort(RNG.uniform(-1, 9, (n, 2, 2)).astype(np.float32), axis=1)
        return {"x": _floats(2, 3, m, 9), "boxes": corners.reshape(n, 4), "at": _integers(0, 2, n)}

    return Case(model, feeds)


def _col2im() -> Case:
    """Columns that a convolution makes, in an image as large as its input."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["columns"], pads=[1, 1, 1, 1]),
        helper.make_node("Reshape", ["columns", "flat"], ["cells"]),
        helper.make_node("Shape", ["x"], ["image"], start=2),
        helper.make_node("Col2Im", ["cells", "image", "block"], ["y"], pads=[1, 1, 1, 1]),
    ]
    numbers = {"w": _floats(27, 2, 3, 3), "flat": [0, 27, -1], "block": [3, 3]}
    weights = [weight(name, numbers[name]) for name in numbers]
    types = [value("x", ["n", 2, "m", 7])]
    return Case(
        graph_of(nodes, types, weights=weights, opset=18), lambda n, m: {"x": _floats(n, 2, m, 7)}
    )


CASES = {
    "lstm": _lstm,
    "scatter_elements": _scatter_elements,
    "scatter_nd": _scatter_nd,
    "top_k": _top_k,
    "grid_sample": _grid_sample,
    "affine_grid": _affine_grid,
    "roi_align": _roi_align,
    "col2im": _col2im,
}


def _check(name: str, **options: Any) -> None:
    case = CASES[name]()
    hints = dict(zip("nm", SETS[0], strict=True)) | {"long": 3000}
    names = {d.dim_param for x in case.model.graph.input for d in x.type.tensor_type.shape.dim}
    hints = {name: hint for name, hint in hints.items() if name in names}
    net = glow_nb.compile(case.model, sizes={"n": (1, 64)}, hints=hints, **options)
    assert isinstance(net, glow_nb.DynamicNetwork)
    session = onnxruntime.InferenceSession(case.model.SerializeToString())
    for sizes in SETS:
        feeds = case.feeds(*sizes)
        found, wanted = net.run(feeds), _outputs(session, feeds)
        for result, array in zip(found.values(), wanted, strict=True):
            np.testing.assert_allclose(result, array, rtol=1e-5, atol=1e-5, err_msg=str(sizes))
    assert len(net.variants) == 1
    assert not net.variants[0].guards
    assert not net.specialized


def _outputs(session: onnxruntime.InferenceSession, feeds: Feeds) -> Sequence[Array]:
    results: Sequence[Array] = session.run(None, feeds)
    return results


@pytest.mark.parametrize("name", CASES)
def test_interpreter_runs_operators_of_any_size(name: str) -> None:
    _check(name, backend="interpreter")


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_one_program_runs_operators_of_any_size(name: str, threads: int) -> None:
    _check(name, threads=threads)
