"""The page of figures is that of the file of measurements."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from experiments.benchmarks.results import PAGE, page, read, record, text_of

DOCS = Path(__file__).parents[3] / "docs"
DATA = DOCS / "measurements.json"


def test_page_and_data_agree() -> None:
    assert (DOCS / PAGE).read_text(encoding="utf-8") == page(read(DATA))
    assert DATA.read_text(encoding="utf-8") == text_of(read(DATA))


def test_each_table_has_a_name_of_its_own_and_says_where_it_was_measured() -> None:
    tables = [table for part in read(DATA)["sections"] for table in part["tables"]]
    names = [table["name"] for table in tables]
    assert len(names) == len(set(names))
    for table in tables:
        assert table["measured"] and table["recorded"]
        assert {len(row) for row in table["rows"]} == {len(table["columns"])}, table["name"]


def test_a_table_is_replaced_and_the_page_written(tmp_path: Path) -> None:
    path = Path(shutil.copy(DATA, tmp_path / "measurements.json"))
    lines = ["A new processor.", "", "| network | alone |", "|---|---:|", "| mine | 1.5 |"]
    record(path, "neighbour", lines)
    text = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert "A new processor. Recorded " in text
    assert "| network | alone |\n|---|---:|\n| mine | 1.5 |\n" in text
    assert text.count("## ") == (DOCS / PAGE).read_text(encoding="utf-8").count("## ")
    with pytest.raises(SystemExit, match="there is no table 'neighbor'"):
        record(path, "neighbor", lines)
