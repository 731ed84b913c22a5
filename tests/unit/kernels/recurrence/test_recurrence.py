"""The loops of recurrent layers, forwards and backwards, against their operators."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from glow_nb.backends.cpu.pack_recurrences import pack_recurrences
from glow_nb.base.errors import UnsupportedError
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops import Recurrence, RecurrenceGradient
from glow_nb.hlir.ops.formulas.recurrence.cells import GATES
from glow_nb.hlir.optimize.fold_constants import fold_constants
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.generate import generate
from glow_nb.llir.instructions.recurrence import RecurrenceGradientInst, RecurrenceInst
from glow_nb.llir.program import Instruction, Weight, read
from tests.in_turn import marked_rows
from tests.unit.kernels.cases import assert_close, instruction_of, run

CASES: dict[str, dict[str, Any]] = {
    "lstm": {"cell": "lstm", "direction": "bidirectional", "rows": 5, "given": "ipl"},
    "gru": {"cell": "gru", "direction": "reverse", "rows": 7, "given": "l"},
    "gru_resets_after": {"cell": "gru", "flag": True, "rows": 1, "size": 11, "given": "bi"},
    "rnn": {"cell": "rnn", "activations": ("softsign",), "rows": 9, "size": 40},
    "lstm_coupled": {"cell": "lstm", "flag": True, "rows": 2, "size": 9, "clip": 0.5},
    "gru_both_ways": {"cell": "gru", "direction": "bidirectional", "rows": 3, "size": 33},
    "lstm_float64": {"cell": "lstm", "dtype": np.float64, "rows": 4, "given": "l"},
}
"""Cells with sizes that fill neither vectors nor tiles; ``given`` has initials of operands."""


class Case:
    """An instruction whose weights are packed for a target, and numbers for its operands."""

    def __init__(self, name: str, target: Target, *, backwards: bool, steps: int = 4) -> None:
        options: dict[str, Any] = {"direction": "forward", "size": 21, "given": ""}
        options["dtype"] = np.float32
        options |= CASES[name]
        rows, size = options.pop("rows"), options.pop("size")
        self.given, self.dtype = options.pop("given"), options.pop("dtype")
        self.rng, self.builder = np.random.default_rng(1), Builder()
        self.numbers: dict[str, Array] = {}
        d, gates = 1 + (options["direction"] == "bidirectional"), GATES[options["cell"]]
        s = 1 + (options["cell"] == "lstm")
        gate_shape, states = (steps, rows, d, gates * size), (s, steps, d, rows, size)
        weights = self.rng.uniform(-0.3, 0.3, (d, size, gates * size)).astype(self.dtype)
        matrix = self.builder.constant("recurrent", weights)
        inputs, shared = self.input("inputs", gate_shape), self.optional("bias", (d, size))
        initial = self.optional("initial", (s, d, rows, size))
        holes, lengths = self.optional("peepholes", (d, 3, size)), None
        if "l" in self.given:
            lengths = self.builder.input("lengths", f"int32<{rows}>")
            self.numbers["lengths"] = self.rng.integers(0, steps + 1, rows).astype(np.int32)
        node: Any
        if backwards:
            upstream, previous = (self.input(n, states) for n in ("upstream", "previous"))
            products = self.input("products", gate_shape)
            operands = (upstream, inputs, products, previous, matrix, shared, holes, lengths)
            node = RecurrenceGradient(*operands, **options)
        else:
            node = Recurrence(inputs, matrix, shared, initial, holes, lengths, **options)
        for index, result in enumerate(self.builder.emit(node).results):
            self.builder.save(result, f"y{index}")
        self.function = self.builder.function()
        packed = fold_constants(pack_recurrences(self.function, target=target))
        kinds = RecurrenceGradientInst if backwards else RecurrenceInst
        found = [i for i in generate(packed).instructions if isinstance(i, kinds)]
        self.instruction: Instruction = found[0]

    def input(self, name: str, shape: tuple[int, ...]) -> Value:
        self.numbers[name] = self.rng.uniform(-1, 1, shape).astype(self.dtype)
        sizes = " x ".join(map(str, shape))
        return self.builder.input(name, f"{np.dtype(self.dtype).name}<{sizes}>")

    def optional(self, name: str, shape: tuple[int, ...]) -> Value | None:
        return self.input(name, shape) if name[0] in self.given else None

    @property
    def expected(self) -> list[Array]:
        return list(evaluate(self.function, self.numbers).values())

    @property
    def operands(self) -> list[Array]:
        return [
            buffer.array if isinstance(buffer, Weight) else self.numbers[buffer.name]
            for buffer in read(self.instruction)
        ]


@pytest.mark.jit
@pytest.mark.parametrize(
    ("name", "lanes", "backwards"),
    marked_rows(
        itertools.product(CASES, LANE_COUNTS, [False, True]),
        only=[("lstm", 4, False), ("gru_resets_after", 8, True)],
    ),
)
def test_kernel_computes_what_the_operator_means(name: str, lanes: int, backwards: bool) -> None:
    target = Target.host(lanes)
    case = Case(name, target, backwards=backwards)
    found = run(case.instruction, case.operands, target)
    for got, wanted in zip(found, case.expected, strict=True):
        assert_close(got, wanted, ulp=8, absolute=1e-5 if got.dtype == np.float32 else 1e-14)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_text_is_as_long_for_many_steps(name: str, backwards: bool) -> None:
    target = Target.host()
    few, many = (
        generate_kernel(Case(name, target, backwards=backwards, steps=n).instruction, target)
        for n in (10, 1000)
    )
    assert len(few.text.splitlines()) == len(many.text.splitlines())
    assert few.scratch_bytes == many.scratch_bytes


def test_weights_must_be_packed_for_the_vectors() -> None:
    types = [TensorType(ElementKind.FLOAT32, shape) for shape in ((2, 1, 1, 4), (1, 16))]
    attributes = {"cell": "rnn", "direction": "forward", "panel": 4}
    instruction = instruction_of(RecurrenceInst, types, **attributes)
    with pytest.raises(UnsupportedError, match="no kernel for vectors of 16 lanes; pack"):
        generate_kernel(instruction, Target.host(16))
