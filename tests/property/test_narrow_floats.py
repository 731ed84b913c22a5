"""Operators on 16-bit floats give the exact result, rounded once, whatever nodes they become."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest

from glow_nb.backends.interpreter import Interpreter
from glow_nb.base.errors import UnboundInput, UnsupportedError
from glow_nb.base.types import Array, ElementKind
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.formats.onnx.importer.registry import RULES
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from glow_nb.network.compilation import lower_for
from tests.property.narrow_models import NarrowModel, narrow_model

FLOAT32, FLOAT64 = ElementKind.FLOAT32, ElementKind.FLOAT64
KINDS = (ElementKind.FLOAT16, ElementKind.BFLOAT16)
SIZES = (1.0, 300.0, 60000.0)
"""The greatest numbers to draw: of the second, squares overflow float16; of the third, sums."""

NOT_DRAWN = {
    "Loop": "the steps in its graph are the model's own",
    "Scan": "the steps in its graph are the model's own",
    "BitCast": "it moves bits; a model of another width would need another target",
    "GlobalLpPool": "the suite has no test of it; test_a_norm_over_everything is one",
    "RandomNormalLike": "the suite has no test of it; tests of the importer have, in every kind",
    "RandomUniformLike": "the suite has no test of it; tests of the importer have, in every kind",
    "OptionalHasElement": "its result is a bool",
    "Multinomial": "the suite has no test of it; its results are integers",
    "ai.onnx.preview.training.Gradient": "it differentiates other nodes of its model",
}
"""Operators with a rule and operands of 16-bit floats of which no model is drawn, and why."""

SHARES = 8
"""Into how many parts the operators are cut, so that cores can share them."""

MOST = 1
"""Models of one operator in the default run; attention has eighty times as many."""

_ULPS = {ElementKind.FLOAT16: (2.0**-10, 2.0**-24), ElementKind.BFLOAT16: (2.0**-7, 2.0**-133)}
"""Distance of neighbours over their size, at most, and the least distance of any."""


Models = Callable[[ElementKind], list[NarrowModel]]


@pytest.fixture(scope="module")
def models(node_cases: list[Any]) -> Models:
    """Return what can be drawn of the suite, for each kind."""
    cases = [case for case in node_cases if "_expanded" not in case.name]
    return cache(lambda kind: drawn_models(cases, kind))


def drawn_models(cases: list[Any], kind: ElementKind) -> list[NarrowModel]:
    models = (narrow_model(case, kind) for case in cases)
    return [model for model in models if model is not None]


class Prepared:
    """A model of one kind, imported and prepared, to be run with many feeds."""

    def __init__(
        self,
        model: NarrowModel,
        kind: ElementKind,
        prepare: Callable[[Function], Function] = lambda function: function,
    ) -> None:
        self._model, self._kind, self._prepare = model, kind, prepare
        others = {n: a for n, a in model.given.items() if n not in model.drawn}
        try:
            self._function: Function | None = prepare(
                import_onnx(model.model(kind), constants=others)
            )
        except UnboundInput:  # a shape depends on the numbers that are drawn
            self._function = None

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return the results for *feeds*, the drawn ones among them converted to the kind."""
        names, kind = self._model.drawn, self._kind
        feeds = {n: a.astype(kind.dtype) if n in names else a for n, a in feeds.items()}
        function = self._function
        if function is None:
            function = self._prepare(import_onnx(self._model.model(kind), constants=feeds))
        return evaluate(function, {value.name: feeds[value.name] for value in function.inputs})


