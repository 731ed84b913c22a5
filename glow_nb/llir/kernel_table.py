"""The kernels of one backend: their generators and their traits."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, TypeVar

from glow_nb.base.errors import DefinitionError
from glow_nb.base.schema import Registry, closest, operand_specs
from glow_nb.hlir.graph import Node
from glow_nb.llir.generate import GENERATORS
from glow_nb.llir.instructions.derived import has_instruction, instruction_for
from glow_nb.llir.program import Instruction
from glow_nb.llir.traits import PLAIN, KernelTraits, Traits

Maker = Callable[..., Any]
"""A function that makes a kernel; the backend decides what it takes and returns."""

M = TypeVar("M", bound=Maker)


class KernelTable(Registry[type[Instruction], Maker]):
    """The functions that make the kernels of one backend, by instruction class, and the kernels'
    traits.

    Attributes:
        scalar: The function that makes the kernel of a data-parallel instruction without an entry,
            from its scalar expression; None if there is none.
        traits: The traits of the kernels, on which passes rely.
    """

    traits: Traits

    def __init__(self, backend: str, *, scalar: Maker | None = None) -> None:
        """Hold the kernels of *backend*, which is named in errors."""
        super().__init__(f"{backend} kernel of")
        self.scalar = scalar
        self._traits: dict[type[Instruction], KernelTraits] = {}
        self.traits = MappingProxyType(
            self._traits
        )  # what a kernel can do is said where it is added

    def kernel_for(
        self, *instruction_classes: type[Instruction], traits: KernelTraits = PLAIN
    ) -> Callable[[M], M]:
        """Register a function that makes the kernels of some instructions (a decorator).

        Raises:
            DefinitionError: *traits* name something that is no operand of one of them, or another
                module has registered a kernel for it.
        """

        def register(make: M) -> M:
            for instruction_class in instruction_classes:
                self._check_names(instruction_class, traits)
                self.check(instruction_class, make)
            for instruction_class in instruction_classes:
                self.add(instruction_class, make)
                self._traits[instruction_class] = traits
            return make

        return register

    def _check_names(self, instruction_class: type[Instruction], traits: KernelTraits) -> None:
        known = [spec.name for spec in operand_specs(instruction_class) if not spec.is_variadic]
        for name in filter(None, (*traits.strided, traits.prologue_operand)):
            if name not in known:
                raise DefinitionError(
                    f"{self.kind} {instruction_class.__name__!r}: its traits name {name!r}, which "
                    f"is not one of the operands {', '.join(known)}{closest(name, known)}"
                )

    def maker_of(self, instruction_class: type[Instruction]) -> Maker | None:
        """Return the function that makes the kernels of *instruction_class*; None if there is none.

        For an instruction with a scalar expression, that is the function for all of them.
        """
        return self.get(instruction_class) or (self.scalar if instruction_class.scalar else None)

    def has_kernel(self, node_class: type[Node]) -> bool:
        """Return whether nodes of *node_class* become instructions that have kernels.

        The rules of IRGen emit data-parallel instructions, copies through views above all.
        """
        if node_class in GENERATORS:
            return self.scalar is not None
        return (
            has_instruction(node_class) and self.maker_of(instruction_for(node_class)) is not None
        )
