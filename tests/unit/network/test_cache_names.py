"""Which output becomes which input, by names and patterns."""

from __future__ import annotations

import pytest

from glow_nb.base.errors import OptionError
from glow_nb.network.cache_names import as_caches, caches_of

INPUTS = ["ids", "past.0.key", "past.0.value", "past.10.key", "pastX0.key"]


def test_a_star_stands_for_the_same_on_both_sides() -> None:
    assert caches_of({"past.*": "present.*"}, INPUTS) == {
        "past.0.key": "present.0.key",
        "past.0.value": "present.0.value",
        "past.10.key": "present.10.key",
    }
    assert caches_of({"past.*.key": "k*"}, INPUTS) == {"past.0.key": "k0", "past.10.key": "k10"}
    assert caches_of({"past.*.*": "*/*"}, ["past.0.key"]) == {"past.0.key": "0/key"}
    assert caches_of({"any": "other"}, INPUTS) == {"any": "other"}


@pytest.mark.parametrize(
    ("caches", "message"),
    [
        ({"past_*": "present_*"}, "no input of the model fits; it has \\['ids'"),
        ({"past.*": "present.*", "past.0.key": "k"}, "'past.0.key' becomes both"),
        ({"past.0.key": "k", "past.10.key": "k"}, "several inputs become 'k'"),
    ],
)
def test_patterns_that_say_nothing_or_too_much_are_refused(
    caches: dict[str, str], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        caches_of(caches, INPUTS)


@pytest.mark.parametrize("caches", [["past"], "past", {"past": 1}, {1: "past"}, {"a.*": "b"}])
def test_what_is_no_dict_of_names_is_refused(caches: object) -> None:
    with pytest.raises(OptionError, match=r"caches="):
        as_caches(caches)
