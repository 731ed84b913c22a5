"""The entry: the generated function that calls the kernels of a program in order.

Barriers cut the calls into phases. One call of the entry does one share of one phase: of each call
its share, of those that one thread makes alone everything or nothing. All shares of a phase may be
done at the same time, and are done before the next phase begins. Offsets are constants; inputs and
outputs come through ``bindings``, an array of pointers. Only names and numbers of ours appear in
the text, never one from a model.
"""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Literal

from glow_nb.base.alignment import aligned_bytes
from glow_nb.base.errors import CompileError
from glow_nb.base.size import Size
from glow_nb.base.types import ElementKind
from glow_nb.codegen.clock import STAMP_SYMBOL
from glow_nb.codegen.hazards import Access, AccessMode, Hazard, plan_barriers
from glow_nb.codegen.run_layout import LARGEST_RUN_BYTES
from glow_nb.kernels.writing.source import INDENT, KernelSource, SourceWriter

Space = Literal["constants", "arena", "binding"]

_LONE = "if share == 0:  # to share this would cost more than it saves"

STAMP_BYTES = 16
"""For each call of a profiled entry, what a thread writes: the times of its begin and its end."""
CALL_LENGTH = 84
"""Columns of a call, which is indented up to four times."""

PARAMETERS = ("constants", "arena", "bindings", "scratch", "thread", "phase", "share", "shares")
"""Parameters of every entry: where memory begins, and who does which share of which phase."""


@dataclass(frozen=True)
class Region:
    """Bytes that one pointer argument of a call covers.

    Attributes:
        space: The constants, the arena, or one bound input or output.
        kind: Element kind, which the kernel must expect.
        size_bytes: Bytes that the kernel may touch.
        mode: Whether the kernel reads them (in), writes them (out) or both (inout).
        offset_bytes: Start within the space.
        binding: Which input or output, if the space is ``binding``.
        lead_bytes: From the start to where the pointer points: the first element, which is not the
            lowest one if the kernel walks backwards.
        run_bytes: If only some channels of each pixel belong to the region: the bytes of these.
        pitch_bytes: And the bytes from pixel to pixel.
        memory: If its place or its size is known only when the network runs: the name of the
            memory that it is in. It covers all of that but for what *extent* leaves out.
        extent: For such memory, the first byte that it may access, and the one after the last.
        lives: For memory that is placed in the arena when the network runs: the step of the program
            in which its lifetime begins, and the step in which it is freed.
    """

    space: Space
    kind: ElementKind
    size_bytes: int
    mode: AccessMode
    offset_bytes: int = 0
    binding: int = 0
    lead_bytes: int = 0
    run_bytes: int = 0
    pitch_bytes: int = 0
    memory: str = ""
    extent: tuple[int, int] = (0, LARGEST_RUN_BYTES)
    lives: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if min(self.offset_bytes, self.size_bytes, self.binding, self.lead_bytes) < 0:
            raise CompileError(f"{self}: a negative offset, size or binding")
        if self.space == "constants" and self.mode != "in":
            raise CompileError(f"{self}: constants are only read, not {self.mode}")

    @property
    def base(self) -> str:
        """Name of the pointer in the entry that the region starts from."""
        return f"bound{self.binding}" if self.space == "binding" else self.space

    @property
    def access(self) -> Access:
        """The access of a call of a kernel to the region."""
        run, pitch = self.run_bytes, self.pitch_bytes
        if self.memory:
            return Access(self.memory, *self.extent, self.mode, run, pitch, self.lives)
        end = self.offset_bytes + self.size_bytes
        return Access(self.base, self.offset_bytes, end, self.mode, run, pitch)


@dataclass(frozen=True)
class Call:
    """One kernel applied to its operands.

    Attributes:
        source: The kernel.
        operands: Its pointer arguments in order.
        alone: Whether one thread makes the call, because sharing it would cost more than it saves.
    """

    source: KernelSource
    operands: tuple[Region, ...]
    alone: bool = False

    def __post_init__(self) -> None:
        kinds = tuple(operand.kind for operand in self.operands)
        if kinds != self.source.arguments:
            raise CompileError(
                f"call of {self.source.symbol}: operands are {kinds}, the kernel takes "
                f"{self.source.arguments}"
            )

    @property
    def accesses(self) -> list[Access]:
        """The memory that it accesses, without constants."""
        return [o.access for o in self.operands if o.space != "constants" or o.memory]


@dataclass(frozen=True)
class EntrySource:
    """Generated text of an entry, and what it takes to run it.

    Attributes:
        text: The function.
        scratch_bytes: Scratch memory of the kernels, for each thread.
        threads: Shares of each phase, and threads that do them.
        phases: The number of phases.
    """

    text: str
    scratch_bytes: int
    threads: int = 1
    phases: int = 1

    @cached_property
    def symbol(self) -> str:
        """C symbol of the compiled entry."""
        return f"glow_entry_{hashlib.sha256(self.text.encode()).hexdigest()[:20]}"


