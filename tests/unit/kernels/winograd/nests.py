"""Convolutions for Winograd's algorithm, with the tiles that they are computed in, by names."""

from __future__ import annotations

from glow_nb.kernels.winograd.nest import suits_winograd
from tests.unit.kernels.products.test_convolution import conv

NESTS = {
    "4x4": (conv(1, 5, 19, (9, 13), (3, 3), pads=1), (4, 4)),
    "2x2": (conv(2, 7, 24, (7, 7), (3, 3), pads=1), (2, 2)),
    "mixed": (conv(1, 16, 9, (8, 9), (3, 3)), (2, 4)),
    "6x6": (conv(1, 9, 20, (14, 11), (3, 3), pads=1), (6, 6)),
    "4x6": (conv(2, 17, 8, (7, 16), (3, 3), pads=(1, 0, 1, 2)), (4, 6)),
    "one sided pads": (conv(1, 3, 8, (6, 7), (3, 3), pads=(0, 2, 1, 0)), (4, 4)),
    "groups": (conv(1, 12, 18, (7, 7), (3, 3), pads=1, group=3), (4, 4)),
    "groups of one output": (conv(1, 6, 3, (5, 5), (3, 3), pads=1, group=3), (2, 2)),
    "many channels": (conv(1, 100, 100, (6, 6), (3, 3), pads=1), (4, 4)),
    "images share tiles": (conv(5, 8, 8, (7, 7), (3, 3), pads=1), (4, 4)),
    "5x5": (conv(1, 8, 12, (11, 9), (5, 5), pads=2), (2, 2)),
    "larger 5x5": (conv(1, 8, 12, (11, 9), (5, 5), pads=2), (4, 4)),
    "row": (conv(1, 6, 9, (5, 14), (1, 7), pads=(0, 3, 0, 3)), (1, 2)),
    "column": (conv(1, 6, 9, (14, 5), (3, 1), pads=(1, 0, 1, 0)), (4, 1)),
    "lines of one tap": (conv(1, 6, 9, (9, 14), (1, 3), pads=(0, 1, 0, 1)), (4, 4)),
    "columns of one tap": (conv(1, 6, 9, (9, 14), (3, 1), pads=(1, 0, 1, 0)), (2, 6)),
    "rank 1": (conv(2, 5, 12, (29,), (3,), pads=(3, 1)), (4,)),
    "planes": (conv(2, 5, 12, (3, 7, 9), (1, 3, 3), pads=(0, 1, 1, 0, 1, 1)), (1, 4, 4)),
    "padded planes": (conv(1, 5, 9, (2, 5, 6), (1, 3, 3), pads=(1, 1, 1, 2, 1, 1)), (1, 2, 4)),
    "depth": (conv(2, 5, 12, (9, 3, 4), (3, 1, 1), pads=(1, 0, 0, 2, 0, 0)), (4, 1, 1)),
    "volume": (conv(2, 5, 12, (4, 7, 6), (3, 3, 3), pads=1), (1, 4, 4)),
    "volume without pads": (conv(1, 9, 20, (5, 8, 6), (3, 3, 3)), (1, 2, 4)),
    "volume with groups": (conv(1, 8, 18, (3, 6, 6), (2, 3, 3), pads=1, group=2), (1, 4, 4)),
    "depth and lines": (conv(1, 6, 9, (4, 9, 5), (3, 3, 1), pads=(2, 1, 0, 0, 1, 0)), (1, 4, 1)),
    "huge pads": (conv(1, 2, 4, (2, 3), (3, 3), pads=4), (4, 4)),
    "kernel beyond input": (conv(1, 2, 4, (1, 1), (3, 3), pads=1), (4, 4)),
    "stride": (conv(1, 9, 20, (15, 13), (3, 3), 2, pads=1), (4, 4)),
    "stride, odd tiles": (conv(2, 17, 9, (14, 16), (3, 3), 2, pads=(0, 0, 1, 1)), (3, 2)),
    "stride of rows": (conv(1, 6, 9, (9, 14), (3, 3), (1, 2), pads=1), (4, 3)),
    "stride of 5x5": (conv(1, 8, 12, (21, 12), (5, 5), 2, pads=2), (4, 2)),
    "stride of rank 1": (conv(2, 5, 12, (29,), (3,), 2, pads=(3, 1)), (4,)),
    "stride with groups": (conv(1, 12, 18, (9, 9), (3, 3), 2, pads=1, group=3), (2, 2)),
    "stride of planes": (conv(1, 5, 9, (5, 9, 8), (2, 3, 3), (2, 2, 1), pads=1), (1, 2, 4)),
    "stride of depth": (
        conv(2, 5, 12, (9, 3, 4), (3, 1, 1), (2, 1, 1), pads=(1, 0, 0, 2, 0, 0)),
        (4, 1, 1),
    ),
    "dilated": (conv(2, 17, 9, (13, 18), (3, 3), pads=2, dilation=2), (4, 4)),
    "dilated unevenly": (
        conv(1, 6, 20, (11, 16), (3, 3), pads=(3, 0, 1, 2), dilation=(3, 2)),
        (2, 4),
    ),
    "dilated lines": (conv(1, 6, 9, (5, 29), (1, 3), pads=(0, 4, 0, 3), dilation=(1, 4)), (1, 6)),
    "dilated columns": (conv(1, 6, 9, (17, 5), (3, 1), pads=(2, 0, 5, 0), dilation=(5, 1)), (4, 1)),
    "dilated rank 1": (conv(2, 5, 12, (29,), (3,), pads=(3, 1), dilation=3), (4,)),
    "dilated 5x5": (conv(1, 8, 12, (14, 12), (5, 5), pads=4, dilation=2), (2, 4)),
    "dilated beyond input": (conv(1, 5, 9, (3, 4), (3, 3), pads=6, dilation=6), (2, 4)),
    "dilated with stride": (
        conv(1, 6, 9, (9, 14), (3, 3), (1, 2), pads=2, dilation=(2, 1)),
        (4, 3),
    ),
    "dilated with groups": (conv(1, 12, 18, (9, 10), (3, 3), pads=2, group=3, dilation=2), (4, 2)),
    "dilated planes": (conv(1, 5, 9, (3, 9, 8), (2, 3, 3), pads=1, dilation=(1, 2, 2)), (1, 2, 4)),
    "dilated depth": (
        conv(2, 5, 12, (13, 3, 4), (3, 1, 1), pads=(2, 0, 0, 4, 0, 0), dilation=(3, 1, 1)),
        (4, 1, 1),
    ),
    "no images": (conv(0, 2, 4, (3, 3), (3, 3), pads=1), (2, 2)),
}

WHOLE_NESTS = {
    **{
        name: (shape, tile)
        for name, (shape, tile) in NESTS.items()
        if suits_winograd(shape, tile, whole=True)
    },
    "odd groups": (conv(1, 9, 18, (7, 7), (3, 3), pads=1, group=3), (4, 4)),
    "odd channels": (conv(2, 37, 18, (7, 9), (3, 3), pads=1), (2, 4)),
    "more than a vector": (conv(1, 43, 35, (8, 5), (3, 3), pads=1), (4, 4)),
}
"""Those of which sums of integers are exact, and more."""
