"""The table of the cpu's kernels: which functions plan and generate the kernel of an
instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar

from glow_nb.base.errors import DefinitionError, UnsupportedError
from glow_nb.base.plan import Plan, ReadPlan
from glow_nb.base.schema import RuleTable, closest
from glow_nb.kernels.stacks.elementwise import elementwise_source
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.kernel_table import KernelTable
from glow_nb.llir.program import Instruction
from glow_nb.llir.stack import StackInst
from glow_nb.llir.traits import PLAIN, KernelTraits
from glow_nb.llir.with_sizes import instruction_at_hints

KernelGenerator = Callable[[Any, Target], KernelSource]
"""Writes the kernel of an instruction of one class, or a few."""
HeadGenerator = Callable[[Any, Target, Fusion], KernelSource]
"""Writes the kernel of an instruction and of the stack around it, of which it is the head."""

Planner = Callable[[Any, Target, Fusion], Plan | None]
"""Chooses the loops of the kernel of an instruction, which its generator then writes; None if there
is nothing to choose."""

G = TypeVar("G", bound=KernelGenerator)
H = TypeVar("H", bound=HeadGenerator)

CPU_KERNELS = KernelTable("cpu", scalar=elementwise_source)
"""Complete once :mod:`glow_nb.kernels.cpu_kernels` is imported."""

PLANNERS: RuleTable[type[Instruction], Planner] = RuleTable("planner of")
"""The planners of instructions whose kernels leave a choice."""

SEES_OPEN_SIZES: set[type[Instruction]] = set()
"""Instructions whose planner gets them with open sizes; other planners get the sizes of the
example."""


def kernel_for(
    *instruction_classes: type[Instruction],
    traits: KernelTraits = PLAIN,
    planner: Planner | None = None,
    sees_open_sizes: bool = False,
) -> Callable[[G], G]:
    """Register a function ``(instruction, target) -> KernelSource`` for some instructions.

    Args:
        instruction_classes: The instructions, as ``derive_instruction`` returns them.
        traits: May say which operands may have gaps.
        planner: Where the kernel leaves a choice, a function ``(instruction, target, fusion)`` that
            makes it: it returns a plan, and the registered function writes what
            ``instruction.plan`` says. *fusion* is what stands around the instruction: nothing here.
        sees_open_sizes: Give the planner open sizes as they are; by default it gets an instruction
            with the sizes of an example.

    Raises:
        DefinitionError: *traits* say that the kernel applies other operators to what it reads or
            writes: ``glow_nb.kernels.registry.head_kernel_for`` registers such a kernel. Or another
            module has registered a kernel for an instruction.
    """
    if traits.fuses_epilogue or traits.prologue_operand:
        names = ", ".join(each.__name__ for each in instruction_classes)
        raise DefinitionError(
            f"cpu kernel of {names}: a kernel that fuses takes a Fusion as well; register it with "
            "@glow_nb.kernels.registry.head_kernel_for"
        )
    if planner is None:
        return CPU_KERNELS.kernel_for(*instruction_classes, traits=traits)
    PLANNERS.register(*instruction_classes)(planner)
    if sees_open_sizes:
        SEES_OPEN_SIZES.update(instruction_classes)

    def register(generator: G) -> G:
        @wraps(generator)
        def with_plan(instruction: Instruction, target: Target) -> KernelSource:
            noted = _with_noting_plan(planned(instruction, target))
            source = generator(noted, target)
            _refuse_unused_settings(noted, target)
            return source

        CPU_KERNELS.kernel_for(*instruction_classes, traits=traits)(with_plan)
        return generator

    return register


def head_kernel_for(
    *instruction_classes: type[Instruction],
    traits: KernelTraits,
    planner: Planner | None = None,
    sees_open_sizes: bool = False,
) -> Callable[[H], H]:
    """Register a function ``(head, target, fusion) -> KernelSource`` for some instructions.

    The fusion has the instructions around the head; it is empty if the instruction is not in a
    stack. *traits* say which instructions are allowed there. If a kernel leaves a choice, *planner*
    makes it: the function makes no choice and writes the loops of ``head.plan``. The planner is
    given an instruction with the sizes of an example, unless it *sees_open_sizes*; the fusion has
    these in any case.
    """
    if sees_open_sizes:
        SEES_OPEN_SIZES.update(instruction_classes)
    if planner is not None:
        PLANNERS.register(*instruction_classes)(planner)

    def register(generator: H) -> H:
        @wraps(generator)
        def with_fusion(instruction: Instruction, target: Target) -> KernelSource:
            noted = _with_noting_plan(planned(instruction, target))
            fusion = Fusion.of(noted)  # of a stack, or a head alone
            source = generator(fusion.head, target, fusion)
            _refuse_unused_settings(noted, target)
            return source

        CPU_KERNELS.kernel_for(*instruction_classes, traits=traits)(with_fusion)
        return generator

    return register


def planned(instruction: Instruction, target: Target) -> Instruction:
    """Return *instruction*, or a stack, with the plan of its loops; itself if it has one.

    A plan without rows of a tile names only an algorithm and the layout of weights: the rest is
    planned here.
    """
    head = _head_of(instruction)
    planner = PLANNERS.get(type(head)) if head is not None else None
    if head is None or planner is None or (head.plan is not None and head.plan.has("rows")):
        return instruction
    plan, given = _offered(planner, instruction, target), head.plan
    if plan is None:
        return instruction
    if given is not None:
        if given.algorithm != plan.algorithm:
            raise given.unfit(f"the kernel of {head!r} is made by {plan.algorithm!r}")
        settings = dict(given.settings)
        plan = Plan.of(plan.algorithm, **{**settings, **dict(plan.settings), **settings})
    return _with_plan(instruction, plan)


def _offered(planner: Planner, instruction: Instruction, target: Target) -> Plan | None:
    """Return what *planner* offers, for the sizes of the example where sizes are open."""
    fusion = Fusion.of(instruction_at_hints(instruction))
    head = _head_of(instruction)
    return planner(head if type(head) in SEES_OPEN_SIZES else fusion.head, target, fusion)


def _head_of(instruction: Instruction) -> Instruction | None:
    return instruction.head if isinstance(instruction, StackInst) else instruction


def _with_plan(instruction: Instruction, plan: Plan) -> Instruction:
    """Return *instruction*, which has a head, with *plan* as that of its head."""
    if not isinstance(instruction, StackInst):
        return replace(instruction, plan=plan)
    head = instruction.head
    made = (replace(one, plan=plan) if one is head else one for one in instruction.body)
    return StackInst.of(made)


def _with_noting_plan(instruction: Instruction) -> Instruction:
    """Return *instruction* with a plan that notes which of its settings the writer asks for."""
    head = _head_of(instruction)
    if head is None or head.plan is None:
        return instruction
    return _with_plan(instruction, ReadPlan(head.plan.algorithm, head.plan.settings))


def _refuse_unused_settings(instruction: Instruction, target: Target) -> None:
    """Raise UnsupportedError if the plan has a setting that the kernel's writer never read.

    What the planner offers, or the instruction has as an attribute, may go without use.
    """
    head = _head_of(instruction)
    if head is None or not isinstance(head.plan, ReadPlan):
        return
    plan = head.plan
    unused = [n for n, _ in plan.settings if n not in plan.asked and not hasattr(head, n)]
    if unused and (planner := PLANNERS.get(type(head))) is not None:
        offered = _offered(planner, instruction, target)
        settings = {} if offered is None else dict(offered.settings)
        unused = [name for name in unused if name not in settings]
    if unused:
        known = [name for name in plan.asked if not hasattr(head, name)]
        raise plan.unfit(
            f"the kernel of {head!r} has no setting {unused[0]!r}{closest(unused[0], known)}; it "
            f"has {', '.join(known)}"
        )


def plan_of(instruction: Instruction, *algorithms: str) -> Plan:
    """Return the plan of *instruction*, by one of *algorithms*.

    Raises:
        UnsupportedError: It has no plan, or one by another algorithm.
    """
    plan = instruction.plan
    if plan is None:
        raise UnsupportedError(f"{instruction!r}: it has no plan; run the pass plan_kernels")
    if plan.algorithm not in algorithms:
        known = " or ".join(map(repr, algorithms))
        raise plan.unfit(f"the kernel of {instruction!r} is made by {known}")
    for name, value in plan.settings:
        if getattr(instruction, name, value) != value:
            raise plan.unfit(f"{name} of {instruction!r} is {getattr(instruction, name)}")
    return plan
