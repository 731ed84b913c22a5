"""Fast Fourier transforms against their operator, at smooth, odd and prime lengths."""

import itertools
from typing import Any

import numpy as np
import pytest

from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import Placeholder
from glow_nb.hlir.ops.families import fitted
from glow_nb.hlir.ops.fourier import FourierTransform
from glow_nb.kernels.fourier.plan import FourierPlan
from glow_nb.kernels.operators.fast_fourier import FastFourierInst
from glow_nb.kernels.target import Target
from tests.unit.kernels.cases import instruction_of, run

FORMS: list[dict[str, Any]] = [
    {"parts": 2},
    {"parts": 1, "onesided": True},
    {"parts": 2, "inverse": True},
    {"parts": 2, "inverse": True, "onesided": True},
    {"parts": 1},
]
FLOAT32, FLOAT64 = ElementKind.FLOAT32, ElementKind.FLOAT64


def _check(length: int, form: dict[str, Any], kind: ElementKind, lanes: int) -> None:
    """Compare a transform with that in float64: its error may grow with the logarithm of *length*.

    Some lengths go through radix 8, whatever registers there are.
    """
    attributes = {name: value for name, value in form.items() if name != "parts"}
    is_inverse, parts = attributes.get("inverse", False), form["parts"]
    size = length // 2 + 1 if is_inverse and attributes.get("onesided") else length
    has_eight = length % 3 > 0
    plan = FourierPlan.for_length(
        length, lanes, is_real=parts == 1 and not is_inverse, has_eight=has_eight
    )
    types = [TensorType(kind, shape) for shape in ((3, size, parts), (plan.table_size,))]
    numbers = np.random.default_rng(length).standard_normal(types[0].shape)
    operands = [fitted(x, type) for x, type in zip((numbers, plan.table()), types, strict=True)]
    attributes |= {"length": length, "lanes": lanes, "has_eight": has_eight}
    instruction = instruction_of(FastFourierInst, types, **attributes)
    (found,) = run(instruction, operands, Target.host(), threads=(1, 2))
    types[0] = TensorType(FLOAT64, types[0].shape)
    wide = FourierTransform(Placeholder("x", types[0]), **_of_transform(attributes))
    exact = wide.evaluate(operands[0].astype(np.float64))
    assert (found.dtype, found.shape) == (kind.dtype, exact.shape)
    unit = {FLOAT32: 2.0**-24, FLOAT64: 2.0**-53}[kind]
    assert _rms(found - exact) <= 2 * unit * (1 + np.log2(length)) * _rms(exact)


def _of_transform(attributes: dict[str, Any]) -> dict[str, Any]:
    return {
        name: attributes[name] for name in ("length", "inverse", "onesided") if name in attributes
    }


def _rms(numbers: Array) -> float:
    return float(np.sqrt(np.mean(np.square(numbers, dtype=np.float64))))


SETTINGS = [(FLOAT32, 8), (FLOAT64, 4), (FLOAT32, 16), (FLOAT64, 8), (FLOAT32, 4)]
"""The kind of the numbers, and how many a vector has."""
QUICK = (1, 3, 16, 45, 94, 97, 143, 200, 1000)
LENGTHS = sorted({*QUICK, 2, 4, 7, 26, 60, 128, 256, 289, 337, 674, 1024, 2310})


def cases() -> list[object]:
    """Return all forms of all lengths; a length has settings in turn, and one form by default."""
    found: list[object] = []
    for turn, length in enumerate(LENGTHS):
        for number, form in enumerate(FORMS):
            is_quick = length in QUICK and number == QUICK.index(length) % len(FORMS)
            kind, lanes = SETTINGS[(turn + number) % len(SETTINGS)]
            marks = () if is_quick else pytest.mark.slow
            found.append(pytest.param(length, form, kind, lanes, marks=marks))
    return found


@pytest.mark.jit
@pytest.mark.parametrize(("length", "form", "kind", "lanes"), cases(), ids=str)
def test_transforms_of_any_length(
    length: int, form: dict[str, Any], kind: ElementKind, lanes: int
) -> None:
    """Lengths are smooth, odd and prime; in the default run, few have one form each."""
    _check(length, form, kind, lanes)


@pytest.mark.parametrize("lanes", [2, 8, 16])
def test_passes_fit_their_buffers(lanes: int) -> None:
    for length, is_real in itertools.product(range(1, 60), (False, True)):
        plan = FourierPlan.for_length(length, lanes, is_real=is_real, has_eight=True)
        steps = [*plan.passes(is_second=False), *plan.passes(is_second=True)]
        assert plan.rows * plan.columns == plan.size >= plan.length
        assert all(each.run % lanes == 0 for each in steps)
        furthest = max((each.run * each.turns * each.radix for each in steps), default=0)
        assert furthest <= plan.buffer - 3 * lanes
