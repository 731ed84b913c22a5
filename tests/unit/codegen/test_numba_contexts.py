"""numba's contexts that remember: what a second question costs, and that the answer is the same."""

from __future__ import annotations

import gc
import operator

import pytest
from llvmlite.binding.newpassmanagers import NewPassManager
from numba import types
from numba.core import ir
from numba.core.cpu import CPUContext
from numba.core.typing import signature as signature_of

from glow_nb.codegen import numba_contexts
from glow_nb.codegen.compile import compile_kernel
from glow_nb.codegen.numba_contexts import TargetContext, TypingContext
from glow_nb.kernels.target import Target
from tests.unit.codegen.samples import ROTATE_ADD, source


def test_an_overload_is_looked_for_once() -> None:
    context = TypingContext()
    context.refresh()
    add = context.resolve_value_type(operator.add)
    operands = (types.int64, types.float32)
    first = add.get_call_type(context, operands, {})
    assert add.get_call_type(context, operands, {}) is first
    assert first.return_type == types.float64
    assert add.get_call_type(context, (types.int64, types.int64), {}).return_type == types.int64


def test_an_implementation_is_looked_for_once() -> None:
    context = TargetContext(TypingContext())
    signature = signature_of(types.int64, types.int64, types.int64)
    first = context.get_function(operator.add, signature)
    assert context.get_function(operator.add, signature) is first
    assert context.get_function(operator.sub, signature) is not first
    assert TargetContext(TypingContext()).get_function(operator.add, signature) is not first


def test_questions_about_new_types_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number in the text of a kernel is a type of its own."""
    monkeypatch.setattr(numba_contexts, "MOST_REMEMBERED", 3)
    context = TypingContext()
    context.refresh()
    add = context.resolve_value_type(operator.add)
    for number in range(8):
        literal = types.literal(1_000_000 + number)
        assert add.get_call_type(context, (literal, types.int64), {}).return_type == types.int64
        assert len(add._signatures) <= 3


@pytest.mark.jit
def test_a_compiled_kernel_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a context of numba, with all that it has found out, nor the passes of LLVM."""
    disposed: list[object] = []
    dispose = NewPassManager._dispose

    def counted(passes: object) -> None:
        disposed.append(passes)
        dispose(passes)

    monkeypatch.setattr(NewPassManager, "_dispose", counted)
    compile_kernel(source(ROTATE_ADD), Target.host())
    before = _alive()
    for number in range(2):
        compile_kernel(source(f"# {number}\n{ROTATE_ADD}"), Target.host())
    assert _alive() == before
    assert len(disposed) == 3


def _alive() -> list[int]:
    """Return how many of numba's contexts there are, and how many variables of its IR."""
    gc.collect()
    objects = gc.get_objects()
    return [sum(isinstance(o, kind) for o in objects) for kind in (CPUContext, ir.Var)]
