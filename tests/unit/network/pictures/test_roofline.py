"""The roofline picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glow_nb.backends.backend import Timings
from glow_nb.base.costs import Cost, InstructionCost
from glow_nb.base.errors import GlowError, OptionError
from glow_nb.base.kernel_report import KernelReport
from glow_nb.base.machine_limits import DotRate, MachineLimits, MemoryLevel
from glow_nb.network.profile import Profile, kernel_times

roofline = pytest.importorskip("glow_nb.network.pictures.roofline", exc_type=ImportError)

LEVELS = (MemoryLevel("L2", 1 << 20, 80e9, 80e9), MemoryLevel("DRAM", 0, 30e9, 30e9))


def profile(limits: MachineLimits | None, *costs: InstructionCost, dot: str = "") -> Profile:
    reports = [
        KernelReport("", f"$n_{i}$", f"family{i % 9}", cost=c, dot=dot) for i, c in enumerate(costs)
    ]
    ends = np.arange(1, len(costs) + 1) * 1000
    stamps = np.stack([ends - 1000, ends], axis=-1)[None, None].astype(np.int64)
    timings = Timings(stamps, (1.0,))
    return Profile("net", 1, kernel_times(reports, timings, limits), timings, limits)


def product(size: int) -> InstructionCost:
    return InstructionCost(Cost(size * 100), Cost(size * 100), 0, size * 4, size * 4)


def test_draws_a_png(tmp_path: Path) -> None:
    path = tmp_path / "roofline.png"
    moving = InstructionCost(read_bytes=64, written_bytes=64)
    measured = profile(MachineLimits(1, 100e9, LEVELS), *map(product, range(1, 20)), moving)
    assert len(roofline.drawn_kernels(measured)) == 19
    roofline.draw_roofline(measured, path, "any $title")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_refuses_what_cannot_be_drawn(tmp_path: Path) -> None:
    limits = MachineLimits(1, 100e9, LEVELS)
    with pytest.raises(OptionError, match="without"):
        roofline.draw_roofline(profile(None, product(1)), tmp_path / "a.png")
    with pytest.raises(OptionError, match="computes"):
        roofline.draw_roofline(profile(limits), tmp_path / "a.png")
    with pytest.raises(GlowError, match="written"):
        roofline.draw_roofline(profile(limits, product(1)), tmp_path / "no" / "a.png")


def test_only_peaks_that_kernels_are_compared_with_are_drawn(tmp_path: Path) -> None:
    dots = (DotRate("tile_dot_vpdpbusd", 4e11), DotRate("tile_dot_tdpbusd", 4e12))
    limits = MachineLimits(1, 1e11, LEVELS, dots)
    measured = profile(limits, product(9), dot="tile_dot_tdpbssd")
    peaks = roofline.peaks_of(limits, measured.kernels)
    assert peaks == {"fused multiply-adds": 1e11, "tdpbusd": 4e12}
    path = tmp_path / "roofline.png"
    roofline.draw_roofline(measured, path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_raised_peaks_are_named() -> None:
    dots = (DotRate("tile_dot_vpdpbusd", 4e11), DotRate("tile_dot_tdpbusd", 4e12))
    measured = profile(MachineLimits(1, 1e11, LEVELS, dots), product(9))
    assert roofline.raised_names(measured) == set()
    raised = replace(measured, raised=("", "tile_dot_tdpbusd"))
    assert roofline.raised_names(raised) == {"fused multiply-adds", "tdpbusd"}


def test_the_caption_says_how_many_of_all_kernels_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moving = InstructionCost(read_bytes=64, written_bytes=64)
    limits = MachineLimits(1, 100e9, LEVELS)
    measured = profile(limits, product(1), product(2), moving)
    figures: list[Any] = []
    monkeypatch.setattr(roofline, "replace_file", lambda path, write: write(path))
    monkeypatch.setattr(
        roofline.Figure, "savefig", lambda figure, place, **_: figures.append(figure)
    )
    roofline.draw_roofline(measured, tmp_path / "a.png")
    (caption,) = (t.get_text() for t in figures[0].texts if " kernels (" in t.get_text())
    assert caption.startswith("2 of 3 kernels (1 is without arithmetic or below 0.1 % of the time)")
