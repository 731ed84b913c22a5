"""Normalization by groups of channels against ONNX's reference implementation, and its lowering."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.base.errors import VerifyError
from glow_nb.hlir import ops
from tests.unit.hlir.ops.applying import (
    apply,
    check_close,
    check_lowering,
    floats,
    onnx_result,
    value,
)


@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 3),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.data(),
)
def test_group_normalization(
    samples: int, groups: int, size: int, spatial: list[int], data: st.DataObject
) -> None:
    channels = groups * size
    x, scale = floats(samples, channels, *spatial), floats(channels, seed=1)
    bias = floats(channels, seed=2)
    rows, ones = x.reshape(samples, groups, -1), np.ones(groups, np.float32)
    normal = onnx_result("InstanceNormalization", rows, ones, 0 * ones, epsilon=0.01)
    by_channel = (channels, *(1,) * len(spatial))
    expected = normal.reshape(x.shape) * scale.reshape(by_channel) + bias.reshape(by_channel)
    axis = data.draw(st.integers(1, x.ndim - 1))
    moved = np.ascontiguousarray(np.moveaxis(x, 1, axis))
    attributes = {"groups": groups, "channel_axis": axis, "epsilon": 0.01}
    found = apply(ops.GroupNormalization, moved, scale, bias, **attributes)
    check_close(np.moveaxis(found, axis, 1), expected, ulp=200)
    operands = (array.astype(np.float64) for array in (moved, scale, bias))
    check_lowering(ops.GroupNormalization, *operands, **attributes)


def test_as_many_groups_as_channels_are_instances() -> None:
    x, scale, bias = floats(2, 3, 4, 5), floats(3, seed=1), floats(3, seed=2)
    expected = onnx_result("InstanceNormalization", x, scale, bias, epsilon=0.01)
    found = apply(ops.GroupNormalization, x, scale, bias, groups=3, channel_axis=1, epsilon=0.01)
    check_close(found, expected, ulp=100)


def test_lowered_groups_far_from_zero_do_not_cancel() -> None:
    """Channels of a group with means that differ more than their elements do."""
    x = floats(2, 6, 50) + np.float32(3000) + np.arange(6, dtype=np.float32)[:, None] * 100
    operands = (x, floats(6, seed=1), floats(6, seed=2))
    check_lowering(ops.GroupNormalization, *operands, groups=2, channel_axis=1, epsilon=1e-5)


def test_lowered_groups_of_halves_do_not_overflow() -> None:
    x, ones = (floats(2, 4, 3) * 1000).astype(np.float16), np.ones(4, np.float16)
    check_lowering(ops.GroupNormalization, x, ones, ones, groups=2, channel_axis=1, epsilon=1e-5)


@pytest.mark.parametrize(
    ("groups", "axis", "said"),
    [(4, 1, "divide the 6 channels"), (0, 1, "divide the 6"), (2, 0, "channel_axis is 0")],
)
def test_groups_are_equal_parts_of_the_channels(groups: int, axis: int, said: str) -> None:
    x, vector = value("float32<6 x 6 x 2>"), value("float32<6>")
    with pytest.raises(VerifyError, match=said):
        ops.GroupNormalization(x, vector, vector, groups, axis, 1e-5)
