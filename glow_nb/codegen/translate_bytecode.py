"""A pass of numba: from bytecode to numba's IR, without what numba mends afterwards.

numba goes through the whole function once for each construct that one instruction of bytecode does
not tell (a ``with`` block, a call with ``*args``, a list or a dict written out), looking for it.
Generated text has none of them, and the search takes a twelfth of the time of numba's part.
"""

from __future__ import annotations

from typing import Any

from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.interpreter import Interpreter
from typing_extensions import override


class _Interpreter(Interpreter):
    @override
    def post_process(self, peepholes: Any, func_ir: Any) -> Any:
        """Return *func_ir* as it is."""
        return func_ir


@register_pass(mutates_CFG=True, analysis_only=False)
class TranslateByteCode(FunctionPass):
    """Make numba's IR of a function from its bytecode."""

    _name = "translate_bytecode_of_text"

    def __init__(self) -> None:  # numba's own is abstract
        untyped: Any = super()
        untyped.__init__()

    @override
    def run_pass(self, state: Any) -> bool:
        untyped: Any = _Interpreter
        state.func_ir = untyped(state.func_id).interpret(state.bc)
        return True
