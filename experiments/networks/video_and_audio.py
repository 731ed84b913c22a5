"""How fast are convolutions in three dimensions, and in one?

R(2+1)D-18 (arXiv 1711.11248), the first stages of I3D (1705.07750), a temporal convolutional
network (1803.01271), a wav2vec-like encoder (1904.05862) and a stack of convolutions as in speech
synthesis, as ONNX models with seeded random weights; batch normalization is already part of the
filters. They are written to a folder, for a duel or a profile::

    python -m experiments.networks.video_and_audio FOLDER --only r2plus1d
    python -m experiments.benchmarks.duel FOLDER/r2plus1d.onnx --threads 2
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from experiments.networks.layers import Layers, main

VIDEO = (1, 3, 8, 112, 112)


def r2plus1d(
    video: tuple[int, ...] = VIDEO,
    stages: Sequence[tuple[int, int]] = ((64, 1), (128, 2), (256, 2), (512, 2)),
) -> onnx.ModelProto:
    """Return R(2+1)D-18: convolutions over space and over time in turn.

    Of each stage, *stages* has the channels and the stride; fewer make a smaller network.
    """
    m = Layers("r2plus1d", video)
    x = m.convolution(m.convolution("image", 45, (1, 7, 7), (1, 2, 2)), 64, (3, 1, 1))
    for depth, first in stages:
        for stride in (first, 1):
            y = x
            for step, act in ((stride, "Relu"), (1, "")):
                channels = m.shapes[y][1]
                middle = channels * depth * 27 // (channels * 9 + depth * 3)
                y = m.convolution(y, middle, (1, 3, 3), (1, step, step))
                y = m.convolution(y, depth, (3, 1, 1), (step, 1, 1), act=act)
            if m.shapes[x] != m.shapes[y]:
                x = m.convolution(x, depth, 1, stride, act="")
            x = m.activation(m.add(x, y), "Relu")
    return m.classify(x, 400)


def i3d(video: tuple[int, ...] = (1, 3, 16, 112, 112)) -> onnx.ModelProto:
    """Return the first stages of I3D: Inception blocks in three dimensions."""
    m = Layers("i3d", video)
    x = m.max_pool(m.convolution("image", 64, 7, 2), (1, 3, 3), (1, 2, 2))
    x = m.max_pool(m.convolution(m.convolution(x, 64), 192, 3), (1, 3, 3), (1, 2, 2))
    for one, before, three, before_small, small, pooled in (
        *((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
        *((192, 96, 208, 16, 48, 64), (128, 128, 256, 24, 64, 64)),
    ):
        x = m.concat(
            m.convolution(x, one),
            m.convolution(m.convolution(x, before), three, 3),
            m.convolution(m.convolution(x, before_small), small, 3),
            m.convolution(m.max_pool(x, 3, 1), pooled),
        )
    return m.classify(x, 400)


def temporal(sequence: tuple[int, ...] = (1, 64, 2048)) -> onnx.ModelProto:
    """Return a temporal convolutional network: taps further and further back."""
    m = Layers("temporal", sequence)
    x = m.convolution("image", 128, 3)
    for level in range(6):
        y = m.convolution(x, 128, 3, dilation=2**level, is_causal=True)
        y = m.convolution(y, 128, 3, dilation=2**level, is_causal=True)
        x = m.activation(m.add(x, y), "Relu")
    return m.classify(x, 400)


def wav2vec(sequence: tuple[int, ...] = (1, 1, 32000)) -> onnx.ModelProto:
    """Return an encoder of sound: few taps, far apart, over many samples."""
    m = Layers("wav2vec", sequence)
    x = m.convolution("image", 256, 10, 5)
    for taps in (3, 3, 3, 3, 2, 2):
        x = m.convolution(x, 256, taps, 2)
    for _ in range(3):
        x = m.convolution(x, 256, 3)
    return m.classify(x, 400)


def speech(sequence: tuple[int, ...] = (1, 80, 1000)) -> onnx.ModelProto:
    """Return a stack of convolutions over frames of a spectrum."""
    m = Layers("speech", sequence)
    x = m.convolution(m.convolution("image", 384, 3), 384, 3)
    for _ in range(6):
        x = m.activation(m.add(x, m.convolution(m.convolution(x, 384, 5), 384, 3, act="")), "Relu")
    return m.classify(x, 400)


NETWORKS = (r2plus1d, i3d, temporal, wav2vec, speech)


if __name__ == "__main__":
    main(__doc__, NETWORKS)
