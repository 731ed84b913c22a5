"""Runs that look at what each kernel writes: ``compile(check_finite=True)``.

The program is made once more, with a copy of each result after the instruction that writes it, and
the copies are looked at when the run has ended. So the kernels compute what they always compute, a
run moves states on once, and its memory holds all results.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from glow_nb.base.counted import cut
from glow_nb.base.finite import BadElement, FiniteCheck, NonFiniteError
from glow_nb.base.outputs import Outputs
from glow_nb.base.sizes_of_shapes import sizes_of_shapes
from glow_nb.base.text import format_name
from glow_nb.base.types import Array, TensorType
from glow_nb.llir.program import Program, StateBuffer, mutated, read
from glow_nb.network.levels import Border
from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    from glow_nb.backends.backend import Executable, StatefulExecutable
    from glow_nb.base.kernel_report import KernelReport
    from glow_nb.llir.probes import Probe
    from glow_nb.llir.program import Buffer, Instruction, Weight
    from glow_nb.network.rebuilding import Rebuilding


class CheckedExecutable:
    """A program whose results are looked at."""

    def __init__(
        self,
        check: FiniteCheck,
        border: Border,
        program: Callable[[], Program],
        rebuilding: Rebuilding[Any],
        plain: Executable,
    ) -> None:
        """Look at what the kernels of *program*, whose executable is *plain*, write.

        *rebuilding* makes a program run that has further copies, and has the model.
        """
        self._check, self._border = check, border
        self._program, self._rebuilding, self._plain = program, rebuilding, plain

    @cached_property
    def _probed(self) -> tuple[Executable, list[Probe]]:
        """What runs with copies, and what is copied; made at the first run."""
        from glow_nb.llir.probes import probes, with_probes

        program = self._program()
        chosen = probes(program)
        return self._rebuilding.executable(with_probes(program, chosen)[0]), chosen

    def _is_checked(self, probe: Probe) -> bool:
        instruction = probe.instruction
        names = {instruction.name, probe.buffer.name, *instruction.imported_names}
        # With a predicate, some of the results are arbitrary.
        is_whole = instruction.predicate is None
        return probe.buffer.type.kind.is_float and is_whole and not self._check.excludes(names)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run on *inputs*; return the outputs, or raise NonFiniteError, which has them."""
        return self._checked(inputs, self._fault_of_inputs(inputs), self._probed[0].run(inputs))

    def run_on(self, state: StateStore, inputs: Sequence[Array]) -> list[Array]:
        """Do what :meth:`run` does, on *state*."""
        stateful: StatefulExecutable = cast(Any, self._probed[0])
        with state.for_reading() as held:  # before the run, which writes over it
            fed = self._fault_of_inputs(inputs) or self._fault_of_states(held)
        return self._checked(inputs, fed, stateful.run_on(state, inputs))

    def _checked(
        self, inputs: Sequence[Array], fed: NonFiniteError | None, results: list[Array]
    ) -> list[Array]:
        """Return the outputs among *results*; raise what was wrong with what is *fed*, or is."""
        names = self._border.outputs
        outputs, copies = results[: len(names)], results[len(names) :]
        error = fed or self._fault_of_kernels(inputs, copies)
        if error is None:
            return outputs
        named = Outputs(zip(names, outputs, strict=True))
        error.outputs = cut(named, self._border.counted)
        raise error

    def _bad_element(self, name: str, type: TensorType, array: Array) -> BadElement | None:
        """Return the first wrong number of what comes into a run as *name*."""
        is_looked_at = type.kind.is_float and not self._check.excludes([name])
        return self._check.bad_element(array) if is_looked_at else None

    def _fault_of_inputs(self, inputs: Sequence[Array]) -> NonFiniteError | None:
        for (name, type), array in zip(self._border.inputs.items(), inputs, strict=True):
            bad = self._bad_element(name, type, array)
            if bad is not None:
                message = f"{bad}; feed finite numbers, or allow it: {_allowing(name)}"
                return NonFiniteError(f"input {name!r}: {message}", bad, name, (name,))
        return None

    def _fault_of_states(self, held: Mapping[str, Array]) -> NonFiniteError | None:
        program = self._program()
        used = {buffer.root for instruction in program.work for buffer in read(instruction)}
        for state in program.state:
            bad = self._bad_element(state.name, state.type, held[state.name])
            if bad is not None and state in used:
                return NonFiniteError(
                    f"state {state.name!r}: {bad} before the run; assign finite numbers "
                    f"(net.state[{state.name!r}] = ...), or allow it: {_allowing(state.name)}",
                    bad,
                    state.name,
                    (state.name,),
                )
        return None

    def _fault_of_constants(self, instruction: Instruction, kernel: str) -> NonFiniteError | None:
        """Return the error about a constant that *instruction*, of a *kernel* at fault, reads."""
        constants = set(self._program().weights)
        read_here = [b.root for b in read(instruction) if b.root in constants]
        for held in (self._constants_of_model(instruction, read_here), read_here):
            for constant in cast("Sequence[Weight]", held):
                bad = self._bad_element(constant.name, constant.type, constant.array)
                if bad is not None:
                    names = instruction.imported_names
                    return NonFiniteError(
                        f"constant {constant.name!r}: {bad}; {kernel}, {_shown(names)}, reads it, "
                        "and no earlier kernel writes a number that is not finite; give the model "
                        "finite numbers there, or, if this is intended, allow the constant and its "
                        "reader: "
                        f"{_allowing(constant.name, *names[:1])}",
                        bad,
                        constant.name,
                        (constant.name,),
                    )
        return None

    def _constants_of_model(
        self, instruction: Instruction, read_here: Sequence[Any]
    ) -> Sequence[Any]:
        """Return the constants of the model of which passes made those that are *read_here*."""
        if not any(self._bad_element(w.name, w.type, w.array) for w in read_here):
            return ()
        model = self._rebuilding.model()
        if model is None or isinstance(model, Program):
            return ()
        from glow_nb.hlir.watched import constants_behind

        return constants_behind(model, instruction.imported_names)

    def _fault_of_kernels(
        self, inputs: Sequence[Array], copies: Sequence[Array]
    ) -> NonFiniteError | None:
        program, chosen = self._at_sizes_of(inputs)
        for index, (probe, copy) in enumerate(zip(chosen, copies, strict=True)):
            bad = self._check.bad_element(probe.value(copy)) if self._is_checked(probe) else None
            if bad is not None and probe.buffer in self._hidden_values(program):
                value = probe.value(copy)
                bad = self._check.bad_element(np.where(np.isneginf(value), 0, value))
            if bad is None:
                continue
            report: KernelReport = self._plain.kernels[probe.number]
            whole = probe.instruction.imported_names
            before = list(zip(chosen[:index], copies, strict=False))
            found = self._first_at_fault(program, probe.instruction, inputs, before)
            member = found or probe.instruction
            kernel = f"kernel {probe.number} ({report.family})"
            if came_in := self._fault_of_constants(member, kernel):
                return came_in
            operators = member.imported_names or whole
            within = f", in the kernel of {_shown(whole)}" if operators != whole else ""
            one_of = "one of " if len(operators) > 1 else ""
            return NonFiniteError(
                f"{kernel}: {one_of}{_shown(operators)} writes a number that is not "
                f"finite{within}: {bad}, in %{format_name(probe.buffer.name)} : "
                f"{probe.buffer.type}; no earlier kernel does; if this is intended, allow it: "
                f"{_allowing(*operators[:1])}",
                bad,
                probe.buffer.name,
                operators,
                probe.number,
                report.family,
            )
        return None

    def _hidden_values(self, program: Program) -> Collection[Buffer]:
        """Return the buffers of *program* that have scores which attention hides by -inf."""
        from glow_nb.llir.meant_infinities import hidden_values

        def is_of_model(instruction: Instruction, weight: Weight) -> bool:
            found = self._constants_of_model(instruction, [weight])
            return any(self._bad_element(c.name, c.type, c.array) for c in found)

        return hidden_values(program, is_of_model)

    def _at_sizes_of(self, inputs: Sequence[Array]) -> tuple[Program, Sequence[Probe]]:
        """Return the program and the copied values, with the sizes that *inputs* determine."""
        from glow_nb.llir.order_placement import placed_for
        from glow_nb.llir.probes import probes
        from glow_nb.llir.with_sizes import symbols_of_program

        program, chosen = self._program(), self._probed[1]
        symbols = symbols_of_program(program)
        if not symbols:
            return program, chosen
        types = {buffer.name: buffer.type for buffer in program.inputs}
        shapes = dict(zip(types, (array.shape for array in inputs), strict=True))
        sized = placed_for(program, sizes_of_shapes(types, symbols, shapes))
        return sized, probes(sized)

    def _first_at_fault(
        self,
        program: Program,
        instruction: Instruction,
        inputs: Sequence[Array],
        before: Sequence[tuple[Probe, Array]],
    ) -> Instruction | None:
        """Return the first member of a stack of *program* that makes a wrong number.

        NumPy computes the members on what is known to have been written *before*. None is
        returned where that does not tell: of no stack, or of one that reads a state.
        """
        from glow_nb.backends.interpreter import InterpretedProgram
        from glow_nb.llir.probes import contents
        from glow_nb.llir.stack import StackInst

        used = {buffer.root for buffer in (*read(instruction), *mutated(instruction))}
        roots = used.difference(program.weights)
        if not isinstance(instruction, StackInst) or any(isinstance(b, StateBuffer) for b in roots):
            return None
        held = contents(roots, dict(zip(program.inputs, inputs, strict=True)), before)
        found: list[Instruction] = []

        def watch(member: Instruction, array: Array) -> None:
            if mutated(member)[0].type.kind.is_float and self._check.bad_element(array):
                found.append(member)

        InterpretedProgram(program).results_of(instruction, held, watch)
        return found[0] if found else None


def _shown(names: Sequence[str]) -> str:
    return ", ".join(f"%{format_name(name)}" for name in names) or "no node of the model"


def _allowing(*names: str) -> str:
    return f"check_finite=glow_nb.FiniteCheck(exclude={list(names)})"
