"""Instructions find their kernel generators."""

import pytest

from glow_nb.errors import DefinitionError, UnsupportedError
from glow_nb.kernels.generate import generate_kernel
from glow_nb.kernels.registry import KERNELS, kernel_for
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.activation import ReluInst
from glow_nb.llir.program import Activation, Alloc, Buffer
from glow_nb.types import ElementKind, TensorType


def test_instruction_without_a_kernel_is_named() -> None:
    buffer = Activation("scores", TensorType(ElementKind.FLOAT32, (3,)))
    with pytest.raises(UnsupportedError, match=r"alloc .*%scores.* no kernel for Alloc"):
        generate_kernel(Alloc(buffer), Target.host())


def test_second_kernel_of_an_instruction_is_refused() -> None:
    buffer = Buffer("x", TensorType(ElementKind.FLOAT32, (3,)))
    generate_kernel(ReluInst(buffer, buffer), Target.host())
    known = KERNELS[ReluInst]
    with pytest.raises(DefinitionError, match="ReluInst has a kernel already"):
        kernel_for(ReluInst)(known)
    assert KERNELS[ReluInst] is known
