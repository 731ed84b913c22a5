"""Instructions of one form have one kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.llir.form import Form, form_of
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.instructions.normalization import SoftmaxInst
from glow_nb.llir.program import Activation, Bound, Buffer, Instruction, Register, View, Weight
from glow_nb.llir.stack import StackInst
from glow_nb.network.compilation import build_program, lower_for
from tests.unit.runtime.planning.test_candidate_parts import NETWORKS

AddInst = instruction_for(ops.Add)


def region(kind: type[Buffer] = Activation, rows: int = 4) -> Buffer:
    return kind("x", TensorType(ElementKind.FLOAT32, (rows, 8)))


def window(base: Buffer, start: int = 0, pitch: int = 8) -> View:
    return View("w", TensorType(ElementKind.FLOAT32, (2, 8)), base, start, (pitch, 1))


def test_names_and_what_a_region_is_for_do_not_count() -> None:
    x, y = region(), region(Weight)
    one = AddInst(region(), x, y, name="one")
    other = AddInst(region(Bound), *(region(kind) for kind in (Bound, Activation)), origins=("n",))
    assert form_of(one) == form_of(other)


def unlike() -> Iterator[Instruction]:
    x, y, z = region(), region(), region()
    yield AddInst(z, x, y)
    yield AddInst(z, x, x)
    yield AddInst(x, x, y)
    yield AddInst(region(rows=5), region(rows=5), region(rows=5))
    yield AddInst(window(z), window(x), window(y))
    yield AddInst(window(z), window(x, pitch=16), window(y))
    yield AddInst(window(z), window(z, 16), window(y))
    yield SoftmaxInst(z, x, axis=0)
    yield SoftmaxInst(z, x, axis=1)
    register = region(Register)
    yield StackInst.of([AddInst(register, x, y), AddInst(z, register, y)])
    yield StackInst.of([AddInst(register, x, y), AddInst(z, y, register)])
    yield dataclasses.replace(
        AddInst(z, x, y), predicate=Buffer("p", TensorType(ElementKind.BOOL, (4,)))
    )


def test_all_else_counts() -> None:
    forms = [form_of(instruction) for instruction in unlike()]
    assert len(set(forms)) == len(forms)


@pytest.mark.parametrize("name", NETWORKS)
def test_instructions_of_one_form_have_one_kernel(name: str) -> None:
    backend = CpuBackend()
    program = build_program(lower_for(NETWORKS[name](), backend), backend)
    written: dict[Form, str] = {}
    for instruction in program.work:
        text = generate_kernel(instruction, backend.target).text
        assert written.setdefault(form_of(instruction), text) == text
