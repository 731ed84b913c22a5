"""Tokens, literals, names and types read back as they were written."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.base.errors import ParseError
from glow_nb.base.literals import format_attributes, format_literal
from glow_nb.base.text import TokenReader, format_name
from glow_nb.base.types import QUANTIZED, ElementKind, TensorType

literals = st.recursive(
    st.one_of(
        st.integers(),
        st.booleans(),
        st.floats(allow_nan=False),
        st.text(),
        st.sampled_from(list(ElementKind)),
    ),
    lambda inner: st.lists(inner, max_size=4).map(tuple),
)
kinds = st.sampled_from(list(ElementKind))


@given(literals)
def test_literals_read_back(value: object) -> None:
    again = TokenReader(format_literal(value), "t").read_literal()
    assert again == value
    assert type(again) is type(value)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), literals))
def test_attributes_read_back(attributes: dict[str, object]) -> None:
    assert TokenReader(format_attributes(attributes), "t").read_attributes() == attributes


@given(st.text(min_size=1))
def test_any_name_reads_back(name: str) -> None:
    assert TokenReader(f"%{format_name(name)} = relu", "t").read_name() == name


@given(kinds, st.lists(st.integers(0, 20), max_size=5))
def test_types_read_back(kind: ElementKind, shape: list[int]) -> None:
    type = TensorType(kind, tuple(shape))
    assert TokenReader(str(type), "t").read_type() == type


@given(st.sampled_from(sorted(QUANTIZED, key=str)), st.floats(1e-30, 1e30), st.integers(0, 127))
def test_quantized_types_read_back(kind: ElementKind, scale: float, offset: int) -> None:
    type = TensorType(kind, (2, 3), scale, offset)
    read = TokenReader(str(type), "t").read_type()
    assert (str(read), read) == (str(type), type)
    assert np.float32(read.quantization[0]) == np.float32(scale)


def test_nan_is_spelled() -> None:
    assert math.isnan(TokenReader("nan", "t").read_literal())  # type: ignore[arg-type]
    assert TokenReader("-inf", "t").read_literal() == -math.inf


def test_an_error_shows_place_line_and_caret() -> None:
    with pytest.raises(ParseError) as error:
        reader = TokenReader("%a = relu(%x)\n%b = relu ! x", "net.glow")
        reader.expect("=")
    assert str(error.value) == (
        "net.glow:2:11: unexpected character '!'\n    %b = relu ! x\n              ^"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("floot<2>", "unknown element kind 'floot'"),
        ("float32<2 x >", "found .x. among the sizes"),
        ("float32<-2>", "a dimension is negative"),
        ("float32<1099511627776 x 4>", "bytes are more than"),
        ("int8<2, scale = 0.5>", "expected ',', found '>'"),
        ("float32", "expected the sizes, found the end of the text"),
    ],
)
def test_broken_types_are_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        TokenReader(text, "t").read_type()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("9" * 5000, "a number of 5000 digits; give at most 100"),
        ("[" * 5000, "lists in lists, more than 32 deep"),
    ],
)
def test_literals_without_end_are_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        TokenReader(text, "t").read_literal()


@given(st.text(alphabet='%@{}[]<>=,:#x0123.-"\\ \nabc/'))
def test_random_text_gives_tokens_or_a_parse_error(text: str) -> None:
    try:
        reader = TokenReader(text, "t")
        while reader.token.kind != "end":
            reader.advance()
    except ParseError as error:
        assert error.line >= 1 and error.column >= 1
