"""ONNX's own node tests, all of them, on every engine: none may give a wrong result."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from onnx.reference.ops import op_pool_common

from glow_nb.base.distance import distance
from glow_nb.base.errors import UnsupportedError
from glow_nb.base.types import ElementKind
from glow_nb.onnx_backend import prepare
from glow_nb.tools.conformance import EXPLAINED, FAILED, PASSED, CaseOutcome, Report, run_tests
from tests.in_turn import marked
from tests.quick_pools import quick_pool
from tests.unit.codegen.samples import run_python

pytestmark = pytest.mark.skipif(
    onnx.defs.onnx_opset_version() < 28,
    reason="the suites of earlier releases hold results that were corrected since",
)

COMPLETE = (
    "Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool "
    "BatchNormalization Bernoulli BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast "
    "CastLike Ceil Celu Clip Col2Im Compress Concat Constant ConstantOfShape Conv ConvInteger "
    "ConvTranspose Cos Cosh CumProd CumSum DeformConv DepthToSpace DequantizeLinear Det Div "
    "Dropout Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements "
    "GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual GroupNormalization "
    "HardSigmoid HardSwish Hardmax Identity InstanceNormalization IsInf IsNaN LRN LSTM "
    "LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization LpPool "
    "MatMul MatMulInteger Max MaxPool MaxUnpool Mean MeanVarianceNormalization "
    "MelWeightMatrix Min Mish Mod Mul Neg NonMaxSuppression NonZero Not OneHot Or PRelu Pad "
    "Pow QLinearConv QLinearMatMul QuantizeLinear RMSNormalization RNN Reciprocal ReduceL1 "
    "ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
    "ReduceSum ReduceSumSquare Relu Reshape Resize ReverseSequence RoiAlign RotaryEmbedding "
    "Round Scatter ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh Size "
    "Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Swish Tan Tanh "
    "TensorScatter ThresholdedRelu Tile TopK Transpose Trilu Unique Unsqueeze Upsample Where "
    "Xor ai.onnx.ml.ArrayFeatureExtractor ai.onnx.ml.Binarizer "
    "ai.onnx.preview.training.Adagrad ai.onnx.preview.training.Adam "
    "ai.onnx.preview.training.Momentum "
).split()
"""Operators of which every test passes, but for element types that glow_nb does not have."""

SHARES = 32
"""Into how many parts the tests that compile are cut, so that cores can share them."""

ROUNDED_ONCE = {f"test_attention_{rank}d_causal_bf16_expanded": 2.0**-7 for rank in (3, 4)}
"""Tests that write attention out in bfloat16, which rounds after each operator, and the distance of
two neighbours of that kind. A pass makes one node of it, which rounds once."""


POOLS: dict[str, list[dict[str, Any]]] = {
    "AveragePool": [{"count_include_pad": 1}, {"count_include_pad": 0}],
    "LpPool": [{"p": 3}],
    "MaxPool": [{}],
}


@pytest.mark.parametrize("name", POOLS)
def test_quick_pools_are_those_of_the_suite(name: str) -> None:
    """What the fixture of the node tests computes instead of ONNX's own loop."""
    x = np.random.default_rng(0).normal(size=(2, 2, 7, 6)).astype(np.float32)
    edges: list[dict[str, Any]] = [
        {"kernel_shape": [3, 2]},
        {"kernel_shape": [3, 3], "strides": [2, 3], "pads": [1, 0, 2, 1], "ceil_mode": 1},
        {"kernel_shape": [2, 3], "dilations": [2, 1], "pads": [1, 1, 1, 1]},
        {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
    ]
    for own, edge in itertools.product(POOLS[name], edges):
        node = onnx.helper.make_node(name, ["x"], ["y"], **own, **edge)
        pool: Any = ReferenceEvaluator(node)
        (wanted,) = pool.run(None, {"x": x})
        with patch.object(op_pool_common, "pool", quick_pool):
            (found,) = pool.run(None, {"x": x})
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


ALL_POOLS = """
from unittest.mock import patch
import numpy as np
from onnx.reference.ops import op_pool_common
from glow_nb.tools.conformance import node_tests
from tests.quick_pools import quick_pool

own, calls = op_pool_common.pool, []

def both(*arguments, **options):
    wanted, found = (pool(*arguments, **options) for pool in (own, quick_pool))
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
    calls.append(found.dtype == wanted.dtype)
    return wanted

with patch.object(op_pool_common, "pool", both):
    node_tests()
print(len(calls), all(calls))
"""


@pytest.mark.slow
def test_quick_pools_are_those_of_all_tests_of_the_suite(tmp_path: Path) -> None:
    """In a process of its own, which has not imported them."""
    count, is_right = run_python(ALL_POOLS, tmp_path).split()
    assert int(count) > 20 and is_right == "True"


@pytest.fixture
def cases(node_cases: list[Any]) -> list[Any]:
    return node_cases


def share_of(cases: list[Any], share: int) -> list[Any]:
    """Return one of SHARES parts of *cases*; tests of one operator's expansions stay together."""
    names = set(sorted({_plain_name(case) for case in cases})[share::SHARES])
    return [case for case in cases if _plain_name(case) in names]


def _plain_name(case: Any) -> str:
    return str(case.name.partition("_expanded")[0])


def check(report: Report) -> None:
    failed = {o.test: o.reason for o in report.outcomes if o.outcome == FAILED}
    assert set(failed) <= set(EXPLAINED), {k: v for k, v in failed.items() if k not in EXPLAINED}
    incomplete = [o for o in report.outcomes if o.operator in COMPLETE and not _is_done(o)]
    assert not incomplete, incomplete


def _is_done(outcome: CaseOutcome) -> bool:
    has_foreign_type = (
        "element type" in outcome.reason or "only tensors are supported" in outcome.reason
    )
    return outcome.outcome == PASSED or has_foreign_type


@pytest.mark.parametrize("is_expanded", marked([False, True], slow=[True]))
def test_nothing_is_wrong(cases: list[Any], is_expanded: bool) -> None:
    """The slow run also has the bodies of functions, which are written in other operators."""
    chosen = [case for case in cases if ("_expanded" in case.name) == is_expanded]
    check(Report(list(run_tests(chosen, ["evaluate"]))))


@pytest.mark.parametrize(
    "share", [pytest.param(n, marks=[pytest.mark.slow] if n else []) for n in range(SHARES)]
)
def test_nothing_is_wrong_in_the_interpreter(cases: list[Any], share: int) -> None:
    check(Report(list(run_tests(share_of(cases, share), ["interpreter"]))))


def results(case: Any, engine: str, *, optimize: bool) -> list[Any] | None:
    """Return the outputs of the first data set of *case*, None if it is unsupported."""
    inputs, _ = case.data_sets[0]
    try:
        prepared = prepare(case.model, engine=engine, threads=1, optimize=optimize)
        return list(prepared.run(inputs))
    except UnsupportedError:
        return None


def check_passes_change_nothing(cases: list[Any], engine: str) -> None:
    """Assert that each test's outputs are the same with and without the passes, but for rounding.

    The tolerance is the suite's, relative to the largest number of an output, but for those of
    ``ROUNDED_ONCE``.
    """
    different = {}
    for case in cases:
        plain, best = (results(case, engine, optimize=flag) for flag in (False, True))
        if plain is None or best is None:
            assert plain is best, case.name
            continue
        tolerance = ROUNDED_ONCE.get(case.name, case.rtol)
        for want, got in zip(plain, best, strict=True):
            if not is_close(got, want, tolerance):
                different[case.name] = (got, want)
    assert not different


def is_close(got: Any, want: Any, tolerance: float) -> bool:
    if (got.shape, got.dtype) != (want.shape, want.dtype):
        return False
    if ElementKind.of(want.dtype).is_float:
        return distance(want, got) <= tolerance
    return np.array_equal(got, want)


def test_passes_change_no_result(cases: list[Any]) -> None:
    """The default run has one test of 64, and random graphs for each pass; the slow one all."""
    check_passes_change_nothing(cases[::64], "interpreter")


@pytest.mark.slow
def test_passes_change_no_result_of_any_test(cases: list[Any]) -> None:
    check_passes_change_nothing(cases, "interpreter")


@pytest.mark.slow
@pytest.mark.jit
@pytest.mark.parametrize("share", range(0, SHARES, 4))
def test_passes_change_no_result_in_machine_code(cases: list[Any], share: int) -> None:
    check_passes_change_nothing(share_of(cases, share), "cpu")


@pytest.mark.slow
@pytest.mark.jit
@pytest.mark.parametrize("share", range(SHARES))
def test_nothing_is_wrong_in_machine_code(cases: list[Any], share: int) -> None:
    check(Report(list(run_tests(share_of(cases, share), ["cpu"]))))
