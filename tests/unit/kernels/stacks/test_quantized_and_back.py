"""What is quantized and read as a real number at once stays in float32, with the same bits."""

import numpy as np
import pytest

import glow_nb
from glow_nb.base.types import ElementKind
from glow_nb.hlir import ops
from tests.in_turn import in_turn

KINDS = [ElementKind(name) for name in "int8 uint8 int16 uint16 int4 uint4".split()]
SCALE = np.float32(0.25)


@pytest.mark.jit
@pytest.mark.parametrize(("kind", "is_least"), in_turn(KINDS, [True, False]))
def test_bits_are_those_of_integers(kind: ElementKind, is_least: bool) -> None:
    least, greatest = kind.limits
    offset = least if is_least else 0
    edges = [limit + step for limit in (least, greatest, 0) for step in np.arange(-2, 2.5, 0.25)]
    special = [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-30, -1e-30, 0.0, -0.0, -0.1]
    distances = np.array([edge - offset for edge in edges], np.float32)
    source = np.concatenate([distances * SCALE, np.array(special, np.float32)]).astype(np.float32)
    builder = glow_nb.Builder()
    x = builder.input("x", f"float32<{source.size}>")
    scale = builder.constant("scale", np.array([SCALE]))
    zero = builder.constant("zero", np.array([offset]).astype(kind.dtype))
    integers = builder.emit(ops.QuantizeLinear(x, scale, zero, kind=kind))
    builder.save(builder.emit(ops.DequantizeLinear(integers, scale, zero)), "y")
    function = builder.function()
    network = glow_nb.compile(function, threads=1)
    assert [kernel.family for kernel in network.kernels] == ["elementwise"]
    found = network.run({"x": source})["y"]
    expected = glow_nb.compile(function, backend="interpreter").run({"x": source})["y"]
    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))
