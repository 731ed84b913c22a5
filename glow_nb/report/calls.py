"""The cost of each instruction of a program: its kernel, its plan, and the alternatives."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from glow_nb.base.kernel_report import KernelReport
from glow_nb.llir.print import print_instruction
from glow_nb.llir.program import Instruction, Program
from glow_nb.llir.stack import StackInst
from glow_nb.report.data import Alternative, Call, Time
from glow_nb.report.plans import Alternatives


def reports_in_order(
    program: Program, reports: Sequence[KernelReport]
) -> list[tuple[int, KernelReport]]:
    """Return each of *reports* with the number of its instruction.

    Instructions that write nothing, as their results have no elements, have none.
    """
    work = program.work
    if len(work) == len(reports):
        return list(enumerate(reports))
    left, found = list(reports), list[tuple[int, KernelReport]]()
    for number, instruction in enumerate(work):
        if left and left[0].instruction == print_instruction(instruction):
            found.append((number, left.pop(0)))
    return found


def call_rows(
    program: Program,
    numbered: Sequence[tuple[int, KernelReport]],
    kernels: Sequence[int],
    alternatives: Alternatives,
    times: Mapping[int, Time],
) -> tuple[Call, ...]:
    """Return a row for each of the reports that :func:`reports_in_order` returned.

    *kernels* are the numbers of their kernels, and *times* what they took, by their place.
    """
    work = program.work
    return tuple(
        Call(
            instruction=number,
            kernel=kernel,
            plan=_plan_of(work[number]),
            threads=report.threads,
            estimated_ns=_finite(report.estimated_ns),
            scratch_bytes=report.scratch_bytes,
            flops=report.cost.nominal.flops,
            executed_flops=report.cost.executed.flops,
            constant_bytes=report.cost.constant_bytes,
            read_bytes=report.cost.read_bytes,
            written_bytes=report.cost.written_bytes,
            alternatives=_alternatives(work[number], alternatives),
            time=times.get(place),
        )
        for place, ((number, report), kernel) in enumerate(zip(numbered, kernels, strict=True))
    )


def _finite(estimate: float) -> float:
    """Return an *estimate* of a backend as the page has it; 0 if it is no number."""
    return round(estimate, 1) if math.isfinite(estimate) else 0.0


def kernel_sources(
    numbered: Sequence[tuple[int, KernelReport]], kernels: Sequence[int]
) -> list[str]:
    """Return the source of each kernel, with the comments of the first call of it."""
    calls = Counter(kernels)
    first: dict[int, str] = {}
    for (_, report), kernel in zip(numbered, kernels, strict=True):
        first.setdefault(kernel, _of_several(report.source, calls[kernel]))
    return [first[kernel] for kernel in sorted(first)]


def _of_several(source: str, calls: int) -> str:
    """Return *source* with a comment that says that it is of the first of *calls* calls."""
    if calls == 1:
        return source
    return _CALL.sub(rf"# the first of {calls} calls, \1:", source, count=1)


_CALL = re.compile(r"^# call (\d+):", re.MULTILINE)


def _head_of(instruction: Instruction) -> Instruction | None:
    return instruction.head if isinstance(instruction, StackInst) else instruction


def _plan_of(instruction: Instruction) -> str:
    head = _head_of(instruction)
    return "" if head is None or head.plan is None else str(head.plan)


def _alternatives(instruction: Instruction, known: Alternatives) -> tuple[Alternative, ...]:
    """Return the candidates of the layer that *instruction* computes."""
    head = _head_of(instruction)
    if head is None or head.plan is None:
        return ()
    return known.get((head.imported_names or ("",))[-1], ())
