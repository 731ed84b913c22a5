"""What the picture of a plan writes beside its bars."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from matplotlib.image import imread

from glow_nb.runtime import DeviceDescription, partition
from glow_nb.runtime.planning.partition_plot import draw_partitioning, short_bytes, short_name
from tests.unit.runtime.networks import chain


def test_long_names_of_devices_stay_apart() -> None:
    assert short_name("device11") == "device11"
    names = {short_name(f"an accelerator in the cellar {number}") for number in range(12)}
    assert len(names) == 12
    assert max(map(len, names)) == 16


def test_long_names_of_devices_find_room(tmp_path: Path) -> None:
    picture = tmp_path / "plan.png"
    device = DeviceDescription("W" * 20, kind="interpreter", backend="interpreter")
    draw_partitioning(partition(chain([8, 8]), [device]), picture)
    assert imread(picture)[:, :4].min() == 1.0


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 KiB"),
        (6912, "6.75 KiB"),
        (80 << 20, "80 MiB"),
        (2 << 30, "2 GiB"),
        (1 << 40, "1 TiB"),
        (5 << 50, "5.12e+03 TiB"),
    ],
)
def test_bytes_have_the_unit_that_suits_them(size: int, text: str) -> None:
    assert short_bytes(size) == text
