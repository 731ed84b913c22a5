"""Reports as JSON inside of a page."""

from __future__ import annotations

import json

import pytest

from glow_nb.base.errors import ModelError
from glow_nb.report.data import (
    Alternative,
    Call,
    Comparison,
    Compilation,
    Item,
    Match,
    Measurement,
    Part,
    PassRow,
    Report,
    Roof,
    Stage,
    Time,
)
from glow_nb.report.embedded import from_json, to_json
from glow_nb.report.page import page_of

WICKED = (
    "</script><!-- \"quoted\" 'name' & \u2028\u2029\u0000 \U0001f600 <img src=x onerror=alert(1)>"
)


def report(name: str = "fc") -> Report:
    item = Item(name, "mat_mul", "float32<2>", f"%{name} = mat_mul()", (0,), (0,))
    call = Call(
        0,
        0,
        "direct",
        1,
        2.5,
        0,
        10,
        12,
        4,
        8,
        8,
        (Alternative("direct", 7.0, True),),
        Time(1.0, 2.0),
    )
    run = Measurement(3, 1.0, 2.0, 0.5, "random numbers", Roof((("peak", 1e9),), (("L1", 1e10),)))
    part = Part(
        title=name,
        stages=(
            Stage("model", "Model", "It is.", (item,)),
            Stage("graph", "Graph", "", (), "gone"),
        ),
        calls=(call,),
        sources=(f"# {name}\n",),
        passes=(PassRow(name, "graph", 0.5, True, 1, 1, lines=(f"-{name}",)),),
        measurement=run,
    )
    compiled = Compilation(name, ((name, name),), (part,))
    comparison = Comparison({"model": (Match(0, -1), Match(0, 0, True))}, ((name, "", name),))
    return Report(name, "1.0", (compiled, compiled), comparison)


def test_a_report_is_read_as_it_was_written() -> None:
    for name in ("fc", WICKED):
        made = report(name)
        assert from_json(to_json(made), "here") == made


def test_no_letter_of_a_name_means_anything_in_html() -> None:
    text = to_json(report(WICKED))
    assert not set(text) & set("<>&\u2028\u2029")
    assert text.isascii()
    assert json.loads(text)["title"] == WICKED


def test_a_page_has_one_script_with_data_and_escapes_its_title() -> None:
    page = page_of(report(WICKED))
    data = page.split('<script type="application/json" id="report">')
    assert len(data) == 2
    assert from_json(data[1].split("</script>")[0], "page") == report(WICKED)
    assert "<img" not in page
    assert "alert(1)&gt;" in page


def test_a_page_asks_for_nothing_else() -> None:
    page = page_of(report())
    assert "default-src 'none'" in page
    for sign in ("http:", "https:", "src=", "@import", "url("):
        assert sign not in page.replace("http://www.w3.org/2000/svg", ""), sign


def of(compilation: str = "") -> str:
    """Return a report of one compilation, or of none, as JSON."""
    return f'{{"format": 1, "title": "", "version": "", "compilations": [{compilation}]}}'


ITEM = '{"name": "a", "kind": "b", "type": "", "text": "", "origins": [1]}'
STAGE = f'{{"key": "model", "title": "", "says": "", "items": [{ITEM}]}}'
RUN = '{"runs": 1, "minimum": NaN, "median": 1.0, "plain": 1.0, "inputs": ""}'
HUGE = RUN.replace("NaN", "1e999")


def part(fields: str) -> str:
    """Return a compilation of one program with other *fields* beside its title, as JSON."""
    return f'{{"title": "", "facts": [], "parts": [{{"title": "", {fields}}}]}}'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "holds no report"),
        ("{}", "holds no report"),
        ('{"format": 1}', "holds no report"),
        ('{"format": 1, "title": 3, "version": "", "compilations": []}', "holds no report"),
        ('{"format": 99}', "has the format 99"),
        ("{", "holds no report"),
        (of(), "holds no report: there is no program"),
        (of('{"title": "", "facts": [], "parts": []}'), "holds no report: there is no program"),
        (of('{"title": "", "facts": ["ab"], "parts": []}'), r"facts\[0\]: 'ab' stands where"),
        (of(part(f'"stages": [{STAGE}]')), "holds no report: there is no node 1 of 1"),
        (of(part(f'"stages": [], "measurement": {RUN}')), "NaN is no finite number"),
        (
            of(part(f'"stages": [], "measurement": {RUN.replace("NaN", "1e999")}')),
            "1e999 is no finite",
        ),
    ],
)
def test_other_data_is_one_clear_error(text: str, said: str) -> None:
    with pytest.raises(ModelError, match=f"old.html.*{said}"):
        from_json(text, "old.html")
