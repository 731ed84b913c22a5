"""Recurrent layers of an open batch and an open number of steps, against those of each size."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.backends.cpu.pack_recurrences import pack_recurrences
from glow_nb.base.size import Symbol
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.differentiate import differentiate
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.lower import lower
from glow_nb.hlir.ops.formulas.recurrence.cells import GATES
from glow_nb.hlir.ops.recurrence import directions_of
from glow_nb.hlir.optimize.fold_constants import fold_constants
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.generate import generate
from glow_nb.llir.program import Instruction, Weight, read
from tests.open_programs import check_sizes
from tests.unit.kernels.open_cases import check_open

FLOAT32 = ElementKind.FLOAT32
FEATURES = 3
LOOPS = (ops.Recurrence, ops.RecurrenceGradient)
SIZES = [{"steps": n, "batch": m} for n, m in ((1, 1), (7, 3), (2, 4), (3, 17), (31, 5))]


def _open_sizes(hint: int) -> tuple[int, int]:
    return Symbol("steps", 7, 1, 512).size, Symbol("batch", hint, 1, 64).size


def _layer(
    cell: str, direction: str, size: int, *, hint: int = 3, flag: bool = False, given: str = ""
) -> Function:
    """Return a layer of *size* elements; *given* names its lengths, first states and peepholes."""
    steps, batch = _open_sizes(hint)
    directions, gates = len(directions_of(direction)), GATES[cell]
    rng = np.random.default_rng(1)
    builder = Builder()

    def weights(name: str, *shape: int) -> Value:
        return builder.constant(name, rng.uniform(-0.3, 0.3, shape).astype(np.float32))

    states = TensorType(FLOAT32, (directions, batch, size))
    layer = ops.RecurrentLayer(
        builder.input("x", TensorType(FLOAT32, (steps, batch, FEATURES))),
        weights("weights", directions, gates * size, FEATURES),
        weights("recurrent", directions, gates * size, size),
        weights("bias", directions, 2 * gates * size),
        builder.input("lengths", TensorType(ElementKind.INT32, (batch,))) if "l" in given else None,
        builder.input("hidden", states) if "h" in given else None,
        builder.input("memory", states) if "m" in given else None,
        weights("peepholes", directions, 3 * size) if "p" in given else None,
        cell=cell,
        direction=direction,
        flag=flag,
    )
    for number, result in enumerate(builder.emit(layer).results):
        builder.save(result, f"y{number}")
    return builder.function()


def _gradient(cell: str, direction: str, size: int, *, flag: bool, with_lengths: bool) -> Function:
    steps, batch = _open_sizes(3)
    directions, gates = len(directions_of(direction)), GATES[cell]
    builder = Builder()

    def input(name: str, *shape: int) -> Value:
        return builder.input(name, TensorType(FLOAT32, shape))

    gated = (steps, batch, directions, gates * size)
    states = (2 if cell == "lstm" else 1, steps, directions, batch, size)
    lengths = TensorType(ElementKind.INT32, (batch,))
    rng = np.random.default_rng(1)
    weights = rng.uniform(-0.3, 0.3, (directions, size, gates * size)).astype(np.float32)
    node = ops.RecurrenceGradient(
        input("upstream", *states),
        input("inputs", *gated),
        input("products", *gated),
        input("previous", *states),
        builder.constant("recurrent", weights),
        input("bias", directions, size) if flag else None,
        None,
        builder.input("lengths", lengths) if with_lengths else None,
        cell=cell,
        direction=direction,
        flag=flag,
    )
    for number, result in enumerate(builder.emit(node).results):
        builder.save(result, f"y{number}")
    return builder.function()


def _loop(function: Function, target: Target) -> Instruction:
    """Return the loop over the steps in *function*, its weights packed for *target*."""
    lowered = lower(function, lambda node: not isinstance(node, LOOPS))
    program = generate(fold_constants(pack_recurrences(lowered, target=target)))
    return next(i for i in program.work if i.opcode.startswith("recurrence"))


def _operands(instruction: Instruction) -> list[Array]:
    rng = np.random.default_rng(2)
    return [
        buffer.array
        if isinstance(buffer, Weight)
        else rng.integers(0, 5, buffer.type.shape).astype(np.int32)
        if buffer.type.kind is ElementKind.INT32
        else rng.uniform(-1, 1, buffer.type.shape).astype(np.float32)
        for buffer in read(instruction)
    ]


@pytest.mark.jit
@pytest.mark.parametrize(
    "function",
    [
        _layer("lstm", "bidirectional", 5, given="lhp"),
        _gradient("gru", "reverse", 9, flag=True, with_lengths=True),
    ],
    ids=["lstm", "gradient_of_gru"],
)
def test_a_loop_runs_for_any_batch_and_length(function: Function) -> None:
    target = Target.host(4)
    loop = _loop(function, target)
    check_open(loop, SIZES, target, operands_of=_operands, ulp=64, absolute=1e-5)


@pytest.mark.slow
@pytest.mark.jit
@pytest.mark.parametrize("lanes", LANE_COUNTS)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("cell", "flag", "given"),
    [
        ("rnn", False, ""),
        ("rnn", False, "lh"),
        ("gru", False, "l"),
        ("gru", True, "h"),
        ("lstm", False, "lmp"),
        ("lstm", True, "hm"),
    ],
)
@pytest.mark.parametrize(("size", "hint"), [(5, 1), (33, 13)])
def test_loops_of_all_cells_run_for_any_batch_and_length(
    cell: str, flag: bool, given: str, direction: str, size: int, hint: int, lanes: int
) -> None:
    target = Target.host(lanes)
    functions = (
        _layer(cell, direction, size, hint=hint, flag=flag, given=given),
        _gradient(cell, direction, size, flag=flag and cell == "gru", with_lengths="l" in given),
    )
    for function in functions:
        loop = _loop(function, target)
        check_open(loop, SIZES, target, operands_of=_operands, ulp=64, absolute=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("cell", "direction", "flag", "given"),
    [
        ("rnn", "forward", False, "h"),
        ("gru", "reverse", True, ""),
        ("lstm", "bidirectional", False, "lmp"),
    ],
)
def test_layers_run_for_any_batch_and_length(
    cell: str, direction: str, flag: bool, given: str, threads: int
) -> None:
    layer = _layer(cell, direction, 6, flag=flag, given=given)
    check_sizes(layer, SIZES[:3], threads=threads, tolerance=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "direction", "given"), [("lstm", "bidirectional", "l"), ("gru", "forward", "")]
)
def test_layers_are_differentiated_for_any_batch_and_length(
    cell: str, direction: str, given: str
) -> None:
    """The gradient of the input is a loop backwards, those of the weights sums over its steps."""
    layer = _layer(cell, direction, 6, given=given)
    builder = Builder.continuing(layer)
    shown = builder.nodes[0].results[0]
    loss = ops.ReduceMean(builder.emit(ops.Mul(shown, shown)), axes=(0, 1, 2, 3), keep_dims=False)
    builder.save(builder.emit(loss), "loss")
    check_sizes(differentiate(builder.function(), ["x"], "loss"), SIZES[:3], tolerance=1e-4)
