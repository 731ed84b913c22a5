"""What moves elements, and computes nothing."""

from __future__ import annotations

import numpy as np

from experiments.networks.drawn.drawing import FLOATS, INTEGERS, Drawing, kind


@kind
def gather_last_axis(g: Drawing) -> str:
    shape = (g.whole(1, 64), g.whole(4, 64), g.whole(16, 512))
    places = g.numbers.integers(0, shape[-1], g.whole(8, 512))
    return str(g.node("Gather", g.input(*shape), g.constant(places), axis=2))


@kind
def gather_inner_axis(g: Drawing) -> str:
    shape = (g.whole(1, 16), g.whole(4, 256), g.whole(8, 512))
    places = g.constant(g.numbers.integers(0, shape[1], g.whole(4, 256)))
    return str(g.node("Gather", g.input(*shape, kind=g.one_of(*FLOATS)), places, axis=1))


@kind
def gather_fed_places(g: Drawing) -> str:
    rows, axis = g.whole(100, 20000), g.one_of(0, 0, 1)
    shape = (rows, g.whole(16, 512)) if axis == 0 else (g.whole(16, 64), min(rows, 2000))
    places = g.feed(g.numbers.integers(0, shape[axis], g.whole(32, 1024)))
    return str(g.node("Gather", g.constant(g.array(*shape)), places, axis=axis))


@kind
def gather_elements(g: Drawing) -> str:
    shape, axis = (g.whole(8, 256), g.whole(16, 512)), g.one_of(0, 1)
    places = g.numbers.integers(0, shape[axis], shape)
    return str(g.node("GatherElements", g.input(*shape), g.feed(places), axis=axis))


@kind
def gather_nd(g: Drawing) -> str:
    shape = (g.whole(8, 128), g.whole(8, 128), g.whole(1, 128))
    places = g.numbers.integers(0, shape[:2], (g.whole(64, 2048), 2))
    return str(g.node("GatherND", g.input(*shape), g.feed(places)))


@kind
def scatter_nd(g: Drawing) -> str:
    shape = (g.whole(64, 1024), g.whole(8, 256))
    count = g.whole(8, shape[0] // 2)
    places = g.numbers.permutation(shape[0])[:count].reshape(-1, 1)
    updates = g.input(count, shape[1])
    return str(g.node("ScatterND", g.input(*shape), g.feed(places), updates))


@kind
def scatter_elements(g: Drawing) -> str:
    shape, axis = (g.whole(16, 256), g.whole(32, 512)), g.one_of(0, 1)
    count = shape[0], shape[1] // 2
    places = np.argsort(g.numbers.uniform(size=shape), axis=axis)[:, : count[1]]
    reduction = g.one_of("none", "add", "max")
    return str(
        g.node(
            "ScatterElements", g.input(*shape), g.feed(places), g.input(*count), axis=axis,
            reduction=reduction,
        )
    )  # fmt: skip


@kind
def transpose_matrix(g: Drawing) -> str:
    shape = g.whole(100, 1500), g.whole(100, 1500)
    return str(g.node("Transpose", g.input(*shape, kind=g.one_of(*FLOATS, "uint8")), perm=[1, 0]))


@kind
def transpose(g: Drawing) -> str:
    rank = g.one_of(3, 4, 5)
    most = {3: 96, 4: 32, 5: 14}[rank]
    shape = [g.whole(2, most) for _ in range(rank)]
    perm = g.numbers.permutation(rank).tolist()
    return str(g.node("Transpose", g.input(*shape, kind=g.one_of(*FLOATS, *INTEGERS)), perm=perm))


@kind
def pad(g: Drawing) -> str:
    shape = (1, g.whole(3, 64), g.whole(14, 112), g.whole(14, 112))
    pads = [0, 0, g.whole(1, 5), g.whole(1, 5), 0, 0, g.whole(1, 5), g.whole(1, 5)]
    mode = g.one_of("constant", "reflect", "edge", "wrap")
    return str(g.node("Pad", g.input(*shape), g.constant(pads), mode=mode))


@kind
def slice_with_steps(g: Drawing) -> str:
    shape = (g.whole(1, 16), g.whole(8, 64), g.whole(16, 128), g.whole(16, 128))
    steps = [g.one_of(1, 2, -1), g.one_of(1, 2, 3, -1), g.one_of(1, 2, -1, -2)]
    begins = [0 if step > 0 else -1 for step in steps]
    ends = [2**31 if step > 0 else -(2**31) for step in steps]
    operands = [g.constant(numbers) for numbers in (begins, ends, [1, 2, 3], steps)]
    return str(g.node("Slice", g.input(*shape, kind=g.one_of(*FLOATS)), *operands))


@kind
def concat(g: Drawing) -> str:
    shape = [g.whole(1, 16), g.whole(8, 64), g.whole(16, 128), g.whole(8, 64)]
    axis = g.one_of(1, 2, 3)
    parts = []
    for _ in range(g.whole(2, 5)):
        shape[axis] = g.whole(4, 64)
        parts.append(g.input(*shape))
    return str(g.node("Concat", *parts, axis=axis))


@kind
def split(g: Drawing) -> list[str]:
    axis, parts = g.one_of(1, 2), g.whole(2, 6)
    shape = [g.whole(1, 16), g.whole(8, 128), g.whole(8, 256)]
    shape[axis] = -(-shape[axis] // parts) * parts
    x = g.input(*shape)
    return list(g.node("Split", x, results=parts, axis=axis, num_outputs=parts))


@kind
def expand(g: Drawing) -> str:
    shape = [g.whole(1, 16), g.whole(8, 64), g.whole(8, 64), g.whole(8, 64)]
    whole = list(shape)
    for axis in range(4):
        shape[axis] = g.one_of(1, shape[axis])
    return str(g.node("Expand", g.input(*shape), g.constant(whole)))


@kind
def tile(g: Drawing) -> str:
    shape = [g.whole(2, 16), g.whole(4, 64), g.whole(4, 64)]
    return str(g.node("Tile", g.input(*shape), g.constant([g.whole(1, 4) for _ in shape])))


@kind
def depth_to_space(g: Drawing) -> str:
    block, mode = g.one_of(2, 2, 3, 4), g.one_of("DCR", "CRD")
    shape = (1, g.whole(1, 32) * block * block, g.whole(7, 64), g.whole(7, 64))
    return str(g.node("DepthToSpace", g.input(*shape), blocksize=block, mode=mode))


@kind
def space_to_depth(g: Drawing) -> str:
    block = g.one_of(2, 2, 4)
    shape = (1, g.whole(3, 64), block * g.whole(7, 56), block * g.whole(7, 56))
    return str(g.node("SpaceToDepth", g.input(*shape), blocksize=block))


@kind
def triangle(g: Drawing) -> str:
    shape = (g.whole(1, 16), g.whole(16, 256), g.whole(16, 256))
    return str(g.node("Trilu", g.input(*shape), upper=g.one_of(0, 1)))


@kind
def one_hot(g: Drawing) -> str:
    classes = g.whole(10, 1000)
    places = g.feed(g.numbers.integers(0, classes, g.whole(16, 512)))
    ends = g.constant(np.array([0, 1], np.float32))
    return str(g.node("OneHot", places, g.constant(np.array(classes)), ends, axis=-1))


@kind
def reverse_sequence(g: Drawing) -> str:
    steps, samples = g.whole(8, 128), g.whole(2, 32)
    lengths = g.feed(g.numbers.integers(1, steps + 1, samples))
    x = g.input(steps, samples, g.whole(8, 256))
    return str(g.node("ReverseSequence", x, lengths, time_axis=0, batch_axis=1))
