"""numba's contexts that remember: what a second question costs, and that the answer is the same."""

from __future__ import annotations

import operator

from numba import types

from glow_nb.codegen.numba_contexts import TypingContext


def test_an_overload_is_looked_for_once() -> None:
    context = TypingContext()
    context.refresh()
    add = context.resolve_value_type(operator.add)
    operands = (types.int64, types.float32)
    first = add.get_call_type(context, operands, {})
    assert add.get_call_type(context, operands, {}) is first
    assert first.return_type == types.float64
    assert add.get_call_type(context, (types.int64, types.int64), {}).return_type == types.int64