def check(model: NarrowModel, kind: ElementKind) -> None:
    """Check 16-bit results against float64, rounded, for numbers of all SIZES.

    They may be off by a neighbour, and by twice what float32 is off: as the model is imported, and
    after the passes and the lowering of everything.
    """
    interpreter = Interpreter()
    preparations = (lambda function: function, lambda function: lower_for(function, interpreter))
    pairs = [[Prepared(model, k, prepare) for k in (kind, FLOAT32)] for prepare in preparations]
    try:
        widest = Prepared(model, FLOAT64)
    except UnsupportedError:
        widest = pairs[0][1]
    for size in SIZES:
        drawn = model.feeds(np.random.default_rng(int(size)), size)
        feeds = {n: a.astype(kind.dtype) if n in model.drawn else a for n, a in drawn.items()}
        exact = widest.run(feeds)
        for narrow, wide in pairs:
            found, single = narrow.run(feeds), wide.run(feeds)
            for name, array in found.items():
                if array.dtype == kind.dtype:
                    check_rounding(array, single[name], exact[name], _ULPS[kind], model.name)


def check_rounding(
    found: Array, single: Array, exact: Array, ulps: tuple[float, float], name: str
) -> None:
    """Check the 16-bit result *found* of model *name* against those of float32 and float64."""
    relative, least = ulps
    with np.errstate(all="ignore"):
        right = exact.astype(np.float64)
        rounded = right.astype(found.dtype).astype(np.float64)
        neighbour = np.maximum(np.abs(rounded) * relative, least)
        error = np.abs(single.astype(np.float64) - right)
        allowed = np.where(np.isfinite(rounded), neighbour, 0) + 2 * np.nan_to_num(error, nan=0)
        values = found.astype(np.float64)
        is_right = (values == rounded) | (np.isnan(values) & np.isnan(rounded))
        is_right |= (np.abs(values - right) <= allowed) | (np.abs(values - rounded) <= allowed)
    np.testing.assert_array_equal(
        np.where(is_right, 0, values), np.where(is_right, 0, rounded), err_msg=name
    )


def _is_supported(model: NarrowModel) -> bool:
    """True if the model itself, as the suite has it, can be imported."""
    try:
        import_onnx(model.proto, constants=model.given)
    except UnsupportedError:
        return False
    return True


