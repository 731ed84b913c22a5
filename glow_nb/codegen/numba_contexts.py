"""numba's contexts of typing and of code generation, which remember what they have found out.

For each call numba looks through all overloads of an operator or an intrinsic, once to infer its
type and once to lower it, and for the size of each variable it lets LLVM parse a module. Generated
kernels apply few functions to few types, many times: without memory, such questions take 40 % of
the time of numba's part.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from numba.core import cpu, types, typing
from numba.core.datamodel import models
from numba.extending import register_model
from typing_extensions import override

from glow_nb.codegen.compact_lowering import compact

MOST_REMEMBERED = 1024
"""Answers that outlive a kernel. A number in its text is a type of its own to numba, so that there
is no end of different questions."""


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
            if len(self._signatures) >= MOST_REMEMBERED:
                self._signatures.clear()
            untyped: Any = super()
            self._signatures[key] = untyped.get_call_type(context, args, kws)
        return self._signatures[key]


register_model(_Function)(models.OpaqueModel)  # as numba registers its own, by the class itself


class TypingContext(typing.Context):
    """numba's typing context, which remembers the types of functions, and these their overloads.

    numba asks each time first whether a function is a number or an array, and makes an error of
    each such question.
    """

    @override
    def init(self) -> None:
        """Begin without functions; numba calls this at the end of the constructor."""
        untyped: Any = super()
        untyped.init()
        self._is_complete = False
        self._functions_known: dict[int, tuple[Any, Any]] = {}  # by id, with what keeps it alive

    @override
    def refresh(self) -> None:
        """Take over what was registered since; numba would import all of its libraries again."""
        untyped: Any = super()
        if self._is_complete:
            for registry in list(self._registries):
                self.install_registry(registry)
        else:
            untyped.refresh()
            self._is_complete = True

    @override
    def _insert_global(self, gv: Any, gty: Any) -> None:
        remembers = _Function(gty.templates) if type(gty) is types.Function else gty
        self._functions_known.clear()
        untyped: Any = super()
        untyped._insert_global(gv, remembers)

    @override
    def resolve_value_type(self, val: Any) -> Any:
        """Return the type of *val*, a number or a function that a kernel names."""
        known = self._functions_known.get(id(val))
        if known is not None:
            return known[1]
        untyped: Any = super()
        type = untyped.resolve_value_type(val)
        if isinstance(type, _Function):
            self._functions_known[id(val)] = val, type
        return type

    @override
    def resolve_value_type_prefer_literal(self, value: Any) -> Any:
        """Return the type of *value*; no function has a type of its own as numbers have."""
        known = self._functions_known.get(id(value))
        if known is not None:
            return known[1]
        untyped: Any = super()
        return untyped.resolve_value_type_prefer_literal(value)


class TargetContext(cpu.CPUContext):
    """numba's code generation context, which asks once for the size of each type and for each
    implementation of a function, and emits some functions in fewer instructions than numba.

    numba makes a copy for each kernel. An implementation belongs to the copy that found it, and
    goes with it.
    """

    @override
    def init(self) -> None:
        """Begin without implementations; numba calls this at the end of the constructor."""
        super().init()
        self._implementations: dict[Any, Any] = {}
        self._is_complete = False

    @override
    def refresh(self) -> None:
        """Take over what was registered since; numba would import all of its libraries again."""
        if self._is_complete:
            for registry in list(self._registries):
                self.install_registry(registry)
            self.typing_context.refresh()
        else:
            super().refresh()
            self._is_complete = True

    @override
    def subtarget(self, **options: Any) -> Any:
        """Return a copy with other *options*, which finds its implementations itself."""
        copied = super().subtarget(**options)
        copied._implementations = {}
        return copied

    @override
    def get_function(self, fn: Any, sig: Any, _firstcall: bool = True) -> Any:
        """Return what emits a call of *fn* with operands of the types of *sig*."""
        question = fn, sig, _firstcall
        if question not in self._implementations:
            usual = super().get_function(*question)
            is_callable = isinstance(fn, types.Callable)
            key = fn.get_impl_key(sig.as_function()) if is_callable else fn
            self._implementations[question] = compact(key, sig.args, usual)
        return self._implementations[question]

    @override
    def get_abi_sizeof(self, ty: Any) -> int:
        """Return the bytes that a value of the LLVM type *ty* takes."""
        return _size_bytes(ty, self.target_data)


@lru_cache(MOST_REMEMBERED)
def _size_bytes(llvm_type: Any, target_data: Any) -> int:
    size: int = llvm_type.get_abi_size(target_data)
    return size
