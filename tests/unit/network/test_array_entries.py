"""What no array should carry is refused wherever arrays enter: masks, and more than 64 axes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import glow_nb
import glow_nb.onnx_backend
from glow_nb.base.errors import FeedError, GlowError, ModelError, OptionError, StateError
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.graph import Constant, State
from glow_nb.hlir.ops import Relu
from glow_nb.quant import calibrate
from glow_nb.system.state_store import StateStore
from glow_nb.train import SGD, Batches, MeanSquaredError, SoftmaxCrossEntropy, Trainer
from tests.unit.formats.onnx.importer.models import model, one, value, weight

X = np.ones((2, 3), np.float32)
MASKED = np.ma.masked_array(X, mask=X > 0)


def relu() -> glow_nb.Function:
    builder = glow_nb.Builder("f")
    builder.save(builder.emit(Relu(builder.input("x", "float32<2 x 3>"))), "y")
    return builder.function()


def network() -> glow_nb.Network:
    return glow_nb.compile(relu(), backend="interpreter")


def open_network() -> glow_nb.Network:
    return glow_nb.compile(one("Relu", inputs=[value("x", ("n", 3))]), backend="interpreter")


def trainer() -> Trainer:
    proto = one("MatMul", ("x", "w"), weights=[weight("w", np.eye(3, dtype=np.float32))])
    return Trainer(proto, loss=MeanSquaredError(), optimizer=SGD(0.1), backend="interpreter")


def set_state(array: Any) -> None:
    StateStore([State.of("s", X)])["s"] = array


ENTRIES: list[tuple[Callable[[Any], object], type[GlowError]]] = [
    (lambda a: network().run(a), FeedError),
    (lambda a: network().run({"x": a}), FeedError),
    (lambda a: open_network().run(a), FeedError),
    (lambda a: glow_nb.evaluate(relu(), a), FeedError),
    (lambda a: glow_nb.load(one("Relu"), constants={"x": a}), OptionError),
    (lambda a: glow_nb.Builder("f").constant("c", a), GlowError),
    (lambda a: glow_nb.Builder("f").state("c", a), GlowError),
    (lambda a: Constant.of("c", a), GlowError),
    (set_state, StateError),
    (lambda a: trainer().step(a, X), FeedError),
    (lambda a: trainer().step(X, a), FeedError),
    (lambda a: trainer().predict(a), FeedError),
    (lambda a: Batches(a, X, 1), FeedError),
    (lambda a: Batches(X, a, 1), FeedError),
    (lambda a: SoftmaxCrossEntropy(class_weights=a), OptionError),
    (lambda a: calibrate(relu(), a), FeedError),
    (lambda a: glow_nb.onnx_backend.prepare(one("Relu"), engine="evaluate").run([a]), FeedError),
    (
        lambda a: glow_nb.onnx_backend.run_node(helper.make_node("Relu", ["x"], ["y"]), [a]),
        FeedError,
    ),
]


@pytest.mark.parametrize(("enter", "kind"), ENTRIES)
def test_masks_are_refused(enter: Callable[[Any], object], kind: type[GlowError]) -> None:
    with pytest.raises(kind, match=r"a masked array.*array\.filled\(0\)"):
        enter(MASKED)


def test_masks_in_lists_are_refused() -> None:
    with pytest.raises(FeedError, match="a masked array"):
        network().run({"x": list(MASKED)})  # type: ignore[dict-item]


def test_filled_arrays_are_taken() -> None:
    assert network().run(MASKED.filled(0))["y"].tolist() == [[0.0] * 3] * 2


def nested(depth: int) -> Any:
    numbers: Any = 1.0
    for _ in range(depth):
        numbers = [numbers]
    return numbers


def of_rank(rank: int) -> onnx.ModelProto:
    return model(
        [helper.make_node("Reshape", ["x", "s"], ["y"])],
        [value("x", (1,))],
        weights=[weight("s", np.ones(rank, np.int64))],
    )


def with_weight_of_rank(rank: int, *, raw: bool) -> onnx.ModelProto:
    data = np.ones(1, np.float32).tobytes() if raw else [1.0]
    tensor = helper.make_tensor("w", TensorProto.FLOAT, [1] * rank, data, raw=raw)
    return one("Add", ("x", "w"), weights=[tensor])  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("enter", "kind"),
    [
        (lambda: network().run({"x": nested(65)}), FeedError),
        (lambda: glow_nb.load(of_rank(65)), ModelError),
        (lambda: glow_nb.load(with_weight_of_rank(65, raw=True)), ModelError),
        (lambda: glow_nb.load(with_weight_of_rank(65, raw=False)), ModelError),
        (lambda: glow_nb.load(one("Relu", inputs=[value("x", (1,) * 65)])), ModelError),
        (
            lambda: glow_nb.load(one("Relu", inputs=[value("x", None)]), shapes={"x": (1,) * 65}),
            OptionError,
        ),
        (
            lambda: glow_nb.compile(one("Relu", inputs=[value("x", None)])).prepare(
                {"x": (1,) * 65}
            ),
            OptionError,
        ),
        (lambda: glow_nb.Builder("f").input("x", f"float32<{' x '.join('1' * 65)}>"), GlowError),
        (lambda: TensorType(ElementKind.FLOAT32, (1,) * 65), GlowError),
    ],
)
def test_more_than_64_dimensions_are_refused(
    enter: Callable[[], object], kind: type[GlowError]
) -> None:
    with pytest.raises(kind, match="dimension"):
        enter()


def test_64_dimensions_are_possible() -> None:
    function = glow_nb.load(of_rank(64))
    assert glow_nb.evaluate(function, {"x": np.ones(1, np.float32)})["y"].ndim == 64


@pytest.mark.parametrize(
    ("ir", "remedy"),
    [
        (one("Relu"), "a ModelProto has no IR text.*glow_nb.load"),
        ("model.onnx", "a str has no IR text.*glow_nb.load"),
        (None, "a NoneType has no IR text"),
        (network(), "a CompiledNetwork has no IR text.*net.program"),
        (open_network(), "a DynamicNetwork has no IR text.*net.program"),
    ],
)
def test_text_is_of_ir_alone(ir: Any, remedy: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=remedy):
        glow_nb.save_text(ir, tmp_path / "net.glow")
    assert not list(tmp_path.iterdir())
