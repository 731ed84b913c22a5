"""Functions with open sizes: text, the static function of given sizes, and what is refused."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable

import numpy as np
import pytest

from glow_nb.base.errors import FeedError, GlowError, OptionError, ParseError, VerifyError
from glow_nb.base.size import Symbol, same
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, State
from glow_nb.hlir.parse import parse_function
from glow_nb.hlir.print import print_function
from glow_nb.hlir.verify import verify
from glow_nb.hlir.with_sizes import with_sizes

HEAD = """\
func @main<batch in 1..64 like 8, length in 1..512 like 128>(%x : float32<batch x length x 3>,\
 %y : float32<length>) -> (%z : float32<batch*length x 3>) {
"""
BODY = """\
  %some = slice(%y) {starts = [1], stops = [length], steps = [2]} : float32<length/2>
  %flat = reshape(%x) {shape = [batch*length, 3]} : float32<batch*length x 3>
  %z_save = save(%flat, %z)
}
"""


def _function() -> Function:
    return parse_function(HEAD + BODY)


def test_a_function_with_open_sizes_reads_back_from_its_text() -> None:
    assert print_function(_function()) == HEAD + BODY
    assert [symbol.declaration for symbol in _function().sizes] == [
        "batch in 1..64 like 8",
        "length in 1..512 like 128",
    ]


def test_ranges_and_hints_need_not_be_written() -> None:
    text = HEAD.replace("batch in 1..64 like 8, length in 1..512 like 128", "batch, length")
    declared = [symbol.declaration for symbol in parse_function(text + BODY).sizes]
    assert declared == ["batch in 1..2147483647 like 32", "length in 1..2147483647 like 64"]


def test_the_static_function_has_no_size_left() -> None:
    static = with_sizes(_function(), {"batch": 2, "length": 5})
    assert not static.sizes
    text = print_function(static)
    assert "%some = slice(%y) {starts = [1], stops = [5], steps = [2]} : float32<2>" in text
    assert "%flat = reshape(%x) {shape = [10, 3]} : float32<10 x 3>" in text


def test_evaluate_takes_the_sizes_of_the_feeds() -> None:
    x = np.arange(30, dtype=np.float32).reshape(2, 5, 3)
    found = evaluate(_function(), {"x": x, "y": np.zeros(5, np.float32)})
    assert np.array_equal(found["z"], x.reshape(10, 3))


def _fed(x: tuple[int, ...], y: tuple[int, ...]) -> Callable[[Function], object]:
    feeds = {"x": np.zeros(x, np.float32), "y": np.zeros(y, np.float32)}
    return lambda function: evaluate(function, feeds)


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (
            _fed((2, 5, 3), (6,)),
            FeedError,
            "axis 1 of input 'x' says 5, axis 0 of input 'y' says 6",
        ),
        (_fed((65, 5, 3), (5,)), FeedError, "says 65, which is outside its range 1..64"),
        (_fed((2, 5, 4), (5,)), FeedError, "shape is [2, 5, 4], the network takes [2, 5, 3]"),
        (_fed((2, 5), (5,)), FeedError, "shape is [2, 5], the network takes [2, 5, 3]"),
        (lambda f: with_sizes(f, {"batch": 2}), OptionError, "size 'length' is not given"),
        (lambda f: with_sizes(f, {"bach": 2}), OptionError, "did you mean 'batch'?"),
        (
            lambda f: with_sizes(f, {"batch": 0, "length": 1}),
            OptionError,
            "size 'batch': 0 is outside its range 1..64",
        ),
    ],
)
def test_sizes_that_do_not_fit_are_refused(
    use: Callable[[Function], object], error: type[GlowError], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        use(_function())


def test_sizes_outside_of_a_guard_are_refused() -> None:
    narrow = parse_function(
        "func @main<n like 8>(%x : float32<n>) -> (%y : float32<4>) {\n"
        "  %some = slice(%x) {starts = [0], stops = [4], steps = [1]} : float32<4>\n"
        "  %y_save = save(%some, %y)\n}\n"
    )
    assert [str(guard) for guard in narrow.guards] == ["n >= 4"]
    assert with_sizes(narrow, {"n": 4}).outputs[0].type.shape == (4,)
    with pytest.raises(OptionError, match="made for sizes where n >= 4, and not for n = 3"):
        with_sizes(narrow, {"n": 3})


def _guarded() -> Function:
    """Return a function that was made otherwise for less than 10 elements."""
    size, other = Symbol("n", 32).size, Symbol("m", 64).size
    builder = Builder("main")
    x = builder.input("x", TensorType(ElementKind.FLOAT32, (size + other,)))
    y = builder.input("y", TensorType(ElementKind.FLOAT32, (size, other)))
    stop = 3 if size < 10 or same(size + other, 99) or other - size < 5 else 2
    builder.save(builder.emit(ops.Slice(x, (0,), (stop,), (1,))), "z")
    builder.save(y, "w")
    return builder.function()


def test_guards_stand_in_the_text_and_read_back() -> None:
    text = print_function(_guarded())
    assert "like 32 where m + n != 99, m - n >= 5, n >= 10>(" in text
    read = parse_function(text)
    assert print_function(read) == text
    assert read.guards == _guarded().guards
    with pytest.raises(OptionError, match="made for sizes where n >= 10, and not for"):
        with_sizes(read, {"n": 4, "m": 64})


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda f: pickle.loads(pickle.dumps(f))])
def test_a_function_with_guards_is_copied(copied: Callable[[Function], Function]) -> None:
    function = _guarded()
    assert print_function(copied(function)) == print_function(function)


@pytest.mark.parametrize(
    ("guards", "message"),
    [
        ("n >= 33", "it is not so for the sizes of the example"),
        ("n >= m", "unknown size 'm'"),
        ("n", "expected a size, found '%x'"),
        ("n = 3", "expected one of < <= > >= == !=, found '='"),
        ("n > 3 m", "expected '>', found 'm'"),
        ("", "expected a size"),
    ],
)
def test_a_wrong_guard_is_refused(guards: str, message: str) -> None:
    body = "(%x : float32<n>) -> (%y : float32<n>) { %s = save(%x, %y) }"
    with pytest.raises(ParseError, match=re.escape(message)):
        parse_function(f"func @f<n where {guards}>{body}")


def test_a_guard_about_sizes_of_another_function_is_none_of_this_one() -> None:
    size, other = Symbol("n", 32).size, Symbol("m", 64).size
    builder = Builder("main")
    builder.save(builder.input("x", TensorType(ElementKind.FLOAT32, (size,))), "y")
    assert size < other
    assert not builder.function().guards


@pytest.mark.parametrize("name", ["in", "like", "where", "func", "save", "plan", "constant"])
def test_other_words_of_the_text_may_be_sizes(name: str) -> None:
    text = f"func @f<{name} in 1..9 like 8, m>(%x : float32<{name} x m>) -> (%y : float32<{name}>)"
    text += f" {{ %z = reduce_sum(%x) {{axes = [1], keep_dims = false}} : float32<{name}>"
    function = parse_function(text + " %y_save = save(%z, %y) }")
    assert function.inputs[0].type.shape[0] > 4
    assert print_function(parse_function(print_function(function))) == print_function(function)


def test_two_sizes_of_one_name_are_refused() -> None:
    builder = Builder("main")
    shape = (Symbol("n", 32).size, Symbol("n", 64).size)
    builder.save(builder.input("x", TensorType(ElementKind.FLOAT32, shape)), "y")
    with pytest.raises(VerifyError, match="two sizes have one name: n in .* like 32 and n in"):
        verify(builder.function())


def test_a_state_has_fixed_sizes() -> None:
    builder = Builder("main")
    type = TensorType(ElementKind.FLOAT32, (Symbol("n", 32).size,))
    builder.save(builder.input("x", type), "y")
    builder.update(State("s", type), builder.input("z", type))
    with pytest.raises(VerifyError, match="the sizes of a state are fixed"):
        verify(builder.function())


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("<n in 5..3>", "the range 5..3 holds no size"),
        ("<n in 1..3 like 4>", "4 is outside its range 1..3"),
        ("<n, n>", "size 'n' is declared twice"),
        ("<scale>", "another meaning in the text of a graph; call it scale_size"),
        ("", "unknown size 'n'"),
        ("<m>", "unknown size 'n'"),
    ],
)
def test_a_wrong_declaration_of_sizes_is_refused(header: str, message: str) -> None:
    text = f"func @main{header}(%x : float32<n>) -> (%y : float32<n>) {{ %s = save(%x, %y) }}"
    with pytest.raises(ParseError, match=re.escape(message)):
        parse_function(text)


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ("n/0", "divided by 0"),
        ("n/(n - 1)", "may be 0 or less"),
        ("(" * 99, "more than 32 deep"),
        ("*".join(["(n + 1)"] * 300), "more than 256 terms and factors"),
        (" + ".join(["n*n/3/(n + 1)"] * 2 + [f"n/{k}" for k in range(2, 150)]), "more than 256"),
        ("*".join(["9" * 99] * 60), "more than 99 digits"),
        ("n" + "*" + "*n*".join(["9" * 99] * 2), "more than 99 digits"),
    ],
)
def test_a_wrong_size_is_refused(size: str, message: str) -> None:
    text = f"func @main<n>(%x : float32<{size}>) -> (%y : float32<n>) {{ %s = save(%x, %y) }}"
    with pytest.raises(ParseError, match=re.escape(message)):
        parse_function(text)
