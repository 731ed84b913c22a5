"""Dataclasses as plain data: the same come back, and what does not fit is refused by its place."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from glow_nb.base.errors import CompileError, GlowError
from glow_nb.base.plain_data import from_plain, to_plain
from glow_nb.base.types import ElementKind, TensorType


@dataclass(frozen=True)
class Leaf:
    type: TensorType
    factor: float | None = None


@dataclass(frozen=True)
class Tree:
    name: str
    is_tall: bool
    leaves: tuple[Leaf, ...] = ()
    pair: tuple[str, int] = ("", 0)
    sizes: dict[str, int] = field(default_factory=dict)


TREE = Tree(
    'a "name"\n',
    True,
    (
        Leaf(TensorType(ElementKind.FLOAT32, (2, 3))),
        Leaf(TensorType(ElementKind.INT8, (), 0.5, -1), float("inf")),
    ),
    ("n", 3),
    {"n": 3},
)


def changed(path: tuple[Any, ...], value: Any) -> Any:
    plain = json.loads(json.dumps(to_plain(TREE)))
    place = plain
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return plain


def test_there_and_back_through_json() -> None:
    assert from_plain(Tree, json.loads(json.dumps(to_plain(TREE)))) == TREE


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("name",), 3, "Tree.name: 3 stands where str should be"),
        (("name",), None, "Tree.name: None stands where str"),
        (("is_tall",), 1, "Tree.is_tall: 1 stands where bool"),
        (("leaves",), {}, "Tree.leaves: {} stands where tuple"),
        (("leaves", 1), [], r"Tree.leaves\[1\]: \[\] stands where Leaf"),
        (("leaves", 0, "factor"), True, r"Tree.leaves\[0\].factor: True stands where float"),
        (("leaves", 0, "factor"), -(10**309), r"Tree.leaves\[0\].factor: -10+ stands where float"),
        (("pair",), ["a"], r"Tree.pair: \['a'\] stands where tuple"),
        (("pair",), ["a", "b"], r"Tree.pair\[1\]: 'b' stands where int"),
        (("sizes",), [], r"Tree.sizes: \[\] stands where dict"),
        (("sizes", "n"), "b", r"Tree.sizes.n: 'b' stands where int"),
        (("leaves", 0, "type", "kind"), "float3", r"type.kind: 'float3' stands where ElementKind"),
        (("leaves", 0, "type", "kind"), ["int8"], r"type.kind: \['int8'\] stands where"),
        (("leaves", 0, "type", "shape", 1), True, r"type.shape\[1\]: True stands where int"),
        (("leaves", 0, "type", "shape", 1), 2.0, r"type.shape\[1\]: 2.0 stands where int"),
        (("leaves", 0, "besides"), 1, r"Tree.leaves\[0\]: it has \['besides', 'type'\]"),
        (("leaves", 0), {}, r"Tree.leaves\[0\]: it has \[\], a Leaf has"),
    ],
)
def test_what_does_not_fit(path: tuple[Any, ...], value: Any, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        from_plain(Tree, changed(path, value))


def test_defaults_are_left_out_and_numbers_may_be_whole() -> None:
    assert to_plain(Leaf(TREE.leaves[0].type))["type"]["shape"] == [2, 3]
    assert set(to_plain(Leaf(TREE.leaves[0].type))) == {"type"}
    leaf = from_plain(Leaf, changed(("leaves", 0, "factor"), 1)["leaves"][0])
    assert type(leaf.factor) is float


def test_what_the_dataclass_refuses() -> None:
    with pytest.raises(GlowError, match="a dimension is negative"):
        from_plain(Tree, changed(("leaves", 0, "type", "shape", 0), -1))
