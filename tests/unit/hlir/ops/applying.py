"""Apply one operator to arrays, by glow_nb's own rule and by ONNX's reference implementation."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx.reference import ReferenceEvaluator

from glow_nb.base.schema import operand_specs
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Constant, Function, Node, Value
from glow_nb.hlir.lower import lower

Numbers = npt.NDArray[Any]


def floats(*shape: int, seed: int = 0, scale: float = 1.0) -> Numbers:
    """Return float32 numbers, normally distributed."""
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)


def value(text: str) -> Value:
    """Return a placeholder of the type that *text* spells."""
    return Builder().input("value", text)


def as_arguments(given: dict[str, Any]) -> dict[str, Any]:
    """Return arguments of a node: placeholders for texts of types, constants for arrays."""
    made = dict(given)
    for name, argument in given.items():
        if isinstance(argument, str):
            made[name] = value(argument)
        elif isinstance(argument, np.ndarray):
            made[name] = Constant.of(name, argument)
    return made


def function_of(node_class: type[Node], *operands: Any, **attributes: Any) -> Function:
    """Return the function that applies one operator to inputs of the types of *operands*."""
    builder = Builder()
    values: list[Any] = []
    for number, operand in enumerate(operands):
        if operand is None:
            values.append(None)
        elif isinstance(operand, tuple):
            values.append(
                tuple(
                    builder.input(f"x{number}_{i}", TensorType.of(array))
                    for i, array in enumerate(operand)
                )
            )
        else:
            values.append(builder.input(f"x{number}", TensorType.of(operand)))
    names = [spec.name for spec in operand_specs(node_class)]
    node = builder.emit(node_class(**dict(zip(names, values, strict=True)), **attributes))
    for index, result in enumerate(node.results):
        builder.save(result, f"y{index}")
    return builder.function()


def run(function: Function, *operands: Any) -> Any:
    """Return the result of *function*, a tuple if it has several."""
    arrays: list[Numbers] = []
    for operand in operands:
        arrays += operand if isinstance(operand, tuple) else [operand]
    present = [array for array in arrays if array is not None]
    feeds = {p.name: array for p, array in zip(function.inputs, present, strict=True)}
    results = tuple(evaluate(function, feeds).values())
    return results if len(results) > 1 else results[0]


def apply(node_class: type[Node], *operands: Any, **attributes: Any) -> Any:
    """Return what the operator makes of arrays (None for an absent one, a tuple for several)."""
    return run(function_of(node_class, *operands, **attributes), *operands)


def check_lowering(node_class: type[Node], *operands: Any, **attributes: Any) -> Function:
    """Check that lowering the operator removes it and keeps the result; return what it became."""
    function = function_of(node_class, *operands, **attributes)
    lowered = lower(function)
    assert not any(type(node) is node_class for node in lowered.nodes)
    expected, found = run(function, *operands), run(lowered, *operands)
    if not isinstance(expected, tuple):
        expected, found = (expected,), (found,)
    for wanted, got in zip(expected, found, strict=True):
        check_close(got, wanted)
    return lowered


def check_close(found: Numbers, expected: Numbers, ulp: float = 16) -> None:
    """Check that two arrays have one type and, but for rounding, equal elements."""
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    if ElementKind.of(found.dtype).is_float:
        found_kind = np.float64 if found.dtype == np.float64 else np.float32
        size = {8: 2.2e-16, 4: 1.2e-7}.get(found.dtype.itemsize, 8e-3) * ulp
        np.testing.assert_allclose(
            found.astype(found_kind), expected.astype(found_kind), rtol=size, atol=size
        )
    else:
        np.testing.assert_array_equal(found, expected)


def onnx_result(operator: str, *operands: Any, outputs: int = 1, **attributes: Any) -> Any:
    """Return what ONNX's reference implementation makes of arrays (None for an absent one)."""
    names = [f"x{i}" if array is not None else "" for i, array in enumerate(operands)]
    results = [f"y{i}" for i in range(outputs)]
    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in zip(names, operands, strict=True)
        if name
    ]
    declared = [onnx.helper.make_tensor_value_info(name, 0, None) for name in results]
    node = onnx.helper.make_node(operator, names, results, **attributes)
    graph = onnx.helper.make_graph([node], "main", inputs, declared)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)])
    feeds = {name: array for name, array in zip(names, operands, strict=True) if name}
    with np.errstate(all="ignore"):
        found = ReferenceEvaluator(model).run(None, feeds)
    assert isinstance(found, list)
    return tuple(found) if outputs > 1 else found[0]


def channels_first(array: Numbers) -> Numbers:
    """Return an ``N..C`` array as ``NC..``."""
    return np.moveaxis(array, -1, 1)


def channels_last(array: Numbers) -> Numbers:
    """Return an ``NC..`` array as ``N..C``."""
    return np.moveaxis(array, 1, -1)
