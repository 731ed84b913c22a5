"""Random ONNX models mean after import what they mean to ONNX Runtime."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.formats.onnx.importer.registry import RULES
from glow_nb.hlir.evaluate import evaluate
from tests.property.onnx_draws import RECIPES, Drawing, draw

USUAL = [
    ("", name)
    for name in (
        "Relu Sigmoid Tanh LeakyRelu Add Sub Mul Max Sum Conv Conv Conv BatchNormalization MaxPool "
        "AveragePool GlobalAveragePool Transpose Transpose Reshape Concat Slice Split Pad "
        "ReduceMean Softmax MatMul MatMul Gemm LayerNormalization Gather Where Cast"
    ).split()
]
"""Operators that networks are made of, and that passes look for beside each other."""

TOO_NEW = "ONNX Runtime does not have it in any opset that is drawn"
TRAINING = "ONNX Runtime is built without training"
RANDOM = "ONNX Runtime's numbers come from another generator"
NEIGHBOURS = (
    "ONNX Runtime may round to the integer beside; each is compared within one step in "
    "tests/unit/formats/onnx/importer/test_quantization.py"
)
ONNX_RUNTIME = (
    "QLinearAdd QLinearMul QLinearAveragePool QLinearGlobalAveragePool QLinearConcat "
    "QLinearSigmoid QLinearLeakyRelu QGemm MatMulNBits QuantizeLinear DequantizeLinear"
).split()
"""Operators of its domain, the last two of which are drawn as those of ONNX."""

DYNAMIC = (
    "its products round as ONNX Runtime's do not always; it is compared in "
    "tests/unit/formats/onnx/importer/test_dynamic_quantization.py"
)
FORMS = "its forms are compared in tests/unit/formats/onnx/importer/test_legal_forms.py"

NOT_DRAWN = {
    **dict.fromkeys(("DynamicQuantizeLinear", "DynamicQuantizeLSTM"), DYNAMIC),
    **dict.fromkeys(("DynamicQuantizeMatMul", "MatMulIntegerToFloat"), DYNAMIC),
    **dict.fromkeys(("QLinearSoftmax", "QLinearWhere"), DYNAMIC),
    **dict.fromkeys(("CenterCropPad", "OptionalGetElement", "OptionalHasElement"), FORMS),
    **dict.fromkeys(ONNX_RUNTIME, NEIGHBOURS),
    **dict.fromkeys(("Bernoulli", "Multinomial"), RANDOM),
    **dict.fromkeys(("RandomNormal", "RandomNormalLike"), RANDOM),
    **dict.fromkeys(("RandomUniform", "RandomUniformLike"), RANDOM),
    "BitCast": TOO_NEW,
    "CumProd": TOO_NEW,
    "Swish": TOO_NEW,
    "TensorScatter": TOO_NEW,
    "Adagrad": TRAINING,
    "Adam": TRAINING,
    "Gradient": TRAINING,
    "Momentum": TRAINING,
    "Upsample": "the last opset that has it is 9; the ones that are drawn begin with 10",
}
"""Operators with a rule that have no recipe, and why."""

SHARES = 8
"""Into how many parts the operators are cut, so that cores can share them."""


def check(drawing: Drawing) -> None:
    outputs = drawing.outputs()
    if not outputs:
        return
    function = import_onnx(drawing.model(outputs))
    drawing.check(evaluate(function, drawing.feeds()), outputs)


@settings(max_examples=2 * settings().max_examples)
@given(st.integers(0, 1 << 32), st.integers(1, 12))
def test_graphs_of_all_operators(seed: int, steps: int) -> None:
    check(draw(seed, steps))


@settings(max_examples=2 * settings().max_examples)
@given(st.integers(0, 1 << 32), st.integers(1, 12))
def test_graphs_of_usual_operators(seed: int, steps: int) -> None:
    check(draw(seed, steps, USUAL))


@pytest.mark.parametrize("share", range(SHARES))
def test_single_operators(share: int) -> None:
    for key in sorted(RECIPES)[share::SHARES]:
        for seed in range(6):
            check(draw(seed, 1, [key]))


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_single_operators_many_times(share: int) -> None:
    for key in sorted(RECIPES)[share::SHARES]:
        for seed in range(100, 160):
            check(draw(seed, 1, [key]))


def test_every_operator_with_a_rule_is_drawn() -> None:
    drawn = {key for key in RECIPES if any(draw(seed, 1, [key]).nodes for seed in range(90))}
    missing = {name for domain, name in set(RULES) - drawn}
    assert missing == set(NOT_DRAWN)
