"""The key of a network: functions count by where they stand, their source, and what they hold."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from glow_nb.base import extensions
from glow_nb.compiler.driver import run_to
from glow_nb.extend import Rewrite, Rules, any_of, named, number, used_here, wildcards
from glow_nb.hlir.ops import Abs, Add, Neg, Split, Swish
from glow_nb.network.saved import key
from glow_nb.network.saved.key import NoKey, network_key, spelled
from glow_nb.network.saved.variables import is_callers

SOURCE = """
def make(number, other=3):
    def own_pass(function, option=other):
        return function if number else None
    return own_pass

def decorated(function):
    @functools.wraps(function)
    def wrapper(graph):
        return function(graph)
    return wrapper

def empty():
    def own_pass(function):
        return later
    spelled(own_pass)
    later = 1

def recursive():
    def own_pass(function):
        return own_pass(function)
    return own_pass

LIMIT, NUMBERS, THING = 1, {"a": [1, 2]}, object()

class Settings:
    limit = 1

    @staticmethod
    def number():
        return NUMBERS

def helper():
    return LIMIT

def counting(function):
    return counting(function) if helper() else None

def by_class(function):
    return Settings.limit, Settings.number()

def by_module(function):
    return os.path.join(own_settings.limit)

def by_thing(function):
    return THING, LIMIT

def alone(function: Optional[int]):
    def rule(node: Optional[int]) -> None:
        return len(np.exp(node))
    return rule

two = (lambda function: function, lambda function: None)

