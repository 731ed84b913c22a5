"""Steps with a cache that grows, as exporters write them, and their runs beside the model's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import glow_nb
from glow_nb.base.types import Array

Dimensions = Sequence[int | str]
Shapes = Mapping[str, Dimensions]
SIZES = {"batch": (1, 3), "length": (1, 8), "past": (0, 40)}
NEW, ALL = "length", "past + length"


@dataclass(frozen=True)
class Step:
    """A model, the output that each cache becomes, and the shape of what is new in a run."""

    model: onnx.ModelProto
    caches: Mapping[str, str]
    new: Shapes

    def feeds(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> dict[str, Array]:
        """Return random feeds for what is new."""
        shapes = {name: _numbers(shape, sizes) for name, shape in self.new.items()}
        return {n: rng.standard_normal(shape).astype(np.float32) for n, shape in shapes.items()}

    def compiled(self, **options: Any) -> tuple[glow_nb.Network, glow_nb.GrowingNetwork]:
        """Return the network that is fed its caches, and the one that keeps them."""
        plain = glow_nb.compile(self.model, sizes=SIZES, **options)
        growing = glow_nb.compile(self.model, sizes=SIZES, caches=self.caches, **options)
        assert isinstance(growing, glow_nb.GrowingNetwork)
        return plain, growing


def _numbers(shape: Dimensions, sizes: Mapping[str, int]) -> list[int]:
    return [sizes[size] if isinstance(size, str) else size for size in shape]


def check_steps(
    step: Step,
    plain: glow_nb.Network,
    growing: glow_nb.GrowingNetwork,
    lengths: Iterable[int],
    batch: int = 2,
) -> None:
    """Check runs of so many new rows each: results and caches are those of *plain*, bit for bit."""
    rng = np.random.default_rng(0)
    growing.reset()
    types = {name: plain.inputs[name].shape for name in step.caches}
    known: Mapping[str, int] = {"batch": batch, "past": 0}
    held = {
        name: np.zeros(_numbers(shape or (), known), np.float32) for name, shape in types.items()
    }
    total = 0
    for length in lengths:
        total += length
        feeds = step.feeds(rng, {"batch": batch, "length": length, ALL: total})
        wanted, found = plain.run({**feeds, **held}), growing.run(feeds)
        assert growing.length == total
        assert list(found) == list(growing.outputs)
        for name, array in found.items():
            np.testing.assert_array_equal(array, wanted[name], name)
        held = {name: wanted[output] for name, output in step.caches.items()}
        for name, array in growing.caches.items():
            np.testing.assert_array_equal(array, held[name], name)


def model_of(
    nodes: Iterable[onnx.NodeProto],
    inputs: Shapes,
    outputs: Shapes,
    **constants: Any,
) -> onnx.ModelProto:
    """Return a float model."""

    def infos(shapes: Shapes) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in shapes.items()]

    weights = [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()]
    graph = helper.make_graph(list(nodes), "step", infos(inputs), infos(outputs), weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


def plain_step() -> Step:
    """Rows are appended and multiplied by themselves."""
    nodes = [
        helper.make_node("Concat", ["past", "new"], ["present"], axis=1),
        helper.make_node("ReduceSum", ["present", "one"], ["sum"], keepdims=0),
    ]
    new: Shapes = {"new": ["batch", NEW, 4]}
    inputs: Shapes = {**new, "past": ["batch", "past", 4]}
    outputs: Shapes = {"sum": ["batch", 4], "present": ["batch", ALL, 4]}
    return Step(model_of(nodes, inputs, outputs, one=[1]), {"past": "present"}, new)


def attention_step(*, masked: bool = False) -> Step:
    """ONNX's own operator with caches, causal or with a mask that is fed."""
    mask = "mask" if masked else ""
    names = ["query", "new_key", "new_value", mask, "past_key", "past_value"]
    is_causal = int(not masked)
    nodes = [helper.make_node("Attention", names, ["y", "key", "value"], is_causal=is_causal)]
    new: dict[str, Dimensions]
    new = {name: ["batch", 2, NEW, 4] for name in ("query", "new_key", "new_value")}
    if masked:
        new["mask"] = [NEW, ALL]
    cache: Dimensions = ["batch", 2, "past", 4]
    grown: Dimensions = ["batch", 2, ALL, 4]
    inputs: Shapes = {**new, "past_key": cache, "past_value": cache}
    outputs: Shapes = {"y": ["batch", 2, NEW, 4], "key": grown, "value": grown}
    return Step(model_of(nodes, inputs, outputs), {"past_key": "key", "past_value": "value"}, new)


