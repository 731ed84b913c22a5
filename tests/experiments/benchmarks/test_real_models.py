"""The table of trained networks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.benchmarks.real_models import (
    ENGINES,
    Measured,
    heading,
    main,
    rows_of,
    times_of,
)
from experiments.real_models.task import Feeds
from experiments.real_models.tasks import TASKS
from glow_nb.base.types import Array

TIMES = dict(zip(ENGINES, (200.0, 100.0, 50.04, 400.0), strict=True))


def measured(*correct: int) -> Measured:
    counts = dict(zip(ENGINES, correct, strict=True))
    return Measured(counts, 6, {"detector": TIMES, "recognizer": TIMES})


def test_rows_have_counts_times_and_ratios() -> None:
    first, second = rows_of("text_in_pictures", TASKS["text_in_pictures"](), measured(6, 6, 6, 6))
    assert first == (
        "| text in pictures: detector | all 6 | 200 | 100 | 50 | 400 | 2.00 | 4.00 | 7.99 |"
    )
    assert second.startswith("| text in pictures: recognizer | all 6 | ")
    assert first.count("|") == heading()[0].count("|") == heading()[1].count("|")


def test_engines_with_wrong_answers_are_told_apart() -> None:
    first, _ = rows_of("text_in_pictures", TASKS["text_in_pictures"](), measured(6, 5, 4, 6))
    assert "| 6, 5, 4, 6 of 6 |" in first


def test_each_engine_runs_all_feeds() -> None:
    seen: dict[str, list[float]] = {engine: [] for engine in ENGINES}

    def run_of(engine: str) -> object:
        def run(feeds: Feeds) -> dict[str, Array]:
            seen[engine].append(float(feeds["x"]))
            return {}

        return run

    runs = {engine: run_of(engine) for engine in ENGINES}
    feeds = [{"x": np.array(1.0)}, {"x": np.array(2.0)}]
    found = times_of(runs, feeds, threads=1, rounds=2)  # type: ignore[arg-type]
    assert list(found) == list(ENGINES)
    assert all(numbers == 3 * [1.0, 2.0] for numbers in seen.values())


def test_a_page_must_be_there_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--page", str(tmp_path / "none.md")])
    assert f"{tmp_path}/none.md: there is no such file" in capsys.readouterr().err