def share_of(models: list[NarrowModel], share: int, most: int | None = None) -> list[NarrowModel]:
    """Return *models* of one of SHARES parts of the operators, those that can be imported.

    Of each operator there are at most *most*, taken evenly from all, if *most* is given.
    """
    names = sorted({model.operator for model in models})[share::SHARES]
    found: list[NarrowModel] = []
    for name in names:
        of_one = [model for model in models if model.operator == name]
        step = 1 if most is None else -(-len(of_one) // most)
        found += of_one[::step]
    return [model for model in found if _is_supported(model)]


@pytest.mark.parametrize(
    ("kind", "share"), [(kind, share) for share in range(2, SHARES, 4) for kind in KINDS]
)
def test_operators_round_once(models: Models, kind: ElementKind, share: int) -> None:
    """A quarter of the operators; the test below has all of them in the slow run."""
    for model in share_of(models(kind), share, MOST):
        check(model, kind)


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("kind", KINDS)
def test_operators_of_every_model_round_once(models: Models, kind: ElementKind, share: int) -> None:
    for model in share_of(models(kind), share):
        check(model, kind)


def test_every_rule_is_drawn(models: Models) -> None:
    drawn: set[str] = set()
    for model in models(ElementKind.FLOAT16):
        if model.operator not in drawn and _is_supported(model):
            drawn.add(model.operator)
    taking = {f"{d}.{name}" if d else name for d, name in RULES if takes_float16(d, name)}
    assert taking - drawn == set(NOT_DRAWN)


def takes_float16(domain: str, name: str) -> bool:
    """True if an operand of the operator, in its newest version, may be float16.

    Operators of ONNX Runtime, of which ONNX knows no schema, are compared with it elsewhere
    (``tests/unit/formats/onnx/importer/test_quantization.py``).
    """
    if not onnx.defs.has(name, domain=domain):
        return False
    schema = onnx.defs.get_schema(name, domain=domain)
    return any("tensor(float16)" in formal.types for formal in schema.inputs)


def float16_model(op: str, *shapes: tuple[int, ...], **attributes: Any) -> onnx.ModelProto:
    """Return a model of one node with float16 inputs of *shapes*."""
    names = [f"x{i}" for i in range(len(shapes))]
    node = onnx.helper.make_node(op, names, ["y"], **attributes)
    kind = onnx.TensorProto.FLOAT16
    inputs = [
        onnx.helper.make_tensor_value_info(name, kind, shape)
        for name, shape in zip(names, shapes, strict=True)
    ]
    output = onnx.helper.make_tensor_value_info("y", kind, None)
    graph = onnx.helper.make_graph([node], "g", inputs, [output])
    opsets = [onnx.helper.make_opsetid("", 18)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)


def run_float16(model: onnx.ModelProto, *arrays: Any) -> Any:
    names = [info.name for info in model.graph.input]
    feeds = {n: np.asarray(a, np.float16) for n, a in zip(names, arrays, strict=True)}
    return evaluate(import_onnx(model), feeds)["y"]


FAR = [-600, -300, 0, 300, 600]


def test_instance_normalization_of_large_numbers() -> None:
    model = float16_model("InstanceNormalization", (1, 1, 5), (1,), (1,), epsilon=1e-5)
    found = run_float16(model, [[FAR]], [1], [1])
    np.testing.assert_allclose(found[0, 0], [-0.414, 0.293, 1, 1.707, 2.414], rtol=2e-3)


@pytest.mark.parametrize(("p", "norm"), [(1, 1800.0), (2, 948.68)])
def test_lp_normalization_of_large_numbers(p: int, norm: float) -> None:
    found = run_float16(float16_model("LpNormalization", (1, 5), p=p), [FAR])
    np.testing.assert_allclose(found[0], np.array(FAR) / norm, rtol=1e-3)


def test_a_norm_over_everything() -> None:
    found = run_float16(float16_model("GlobalLpPool", (1, 1, 5), p=2), [[FAR]])
    np.testing.assert_allclose(found.item(), 948.68, rtol=1e-3)


def test_mean_of_the_largest_numbers() -> None:
    found = run_float16(float16_model("Mean", (1,), (1,)), [60000], [60000])
    assert found == 60000


def test_logarithm_of_a_sum_that_is_too_large() -> None:
    found = run_float16(float16_model("ReduceLogSum", (64,), keepdims=0), [60000] * 64)
    np.testing.assert_allclose(found, 15.16, rtol=1e-3)


def test_mean_variance_normalization_of_16_bit_floats() -> None:
    model = float16_model("MeanVarianceNormalization", (1, 1, 5), axes=[2])
    found = run_float16(model, [[FAR]])
    np.testing.assert_allclose(found[0, 0], np.array(FAR) / 424.26, rtol=1e-3)


@pytest.mark.parametrize(
    ("op", "shapes", "attributes"),
    [
        ("Relu", [(4, 4)], {}),
        ("ReduceL1", [(4, 4)], {}),
        ("MatMul", [(4, 4), (4, 4)], {}),
        ("Max", [(4, 4), (4, 4), (4, 4)], {}),
        ("Conv", [(1, 2, 4, 4), (2, 2, 3, 3)], {}),
        ("ConvTranspose", [(1, 2, 4, 4), (2, 2, 3, 3)], {"strides": [2, 2]}),
        ("AveragePool", [(1, 2, 4, 4)], {"kernel_shape": [2, 2]}),
        ("Gemm", [(4, 4), (4, 4), (4,)], {}),
    ],
)
def test_what_rounds_once_anyway_stays_narrow(
    op: str, shapes: list[tuple[int, ...]], attributes: dict[str, Any]
) -> None:
    function = import_onnx(float16_model(op, *shapes, **attributes))
    assert "convert_to" not in {node.opcode for node in function}