@decorated
def guarded(function):
    return LIMIT
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "own_functions.py").write_text(
        "import functools\nimport os\nfrom typing import Optional\nimport numpy as np\n"
        f"import own_settings\nfrom glow_nb.network.saved.key import spelled\n{SOURCE}"
    )
    (tmp_path / "own_settings.py").write_text("limit = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return importlib.import_module("own_functions")


def of_the_package(option: object) -> Callable[..., object]:
    """Return a function that is made inside another one of the package."""
    text = "def outer(held):\n    def inner(function):\n        return held\n    return inner\n"
    names: dict[str, Callable[[object], Callable[..., object]]] = {}
    exec(compile(text, run_to.__code__.co_filename, "exec"), {"__name__": run_to.__module__}, names)
    inner = names["outer"](option)
    inner.__module__ = run_to.__module__
    return inner


def test_a_function_of_the_package_counts_by_what_it_holds() -> None:
    assert spelled(of_the_package(1)) == spelled(of_the_package(1))
    assert spelled(of_the_package(1)) != spelled(of_the_package(2))
    assert spelled(of_the_package(run_to)) != spelled(of_the_package(np.ones(2)))
    with pytest.raises(NoKey, match="object is no value that could be compared"):
        spelled(of_the_package(object()))


def test_a_function_of_the_caller_counts_by_its_source_and_what_it_holds(own: ModuleType) -> None:
    assert spelled(own.make(1)) == spelled(own.make(1))
    assert len({spelled(own.make(*held)) for held in [(1,), (2,), (1, 4), ([1, 2],)]}) == 4
    assert spelled(own.make) != spelled(own.make(1))
    assert spelled(own.decorated(own.make)) != spelled(own.make)
    assert spelled(own.decorated(own.make)) != spelled(own.decorated(own.empty))
    assert spelled(functools.partial(own.make(1), option=1)) != spelled(own.make(1))


def test_rules_count_by_their_patterns_and_functions(own: ModuleType) -> None:
    x, y = wildcards("x y")
    shared = Neg(x)
    rules = [
        Rewrite(Abs(Neg(x)), Abs(x)),
        Rewrite(Abs(Neg(y)), Abs(y)),
        Rewrite(Abs(used_here(Neg(x))), Abs(x)),
        Rewrite(Abs(named("y", Neg(x))), Abs(x)),
        Rewrite(Abs(any_of(Neg, input=x)), Abs(x)),
        Rewrite(Add(Neg(x), Neg(x)), Abs(x)),
        Rewrite(Add(shared, shared), Abs(x)),
        Rewrite(Add(x, number(1)), Abs(x)),
        Rewrite(Swish(x, alpha=0.5), Abs(x)),
        Rewrite(Split(x, 0, (1, 2)), lambda: None, name="made"),
    ]
    texts = [spelled(each) for each in rules[:-1]]
    assert len(set(texts)) == len(texts)
    assert spelled(Rewrite(Abs(Neg(x)), Abs(x))) == texts[0]
    with pytest.raises(NoKey, match="has no name of its own"):
        spelled(Rules("all", *rules))


def test_functions_that_cannot_be_told_apart_have_no_key(own: ModuleType) -> None:
    with pytest.raises(NoKey, match="has no name of its own"):
        spelled(own.two[0])
    with pytest.raises(NoKey, match="holds a variable without a value"):
        own.empty()
    with pytest.raises(RecursionError):
        spelled(own.recursive())
    with pytest.raises(NoKey, match="is no value that could be compared"):
        spelled(own.make(object()))
    names: dict[str, object] = {"__name__": own.__name__}
    exec("def typed(function): return function", names)
    with pytest.raises(NoKey, match="has no source file"):
        spelled(names["typed"])


def test_what_a_pass_holds_is_part_of_the_key(own: ModuleType) -> None:
    keys = {network_key("model", {"pipeline": (own.make(held),)}) for held in (1, 2, 1)}
    assert len(keys) == 2


@pytest.mark.parametrize(
    ("reader", "place", "variable"),
    [
        ("counting", "", "LIMIT"),
        ("by_class", "Settings", "limit"),
        ("by_class", "", "NUMBERS"),
        ("by_module", "own_settings", "limit"),
    ],
)
def test_the_variables_that_a_pass_reads_are_part_of_the_key(
    own: ModuleType, monkeypatch: pytest.MonkeyPatch, reader: str, place: str, variable: str
) -> None:
    owner = getattr(own, place) if place else own
    before, others = spelled(getattr(own, reader)), spelled(own.alone)
    assert spelled(getattr(own, reader)) == before
    monkeypatch.setattr(owner, variable, 5)
    assert spelled(getattr(own, reader)) != before
    assert spelled(own.alone) == others


@pytest.fixture
def extend(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], None]:
    """Return what registers something, which is forgotten after the test."""
    modules: dict[str, object] = {}
    for place in (extensions, key):
        monkeypatch.setattr(place, "EXTENDING_MODULES", modules)
    return extensions.note_extension


@pytest.mark.parametrize("reader", ["counting", "by_thing", "Settings", "guarded"])
def test_what_registered_functions_read_is_part_of_the_key(
    own: ModuleType,
    extend: Callable[[object], None],
    monkeypatch: pytest.MonkeyPatch,
    reader: str,
) -> None:
    extend(getattr(own, reader))
    before = network_key("model", {})
    assert network_key("model", {}) == before
    monkeypatch.setattr(own, "NUMBERS" if reader == "Settings" else "LIMIT", 5)
    assert network_key("model", {}) != before


def test_what_registered_functions_hold_is_part_of_the_key(
    own: ModuleType, extend: Callable[[object], None]
) -> None:
    keys = []
    for held in (1, 2):
        function = own.make(held)
        extend(function)
        keys.append(network_key("model", {}))
        del function  # which nothing else refers to: it is replaced by the next one
    assert len(set(keys)) == 2
    extend(own.make(object()))
    network_key("model", {})


def test_a_pass_that_reads_an_object_has_no_key(own: ModuleType) -> None:
    with pytest.raises(NoKey, match="object is no value that could be compared"):
        spelled(own.by_thing)


def test_the_place_of_a_module_is_looked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {str(tmp_path / "own.py"): True, np.__file__: False}
    for _ in range(2):
        assert {place: is_callers(place) for place in places} == places
        monkeypatch.delattr(Path, "resolve", raising=False)