def generate_entry(
    calls: Sequence[Call],
    threads: int,
    stamps: int | None = None,
    labels: Sequence[str] = (),
    scratch: tuple[int, int] | None = None,
) -> EntrySource:
    """Return the entry of a program that makes *calls* in order.

    Args:
        calls: Kernels with their operands.
        threads: Threads that share them; if each call is made by one thread, one is enough.
        stamps: For a profiled entry, the binding that takes the times: ``int64[threads, calls, 2]``
            with begin and end of each share of each call, in nanoseconds. What a share has no part
            in stays as it is.
        labels: What the comment above each call says besides; for text that is read by people and
            never compiled, since names of a model may stand there.
        scratch: If the working memory of a thread is an open size: the binding and the place of
            the number in it.
    """
    scratch_bytes, threads = scratch_for(calls, threads)
    bindings = sorted({o.binding for c in calls for o in c.operands if o.space == "binding"})
    hazards = plan_hazards(calls, [call.alone or threads == 1 for call in calls])
    phases = _phases(hazards)
    out = SourceWriter()
    with out.block(f"def entry({', '.join(PARAMETERS)}):"):
        own = scratch_bytes if scratch is None else f"size_at(bound{scratch[0]}, {scratch[1]})"
        if scratch is not None:
            bindings = [binding for binding in bindings if binding != scratch[0]]
            out.line(f"bound{scratch[0]} = bound(bindings, {scratch[0]})")
        out.line(f"own = scratch_at(scratch, thread, {own})")
        for binding in bindings:
            out.line(f"bound{binding} = bound(bindings, {binding})")
        if stamps is not None:
            row_bytes = len(calls) * STAMP_BYTES
            out.line(f"stamps = scratch_at(bound(bindings, {stamps}), share, {row_bytes})")
        write = _CallWriter(out, calls, labels, stamped=stamps is not None)
        if len(phases) == 1:
            write.calls(phases[0], threads)
            return EntrySource(out.text, scratch_bytes, threads)
        with out.block("match phase:"):
            for index, numbers in enumerate(phases):
                with out.block(f"case {index}:{_reason(numbers[0], hazards[numbers[0]])}"):
                    write.calls(numbers, threads)
    return EntrySource(out.text, scratch_bytes, threads, len(phases))


def scratch_for(calls: Sequence[Call], threads: int) -> tuple[int, int]:
    """Return the scratch memory that *calls* need for each thread, and how many threads need it.

    If one thread makes each call, there are no others. Open sizes are left out.
    """
    threads = 1 if all(call.alone for call in calls) else threads
    sizes = (call.source.scratch_bytes for call in calls)
    sizes = (size for size in sizes if not isinstance(size, Size))
    return aligned_bytes(max(sizes, default=0)), threads


def plan_hazards(calls: Sequence[Call], alone: Sequence[bool]) -> list[Hazard | None]:
    """Return for each call why a barrier stands before it, None where there is none.

    Those that are *alone* are made by one thread.
    """
    return plan_barriers([call.accesses for call in calls], alone)


def _phases(hazards: Sequence[Hazard | None]) -> list[list[int]]:
    """Return the numbers of the calls of each phase."""
    phases: list[list[int]] = [[]]
    for number, hazard in enumerate(hazards):
        if hazard:
            phases.append([])
        phases[-1].append(number)
    return phases


def _reason(number: int, hazard: Hazard | None) -> str:
    """Return the comment that says why a phase begins with call *number*."""
    if hazard is None:
        return ""
    span = f"{hazard.space}[{hazard.begin}:{hazard.end}]"
    return f"  # {number} {hazard.later_verb} {span}, which {hazard.earlier} {hazard.earlier_verb}"


@dataclass(frozen=True)
class _CallWriter:
    """Writes calls of kernels with what stands around them."""

    out: SourceWriter
    all_calls: Sequence[Call]
    labels: Sequence[str]
    stamped: bool

    def calls(self, numbers: Sequence[int], threads: int) -> None:
        """Write the calls *numbers*, which *threads* threads make."""
        for alone, group in groupby(numbers, lambda number: self.all_calls[number].alone):
            is_one_of_many = alone and threads > 1
            with self.out.block(_LONE) if is_one_of_many else nullcontext():
                for number in group:
                    self.call(number)

    def call(self, number: int) -> None:
        """Write one call, below a comment, between stamps if there are any."""
        call, label = self.all_calls[number], self.labels[number] if self.labels else ""
        self.out.line(f"# {number}: {call.source.family}{label and ': '}{label}")
        if self.stamped:
            self.out.line(f"{STAMP_SYMBOL}(int64_at(stamps, {number * STAMP_BYTES}))")
        self.out.line(_call_text(call))
        if self.stamped:
            self.out.line(f"{STAMP_SYMBOL}(int64_at(stamps, {number * STAMP_BYTES + 8}))")


def _call_text(call: Call) -> str:
    """Return one call, on one line if it is short and with indented arguments if not."""
    pointers = [
        f"{o.kind.value}_at({o.base}, {o.offset_bytes + o.lead_bytes})" for o in call.operands
    ]
    rest = ["own, 0, 1" if call.alone else "own, share, shares"]
    line = f"{call.source.symbol}({', '.join([*pointers, *rest])})"
    if len(line) <= CALL_LENGTH:
        return line
    # A no-break space keeps each pointer on one line while the arguments are wrapped.
    unbroken = ", ".join([p.replace(" ", "\xa0") for p in pointers] + rest)
    wrapped = textwrap.fill(
        unbroken,
        CALL_LENGTH,
        initial_indent=INDENT,
        subsequent_indent=INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    ).replace("\xa0", " ")
    return f"{call.source.symbol}(\n{wrapped}\n)"
