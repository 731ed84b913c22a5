"""The entry: the generated function that calls the kernels of a program in order.

Every thread runs the whole entry and does its share of each kernel. Offsets are constants; inputs
and outputs come through ``bindings``, an array of pointers. Only names and numbers of ours appear
in the text, never one from a model.
"""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from glow_nb.alignment import aligned_bytes
from glow_nb.codegen.clock import STAMP_SYMBOL
from glow_nb.codegen.hazards import Access, AccessMode, Hazard, plan_barriers
from glow_nb.errors import CompileError
from glow_nb.kernels.writing.source import INDENT, KernelSource, SourceWriter
from glow_nb.types import ElementKind

Space = Literal["constants", "arena", "binding"]

STAMP_BYTES = 16
"""For each call of a profiled entry, what a thread writes: the times of its begin and its end."""
LINE_LENGTH = 100


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
        """What a call of a kernel with the region touches."""
        end = self.offset_bytes + self.size_bytes
        run, pitch = self.run_bytes, self.pitch_bytes
        return Access(self.base, self.offset_bytes, end, self.mode, run, pitch)


@dataclass(frozen=True)
class Call:
    """One kernel applied to its operands, which are its pointer arguments in order."""

    source: KernelSource
    operands: tuple[Region, ...]

    def __post_init__(self) -> None:
        kinds = tuple(operand.kind for operand in self.operands)
        if kinds != self.source.arguments:
            raise CompileError(
                f"call of {self.source.symbol}: operands are {kinds}, the kernel takes "
                f"{self.source.arguments}"
            )


@dataclass(frozen=True)
class EntrySource:
    """Generated text of an entry and the per-thread scratch that its kernels need."""

    text: str
    scratch_bytes: int

    @cached_property
    def symbol(self) -> str:
        """C symbol of the compiled entry."""
        return f"glow_entry_{hashlib.sha256(self.text.encode()).hexdigest()[:20]}"


def generate_entry(
    calls: Sequence[Call], stamps: int | None = None, labels: Sequence[str] = ()
) -> EntrySource:
    """Return the entry of a program that makes *calls* in order.

    A barrier stands before a call only if it depends on one since the barrier before (see
    ``hazards``), and one at the end: when thread 0 returns, every share is done.

    Args:
        calls: Kernels with their operands.
        stamps: For a profiled entry, the binding that takes the times: ``int64[threads, calls, 2]``
            with begin and end of each thread's share of each call, in nanoseconds.
        labels: What the comment above each call says besides; for text that is read by people and
            never compiled, since names of a model may stand there.
    """
    scratch_bytes = aligned_bytes(max((call.source.scratch_bytes for call in calls), default=0))
    bindings = sorted({o.binding for c in calls for o in c.operands if o.space == "binding"})
    out = SourceWriter()
    with out.block("def entry(constants, arena, bindings, scratch, thread, threads, sync):"):
        out.line(f"own = scratch_at(scratch, thread, {scratch_bytes})")
        for binding in bindings:
            out.line(f"bound{binding} = bound(bindings, {binding})")
        if stamps is not None:
            row_bytes = len(calls) * STAMP_BYTES
            out.line(f"stamps = scratch_at(bound(bindings, {stamps}), thread, {row_bytes})")
        for number, (call, hazard) in enumerate(zip(calls, _hazards(calls), strict=True)):
            if hazard:
                out.line(f"barrier(sync, threads)  # {_reason(number, hazard)}")
            label = f": {labels[number]}" if labels and labels[number] else ""
            out.line(f"# {number}: {call.source.family}{label}")
            if stamps is None:
                out.line(_call_text(call))
                continue
            out.line(f"{STAMP_SYMBOL}(int64_at(stamps, {number * STAMP_BYTES}))")
            out.line(_call_text(call))
            out.line(f"{STAMP_SYMBOL}(int64_at(stamps, {number * STAMP_BYTES + 8}))")
        out.line("barrier(sync, threads)  # every share is done")
    return EntrySource(out.text, scratch_bytes)


def _hazards(calls: Sequence[Call]) -> list[Hazard | None]:
    return plan_barriers(
        [
            [operand.access for operand in call.operands if operand.space != "constants"]
            for call in calls
        ]
    )


def _reason(number: int, hazard: Hazard) -> str:
    span = f"{hazard.space}[{hazard.begin}:{hazard.end}]"
    return f"{number} {hazard.later_verb} {span}, which {hazard.earlier} {hazard.earlier_verb}"


def _call_text(call: Call) -> str:
    """Return one call, on one line if it is short and with indented arguments if not."""
    pointers = [
        f"{o.kind.value}_at({o.base}, {o.offset_bytes + o.lead_bytes})" for o in call.operands
    ]
    arguments = ", ".join([*pointers, "own, thread, threads"])
    line = f"{call.source.symbol}({arguments})"
    if len(INDENT + line) <= LINE_LENGTH:
        return line
    # A no-break space keeps each pointer on one line while the arguments are wrapped.
    unbroken = ", ".join([p.replace(" ", "\xa0") for p in pointers] + ["own, thread, threads"])
    wrapped = textwrap.fill(
        unbroken,
        LINE_LENGTH - len(INDENT),
        initial_indent=INDENT,
        subsequent_indent=INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    ).replace("\xa0", " ")
    return f"{call.source.symbol}(\n{wrapped}\n)"
