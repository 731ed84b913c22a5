"""Docstrings and tables as Markdown."""

from __future__ import annotations

from website.markdown import description, items_of, summary, table


def documented() -> None:
    """Do what :func:`load` does,
    and ``more``.

    ====  ==========
    sign  means
    ====  ==========
    ``a`` first, and
          so on
    b     second
    ====  ==========

    So::

        a + b

    Operands:
        c: First
            of all.
        d: Second.

    Results: one.

    Args:
        x: A number
            that is long.
        y: Another.
    """


def test_a_docstring_becomes_markdown() -> None:
    assert summary(documented) == "Do what `load` does, and `more`."
    assert description(documented) == (
        "Do what `load` does,\nand `more`.\n\n"
        "| sign | means |\n| --- | --- |\n| `a` | first, and so on |\n| b | second |\n\n"
        "So:\n\n```python\na + b\n```\n\n"
        "Operands:\n\n- `c`: First\n    of all.\n- `d`: Second.\n\nResults: one."
    )


def test_items_of_a_section() -> None:
    assert items_of(documented, "Args") == {"x": "A number that is long.", "y": "Another."}
    assert items_of(documented, "Raises") == {}


def test_bars_part_cells_unless_they_are_code() -> None:
    assert table(["a|b"], [["`c|d`"]]) == "| a\\|b |\n| --- |\n| `c|d` |\n"
