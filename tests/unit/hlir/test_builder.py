"""Building by hand: names that are the caller's, nodes without one, what is forgotten."""

from __future__ import annotations

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import GlowError, ParseError, VerifyError
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Placeholder, Value
from glow_nb.hlir.print import print_function
from glow_nb.hlir.save import Save
from glow_nb.hlir.verify import verify

VECTOR = TensorType(ElementKind.FLOAT32, (3,))


@pytest.mark.parametrize("backend", ["interpreter", pytest.param("cpu", marks=pytest.mark.jit)])
def test_a_value_may_be_two_outputs(backend: str) -> None:
    b = Builder()
    relu = b.emit(ops.Relu(b.input("x", VECTOR)))
    b.save(relu, "one")
    b.save(relu, "two")
    found = glow_nb.compile(b.function(), backend=backend)(np.array([-1, 0, 2], np.float32))
    assert {name: array.tolist() for name, array in found.items()} == {
        "one": [0, 0, 2],
        "two": [0, 0, 2],
    }


@pytest.mark.parametrize(("name", "role"), [("y", "output"), ("x", "input")])
def test_an_output_of_a_known_name_is_refused(name: str, role: str) -> None:
    b = Builder()
    relu = b.emit(ops.Relu(b.input("x", VECTOR)))
    b.save(relu, "y")
    with pytest.raises(GlowError, match=f"output '{name}' of .*: there is an {role} of this name"):
        b.save(relu, name)


def test_a_node_without_a_name_is_shown_by_operator_and_number() -> None:
    x = Placeholder("x", VECTOR)
    first, second = ops.Relu(x), ops.Relu(x)
    shown = repr(first)
    assert shown.startswith("relu %relu.")
    assert shown == repr(first) != repr(second)
    with pytest.raises(VerifyError, match=r"concat %concat\.\d+: "):
        ops.Concat((first, Placeholder("other", TensorType(ElementKind.BOOL, (3,)))), axis=0)


def test_a_function_whose_nodes_have_no_names_shows_them_apart() -> None:
    x, y = Placeholder("x", VECTOR), Placeholder("y", VECTOR)
    first = ops.Relu(x)
    second = ops.Tanh(first)
    function = Function("main", (x,), (y,), (first, second, Save(second, y)))
    text = print_function(function)
    assert '""' not in text
    assert f"{repr(second).split()[1]} = tanh({repr(first).split()[1]})" in text
    with pytest.raises(VerifyError, match=r"tanh %tanh\.\d+: it has no name; a Builder"):
        verify(function)


def test_after_a_reset_nodes_and_names_are_as_before() -> None:
    b = Builder()
    x = b.input("x", "float32<4>")
    first = b.emit(ops.Relu(x), "y")
    mark = b.mark()
    for _ in range(3):
        b.emit(ops.Exp(first), "y")
    b.constant("weights", first.type.kind.dtype.type(1))
    b.reset(mark)
    assert b.nodes == [first]
    assert [b.unique_name(name) for name in ("y", "y", "weights")] == ["y_1", "y_2", "weights"]


def test_after_a_reset_a_number_does_not_keep_a_name_that_is_free_again() -> None:
    builder, type = Builder(), TensorType(ElementKind.FLOAT32, (2,))
    before, mark = builder.number(type, 0.0), builder.mark()
    builder.number(type, 2.0)
    builder.reset(mark)
    other = builder.constant("number_1", np.zeros(1))
    assert builder.number(type, 2.0).name != other.name
    assert builder.number(type, 0.0) is before
    assert np.signbit(builder.number(type, -0.0).array).all()


def test_a_constant_keeps_its_numbers() -> None:
    """A caller may use one array for several constants."""
    b, buffer = Builder(), np.zeros(3, np.float32)
    y: Value = b.input("x", VECTOR)
    for number in (1, 2, 3):
        buffer[:] = number
        y = b.emit(ops.Add(y, b.constant(f"c{number}", buffer)))
    b.save(y, "y")
    buffer[:] = 50
    found = glow_nb.evaluate(b.function(), {"x": np.zeros(3, np.float32)})
    assert found["y"].tolist() == [6, 6, 6]


def test_a_state_begins_as_its_array_was() -> None:
    buffer = np.zeros(3, np.float32)
    state = Builder().state("count", buffer)
    buffer[:] = 50
    assert state.array.tolist() == [0, 0, 0]


def test_text_behind_a_type_is_refused() -> None:
    with pytest.raises(ParseError, match="expected the end of the text, found 'and'"):
        Builder().input("x", "float32<4> and more")
