"""Random nodes that move elements, or make tensors from shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from tests.property.onnx_draws.drawing import ANY, FLOATS, INTS, NUMBERS, Drawing, recipe

MOVED = (*FLOATS, "int64", "int32", "uint8", "bool")


@recipe("Reshape")
def reshape(g: Drawing, op: str) -> None:
    x = g.tensor(MOVED)
    shape: list[int] = list(g.shape_of(x))
    while len(shape) > 1 and g.chance(0.6):  # join two
        at = g.whole(0, len(shape) - 2)
        shape[at : at + 2] = [shape[at] * shape[at + 1]]
    for _ in range(g.whole(0, 2)):
        shape.insert(g.whole(0, len(shape)), 1)
    if g.chance(0.3):
        g.source.shuffle(shape)
    wanted = list(shape)
    if shape and g.chance() and 0 not in shape:
        wanted[g.whole(0, len(shape) - 1)] = -1
    for axis, n in enumerate(g.shape_of(x)[: len(shape)]):
        if n == shape[axis] and wanted[axis] != -1 and g.chance(0.3):
            wanted[axis] = 0
    options: dict[str, Any] = (
        {"allowzero": 1} if g.opset >= 14 and 0 not in wanted and g.chance(0.2) else {}
    )
    g.add(op, [x, g.known(*wanted)], **options)


@recipe("Flatten")
def flatten(g: Drawing, op: str) -> None:
    x = g.tensor(MOVED)
    g.add(op, [x], **g.some(axis=g.whole(-g.rank_of(x), g.rank_of(x))))


def _with_axes(g: Drawing, op: str, x: str, axes: list[int]) -> None:
    if g.opset >= 13:
        g.add(op, [x, g.known(*axes)])
    else:
        g.add(op, [x], axes=axes)


@recipe("Squeeze")
def squeeze(g: Drawing, op: str) -> None:
    x = g.tensor(MOVED)
    ones = [axis for axis, n in enumerate(g.shape_of(x)) if n == 1]
    if not ones or g.chance(0.3):
        g.add(op, [x])
        return
    axes = g.source.sample(ones, g.whole(1, len(ones)))
    _with_axes(g, op, x, [a - g.rank_of(x) if g.chance(0.3) else a for a in axes])


@recipe("Unsqueeze")
def unsqueeze(g: Drawing, op: str) -> None:
    x = g.tensor(MOVED, (0, 1, 2, 3))
    more = g.whole(1, 2)
    rank = g.rank_of(x) + more
    axes = g.source.sample(range(rank), more)
    _with_axes(g, op, x, [a - rank if g.chance(0.3) else a for a in axes])


@recipe("Transpose")
def transpose(g: Drawing, op: str) -> None:
    x = g.tensor(MOVED)
    order = list(range(g.rank_of(x)))
    g.source.shuffle(order)
    g.add(op, [x], **(g.some(perm=order) if order else {}))


@recipe("Concat")
def concat(g: Drawing, op: str) -> None:
    x = g.tensor(MOVED, (1, 2, 3, 4, 5))
    axis = g.axis(g.rank_of(x))
    operands = [x]
    for _ in range(g.whole(0, 3)):
        shape = list(g.shape_of(x))
        shape[axis] = g.source.choice([*g.sizes, shape[axis]])
        operands.append(g.like(x, tuple(shape)))
    g.source.shuffle(operands)
    g.add(op, operands, axis=axis)


@recipe("Slice")
def slices(g: Drawing, op: str) -> None:
    x = g.tensor(MOVED, (1, 2, 3, 4, 5))
    axes = g.axes(g.rank_of(x))
    starts, ends, steps = [], [], []
    for axis in axes:
        n = g.shape_of(x)[axis]
        starts.append(g.whole(-n - 2, n + 2) if g.chance(0.8) else g.one_of(-(1 << 40), 1 << 40))
        steps.append(g.one_of(1, 1, 1, 2, 3, -1, -2))
        beyond = (1 << 63) - 1 if steps[-1] > 0 else -(1 << 63)
        ends.append(g.whole(-n - 2, n + 2) if g.chance(0.6) else beyond)
    lists = [starts, ends]
    in_order = axes == list(range(len(axes)))
    if not in_order or g.chance():
        lists.append(axes)
        if any(step != 1 for step in steps) or g.chance(0.3):
            lists.append(steps)
    g.add(op, [x, *(g.known(*numbers) for numbers in lists)])


@recipe("Split")
def split(g: Drawing, op: str) -> None:
    x = g.tensor(MOVED, (1, 2, 3, 4))
    axis = g.axis(g.rank_of(x))
    size, parts = g.shape_of(x)[axis], g.whole(1, 3)
    cuts = sorted(g.whole(0, size) for _ in range(parts - 1))
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, size], strict=True)]
    options: dict[str, Any] = g.some(axis=axis) if axis == 0 else {"axis": axis}
    if g.chance(0.4) and (g.opset >= 18 or size % parts == 0):
        if g.opset >= 18:
            options["num_outputs"] = parts
        g.add(op, [x], parts, **options)
    elif g.opset >= 13:
        g.add(op, [x, g.known(*sizes)], parts, **options)
    else:
        g.add(op, [x], parts, split=sizes, **options)


@recipe("Pad")
def pad(g: Drawing, op: str) -> None:
    x = g.tensor((*FLOATS, *INTS, "uint8"), (1, 2, 3, 4, 5))
    rank, shape = g.rank_of(x), g.shape_of(x)
    modes = ["constant", "constant", "reflect", "edge", *(["wrap"] if g.opset >= 19 else [])]
    mode = g.source.choice(modes)
    axes = g.axes(rank) if g.opset >= 18 and g.chance(0.4) else list(range(rank))
    may_cut = mode in ("constant", "edge") and g.chance(0.3) and min(shape) >= 2
    least = -1 if may_cut else 0
    most = [max(shape[a] - 1, 0) if mode == "reflect" else 3 for a in axes]
    pads = [g.whole(least, min(3, n)) for _ in range(2) for n in most]
    operands = [x, g.known(*pads)]
    fill = g.fresh(g.array(g.kind_of(x), ()), is_fed=False) if g.chance() else ""
    if axes != list(range(rank)):
        operands += [fill, g.known(*axes)]
    elif fill:
        operands.append(fill)
    g.add(op, operands, mode=mode)


@recipe("Tile")
def tile(g: Drawing, op: str) -> None:
    x = g.tensor(MOVED, (1, 2, 3, 4))
    g.add(op, [x, g.known(*(g.one_of(0, 1, 1, 1, 2, 3) for _ in g.shape_of(x)))])


@recipe("Expand")
def expand(g: Drawing, op: str) -> None:
    x = g.tensor(MOVED)
    shape = [n if n != 1 else g.source.choice([1, *g.sizes]) for n in g.shape_of(x)]
    shape = [1 if g.chance(0.3) else n for n in shape]
    if g.chance(0.3) and len(shape) < 5:
        shape = [*g.shape((1,)), *shape]
    g.add(op, [x, g.known(*shape[g.whole(0, len(shape)) if g.chance(0.2) else 0 :])])


@recipe("DepthToSpace", "SpaceToDepth")
def blocks(g: Drawing, op: str) -> None:
    size = g.whole(1, 3)
    batch, depth, height, width = g.shape((4,))
    if op == "DepthToSpace":
        x = g.tensor((*FLOATS, "uint8"), shape=(batch, depth * size**2, height, width))
        g.add(op, [x], blocksize=size, **g.some(mode=g.one_of("DCR", "CRD")))
    else:
        g.add(op, [g.tensor(shape=(batch, depth, height * size, width * size))], blocksize=size)


@recipe("Shape")
def shape_of(g: Drawing, op: str) -> None:
    options = g.some(start=g.whole(-4, 4), end=g.whole(-4, 4)) if g.opset >= 15 else {}
    g.add(op, [g.tensor(ANY)], **options)


@recipe("Size")
def size_of(g: Drawing, op: str) -> None:
    g.add(op, [g.tensor(ANY)])


@recipe("Constant")
def constant(g: Drawing, op: str) -> None:
    array = g.array(g.kind(ANY), g.shape())
    tensor = helper.make_tensor(
        "c", helper.np_dtype_to_tensor_dtype(array.dtype), array.shape, array.tobytes(), raw=True
    )
    choice = g.whole(0, 3)
    if choice == 0 and g.opset >= 12:
        g.add(op, [], value_floats=[1.0, 2.5, -3.0])
    elif choice == 1 and g.opset >= 12:
        g.add(op, [], value_int=g.whole(-5, 5))
    else:
        g.add(op, [], value=tensor)


@recipe("ConstantOfShape")
def constant_of_shape(g: Drawing, op: str) -> None:
    array = g.array(g.kind(ANY), (1,))
    code = helper.np_dtype_to_tensor_dtype(array.dtype)
    fill = helper.make_tensor("v", code, (1,), array.tobytes(), raw=True)
    g.add(op, [g.known(*g.shape())], **g.some(value=fill))


@recipe("EyeLike")
def eye(g: Drawing, op: str) -> None:
    kind = g.kind(NUMBERS)
    code = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    g.add(op, [g.tensor((*FLOATS, *INTS), (2,))], **g.some(k=g.whole(-3, 3), dtype=code))


@recipe("Range")
def ranges(g: Drawing, op: str) -> None:
    kind = g.one_of("float32", "int64", "int32", "float64")
    start, limit, step = g.whole(-5, 5), g.whole(-5, 9), g.one_of(1, 2, 3, -1, -2)
    g.add(op, [g.known_scalar(number, kind) for number in (start, limit, step)])


@recipe("Trilu")
def triangle(g: Drawing, op: str) -> None:
    x = g.tensor(MOVED, (2, 3, 4))
    offset = [g.known_scalar(g.whole(-4, 4), "int64")] if g.chance() else []
    g.add(op, [x, *offset], **g.some(upper=g.whole(0, 1)))


@recipe("OneHot")
def one_hot(g: Drawing, op: str) -> None:
    depth = g.whole(1, 6)
    indices = g.tensor(("int64", "int32"), (0, 1, 2, 3))
    values = g.tensor(("float32", "int64"), shape=(2,))
    count = g.known_scalar(depth, "int64") if g.chance() else g.known(depth)
    axis = g.whole(-g.rank_of(indices) - 1, g.rank_of(indices))
    g.add(op, [indices, count, values], **g.some(axis=axis))
