"""Names of bundles and functions in C, and texts of a model as literals."""

from __future__ import annotations

import contextlib
import inspect
import re
import subprocess
from pathlib import Path

import pytest

from glow_nb.base.errors import OptionError
from glow_nb.bundle import header, texts
from glow_nb.bundle.identifiers import (
    TEMPLATES,
    c_string,
    checked_name,
    function_identifiers,
    identifier_of,
)
from tests.unit.bundle.bundles import needs_c


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
        "svc",  # svc_run of the C library
        None,
        3,
    ],
)
def test_a_name_that_c_does_not_take_is_refused(name: object) -> None:
    with pytest.raises(OptionError, match="name="):
        checked_name(name)


@pytest.mark.parametrize("name", ["a", "resnet50", "Net_2", "int", "share", "print", "a" * 60])
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
    assert function_identifiers("run", ["shared", "it"]) == ["shared_2", "it"]
    assert function_identifiers("net", ["weight_t", "last"]) == ["weight_t_2", "last"]


@pytest.mark.parametrize(
    ("bundle", "function"),
    [
        ("max", "align_t"),
        ("open", "memstream"),
        ("timespec", "get"),
        ("uint", "least8_t"),
        ("typeof", "unqual"),
        ("st", "atime"),  # a macro
        ("inet", "addr"),  # of the library alone
    ],
)
def test_no_function_is_called_like_what_headers_and_libraries_of_c_know(
    bundle: str, function: str
) -> None:
    assert function_identifiers(bundle, [function, "other"]) == [f"{function}_2", "other"]


@needs_c
@pytest.mark.slow
@pytest.mark.parametrize("language", ["c", "c++"])
def test_no_name_is_one_that_the_headers_here_declare(language: str) -> None:
    """Each of their words is cut into a bundle and a function, and the C name of that declared."""
    sources = [*TEMPLATES.glob("*.c"), Path(inspect.getfile(texts)), Path(inspect.getfile(header))]
    includes = {
        line
        for path in sources
        for line in re.findall("#include <.*?>", path.read_text(encoding="utf-8"))
        if language == "c" or "stdatomic" not in line
    }
    start = "\n".join(["#define _GNU_SOURCE", *sorted(includes), ""])
    known = c_compiler_on(start, "-E", "-dD", language=language)
    declared = set()
    for word in sorted(set(re.findall(r"\b[A-Za-z]\w*_\w+\b", known))):
        for cut in re.finditer("_", word):
            bundle, function = word[: cut.start()], word[cut.end() :]
            with contextlib.suppress(OptionError):
                found = function_identifiers(checked_name(bundle), [function, "other"])
                declared.add(f"struct own *{bundle}_{found[0]}(struct own *);\n")
    assert len(declared) > 300
    c_compiler_on(start + "".join(sorted(declared)), "-fsyntax-only", language=language)


def c_compiler_on(source: str, *options: str, language: str) -> str:
    command = ["cc", "-x", language, *options, "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


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
