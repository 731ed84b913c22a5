"""The body of a loop knows what it reads and stores, and what cannot be in it."""

import pytest

from glow_nb.base.errors import VerifyError
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.fuse.loop_body import LoopBody
from glow_nb.fuse.vector_code import Vector, VectorCode
from glow_nb.hlir import ops
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.instructions.reduction import CumSumInst
from glow_nb.llir.program import Buffer

ReluInst = instruction_for(ops.Relu)
AddInst = instruction_for(ops.Add)
MulInst = instruction_for(ops.Mul)

FLOAT32 = ElementKind.FLOAT32


def _buffer(*shape: int) -> Buffer:
    return Buffer("buffer", TensorType(FLOAT32, shape or (9,)))


def test_loop_reuses_what_it_has_computed() -> None:
    x, y, z = _buffer(), _buffer(), _buffer()
    body = LoopBody((MulInst(y, x, x), AddInst(z, y, x)), stored=(z,))
    assert body.inputs == (x,)
    assert body.arguments == (z, x)
    code = VectorCode(4)
    results = body.write(code, {x: Vector("t", FLOAT32)}, {})
    assert code.lines == ["v0 = mul(t, t)", "v1 = add(v0, t)"]
    assert results[z] == Vector("v1", FLOAT32)


def test_loop_refuses_what_is_not_data_parallel() -> None:
    instruction = CumSumInst(_buffer(), _buffer(), axis=0, exclusive=False, reverse=False)
    with pytest.raises(VerifyError, match="not data parallel"):
        LoopBody.of(instruction)


def test_loop_refuses_results_of_different_shapes() -> None:
    first = ReluInst(_buffer(), _buffer())
    other = ReluInst(_buffer(3), _buffer(3))
    with pytest.raises(VerifyError, match=r"does not have the shape \[9\]"):
        LoopBody((first, other), stored=())


def test_loop_refuses_to_store_what_it_does_not_compute() -> None:
    x, y = _buffer(), _buffer()
    with pytest.raises(VerifyError, match="not computed"):
        LoopBody((ReluInst(y, x),), stored=(x,))
