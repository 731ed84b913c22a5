"""The graph and the program of a compiled network, in memory or read at first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from glow_nb.base.counted import Counted
from glow_nb.base.size import Symbol, hinted, symbols_of
from glow_nb.base.types import TensorType

if TYPE_CHECKING:
    from glow_nb.base.precision import PrecisionReport
    from glow_nb.compiler.pipelines import Pipeline
    from glow_nb.hlir.graph import Function
    from glow_nb.llir.program import Program


class Border(NamedTuple):
    """The inputs and outputs of a network; all that a run must know of a program beside its code.

    Attributes:
        name: The name of the program.
        inputs: Type of each input by name, in order.
        outputs: Type of each output by name, in order.
        counted: For outputs whose size is data-dependent: the valid part.
        has_state: Whether something stays from run to run.
    """

    name: str
    inputs: dict[str, TensorType]
    outputs: dict[str, TensorType]
    counted: dict[str, Counted]
    has_state: bool

    @classmethod
    def of(cls, program: Program) -> Border:
        """Return that of *program*."""
        return cls(
            program.name,
            {buffer.name: buffer.type for buffer in program.inputs},
            {buffer.name: buffer.type for buffer in program.outputs},
            {b.name: b.counted for b in program.outputs if b.counted},
            bool(program.state),
        )

    @classmethod
    def of_function(cls, function: Function) -> Border:
        """Return that of *function*, which has no state."""
        return cls(
            function.name,
            {value.name: value.type for value in function.inputs},
            {value.name: value.type for value in function.outputs},
            {value.name: value.counted for value in function.outputs if value.counted},
            False,
        )

    def at(self, sizes: Mapping[str, int]) -> Border:
        """Return the border for *sizes* by name; what a run decides stays open."""

        def sized(type: TensorType) -> TensorType:
            is_known = all(symbol.name in sizes for symbol in symbols_of(*type.shape))
            return type.at(sizes) if is_known else type

        return self._replace(
            inputs={name: sized(type) for name, type in self.inputs.items()},
            outputs={name: sized(type) for name, type in self.outputs.items()},
        )

    @property
    def example(self) -> dict[str, tuple[int, ...]]:
        """The shape of each input for the sizes that the program was planned for."""
        return {name: tuple(map(hinted, type.shape)) for name, type in self.inputs.items()}

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The sizes that inputs determine, if some are open."""
        return symbols_of(*(size for type in self.inputs.values() for size in type.shape))


class Levels(NamedTuple):
    """A network level by level, and how one was made of the other.

    Attributes:
        function: The graph after lowering and optimization; None if a program was given.
        program: The instructions, allocated.
        pipeline: The pipeline that compiled it.
        precision: In which kind of floats its layers compute; None for that of the model.
    """

    function: Function | None
    program: Program
    pipeline: Pipeline
    precision: PrecisionReport | None = None


MakeLevels = Callable[[], Levels]
"""Returns the levels, which may be read from a file first."""
