"""Which kernels are plain loops over memory, whose scratch is known before they are written."""

import pytest

import glow_nb
from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.ops import Add, Relu, Sigmoid, Softmax, Transpose
from glow_nb.kernels.cpu_kernels import generate_kernel, is_loop
from glow_nb.llir.program import Program
from glow_nb.network.compilation import build_program, lower_for


def program_of(*nodes: type[Node], **attributes: object) -> Program:
    """Return a network of *nodes*, one after the other, as a program of the cpu backend."""
    builder = glow_nb.Builder("main")
    value: Value = builder.input("x", "float32<40 x 60>")
    for node in nodes:
        operands = [value] * (2 if node is Add else 1)
        value = builder.emit(node(*operands, **attributes))  # type: ignore[arg-type]
    builder.save(value, "y")
    backend = CpuBackend()
    return build_program(lower_for(builder.function(), backend), backend)


@pytest.mark.parametrize("nodes", [(Relu,), (Add, Sigmoid), (Sigmoid, Add, Relu)])
def test_elementwise_work_is_a_loop_without_scratch(nodes: tuple[type[Node], ...]) -> None:
    program = program_of(*nodes)
    backend = CpuBackend()
    assert all(map(is_loop, program.work))
    assert all(not generate_kernel(i, backend.target).scratch_bytes for i in program.work)
    assert backend.planned_memory(program, threads=1).scratch_bytes == 0


def test_other_kernels_are_no_loops() -> None:
    assert not any(map(is_loop, program_of(Softmax, axis=1).work))
    assert not any(map(is_loop, program_of(Transpose, permutation=(1, 0)).work))
