"""numba's contexts of typing and of code generation, which remember what they have found out.

For each call numba looks through all overloads of an operator or an intrinsic, once to infer its
type and once to lower it, and for the size of each variable it lets LLVM parse a module. Generated
kernels apply few functions to few types, many times: without memory, such questions take 40 % of
the time of numba's part.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from numba.core import cpu, types, typing
from numba.core.datamodel import models
from numba.extending import register_model
from typing_extensions import override

from glow_nb.codegen.compact_lowering import compact


class _Function(types.Function):
    """A function whose overload is looked for once for each combination of operand types."""

    def __init__(self, templates: Any) -> None:
        self._signatures: dict[Any, Any] = {}
        untyped: Any = super()
        untyped.__init__(templates)

    @override
    def augment(self, other: Any) -> Any:
        """Return this function with the overloads of *other* too."""
        return _Function(self.templates + other.templates)

    @override
    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        """Return the signature of the overload for operands of the types *args* and *kws*."""
        key = tuple(args), tuple(sorted(kws.items()))
        if key not in self._signatures:
            untyped: Any = super()
            self._signatures[key] = untyped.get_call_type(context, args, kws)
        return self._signatures[key]


register_model(_Function)(models.OpaqueModel)  # as numba registers its own, by the class itself


class TypingContext(typing.Context):
    """numba's typing context, in which functions remember their overloads."""

    @override
    def _insert_global(self, gv: Any, gty: Any) -> None:
        remembers = _Function(gty.templates) if type(gty) is types.Function else gty
        untyped: Any = super()
        untyped._insert_global(gv, remembers)


class TargetContext(cpu.CPUContext):
    """numba's code generation context, which asks once for the size of each type and for each
    implementation of a function, and emits some functions in a shorter way than numba.
    """

    @override
    def get_function(self, fn: Any, sig: Any, _firstcall: bool = True) -> Any:
        """Return what emits a call of *fn* with operands of the types of *sig*."""
        return _implementation(self, fn, sig, _firstcall)

    @override
    def get_abi_sizeof(self, ty: Any) -> int:
        """Return the bytes that a value of the LLVM type *ty* takes."""
        return _size_bytes(ty, self.target_data)


@cache
def _implementation(context: TargetContext, function: Any, signature: Any, first: bool) -> Any:
    untyped: Any = super(TargetContext, context)
    usual = untyped.get_function(function, signature, first)
    is_callable = isinstance(function, types.Callable)
    key = function.get_impl_key(signature.as_function()) if is_callable else function
    return compact(key, signature.args, usual)


@cache
def _size_bytes(llvm_type: Any, target_data: Any) -> int:
    size: int = llvm_type.get_abi_size(target_data)
    return size
