"""The experiment that measures Strassen's algorithm."""

import pytest

from experiments.strassen import report, times_in_turn


def test_runs_take_turns() -> None:
    calls: list[str] = []
    times = times_in_turn([lambda: calls.append("a"), lambda: calls.append("b")], 2)
    assert calls == ["a", "b", "a", "b"]
    assert [len(found) for found in times] == [2, 2]


@pytest.mark.jit
def test_a_row_tells_times_errors_and_memory(capsys: pytest.CaptureFixture[str]) -> None:
    report("odd_decoder", threads=1, rounds=1)
    name, *cells = [cell.strip() for cell in capsys.readouterr().out.strip(" |\n").split("|")]
    assert name == "odd_decoder"
    assert len(cells) == 8
    assert all(float(cell) >= 0 for cell in cells)
    assert max(float(cell) for cell in cells[4:6]) < 1e-5