def stacked_step(*, gathers: bool) -> Step:
    """Keys and values are one tensor, as older exports of GPT-2 have them."""
    if gathers:
        parts = [
            helper.make_node("Gather", ["past", name], [f"past_{name}"], axis=0)
            for name in ("first", "second")
        ]
    else:
        parts = [
            helper.make_node("Split", ["past", "sizes"], ["some", "others"], axis=0),
            helper.make_node("Squeeze", ["some", "zero"], ["past_first"]),
            helper.make_node("Squeeze", ["others", "zero"], ["past_second"]),
        ]
    nodes = [
        *parts,
        helper.make_node("Concat", ["past_first", "new_key"], ["key"], axis=2),
        helper.make_node("Concat", ["past_second", "new_value"], ["value"], axis=2),
        helper.make_node("Unsqueeze", ["key", "zero"], ["one_key"]),
        helper.make_node("Unsqueeze", ["value", "zero"], ["one_value"]),
        helper.make_node("Concat", ["one_key", "one_value"], ["present"], axis=0),
        helper.make_node("Transpose", ["key"], ["turned"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["query", "turned"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "value"], ["y"]),
    ]
    new: Shapes = {name: ["batch", 2, NEW, 4] for name in ("query", "new_key", "new_value")}
    inputs: Shapes = {**new, "past": [2, "batch", 2, "past", 4]}
    outputs: Shapes = {"y": ["batch", 2, NEW, 4], "present": [2, "batch", 2, ALL, 4]}
    constants = {"first": np.int64(0), "second": np.int64(1), "sizes": [1, 1], "zero": [0]}
    model = model_of(nodes, inputs, outputs, **constants)
    return Step(model, {"past": "present"}, new)


def turned_step() -> Step:
    """The concat is between two transposes and two reshapes."""
    nodes = [
        helper.make_node("Transpose", ["past"], ["turned"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["turned", "wide"], ["rows"]),
        helper.make_node("Concat", ["rows", "new"], ["all"], axis=1),
        helper.make_node("Softmax", ["all"], ["y"], axis=1),
        helper.make_node("Reshape", ["all", "apart"], ["heads"]),
        helper.make_node("Transpose", ["heads"], ["present"], perm=[0, 2, 1, 3]),
    ]
    new: Shapes = {"new": ["batch", NEW, 8]}
    inputs: Shapes = {**new, "past": ["batch", 2, "past", 4]}
    outputs: Shapes = {"y": ["batch", ALL, 8], "present": ["batch", 2, ALL, 4]}
    model = model_of(nodes, inputs, outputs, wide=[0, 0, 8], apart=[0, 0, 2, 4])
    return Step(model, {"past": "present"}, new)


def old_rows_step(*, in_new_ones: bool) -> Step:
    """The rows that were there are read alone, maybe for those that are new."""
    nodes = [
        helper.make_node("ReduceSum", ["past", "one"], ["old"], keepdims=1),
        helper.make_node("Add", ["old", "new"], ["y"]),
        helper.make_node("Concat", ["past", "y" if in_new_ones else "new"], ["present"], axis=1),
    ]
    new: Shapes = {"new": ["batch", NEW, 4]}
    inputs: Shapes = {**new, "past": ["batch", "past", 4]}
    outputs: Shapes = {"y": ["batch", NEW, 4], "present": ["batch", ALL, 4]}
    return Step(model_of(nodes, inputs, outputs, one=[1]), {"past": "present"}, new)


STEPS: dict[str, Callable[[], Step]] = {
    "plain": plain_step,
    "attention": attention_step,
    "attention with a mask": lambda: attention_step(masked=True),
    "stacked, by gathers": lambda: stacked_step(gathers=True),
    "stacked, by a split": lambda: stacked_step(gathers=False),
    "turned": turned_step,
    "old rows": lambda: old_rows_step(in_new_ones=False),
    "old rows in new ones": lambda: old_rows_step(in_new_ones=True),
}
