"""Random nodes with windows: convolutions and pools, and what samples images."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.property.onnx_draws.drawing import BYTES, Drawing, recipe
from tests.property.onnx_draws.reference import RefusedError

SAME = ("SAME_UPPER", "SAME_LOWER", "VALID")


def _window(
    g: Drawing, spatial: tuple[int, ...], *, dilates: bool = True, most: int = 3
) -> tuple[list[int], dict[str, Any]]:
    """Return a kernel that fits and the attributes beside it."""
    rank = len(spatial)
    dilation = [g.one_of(1, 1, 2) if dilates else 1 for _ in spatial]
    kernel = [
        g.whole(1, min(most, (n - 1) // d + 1)) for n, d in zip(spatial, dilation, strict=True)
    ]
    options: dict[str, Any] = {"strides": [g.whole(1, 3) for _ in spatial]}
    if dilates and (max(dilation) > 1 or g.chance(0.2)):
        options["dilations"] = dilation
    if g.chance(0.25):
        # Pools of ONNX Runtime forget the dilation in SAME, and steps wider than the kernel crop.
        fits = "dilations" not in options and all(
            k >= s for k, s in zip(kernel, options["strides"], strict=True)
        )
        options["auto_pad"] = g.one_of(*SAME) if fits else "VALID"
    elif g.chance(0.6):
        options["pads"] = [g.whole(0, kernel[i % rank] - 1) for i in range(2 * rank)]
    if g.chance(0.3):
        del options["strides"]
    return kernel, options


def _image(g: Drawing, kinds: tuple[str, ...] = ("float32", "float64")) -> str:
    name = g.tensor(kinds, (3, 4, 4, 4, 5))
    if 0 in g.shape_of(name)[1:]:  # ONNX Runtime reads what lies behind an empty image
        raise RefusedError
    return name


def _filters(g: Drawing, x: str, kernel: list[int]) -> tuple[tuple[int, ...], int]:
    """Return the shape of a filter for *x* and the number of groups."""
    channels = g.shape_of(x)[1]
    groups = g.source.choice([n for n in (1, 1, 2, 3, channels) if n and channels % n == 0] or [1])
    return (groups * g.whole(1, 3), channels // groups, *kernel), groups


@recipe("Conv")
def convolution(g: Drawing, op: str) -> None:
    x = _image(g)
    kernel, options = _window(g, g.shape_of(x)[2:])
    shape, groups = _filters(g, x, kernel)
    operands = [x, g.like(x, shape), *([g.like(x, shape[:1])] if g.chance() else [])]
    g.add(op, operands, group=groups, **g.some(kernel_shape=kernel), **options)


@recipe("ConvTranspose")
def transposed_convolution(g: Drawing, op: str) -> None:
    x = _image(g, ("float32",))
    channels = g.shape_of(x)[1]
    groups = g.source.choice([n for n in (1, 1, 2, channels) if n and channels % n == 0] or [1])
    kernel = [g.whole(1, 3) for _ in g.shape_of(x)[2:]]
    strides = [g.whole(1, 3) for _ in kernel]
    depth = g.whole(1, 3)
    options: dict[str, Any] = {"strides": strides}
    if g.chance(0.3):
        options["dilations"] = [g.whole(1, 2) for _ in kernel]
    if g.chance(0.2) and all(k >= s for k, s in zip(kernel, strides, strict=True)):
        options["auto_pad"] = g.one_of(*SAME)
    elif g.chance(0.5):
        options["pads"] = [g.whole(0, kernel[i % len(kernel)] - 1) for i in range(2 * len(kernel))]
    if g.chance(0.3):
        options["output_padding"] = [g.whole(0, s - 1) for s in strides]
    operands = [x, g.like(x, (channels, depth, *kernel))]
    if g.chance():
        operands.append(g.like(x, (depth * groups,)))
    g.add(op, operands, group=groups, **options)


@recipe("MaxPool")
def max_pool(g: Drawing, op: str) -> None:
    x = _image(g, ("float32", "float64", "uint8", "int8"))
    kernel, options = _window(g, g.shape_of(x)[2:])
    options |= g.some(ceil_mode=g.whole(0, 1), storage_order=g.whole(0, 1))
    g.add(op, [x], g.one_of(1, 1, 2), kernel_shape=kernel, **options)


@recipe("AveragePool")
def average_pool(g: Drawing, op: str) -> None:
    x = _image(g, ("float32",))
    kernel, options = _window(g, g.shape_of(x)[2:], dilates=g.opset >= 19)
    options |= g.some(ceil_mode=g.whole(0, 1), count_include_pad=g.whole(0, 1))
    g.add(op, [x], kernel_shape=kernel, **options)


@recipe("LpPool")
def lp_pool(g: Drawing, op: str) -> None:
    x = _image(g, ("float32",))
    kernel, options = _window(g, g.shape_of(x)[2:], dilates=g.opset >= 18)
    g.add(op, [x], kernel_shape=kernel, **g.some(p=g.whole(1, 3)), **options)


@recipe("GlobalAveragePool", "GlobalMaxPool")
def global_pool(g: Drawing, op: str) -> None:
    g.add(op, [_image(g, ("float32",))])


@recipe("GlobalLpPool")
def global_lp_pool(g: Drawing, op: str) -> None:
    g.add(op, [_image(g, ("float32",))], **g.some(p=g.whole(1, 3)))


@recipe("MaxUnpool")
def max_unpool(g: Drawing, op: str) -> None:
    x = g.tensor(("float32",), (3, 4))
    spatial = g.shape_of(x)[2:]
    kernel = [g.whole(1, min(2, n)) for n in spatial]
    options: dict[str, Any] = {"kernel_shape": kernel, "strides": kernel}
    values, places = g.add("MaxPool", [x], 2, **options)
    g.add(op, [values, places], **options)


@recipe("ConvInteger")
def integer_convolution(g: Drawing, op: str) -> None:
    x = _image(g, ("uint8",))
    if g.rank_of(x) != 4:
        raise RefusedError
    kernel, options = _window(g, g.shape_of(x)[2:])
    shape, groups = _filters(g, x, kernel)
    operands = [x, g.fresh(g.array("uint8", shape))]
    if g.chance():
        operands += [g.fresh(g.array("uint8", ()))]
    g.add(op, operands, group=groups, **options)


@recipe("QLinearConv")
def quantized_convolution(g: Drawing, op: str) -> None:
    x = _image(g, ("uint8",))
    if g.rank_of(x) != 4:
        raise RefusedError
    kernel, options = _window(g, g.shape_of(x)[2:])
    shape, groups = _filters(g, x, kernel)
    kind = g.one_of(*BYTES)
    per_channel = (shape[0],) if g.chance() else ()
    filters = [
        g.fresh(g.array(kind, shape), is_fed=False),
        g.fresh(g.array("float32", per_channel, 0.02, 0.2), is_fed=False),
        g.fresh(np.full(per_channel, g.whole(0, 3), kind), is_fed=False),
    ]
    bias = [g.fresh(g.array("int32", shape[:1]), is_fed=False)] if g.chance() else []
    g.add(
        op,
        [x, *_scaled(g, "uint8"), *filters, *_scaled(g, "uint8"), *bias],
        group=groups,
        **options,
    )


def _scaled(g: Drawing, kind: str) -> list[str]:
    scale = g.fresh(g.array("float32", (), 0.02, 0.2), is_fed=False)
    return [scale, g.fresh(g.array(kind, (), 0, 4), is_fed=False)]


@recipe("Col2Im")
def columns_to_image(g: Drawing, op: str) -> None:
    image, block = [g.whole(2, 6) for _ in range(2)], [g.whole(1, 2) for _ in range(2)]
    strides, pads = [g.whole(1, 2) for _ in range(2)], [g.whole(0, 1) for _ in range(4)]
    places = 1
    for i in range(2):
        places *= (image[i] + pads[i] + pads[2 + i] - block[i]) // strides[i] + 1
    x = g.tensor(("float32",), shape=(g.whole(1, 2), g.whole(1, 2) * block[0] * block[1], places))
    g.add(op, [x, g.known(*image), g.known(*block)], strides=strides, pads=pads)


@recipe("GridSample")
def grid_sample(g: Drawing, op: str) -> None:
    x = _image(g, ("float32",))
    if g.rank_of(x) != 4:
        raise RefusedError
    modes = ("linear", "nearest", "cubic") if g.opset >= 20 else ("bilinear", "nearest", "bicubic")
    grid = g.array("float32", (g.shape_of(x)[0], g.whole(1, 4), g.whole(1, 4), 2), -1.3, 1.3)
    options = g.some(
        mode=g.one_of(*modes),
        padding_mode=g.one_of("zeros", "border", "reflection"),
        align_corners=g.whole(0, 1),
    )
    g.add(op, [x, g.fresh(grid)], **options)


@recipe("AffineGrid")
def affine_grid(g: Drawing, op: str) -> None:
    g.since(20)
    rank, align_corners = g.one_of(2, 2, 3), g.whole(0, 1)
    # one place between corners: ONNX's function divides by zero
    spatial = [g.whole(1 + align_corners, 4) for _ in range(rank)]
    theta = g.array("float32", (g.whole(1, 3), rank, rank + 1), -2, 2)
    sizes = np.array([len(theta), g.whole(1, 2), *spatial])
    g.add(op, [g.fresh(theta), g.fresh(sizes, is_fed=False)], **g.some(align_corners=align_corners))


@recipe("RoiAlign")
def roi_align(g: Drawing, op: str) -> None:
    x = g.tensor(("float32",), (4,))
    if 0 in g.shape_of(x):
        raise RefusedError
    count = g.whole(1, 3)
    corners = np.sort(g.array("float32", (count, 2, 2), 0, 6), axis=1).reshape(count, 4)
    batch = g.numbers.integers(0, max(1, g.shape_of(x)[0]), count)
    options = g.some(
        output_height=g.whole(1, 3),
        output_width=g.whole(1, 3),
        sampling_ratio=g.whole(0, 3),
        spatial_scale=0.5,
    )
    if g.chance(0.3):  # with more samples, what ONNX Runtime gives is not what ONNX says
        options |= {"mode": "max", "sampling_ratio": 1}
    if g.opset >= 16:
        options |= g.some(
            coordinate_transformation_mode=g.one_of("half_pixel", "output_half_pixel")
        )
    g.add(op, [x, g.fresh(corners), g.fresh(batch.astype(np.int64))], **options)


@recipe("DeformConv")
def deformable_convolution(g: Drawing, op: str) -> None:
    x = g.tensor(("float32",), (4,))
    batch, channels, height, width = g.shape_of(x)
    kernel = [g.whole(1, min(2, height)), g.whole(1, min(2, width))]
    out = (height - kernel[0] + 1, width - kernel[1] + 1)
    taps = kernel[0] * kernel[1]
    filters = g.like(x, (g.whole(1, 3), channels, *kernel))
    offset = g.fresh(g.array("float32", (batch, 2 * taps, *out), -1, 1))
    g.add(op, [x, filters, offset], pads=[0] * 4, kernel_shape=kernel)


@recipe("Resize")
def resize(g: Drawing, op: str) -> None:
    mode = g.one_of("nearest", "nearest", "linear", "cubic")
    x = g.tensor(("float32", "uint8", "int32") if mode == "nearest" else ("float32",), (4,))
    shape = g.shape_of(x)
    options = g.some(
        coordinate_transformation_mode=g.one_of("half_pixel", "asymmetric", "align_corners"),
        nearest_mode=g.one_of("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"),
    )
    options |= g.some(cubic_coeff_a=-0.5) if mode == "cubic" else {}
    empty = "" if g.opset >= 13 else g.fresh(np.zeros(0, np.float32), is_fed=False)
    if g.chance():
        sizes = [*shape[:2], g.whole(1, 8), g.whole(1, 8)]
        no_scales = "" if g.opset >= 13 else empty
        operands = [x, empty, no_scales, g.known(*sizes)]
    else:
        # Half of an odd size is resized by another formula: docs/onnx.md.
        chosen = [g.one_of(*((0.5, 1, 2, 3) if n % 2 == 0 else (1, 2, 3))) for n in shape[2:]]
        scales = np.array([1, 1, *chosen], np.float32)
        operands = [x, empty, g.fresh(scales, is_fed=False)]
    if 0 in shape:
        raise RefusedError
    g.add(op, operands, mode=mode, **options)
