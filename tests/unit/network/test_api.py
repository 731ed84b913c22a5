"""``print`` of an IR shows its text, a long one without its middle; ``print_ir`` shows all."""

from __future__ import annotations

import io
from typing import Any

import pytest

import glow_nb
from glow_nb.base.errors import OptionError
from glow_nb.base.text import SHOWN_LINES
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function
from glow_nb.hlir.module import Module
from glow_nb.network.files import parse_text
from glow_nb.network.ir_text import ir_text


def chain(length: int) -> Function:
    b = glow_nb.Builder("main")
    value: glow_nb.Value = b.input("x", "float32<2 x 3>")
    for _ in range(length):
        value = b.emit(ops.Tanh(value))
    b.save(value, "y")
    return b.function()


def levels(length: int) -> list[Any]:
    function = chain(length)
    net = glow_nb.compile(function, backend="interpreter", program_pipeline=("shrink_lifetimes",))
    return [function, Module((function,)), net.program]


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_short_text_is_shown_whole(level: int) -> None:
    ir = levels(5)[level]
    assert f"{ir}\n" == ir_text(ir)
    assert "\n" not in repr(ir)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_of_a_long_text_the_middle_is_left_out(level: int) -> None:
    ir = levels(100)[level]
    whole = ir_text(ir).splitlines()
    shown = str(ir).splitlines()
    half = SHOWN_LINES // 2
    assert (shown[:half], shown[half + 1 :]) == (whole[:half], whole[-half:])
    left_out = len(whole) - SHOWN_LINES
    assert f"... {left_out} lines are left out; glow_nb.print_ir shows all" in shown[half]
    assert "\n" not in repr(ir)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_print_ir_shows_everything(level: int, capsys: pytest.CaptureFixture[str]) -> None:
    ir = levels(100)[level]
    glow_nb.print_ir(ir)
    assert capsys.readouterr().out == ir_text(ir)
    stream = io.StringIO()
    glow_nb.print_ir(ir, file=stream)
    assert stream.getvalue() == ir_text(ir)


@pytest.mark.jit
def test_levels_of_a_network(capsys: pytest.CaptureFixture[str]) -> None:
    net = glow_nb.compile(chain(3), threads=1)
    texts = {}
    for level in ("hlir", "llir", "source", None):
        glow_nb.print_ir(net, level=level)
        texts[level] = capsys.readouterr().out
    assert net.function is not None
    assert texts["hlir"] == ir_text(net.function)
    assert texts["llir"] == texts[None] == ir_text(net.program)
    assert texts["source"].rstrip("\n") == net.source.rstrip("\n")
    assert ir_text(parse_text(texts["llir"])) == texts["llir"]


@pytest.mark.parametrize(
    ("ir", "level", "message"),
    [
        ("net", "source", "level='source': nothing was generated for <CompiledNetwork main"),
        ("net", "graph", "level='graph': give 'hlir', 'llir' or 'source'"),
        ("from program", "hlir", "level='hlir': .* was compiled from a program"),
        ("function", "hlir", "level='hlir': func @main.* is no network and has one level"),
        (3, None, "3 is no IR; give a Function"),
    ],
)
def test_what_has_no_text_is_refused(ir: object, level: str | None, message: str) -> None:
    net = glow_nb.compile(chain(1), backend="interpreter")
    known = {
        "net": net,
        "from program": glow_nb.compile(net.program, backend="interpreter"),
        "function": net.function,
    }
    with pytest.raises(OptionError, match=message):
        glow_nb.print_ir(known.get(ir, ir), level=level)  # type: ignore[arg-type, call-overload]
