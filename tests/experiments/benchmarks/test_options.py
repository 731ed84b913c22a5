"""The experiment that measures options of the cpu backend."""

import pytest

from experiments.benchmarks.options import report
from experiments.benchmarks.timing import times_in_turn
from experiments.networks.transformers import Size, encoder


def test_runs_take_turns() -> None:
    calls: list[str] = []
    times = times_in_turn([lambda: calls.append("a"), lambda: calls.append("b")], 2)
    assert calls == ["a", "b", "a", "b"]
    assert [len(found) for found in times] == [2, 2]


@pytest.mark.jit
@pytest.mark.slow
def test_a_row_tells_times_errors_and_memory(capsys: pytest.CaptureFixture[str]) -> None:
    model = encoder("small", Size(layers=1, batch=1, tokens=64, heads=4, depth=128))
    report("small", model, "strassen", 1, 1)
    name, *cells = [cell.strip() for cell in capsys.readouterr().out.strip(" |\n").split("|")]
    assert name == "small"
    *times, error, other, memory, more = map(float, cells)
    assert min(times) > 0
    assert 0 < error < 1e-5
    assert 0 < other < 1e-5
    assert memory < more < 1.75 * memory
