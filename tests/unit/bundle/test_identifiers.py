"""Names of bundles and functions in C, and texts of a model as literals."""

from __future__ import annotations

import pytest

from glow_nb.base.errors import OptionError
from glow_nb.bundle.identifiers import c_string, checked_name, function_identifiers, identifier_of


@pytest.mark.parametrize(
    "name",
    [
        "",
        "1a",
        "_a",
        "a-b",
        "a b",
        "é",
        "a\n",
        "a" * 61,
        "string",
        "Math",
        "features",
        "m",
        "atomic",
        "pthread_mutex",
        None,
        3,
    ],
)
def test_a_name_that_c_does_not_take_is_refused(name: object) -> None:
    with pytest.raises(OptionError, match="name="):
        checked_name(name)


@pytest.mark.parametrize("name", ["a", "resnet50", "Net_2", "int", "a" * 60])
def test_an_identifier_is_taken_as_it_is(name: str) -> None:
    assert checked_name(name) == name


def test_one_function_is_called_run() -> None:
    assert function_identifiers("net", ["main*/"]) == ["run"]


def test_functions_get_names_that_differ_from_all_others() -> None:
    names = ["a b", "a/b", "A_B", "", "7", "initialize", "a_b_share", "é", "x" * 500, "pool_a_b"]
    found = function_identifiers("net", names)
    assert found[:2] == ["a_b", "a_b_2"]
    assert all(identifier_of(one) == one and len(one) <= 50 for one in found)
    endings = ("", "_share", "_inputs", "_phases")
    assert all(one.islower() for one in found)  # as no macro is
    every = [f"{one}{ending}" for one in found for ending in endings]
    every += [f"pool_{one}" for one in found]
    assert len(set(every)) == len(every)
    assert not {"initialize", "variant", "tensor"} & set(every)


def test_no_function_is_called_like_what_c_knows() -> None:
    assert function_identifiers("static", ["cast", "assert", "t"]) == ["cast_2", "assert_2", "t_2"]
    assert function_identifiers("READ", ["NPY", "it"]) == ["npy_2", "it"]  # in the example


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("data_0", '"data_0"'),
        ('a"b\\', '"a\\042b\\134"'),
        ("*/ x /*", '"\\052/ x /\\052"'),
        ("??/", '"\\077\\077/"'),
        ("é\n%d\0", '"\\303\\251\\012\\045d\\000"'),
        ("\ud800", '"\\355\\240\\200"'),
    ],
)
def test_any_text_is_a_literal_that_ends_neither_string_nor_comment(
    text: str, literal: str
) -> None:
    assert c_string(text) == literal
