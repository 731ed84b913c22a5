"""A pass of numba: from bytecode to numba's IR, without searches for what is not there.

Some constructs take several instructions of bytecode: a ``with`` block, a call with ``*args`` or
with more than 30 arguments, a dict that is updated. For each of them numba goes through the whole
function once. Generated text has none, and these searches take a twelfth of the time of numba's
part; so the bytecode is asked first.
"""

from __future__ import annotations

from typing import Any

from numba.core import untyped_passes
from numba.core.compiler_machinery import register_pass
from numba.core.interpreter import Interpreter
from typing_extensions import override

_SEVERAL = frozenset(
    "BEFORE_WITH SETUP_WITH POP_BLOCK LIST_EXTEND LIST_TO_TUPLE CALL_INTRINSIC_1 CALL_FUNCTION_EX "
    "BUILD_LIST BUILD_MAP DICT_MERGE DICT_UPDATE".split()
)
"""Instructions that take part in such constructs, in one version of Python or another."""


class _Interpreter(Interpreter):
    @override
    def post_process(self, peepholes: Any, func_ir: Any) -> Any:
        """Return *func_ir* with constructs of several instructions put together."""
        if any(instruction.opname in _SEVERAL for instruction in self.bytecode):
            untyped: Any = super()
            return untyped.post_process(peepholes, func_ir)
        return func_ir


@register_pass(mutates_CFG=True, analysis_only=False)
class TranslateByteCode(untyped_passes.TranslateByteCode):
    """Make numba's IR of a function from its bytecode."""

    _name = "translate_bytecode_of_text"

    @override
    def run_pass(self, state: Any) -> bool:
        untyped: Any = _Interpreter
        state.func_ir = untyped(state.func_id).interpret(state.bc)
        return True
