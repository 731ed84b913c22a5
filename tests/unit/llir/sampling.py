"""Functions to put through the instruction level, with inputs, and what they should give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

import glow_nb.kernels.operators  # noqa: F401  the golden cases hold these, too
from glow_nb.backends.interpreter import Interpreter
from glow_nb.base.schema import map_operands, operands_of
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.ops import DecideSize
from glow_nb.hlir.parse import parse_module
from glow_nb.hlir.save import Save
from glow_nb.hlir.with_sizes import with_sizes
from glow_nb.llir.allocate import allocate
from glow_nb.llir.check_placement import check_placement
from glow_nb.llir.program import Program
from glow_nb.llir.verify import verify

GOLDEN = Path(__file__).parents[2] / "golden" / "hlir"


def golden_functions() -> dict[str, Function]:
    """Return one function for each node of the golden cases, which hold every operator.

    Open sizes are those of the example: nothing would tell them where only the node has them. What
    decides sizes is left out, since its operand may be any number.
    """
    functions: dict[str, Function] = {}
    for path in sorted(GOLDEN.glob("*.glow")):
        for function in parse_module(path.read_text(encoding="utf-8"), path.name).functions:
            for node in function.nodes:
                if not isinstance(node, Save | DecideSize):
                    made = function_of(node)
                    hints = {symbol.name: symbol.hint for symbol in made.sizes}
                    functions[f"{path.stem}-{node.name}"] = with_sizes(made, hints)
    return functions


def function_of(node: Node) -> Function:
    """Return a function that applies *node* alone, to inputs, and saves all its results."""
    builder = Builder("main")
    inputs: dict[Value, Value] = {}
    for operand in operands_of(node):
        if operand not in inputs:
            inputs[operand] = builder.input("operand", operand.type)
    alone = builder.emit(map_operands(node, inputs.__getitem__))
    for index, result in enumerate(alone.results):
        builder.save(result, f"result{index}")
    return builder.function()


def random_array(rng: np.random.Generator, type: TensorType) -> Array:
    """Return random numbers that every operator has a result for: small integers, bools, floats."""
    if type.kind is ElementKind.BOOL:
        return rng.random(type.shape) < 0.5
    if type.kind.is_float:
        return rng.standard_normal(type.shape).astype(type.kind.dtype)
    low = -3 if type.kind.is_signed else 0
    return rng.integers(low, 4, type.shape).astype(type.kind.dtype)


def feeds_of(function: Function, seed: int = 0) -> dict[str, Array]:
    """Return random inputs of *function*."""
    rng = np.random.default_rng(seed)
    return {p.name: random_array(rng, p.type) for p in function.inputs}


def interpret(program: Program, feeds: dict[str, Array]) -> dict[str, Array]:
    """Return the outputs of *program*, verified, allocated and checked, by name."""
    verify(program)
    allocated = allocate(program)
    check_placement(allocated)
    arrays = Interpreter().compile(allocated).run(list(feeds.values()))
    return {b.name: array for b, array in zip(program.outputs, arrays, strict=True)}


def check_program(function: Function, program: Program) -> None:
    """Check that *program* gives what *function* means."""
    feeds = feeds_of(function)
    found = interpret(program, feeds)
    for name, expected in evaluate(function, feeds).items():
        check_equal(found[name], expected, name)


def check_equal(found: Array, expected: Array, name: str) -> None:
    """Check that two arrays have one type and, but for rounding, equal elements."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), name
    precision = {2: 1e-2, 4: 1e-5, 8: 1e-12}.get(found.dtype.itemsize, 0)
    if ElementKind.of(found.dtype).is_float:
        wide: Any = np.float64
        np.testing.assert_allclose(
            found.astype(wide), expected.astype(wide), precision, precision, err_msg=name
        )
    else:
        np.testing.assert_array_equal(found, expected, err_msg=name)


UNARY = (ops.Relu, ops.Neg, ops.Tanh, ops.Abs)
BINARY = (ops.Add, ops.Mul, ops.Maximum, ops.Sub)


@st.composite
def functions(draw: st.DrawFn) -> Function:
    """Draw a function of elementwise operators, of moves and of operators with several results."""
    builder = Builder("main")
    shape = draw(st.tuples(st.integers(1, 3), st.integers(1, 4)))
    values: list[Value] = [builder.input("x", TensorType(ElementKind.FLOAT32, shape))]
    weights = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    values.append(builder.constant("w", weights))
    for _ in range(draw(st.integers(1, 10))):
        values += _draw_node(draw, builder, values).results
    saved = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
    for index, value in enumerate((*saved, values[-1])):
        builder.save(value, f"y{index}")
    return builder.function()


def _draw_node(draw: st.DrawFn, builder: Builder, values: list[Value]) -> Node:
    value = draw(st.sampled_from(values))
    rows, columns = value.type.shape
    partners = [v for v in values if v.type.shape == value.type.shape or v.type.shape == (1, 1)]
    stackable = [v for v in values if v.type.shape[0] == rows]
    makers: list[Any] = [
        lambda: draw(st.sampled_from(UNARY))(value),
        lambda: draw(st.sampled_from(BINARY))(value, draw(st.sampled_from(partners))),
        lambda: ops.Concat((value, draw(st.sampled_from(stackable)), value), 1),
        lambda: ops.Reshape(value, (columns, rows)),
        lambda: ops.Transpose(value, (1, 0)),
        lambda: ops.Split(value, 1, (columns // 2, columns - columns // 2)),
        lambda: _draw_slice(draw, value),
        lambda: ops.ReduceMax(value, (0,)),
    ]
    node: Node = draw(st.sampled_from(makers))()
    return builder.emit(node)


def _draw_slice(draw: st.DrawFn, value: Value) -> ops.Slice:
    step = draw(st.sampled_from((-2, -1, 1, 2)))
    columns = value.type.shape[1]
    ends = (0, columns) if step > 0 else (columns - 1, -1)
    if columns == 0:
        ends, step = (0, 0), 1
    start = draw(st.integers(0, value.type.shape[0]))
    return ops.Slice(value, (start, ends[0]), (value.type.shape[0], ends[1]), (1, step))
