"""The grammar of the reference is that of the parsers: it takes what they take, and little else."""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path

import pytest

import glow_nb.backends.cpu.unsigned_activations
import glow_nb.kernels.operators
import glow_nb.llir.instructions  # noqa: F401  (all register words of the language)
from glow_nb.base.errors import GlowError
from glow_nb.base.tokens import Token, tokenize
from glow_nb.base.types import ElementKind
from glow_nb.hlir.parse import parse_module
from glow_nb.llir.parse import parse_program
from tests.website.ebnf import Grammar
from website.grammar import SHOWN, token_kinds
from website.links import ROOT

PAGE = ROOT / "docs" / "reference" / "grammar.md"
CASES = [
    path
    for name in ("hlir", "llir")
    for path in sorted((ROOT / "tests" / "golden" / name).iterdir())
]
MUTANTS = 5
"""Texts with one change that are made of each case."""


@cache
def grammar() -> Grammar:
    blocks = re.findall(r"^```ebnf\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return Grammar("\n".join(blocks))


def parse(text: str) -> str:
    """Parse *text*, a graph or a program; return the name of the rule that it follows."""
    if "declare" in [token.text for token in tokenize(text, "text")[:1]]:
        parse_program(text)
        return "program"
    parse_module(text)
    return "module"


def level_of(text: str) -> str:
    return "program" if tokenize(text, "text")[0].text == "declare" else "module"


def test_each_rule_is_there_and_used() -> None:
    assert grammar().used | {"module", "program"} == set(grammar().rules)


def test_the_kinds_are_those_of_the_package() -> None:
    rule = re.search(r"^kind +=(.*?);", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert rule is not None
    assert re.findall(r'"(\w+)"', rule[1]) == [kind.value for kind in ElementKind]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_it_takes_what_the_parsers_take(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert grammar().accepts(parse(text), text)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_what_it_refuses_the_parsers_refuse(path: Path) -> None:
    tokens = tokenize(path.read_text(encoding="utf-8"), "text")[:-1]
    rng = random.Random(path.stem)
    for _ in range(MUTANTS):
        changed = mutant(tokens, rng)
        if grammar().accepts(level_of(changed), changed):
            continue
        with pytest.raises(GlowError):
            parse(changed)


def mutant(tokens: list[Token], rng: random.Random) -> str:
    """Return the text of *tokens* with one of them left out, doubled or exchanged."""
    words = [token.text for token in tokens]
    place = rng.randrange(len(words))
    words[place : place + 1] = rng.choice(([], [words[place]] * 2, [rng.choice(words)]))
    return " ".join(words)


@pytest.mark.parametrize(
    "line",
    [
        "%y = relu(%x : float32<4>",
        "%y = relu(%x) {} {} : float32<4>",
        "%y = relu(%x) : float32<4> if %mask",
        "%y = relu(%x) : float32<4",
        "%y = relu(%x) : tensor<4>",
        "%y = relu(%x) {alpha = } : float32<4>",
        "%y : float32<4> = relu(%x)",
        "y = relu(%x) : float32<4>",
        "%y = relu(%x#first) : float32<4>",
        "%y = relu(%x) plan {} : float32<4>",
        "%y = relu(%x) : float32<4> from relu",
    ],
)
def test_it_refuses_what_is_written_wrongly(line: str) -> None:
    assert not grammar().accepts("node", line)


@pytest.mark.parametrize(
    "line",
    [
        '%y = pool(%x) {kind = "avg", sizes = [2, [3, -1.5]]} if %mask plan direct : float32<4>',
        '%"any name" = top_k(%x#1, none, [%a, %b,]) : float32<2 x n>, int64<2 x (2*n - 1)/3>',
    ],
)
def test_it_takes_all_that_a_node_may_have(line: str) -> None:
    assert grammar().accepts("node", line)


def test_each_kind_of_token_is_shown() -> None:
    assert set(token_kinds()) == set(SHOWN)
    for kind, shown in SHOWN.items():
        for text in re.findall(r"`([^`]+)`", shown):
            expression = token_kinds()[kind]
            assert re.fullmatch(expression, text), (kind, text)
