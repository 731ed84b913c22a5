"""The border to code of users: what it raises becomes one error of ours that names it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

import glow_nb
from glow_nb.backends.backend import Executable
from glow_nb.backends.interpreter import InterpretedProgram
from glow_nb.base.errors import CompileError, FeedError, GlowError, MemoryLimitError, PassError
from glow_nb.base.foreign import foreign
from glow_nb.base.steps import Entries
from glow_nb.base.types import Array
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Node, define_node
from glow_nb.hlir.lower import lower
from glow_nb.hlir.ops import FullyConnected, Relu
from glow_nb.hlir.ops.families import UnaryElementwise
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import LOWERINGS
from glow_nb.llir.program import Program


def test_one_border_serves_many_statements() -> None:
    border = foreign(FeedError, "input 'x'")
    for text in ("first", "second"):
        with pytest.raises(FeedError, match=f"input 'x': ValueError: {text}") as caught, border:
            raise ValueError(text)
        assert isinstance(caught.value.__cause__, ValueError)
    with border:
        pass


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_goes_through(kind: type[BaseException]) -> None:
    with pytest.raises(kind), foreign(GlowError, "it", ours=True):
        raise kind


def test_errors_of_ours_stay_unless_asked_for() -> None:
    with pytest.raises(PassError, match="^as it is$"), foreign(GlowError, "it"):
        raise PassError("as it is")
    with pytest.raises(GlowError, match="^it: as it is$"), foreign(GlowError, "it", ours=True):
        raise PassError("as it is")


@define_node("lowered_wrongly", data_parallel=True)
class LoweredWrongly(UnaryElementwise):
    """An operator of a user whose lowering rule has a mistake."""

    @override
    def compute(self, x: Any) -> Any:
        return x


@pytest.fixture
def wrong_rule() -> Iterator[None]:
    def missing_key(node: Node, rewriter: Rewriter) -> None:
        raise KeyError("w")

    LOWERINGS[LoweredWrongly] = missing_key
    yield
    del LOWERINGS[LoweredWrongly]


def function_of(operator: type[Relu] | type[LoweredWrongly]) -> Function:
    b = Builder()
    x, w = b.input("x", "float32<2 x 3>"), b.constant("w", np.ones((3, 3), np.float32))
    product = b.emit(FullyConnected(x, w, b.constant("b", np.ones(3, np.float32))))
    b.save(b.emit(operator(product)), "y")
    return b.function()


@pytest.mark.usefixtures("wrong_rule")
def test_a_lowering_rule_that_raises_is_named() -> None:
    message = "lowering rule 'missing_key' of lowered_wrongly %lowered_wrongly: KeyError: 'w'"
    for attempt in (
        lambda: lower(function_of(LoweredWrongly)),
        lambda: glow_nb.compile(function_of(LoweredWrongly), backend="interpreter"),
    ):
        with pytest.raises(PassError, match=re.escape(message)) as caught:
            attempt()
        assert isinstance(caught.value.__cause__, KeyError)


class Broken(glow_nb.Interpreter):
    """A backend of a user with a mistake in one place."""

    name = "mine"

    def __init__(self, place: str, error: BaseException | None = None) -> None:
        self.place, self.error = place, error or ZeroDivisionError("oh")

    def at(self, place: str) -> None:
        if self.place == place:
            raise self.error

    @property
    @override
    def graph_pipeline(self) -> Entries:
        self.at("graph_pipeline")
        return ()

    @property
    @override
    def program_pipeline(self) -> Entries:
        self.at("program_pipeline")
        return glow_nb.INSTRUCTIONS

    @override
    def should_lower(self, node: Node) -> bool:
        self.at("should_lower")
        return True

    def for_variants(self) -> Broken:
        self.at("for_variants")
        return self

    @override
    def compile(self, program: Program, *, threads: int = 1) -> InterpretedProgram:
        self.at("compile")
        return BrokenProgram(program, self)


class BrokenProgram(InterpretedProgram):
    def __init__(self, program: Program, backend: Broken) -> None:
        super().__init__(program)
        self.backend = backend

    @override
    def run(self, inputs: Any, **options: Any) -> list[Array]:
        self.backend.at("run")
        return super().run(inputs, **options)


@pytest.mark.parametrize(
    ("place", "subject"),
    [
        ("graph_pipeline", "backend 'mine': graph_pipeline"),
        ("should_lower", "backend 'mine': should_lower of fully_connected %fully_connected"),
        ("program_pipeline", "backend 'mine': program_pipeline and traits"),
        ("compile", "backend 'mine': compile"),
    ],
)
def test_a_backend_that_raises_is_named(place: str, subject: str) -> None:
    with pytest.raises(CompileError, match=f"{subject}: ZeroDivisionError: oh") as caught:
        glow_nb.compile(function_of(Relu), backend=Broken(place))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_code_of_a_backend_that_raises_is_named() -> None:
    net = glow_nb.compile(function_of(Relu), backend=Broken("run"))
    with pytest.raises(GlowError, match="network 'main': BrokenProgram.run: ZeroDivisionError: oh"):
        net.run(np.ones((2, 3), np.float32))


@pytest.mark.parametrize("place", ["compile", "run"])
def test_a_backend_without_memory_is_told_as_such(place: str) -> None:
    backend = Broken(place, MemoryError("all gone"))
    with pytest.raises(MemoryLimitError, match=r"the system gave no more memory \(all gone\)"):
        glow_nb.compile(function_of(Relu), backend=backend).run(np.ones((2, 3), np.float32))


def test_a_sound_backend_is_left_alone() -> None:
    net = glow_nb.compile(function_of(Relu), backend=Broken("nowhere"))
    executable: Executable = Broken("nowhere").compile(net.program)
    assert executable.run([np.ones((2, 3), np.float32)])[0].max() == 4
    assert net.run(np.ones((2, 3), np.float32))["y"].max() == 4


def test_memory_that_is_gone_is_nobodys_fault() -> None:
    with pytest.raises(MemoryLimitError, match="pass 'p': .*no more memory"):
        with foreign(PassError, "pass 'p'", ours=True):
            raise MemoryError
    with pytest.raises(MemoryLimitError, match="^as it is$"):
        with foreign(PassError, "pass 'p'", ours=True):
            raise MemoryLimitError("as it is")
