"""What the picture of a plan writes beside its bars."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text

from glow_nb.runtime import DeviceDescription, Partitioning, partition
from glow_nb.runtime.planning import partition_plot
from glow_nb.runtime.planning.partition_plot import draw_partitioning, short_name
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


def test_all_bytes_of_a_picture_have_one_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two devices share a chain; one of them has a limit a thousand times as large."""
    plan = partition(chain([64, 64, 64, 64]), small_and_large())
    written = texts_of(plan, tmp_path, monkeypatch)
    units = {unit for text in written for unit in re.findall(r"\d (\w?i?B)\b", text)}
    assert len(units) == 1


def test_each_colour_is_named_in_a_legend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = texts_of(partition(chain([8, 8]), small_and_large()), tmp_path, monkeypatch)
    named = ("kernels run", "receives or sends", "weights and states", "memory of a run")
    assert [name for name in named if not any(name in text for text in written)] == []


def small_and_large() -> list[DeviceDescription]:
    kind = {"kind": "interpreter", "backend": "interpreter"}
    return [
        DeviceDescription(name, memory_bytes=size, **kind)  # type: ignore[arg-type]
        for name, size in (("small", 50 << 10), ("large", 50 << 20))
    ]


def texts_of(plan: Partitioning, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return all texts of the picture of *plan*."""
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, place, **_: figures.append(figure))
    monkeypatch.setattr(partition_plot, "replace_file", lambda path, write: write(path))
    draw_partitioning(plan, folder / "plan.png")
    return [text.get_text() for text in figures[0].findobj(Text)]
