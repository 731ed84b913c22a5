"""numba's contexts that remember: what a second question costs, and that the answer is the same."""

from __future__ import annotations

import operator

from numba import types
from numba.core.typing import signature as signature_of

from glow_nb.codegen.numba_contexts import TargetContext, TypingContext


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
