"""Operators of a user: defined before or after a compile, redefined, on both backends.

The registries belong to the process, so each script has one of its own. What is defined before
anything was compiled is defined alone, as it must not need what another definition imports.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from glow_nb.base.errors import DefinitionError
from glow_nb.hlir import ops
from glow_nb.hlir.graph import NODES, define_node
from glow_nb.hlir.ops.families import UnaryElementwise
from tests.in_turn import one_in

BEGIN = """
import warnings
from typing import Any, ClassVar
import numpy as np
import glow_nb
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value, define_node
from glow_nb.hlir.ops.elementwise import UnaryElementwise
from glow_nb.hlir.rules import lowers
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.instructions.derived import derive_instruction
from glow_nb.llir.program import In, Out, define_instruction

X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(4, 6)
BACKENDS = ("interpreter", "cpu")

def result_of(node_class, backends=BACKENDS, **attributes):
    b = glow_nb.Builder()
    x = b.input("x", "float32<4 x 6>")
    scaled = b.emit(ops.Mul(x, x))
    b.save(b.emit(ops.Relu(b.emit(node_class(scaled, **attributes)))), "y")
    function = b.function()
    expected = glow_nb.evaluate(function, {"x": X})["y"]
    for backend in backends:
        found = glow_nb.compile(function, backend=backend, threads=1)(X)["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    return expected
"""

COMPILE_FIRST = """
result_of(ops.Tanh)
"""

ELEMENTWISE = """
@define_node("shrink", data_parallel=True)
class Shrink(UnaryElementwise):
    by: float = 0.5

    def compute(self, x: Any) -> Any:
        return x * np.float32(self.by)

@define_instruction("shrink", scalar="input * by", node=Shrink)
class ShrinkInst(NodeInstruction):
    dest: Out
    input: In
    by: float
"""

FORMULA = """
@define_node("damp", scalar="input * by + tanh(input)")
class Damp(UnaryElementwise):
    by: float = 0.5

    def compute(self, x: Any) -> Any:
        return x * np.float32(self.by) + np.tanh(x)
"""

LOWERED = """
@define_node("double_relu")
class DoubleRelu(UnaryElementwise):
    def compute(self, x: Any) -> Any:
        return 2 * np.maximum(x, 0)

@lowers(DoubleRelu)
def lower_double_relu(node, rewriter):
    positive = rewriter.emit(ops.Relu(node.input))
    return rewriter.emit(ops.Add(positive, positive))
"""

KERNEL = """
from glow_nb.hlir.graph import Node
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.traits import KernelTraits

@define_node("mirror")
class Mirror(Node):
    input: Value

    def infer_type(self):
        return self.input.type

    def evaluate(self, input):
        return input[:, ::-1]

@kernel_for(derive_instruction(Mirror), traits=KernelTraits())
def mirror_source(instruction, target):
    rows, columns = instruction.dest.type.shape
    text = f'''def kernel(dest, src, scratch, thread, threads):
    for row in range(thread, {rows}, threads):
        for column in range({columns}):
            element = load(src, row * {columns} + {columns - 1} - column, 1)
            store(dest, row * {columns} + column, element)
'''
    return KernelSource("mirror", text, (instruction.dest.type.kind, instruction.input.type.kind))
"""


OPERATORS = {
    "an elementwise one has a kernel": (ELEMENTWISE, "result_of(Shrink, by=0.25)"),
    "one with a formula needs nothing more": (FORMULA, "result_of(Damp, by=0.25)"),
    "one with a lowering needs nothing more": (LOWERED, "result_of(DoubleRelu)"),
    "one may have a kernel of its own": (KERNEL, "result_of(Mirror)"),
}


def run_script(*parts: str) -> str:
    """Run the joined *parts* in a new interpreter; return what it printed."""
    root = str(Path(__file__).parents[2])
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join((BEGIN, *parts))],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": root},
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.mark.jit
@pytest.mark.parametrize("claim", one_in(4, OPERATORS))
def test_an_operator_is_defined_before_anything_is_compiled(claim: str) -> None:
    """The default run has one before; below, all are defined after a compilation."""
    run_script(*OPERATORS[claim])


@pytest.mark.jit
def test_operators_are_defined_after_a_compile() -> None:
    run_script(COMPILE_FIRST, *(part for parts in OPERATORS.values() for part in parts))


PRINT_WARNINGS = """
warnings.simplefilter("always")
warnings.showwarning = lambda message, *_: print(message)
"""

FAILS = """
for backend in BACKENDS:
    try:
        result_of(Shrink, [backend])
    except glow_nb.GlowError as error:
        print(backend, error)
"""


@pytest.mark.jit
def test_what_is_defined_again_counts() -> None:
    again = ELEMENTWISE.replace("x * np.float32(self.by)", "x * np.float32(self.by) + x")
    lowering = LOWERED[LOWERED.index("@lowers") :]
    printed = run_script(
        ELEMENTWISE + LOWERED,
        "first = result_of(Shrink, by=1.0); result_of(DoubleRelu)",
        PRINT_WARNINGS,
        again.replace("input * by", "input * by + input") + lowering,
        "np.testing.assert_allclose(result_of(Shrink, by=1.0), 2 * first)",
        "result_of(DoubleRelu)",
    )
    again = "is defined again in __main__: it replaces the earlier definition"
    assert printed.splitlines() == [
        f"operator 'shrink' {again}",
        f"instruction 'shrink' {again}",
        f"lowering of 'DoubleRelu' {again}",
    ]


@pytest.mark.jit
def test_an_instruction_of_an_earlier_definition_is_pointed_out() -> None:
    node = ELEMENTWISE[: ELEMENTWISE.index("@define_instruction")]
    printed = run_script(ELEMENTWISE, PRINT_WARNINGS, node, FAILS)
    wanted = "shrink %shrink (instruction 'shrink' is of an earlier definition: define it again"
    for backend in ("interpreter", "cpu"):
        (error,) = (line for line in printed.splitlines() if line.startswith(f"{backend} "))
        assert wanted in error


def test_an_operator_of_glow_nb_is_not_replaced() -> None:
    with pytest.raises(
        DefinitionError,
        match=r"operator 'relu' is already registered by glow_nb.*, tests\..* cannot",
    ):

        @define_node("relu")
        class Relu(UnaryElementwise):
            """Not the one that everybody knows."""

    assert NODES["relu"] is ops.Relu
