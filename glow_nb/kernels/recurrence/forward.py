"""The kernel of a recurrent layer: for each step, a product of the states, and its formulas.

A register tile holds all gates of some samples and hidden elements: what the product gives is
turned into states where it is. The states of two steps lie in scratch, since the product reads all
of the old one. The text does not depend on how many steps there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from glow_nb.base.size import surely
from glow_nb.base.types import ElementKind
from glow_nb.hlir.ops.formulas.recurrence.cells import HIDDEN, MEMORY, Phase
from glow_nb.hlir.ops.formulas.recurrence.steps import NEXT, forward_step, step_type
from glow_nb.kernels.recurrence.plan import RecurrencePlan, Scratch
from glow_nb.kernels.recurrence.walk import Tile, Walk, ended, load_shared, write_ends
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import index_text, plus, times
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.step_code import StepCode
from glow_nb.llir.instructions.recurrence import RecurrenceInst
from glow_nb.llir.program import kernel_operands


@kernel_for(RecurrenceInst)
def recurrence_source(instruction: RecurrenceInst, target: Target) -> KernelSource:
    """Return the kernel ``(dest, inputs, recurrent[, bias, initial, peepholes, lengths])``.

    Raises:
        UnsupportedError: The weights are not packed for vectors of *target*.
    """
    plan = RecurrencePlan.of(instruction, target, is_transposed=False)
    kinds = tuple(buffer.type.kind for buffer in kernel_operands(instruction))
    optional = ("bias", "initial", "peepholes", "lengths")
    given = [name for name in optional if getattr(instruction, name) is not None]
    names = ", ".join(("dest", "inputs", "recurrent", *given))
    out = SourceWriter()
    out.line(f"# {instruction.cell}, {plan.steps} steps of {plan.rows} x {plan.size}")
    writer = _Writer(out, plan, Walk(out, plan), frozenset(given))
    with out.block(f"def kernel({names}, scratch, thread, threads):"):
        if surely(instruction.dest.type.size, "==", 0):
            out.line("return")
        else:
            writer.write()
    return KernelSource("recurrence", out.text, kinds, writer.scratch.size_bytes)


@dataclass(frozen=True)
class _Writer:
    """Writes the loops of one kernel.

    Attributes:
        out: Receives the lines.
        plan: The loops of the step.
        walk: Writes the loops.
        given: The optional operands that are there.
    """

    out: SourceWriter
    plan: RecurrencePlan
    walk: Walk
    given: frozenset[str]

    @property
    def _states(self) -> int:
        """Elements of a state of all samples in scratch."""
        return self.plan.rows * self.plan.padded

    @property
    def scratch(self) -> Scratch:
        """The states of two steps, and what one phase leaves for another."""
        plan, kind = self.plan, self.plan.kind
        parts = {HIDDEN: (2 * self._states, kind)}
        if MEMORY in plan.cell.states:
            parts[MEMORY] = (self._states, kind)
        for phase in plan.cell.phases[:-1]:
            made = self._code_of(phase).makes
            parts |= {name.removeprefix(NEXT): (self._states, kind) for name in made}
        if "lengths" in self.given:
            parts["ends"] = (plan.rows * plan.widest, ElementKind.INT32)
        return Scratch(parts)

    def _code_of(self, phase: Phase) -> StepCode:
        plan = self.plan
        return StepCode(forward_step(plan.cell, phase, step_type(plan.kind, plan.rows, plan.size)))

    def write(self) -> None:
        """Write the body: each thread takes the steps of its samples."""
        out, plan = self.out, self.plan
        for line in self.scratch.pointers:
            out.line(line)
        with self.walk.shares():
            self._write_initial()
            with self.walk.steps():
                out.line(f"now = step % 2 * {self._states}")
                out.line(f"later = {self._states} - now")
                for number, phase in enumerate(plan.cell.phases):
                    self._write_phase(f"p{number}_", phase)

    def _write_initial(self) -> None:
        """Write the first states to scratch, with zeros in what fills up the last panel."""
        out, plan = self.out, self.plan
        with out.block("for row in range(row_begin, row_end):"):
            for number, name in enumerate(plan.cell.states):
                at = times("row", plan.padded)
                out.line(f"clear({name}, {at}, {plan.padded})")
                if "initial" in self.given:
                    offset = number * len(plan.is_backward) * plan.rows * plan.size
                    strides = [plan.rows * plan.size, plan.size]
                    source = index_text(["d", "row"], strides, offset)
                    out.line(f"copy({name}, {at}, initial, {source}, {plan.size})")
        if "lengths" in self.given:
            write_ends(out, plan)

    def _write_phase(self, tag: str, phase: Phase) -> None:
        out, plan, code = self.out, self.plan, self._code_of(phase)
        inner = str(plan.size)
        if "initial" not in self.given:  # the first step multiplies zeros
            out.line(f"inner = min(step, 1) * {plan.size}")
            inner = "inner"
        source, begin = phase.multiplied, "now" if phase.multiplied == HIDDEN else "0"
        for tile in self.walk.tiles(tag, phase):
            width = phase.gates * tile.vectors * plan.lanes
            out.line(f"w = {self.walk.weights_at(phase, plan.size, phase.gates)}")
            total = f"{tile.name}_t"
            out.line(f"{total} = {tile.filled(source, phase.gates)}")
            at = plus(begin, times("row", plan.padded))
            out.line(
                f"{total} = tile_dot({total}, {source}, {at}, {plan.padded}, 1, recurrent, w, "
                f"{width}, {width}, {inner}, 0, 0)"
            )
            load = partial(self._load, tile, phase)
            made = code.write(out, f"{tile.name}_", plan.lanes, load)
            self._write_results(tile, made)

    def _load(self, tile: Tile, phase: Phase, name: str) -> str:
        """Return the load of an operand of the formulas."""
        if name == HIDDEN:
            return tile.kept(HIDDEN, "now")
        if name.startswith(("bias", "peephole")):
            return load_shared(name, tile)
        if name.startswith("p"):
            gate = int(name[1:]) - phase.first
            return f"tile_columns({tile.name}_t, {gate * tile.vectors}, {tile.vectors})"
        if name.startswith("x"):
            at = self.walk.gate_at(int(name[1:]))
            return tile.load("inputs", at, self.walk.input_stride)
        return tile.kept(name)

    def _write_results(self, tile: Tile, made: dict[str, str]) -> None:
        """Store what a phase has made: states to the result, too, and all to scratch."""
        out, states = self.out, self.plan.cell.states
        if "lengths" in self.given:
            out.line(f"{tile.name}_runs = {ended(tile)}")
        for output, value in made.items():
            name = output.removeprefix(NEXT)
            if name not in states:
                out.line(tile.keep(name, value))
                continue
            begin = "now" if name == HIDDEN else "0"
            if "lengths" in self.given:
                value = f"where({tile.name}_runs, {value}, {tile.kept(name, begin)})"
                out.line(f"{tile.name}_{name} = {value}")
                value = f"{tile.name}_{name}"
            at = self.walk.state_at(states.index(name), step="t")
            out.line(tile.store("dest", at, self.plan.size, value))
            out.line(tile.keep(name, value, "later" if name == HIDDEN else "0"))
