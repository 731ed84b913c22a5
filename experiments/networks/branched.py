"""Does anything copy channels in networks that split them and bring them together again?

A network of cross-stage parts as in YOLOv8 (C2f and SPPF blocks), one of ELAN blocks (arXiv
2211.04800), GhostNet (1911.11907) and Res2Net (1904.01169), made small, as ONNX models with seeded
random weights; batch normalization is already part of the filters. They are written to a folder,
for a duel or a profile::

    python -m experiments.networks.branched FOLDER --only cross_stage
    python -m experiments.benchmarks.duel FOLDER/cross_stage.onnx --threads 2
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from experiments.networks.layers import Layers, main

IMAGE = (1, 3, 224, 224)


def cross_stage(
    image: tuple[int, ...] = (1, 3, 320, 320),
    blocks: Sequence[tuple[int, int]] = ((64, 1), (128, 2), (256, 2), (256, 1)),
) -> onnx.ModelProto:
    """Return blocks that split their channels, and concatenate all that follows from one part.

    Of each block, *blocks* has the channels and how many convolutions of convolutions follow.
    """
    m = Layers("cross_stage", image)
    x = m.convolution("image", 32, 3, 2, act="Silu")
    for depth, repeats in blocks:
        x = m.convolution(x, depth, 3, 2, act="Silu")
        parts = m.parts(m.convolution(x, depth, act="Silu"), 2)
        for _ in range(repeats):
            y = m.convolution(parts[-1], depth // 2, 3, act="Silu")
            parts.append(m.add(parts[-1], m.convolution(y, depth // 2, 3, act="Silu")))
        x = m.convolution(m.concat(*parts), depth, act="Silu")
    pools = [m.convolution(x, 128, act="Silu")]
    for _ in range(3):
        pools.append(m.max_pool(pools[-1], 5, 1))
    return m.classify(m.convolution(m.concat(*pools), 256, act="Silu"))


def elan(image: tuple[int, ...] = IMAGE) -> onnx.ModelProto:
    """Return blocks that concatenate the results along a chain of convolutions."""
    m = Layers("elan", image)
    x = m.convolution(m.convolution("image", 32, 3, 2), 64, 3, 2)
    for depth in (32, 64, 128):
        parts = [m.convolution(x, depth), m.convolution(x, depth)]
        for _ in range(2):
            parts.append(m.convolution(m.convolution(parts[-1], depth, 3), depth, 3))
        x = m.max_pool(m.convolution(m.concat(*parts), 4 * depth))
    return m.classify(x)


def ghostnet(image: tuple[int, ...] = IMAGE) -> onnx.ModelProto:
    """Return blocks that concatenate a convolution and what a depthwise one makes of it."""
    m = Layers("ghostnet", image)
    x = m.convolution("image", 16, 3, 2)
    for depth in (32, 64, 128, 256):
        for _ in range(2):
            y = m.convolution(x, depth // 2)
            x = m.concat(y, m.depthwise(y, 3, 1, "Relu"))
        x = m.depthwise(x, 3, 2, "")
    return m.classify(x)


def res2net(image: tuple[int, ...] = IMAGE) -> onnx.ModelProto:
    """Return blocks whose parts of the channels are convolved one after the other."""
    m = Layers("res2net", image)
    x = m.max_pool(m.convolution("image", 64, 7, 2))
    for depth in (64, 128, 256):
        for _ in range(2):
            first, *others, last = m.parts(m.convolution(x, depth), 4)
            made = [m.convolution(first, depth // 4, 3)]
            for part in others:
                made.append(m.convolution(m.add(made[-1], part), depth // 4, 3))
            y = m.convolution(m.concat(*made, last), 2 * depth, act="")
            if m.shapes[x] != m.shapes[y]:
                x = m.convolution(x, 2 * depth, act="")
            x = m.activation(m.add(x, y), "Relu")
        x = m.max_pool(x)
    return m.classify(x)


NETWORKS = (cross_stage, elan, ghostnet, res2net)


if __name__ == "__main__":
    main(__doc__, NETWORKS)
