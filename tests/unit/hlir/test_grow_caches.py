"""Caches become one memory each: which outputs are taken for grown inputs, and which are not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from glow_nb.base.errors import OptionError
from glow_nb.base.size import MAX_SIZE, Symbol
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.grow_caches import grow_caches
from glow_nb.llir.generate import generate
from glow_nb.llir.program import mutated

CACHES = {"past": "present"}


def step(
    present: Callable[[Builder, Value, Value], Value] | None = None, high: int = 7
) -> Function:
    """Return a function that appends ``new`` to ``past``, and softmaxes both."""
    past = Symbol("past", 3, 0, high).size
    builder = Builder("step")
    old = builder.input("past", TensorType(ElementKind.FLOAT32, (2, past, 4)))
    new = builder.input("new", "float32<2 x 1 x 4>")
    both = builder.emit(ops.Concat((old, new), axis=1), name="all")
    builder.save(builder.emit(ops.Softmax(both, axis=2), name="weights"), "y")
    builder.save(present(builder, old, new) if present else both, "present")
    return builder.function()


def test_a_cache_is_written_where_it_lies() -> None:
    found, (cache,) = grow_caches(step(), CACHES)
    assert (cache.name, cache.axis, str(cache.total)) == ("past", 1, "past + 1")
    text = str(found)
    assert "%past : float32<2 x 8 x 4>" in text
    assert "%past_size : bool<past x 0>" in text
    assert "%past_next = insert_slice(%past, %new) {axis = 1, start = past}" in text
    assert "softmax(%slice)" in text
    assert "concat" not in text
    assert "save(%past_next, %past)" in text
    program = generate(found)
    written = {b.name: b.type for i in program.work for b in mutated(i) if b.root.name == "past"}
    assert {name: str(type) for name, type in written.items()} == {
        "past_next_part": "float32<2 x 1 x 4>"
    }


def test_the_function_means_what_it_meant() -> None:
    function = step()
    found, _ = grow_caches(function, CACHES)
    rng = np.random.default_rng(0)
    for past in (0, 3, 7):
        rows = rng.standard_normal((2, past, 4)).astype(np.float32)
        new = rng.standard_normal((2, 1, 4)).astype(np.float32)
        room = np.full((2, 8, 4), np.nan, np.float32)
        room[:, :past] = rows
        wanted = evaluate(function, {"past": rows, "new": new})
        feeds = {"past": room, "new": new, "past_size": np.zeros((past, 0), np.bool_)}
        grown = evaluate(found, feeds)
        np.testing.assert_array_equal(grown["y"], wanted["y"])
        np.testing.assert_array_equal(grown["past"][:, : past + 1], wanted["present"])


def test_a_room_is_as_large_as_the_ranges_say() -> None:
    _, (cache,) = grow_caches(step(high=1023), CACHES)
    assert str(cache.type) == "float32<2 x 1024 x 4>"


def test_no_caches_change_nothing() -> None:
    function = step()
    assert grow_caches(function, {}) == (function, ())


def _behind(builder: Builder, old: Value, new: Value) -> Value:
    return builder.emit(ops.Concat((new, old), axis=1), name="other")


def _changed(builder: Builder, old: Value, new: Value) -> Value:
    twice = builder.emit(ops.Add(old, old), name="twice")
    return builder.emit(ops.Concat((twice, new), axis=1))


def _padded(builder: Builder, old: Value, new: Value) -> Value:
    return builder.emit(ops.Pad(old, (0, 0, 0, 0, 1, 0)), name="padded")


@pytest.mark.parametrize(
    ("present", "message"),
    [
        (_behind, "whose first rows are %new : float32<2 x 1 x 4>, not the input as it is"),
        (_changed, r"whose first rows are add %twice of %past"),
        (_padded, "computed by pad %padded of .* where no concat along this axis is found"),
        (lambda b, old, new: old, "is the same along all others"),
        (
            lambda b, old, new: b.emit(ops.ConvertTo(_behind(b, old, new), ElementKind.FLOAT16)),
            "the input is float32.*the output float16",
        ),
    ],
)
def test_other_outputs_are_refused_with_what_they_are(
    present: Callable[[Builder, Value, Value], Value], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        grow_caches(step(present), CACHES)


@pytest.mark.parametrize(
    ("caches", "message"),
    [
        ({"passed": "present"}, "no input 'passed'; did you mean 'past'"),
        ({"past": "presents"}, "no output 'presents'; did you mean 'present'"),
        ({"new": "y"}, "axis 1 of the input, which is to grow, is 1 of float32<2 x 1 x 4>"),
    ],
)
def test_names_and_types_must_fit(caches: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        grow_caches(step(), caches)


def test_caches_grow_alike() -> None:
    past = Symbol("past", 3, 0, 7).size
    builder = Builder("step")
    for name, count in (("one", 1), ("two", 2)):
        old = builder.input(name, TensorType(ElementKind.FLOAT32, (past, 4)))
        new = builder.input(f"{name}_new", f"float32<{count} x 4>")
        builder.save(builder.emit(ops.Concat((old, new), axis=0)), f"{name}_all")
    with pytest.raises(OptionError, match=r"past \+ 1 rows long, %two .* past \+ 2"):
        grow_caches(builder.function(), {"one": "one_all", "two": "two_all"})


def test_a_range_must_have_an_end() -> None:
    with pytest.raises(OptionError, match=r"sizes=\{'past': \(0, 1024\)\}"):
        grow_caches(step(high=MAX_SIZE), CACHES)
