"""The kernel of the gradients of a recurrent layer: its steps from the last to the first.

A step turns the gradients of its states into those of what its gates got, by formulas, and hands
on what flows through the product to the states before: a product with the transposed weights. All
sums over steps are left to ordinary products.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from glow_nb.base.size import surely
from glow_nb.base.types import ElementKind
from glow_nb.hlir.ops.formulas.recurrence.cells import HIDDEN, Phase
from glow_nb.hlir.ops.formulas.recurrence.steps import DOWN, UP, backward_step, gates_of, step_type
from glow_nb.kernels.recurrence.plan import RecurrencePlan, Scratch
from glow_nb.kernels.recurrence.walk import Tile, Walk, ended, load_shared, write_ends
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import index_text, plus, times
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.step_code import StepCode
from glow_nb.llir.instructions.recurrence import RecurrenceGradientInst
from glow_nb.llir.program import kernel_operands

OPERANDS = ("dest", "first_states", "upstream", "inputs", "products", "previous", "recurrent")
OPTIONAL = ("bias", "peepholes", "lengths")


@kernel_for(RecurrenceGradientInst)
def recurrence_gradient_source(instruction: RecurrenceGradientInst, target: Target) -> KernelSource:
    """Return the kernel of the gradients of the inputs and of the first states.

    Raises:
        UnsupportedError: The weights are not packed for vectors of *target*.
    """
    plan = RecurrencePlan.of(instruction, target, is_transposed=True)
    kinds = tuple(buffer.type.kind for buffer in kernel_operands(instruction))
    given = [name for name in OPTIONAL if getattr(instruction, name) is not None]
    out = SourceWriter()
    out.line(f"# {instruction.cell} backwards, {plan.steps} steps of {plan.rows} x {plan.size}")
    writer = _Writer(out, plan, Walk(out, plan), frozenset(given))
    with out.block(f"def kernel({', '.join((*OPERANDS, *given))}, scratch, thread, threads):"):
        if surely(instruction.first.type.size, "==", 0):
            out.line("return")
        else:
            writer.write()
    return KernelSource("recurrence_gradient", out.text, kinds, writer.scratch.size_bytes)


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
    def scratch(self) -> Scratch:
        """Gradients of states, of products, and of what an inner product has multiplied."""
        plan, kind = self.plan, self.plan.kind
        states = plan.rows * plan.padded
        parts = {DOWN + name: (states, kind) for name in plan.cell.states}
        parts["slopes"] = (plan.rows * self._slope_row, kind)
        parts |= {UP + phase.multiplied: (states, kind) for phase in plan.cell.phases[1:]}
        if "lengths" in self.given:
            parts["ends"] = (plan.rows * plan.widest, ElementKind.INT32)
        return Scratch(parts)

    @property
    def _slope_row(self) -> int:
        return self.plan.cell.gates * self.plan.size

    def _code_of(self, phase: Phase) -> StepCode:
        plan = self.plan
        type = step_type(plan.kind, plan.rows, plan.size)
        return StepCode(backward_step(plan.cell, phase, type))

    def write(self) -> None:
        """Write the body: each thread takes the steps of its samples."""
        out, plan = self.out, self.plan
        for line in self.scratch.pointers:
            out.line(line)
        with self.walk.shares():
            with out.block("for row in range(row_begin, row_end):"):
                for name in plan.cell.states:
                    out.line(f"clear({DOWN}{name}, {times('row', plan.padded)}, {plan.padded})")
            if "lengths" in self.given:
                write_ends(out, plan)
            with self.walk.steps(opposite=True):
                for number, phase in reversed(list(enumerate(plan.cell.phases))):
                    self._write_formulas(f"f{number}_", phase)
                    self._write_product(f"p{number}_", phase)
            with out.block("for row in range(row_begin, row_end):"):
                self._write_first()

    def _write_first(self) -> None:
        """Write the gradients of the first states of a sample."""
        plan = self.plan
        for number, name in enumerate(plan.cell.states):
            offset = number * len(plan.is_backward) * plan.rows * plan.size
            place = index_text(["d", "row"], [plan.rows * plan.size, plan.size], offset)
            source = times("row", plan.padded)
            self.out.line(f"copy(first_states, {place}, {DOWN}{name}, {source}, {plan.size})")

    def _write_formulas(self, tag: str, phase: Phase) -> None:
        out, plan, code = self.out, self.plan, self._code_of(phase)
        is_last = phase is plan.cell.phases[-1]
        for tile in self.walk.tiles(tag, phase):
            if is_last:
                self._write_totals(tile)
            if "lengths" in self.given:
                out.line(f"{tile.name}_runs = {ended(tile)}")
            load = partial(self._load, tile, is_last)
            made = code.write(out, f"{tile.name}_", plan.lanes, load)
            self._write_slopes(tile, made, is_last=is_last)
            for name in plan.cell.states:
                self._write_down(tile, name, made.get(DOWN + name), is_last=is_last)

    def _write_totals(self, tile: Tile) -> None:
        """Add up what comes from the results and from the step behind."""
        for number, name in enumerate(self.plan.cell.states):
            at = self.walk.state_at(number, step="t")
            above = tile.load("upstream", at, self.plan.size)
            self.out.line(f"{tile.name}_{name} = add({above}, {tile.kept(DOWN + name)})")

    def _load(self, tile: Tile, is_last: bool, name: str) -> str:
        """Return the load of an operand of the formulas."""
        plan, states = self.plan, self.plan.cell.states
        if name in states:
            return tile.load(
                "previous", self.walk.state_at(states.index(name), step="t"), plan.size
            )
        if name.startswith(UP):
            return f"{tile.name}_{name.removeprefix(UP)}" if is_last else tile.kept(name)
        if name.startswith(("bias", "peephole")):
            return load_shared(name, tile)
        pointer = {"x": "inputs", "p": "products"}[name[0]]
        return tile.load(pointer, self.walk.gate_at(int(name[1:])), self.walk.input_stride)

    def _write_slopes(self, tile: Tile, made: dict[str, str], *, is_last: bool) -> None:
        """Store the gradients of what the gates got, and those of the products."""
        plan = self.plan
        known = {gate: made[f"{DOWN}x{gate}"] for gate in gates_of(made, f"{DOWN}x")}
        if is_last:  # gates that no formula reads
            unread = set(range(plan.cell.gates)) - self._gates_of_all_phases
            known |= {gate: tile.filled("slopes") for gate in unread}
        for gate, slope in known.items():
            slope = self._while_running(tile, slope)
            self.out.line(f"{tile.name}_s = {slope}")
            place = self.walk.gate_at(gate)
            self.out.line(tile.store("dest", place, self.walk.input_stride, f"{tile.name}_s"))
            product = made.get(f"{DOWN}p{gate}")
            if product:
                self.out.line(f"{tile.name}_s = {self._while_running(tile, product)}")
            at = index_text(["row", "c"], [self._slope_row, 1], gate * plan.size)
            self.out.line(tile.store("slopes", at, self._slope_row, f"{tile.name}_s"))

    @property
    def _gates_of_all_phases(self) -> set[int]:
        phases = self.plan.cell.phases
        return {g for p in phases for g in gates_of(self._code_of(p).makes, f"{DOWN}x")}

    def _while_running(self, tile: Tile, value: str, other: str = "") -> str:
        """Return *value*, or *other* (by default 0) for samples that have ended."""
        if "lengths" not in self.given:
            return value
        return f"where({tile.name}_runs, {value}, {other or tile.filled('slopes')})"

    def _write_down(self, tile: Tile, name: str, value: str | None, *, is_last: bool) -> None:
        """Store what the formulas hand on to the state before; the product adds its part."""
        if is_last:
            kept = self._while_running(tile, value or tile.filled("slopes"), f"{tile.name}_{name}")
            self.out.line(tile.keep(DOWN + name, kept))
        elif value:
            more = self._while_running(tile, value)
            self.out.line(tile.keep(DOWN + name, f"add({tile.kept(DOWN + name)}, {more})"))

    def _write_product(self, tag: str, phase: Phase) -> None:
        """Multiply the gradients of the products of a phase by its transposed weights."""
        out, plan = self.out, self.plan
        is_first = phase is plan.cell.phases[0]
        target = DOWN + HIDDEN if is_first else UP + phase.multiplied
        inner = phase.gates * plan.size
        for tile in self.walk.tiles(tag, phase):
            out.line(f"w = {self.walk.weights_at(phase, inner, 1)}")
            total = f"{tile.name}_t"
            out.line(f"{total} = {tile.kept(target) if is_first else tile.filled('slopes')}")
            at = plus(times("row", self._slope_row), phase.first * plan.size)
            out.line(
                f"{total} = tile_dot({total}, slopes, {at}, {self._slope_row}, 1, recurrent, w, "
                f"{plan.widest}, {plan.widest}, {inner}, 0, 0)"
            )
            out.line(tile.keep(target, total))
