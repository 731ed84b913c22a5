"""The instructions of a program as calls of kernels, and the threads that make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from glow_nb.backends.cpu.annotated_source import Use
from glow_nb.backends.cpu.kernel_estimate import work_ns
from glow_nb.backends.cpu.open_places import OpenPlaces
from glow_nb.backends.cpu.placed_calls import Places
from glow_nb.base.alignment import aligned_bytes
from glow_nb.base.kernel_report import KernelReport
from glow_nb.base.size import hinted, surely
from glow_nb.codegen.entry import Call, plan_hazards, scratch_for
from glow_nb.codegen.open_sizes import OpenSizes
from glow_nb.codegen.program_memory import PlacedWeight
from glow_nb.codegen.sharing import Sharing, plan_sharing
from glow_nb.kernels.cpu_kernels import CPU_KERNELS, generate_kernel, is_loop
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.cost import instruction_cost
from glow_nb.llir.form import Form, form_of
from glow_nb.llir.print import print_instruction
from glow_nb.llir.program import (
    Buffer,
    Instruction,
    Program,
    Weight,
    kernel_operands,
    mutated,
    read,
)
from glow_nb.llir.stack import StackInst
from glow_nb.llir.substitute import substitute
from glow_nb.llir.traits import traits_of
from glow_nb.llir.with_sizes import instruction_at_hints, is_open


@dataclass(frozen=True)
class PlannedCalls:
    """The calls of a run of a program, before any of it is compiled.

    Attributes:
        work: The instructions that compute.
        calls: One for each of them; each says whether one thread makes it.
        threads: The number of threads that are worth it.
        open: The open sizes of the program, if there are any.
    """

    work: list[Instruction]
    calls: list[Call]
    threads: int
    open: OpenSizes | None = None

    @property
    def scratch_bytes(self) -> int:
        """Working memory of one run, for all threads."""
        size, threads = scratch_for(self.calls, self.threads)
        return size * threads

    def aligned(self) -> set[Buffer]:
        """Return the buffers that kernels read much faster where they begin on cache lines."""
        return {
            operands[number].root
            for instruction, call in zip(self.work, self.calls, strict=True)
            for operands in (kernel_operands(instruction),)
            for number in call.source.aligned
        }

    def uses(self) -> list[Use]:
        """Return the instructions without the numbers of the weights: those are to be freed."""
        return [Use(*numbered) for numbered in enumerate(_without_numbers(self.work))]

    def reports(self, uses: Sequence[Use]) -> tuple[KernelReport, ...]:
        """Return the report of each call, without the source and the estimate of its kernel."""
        numbers = (1 if call.alone else self.threads for call in self.calls)
        return tuple(map(_report, uses, self.calls, numbers))


class Kernels:
    """The kernels of instructions for a target, each written once: many instructions are alike."""

    def __init__(self, target: Target) -> None:
        """Write for *target*."""
        self.target = target
        self._written: dict[Form, KernelSource] = {}

    def source(self, instruction: Instruction) -> KernelSource:
        """Return the kernel of *instruction*."""
        form = form_of(instruction)
        if form not in self._written:
            self._written[form] = generate_kernel(instruction, self.target)
        return self._written[form]

    def scratch_bytes(self, program: Program) -> int:
        """Return the working memory of a run of *program* by one thread.

        Loops over memory, which take none, are not written.
        """
        work = (one for one in program.work if _computes(one) and not is_loop(one))
        return aligned_bytes(max((self.source(one).scratch_bytes for one in work), default=0))


def places_of(program: Program, weights: Mapping[Buffer, PlacedWeight], borrowed: int) -> Places:
    """Return where the buffers of *program* lie; *borrowed* blocks of weights are bound first."""
    if not is_open(program):
        return Places(program, weights, borrowed)
    return OpenPlaces(program, _work_of(program), weights, borrowed)


def plan_calls(program: Program, places: Places, kernels: Kernels, threads: int) -> PlannedCalls:
    """Write the kernels of *program*, and decide which of them up to *threads* threads share."""
    work = _work_of(program)
    calls = [places.call(instruction, kernels.source(instruction)) for instruction in work]
    sharing = _sharing(work, calls, kernels.target, threads)
    made = [replace(call, alone=alone) for call, alone in zip(calls, sharing.alone, strict=True)]
    sizes = places.open_sizes if isinstance(places, OpenPlaces) else None
    return PlannedCalls(work, made, sharing.threads, sizes)


def _work_of(program: Program) -> list[Instruction]:
    """Return the instructions of *program* that have kernels."""
    return [instruction for instruction in program.work if _computes(instruction)]


def _sharing(
    work: Sequence[Instruction], calls: Sequence[Call], target: Target, threads: int
) -> Sharing:
    """Return which of *calls*, those of *work*, up to *threads* threads share."""
    if threads == 1:
        return Sharing(1, (True,) * len(calls))
    work_ns = [_shareable_ns(instruction, target) for instruction in work]
    hazards = plan_hazards(calls, [False] * len(calls))
    return plan_sharing(
        work_ns, [hazard is not None for hazard in hazards], threads, target.machine
    )


def used_weights(program: Program) -> list[Weight]:
    """Return the weights that instructions read: others take no memory at run time."""
    roots = (buffer.root for i in program.work if _computes(i) for buffer in read(i))
    return [root for root in dict.fromkeys(roots) if isinstance(root, Weight)]


def _computes(instruction: Instruction) -> bool:
    """Return whether there is anything to write."""
    return not all(surely(buffer.type.size, "==", 0) for buffer in mutated(instruction))


def _without_numbers(work: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """Return *work* with weights that have name and type alone."""
    weights = {buffer.root for i in work for buffer in read(i) if isinstance(buffer.root, Weight)}
    return substitute(work, {weight: Weight(weight.name, weight.type) for weight in weights})


def _shareable_ns(instruction: Instruction, target: Target) -> float:
    """Return about how long one thread takes for what threads can share of *instruction*."""
    is_serial = traits_of(instruction, CPU_KERNELS.traits).is_serial
    return 0.0 if is_serial else work_ns(instruction_at_hints(instruction), target)


def _report(use: Use, call: Call, threads: int) -> KernelReport:
    """Return the report of one call that *threads* threads make."""
    instruction = use.instruction
    return KernelReport(
        instruction=print_instruction(instruction),
        origin=instruction.name,
        family=call.source.family,
        symbol=call.source.symbol,
        scratch_bytes=hinted(call.source.scratch_bytes),
        cost=instruction_cost(instruction_at_hints(instruction)),
        origins=instruction.imported_names,
        opcode=instruction.opcode,
        threads=threads,
        dot=_dot_of(instruction),
    )


def _dot_of(instruction: Instruction) -> str:
    """Return what the plan of *instruction*, or of the head of a stack, multiplies with."""
    head = instruction.head if isinstance(instruction, StackInst) else instruction
    settings = dict(head.plan.settings) if head is not None and head.plan is not None else {}
    found = settings.get("dot")
    return found if isinstance(found, str) else ""
