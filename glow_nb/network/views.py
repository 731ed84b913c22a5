"""What can be seen of every network that is compiled: its values, its levels, its state."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from glow_nb.base.arguments import as_path
from glow_nb.base.counted import visible_types
from glow_nb.base.override import override
from glow_nb.base.types import SymbolicType, TensorType
from glow_nb.network.levels import Border, Levels, MakeLevels
from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    from pathlib import Path

    from glow_nb.backends.backend import Executable
    from glow_nb.base.kernel_report import KernelList
    from glow_nb.base.precision import PrecisionReport
    from glow_nb.base.size import Guard
    from glow_nb.compiler.pipelines import Pipeline
    from glow_nb.hlir.graph import Function
    from glow_nb.llir.program import Program
    from glow_nb.network.memory_report import MemoryReport
    from glow_nb.network.rebuilding import Rebuilding


class NetworkViews(ABC):
    """A network as far as one looks at it; :class:`~glow_nb.Network` is what one runs.

    Attributes:
        takes_turns: Its runs are made one after the other, although it has no state.
    """

    takes_turns: ClassVar[bool] = False

    @property
    @abstractmethod
    def state(self) -> StateStore:
        """The states by name; what is read is a copy, what is assigned is checked and copied."""

    def save_state(self, path: str | os.PathLike[str]) -> None:
        """Write the state to the safetensors file *path*, whole or not at all.

        Raises:
            StateError: A run is in progress.
            GlowError: The file cannot be written.
        """
        from glow_nb.network.state_files import save_state

        save_state(self.state, as_path(path))

    def load_state(self, path: str | os.PathLike[str]) -> None:
        """Read the state from the safetensors file *path*, all of it or nothing.

        Raises:
            StateError: The file has other names, kinds or shapes (all of them are listed), is
                damaged or cannot be read, or a run is in progress.
        """
        from glow_nb.network.state_files import load_state

        load_state(self.state, as_path(path))

    @property
    @abstractmethod
    def inputs(self) -> Mapping[str, TensorType | SymbolicType]:
        """Name and type of each input, in order; sizes that are open show as their names."""

    @property
    def defaults(self) -> Mapping[str, SymbolicType]:
        """Name and type of each further input, which need not be fed: the model has its numbers.

        These are the initializers that an ONNX model lists as inputs, too. For feeds that replace
        some, the network is compiled once more, with them as inputs.
        """
        return {}

    @property
    @abstractmethod
    def outputs(self) -> Mapping[str, TensorType | SymbolicType]:
        """Name and type of each output, in order; sizes that are open show as their names."""

    @property
    @abstractmethod
    def value_names(self) -> list[str]:
        """The names of all values that nodes of the model compute, as ``run(watch=...)`` takes."""

    @property
    @abstractmethod
    def threads(self) -> int:
        """Cores that share the work of one run."""

    @property
    @abstractmethod
    def program(self) -> Program:
        """The instructions, allocated."""

    @property
    @abstractmethod
    def function(self) -> Function | None:
        """The graph after lowering and optimization; None if a program was given."""

    @property
    @abstractmethod
    def memory(self) -> MemoryReport:
        """The memory that the network needs."""

    @property
    @abstractmethod
    def pipeline(self) -> Pipeline:
        """Each step and pass that the network was compiled by, in order, those of the backend, too.

        Printed as a table of their names and of what they do.
        """

    @property
    @abstractmethod
    def precision(self) -> PrecisionReport:
        """In which kind of floats its layers compute, and why: what became of ``precision=``.

        Printed as a table. Of a network that computes in the kinds of its model, it has no layers.
        """

    @property
    @abstractmethod
    def kernels(self) -> KernelList:
        """What was generated for each instruction, and of which nodes, in execution order."""

    @property
    @abstractmethod
    def source(self) -> str:
        """The generated source: the entry and every kernel once."""

    def _repr_html_(self) -> str:
        """Return for a notebook what the network is, with its inputs and outputs."""
        from glow_nb.base.table import Table, html_text
        from glow_nb.base.text import format_name

        values = [("input", n, t) for n, t in self.inputs.items()]
        values += [("output", n, t) for n, t in self.outputs.items()]
        rows = tuple((what, format_name(name), str(type)) for what, name, type in values)
        return html_text(self._title()) + Table(("", "name", "type"), rows)._repr_html_()

    @abstractmethod
    def _title(self) -> str:
        """Return what the network is in a line, without its inputs and outputs."""

    def _show_types(self) -> str:
        inputs = ", ".join(f"{name}: {type}" for name, type in self.inputs.items())
        outputs = ", ".join(f"{name}: {type}" for name, type in self.outputs.items())
        return f"({inputs}) -> ({outputs})"


class CompiledViews(NetworkViews):
    """What can be seen of a network of fixed sizes.

    Attributes:
        sizes: For a network that leaves sizes open, the sizes that it was compiled for.
        executable: The executable.
        rebuilding: The object that compiles it again, and knows the model.
    """

    rebuilding: Rebuilding[Any]

    def __init__(
        self,
        border: Border,
        executable: Executable,
        levels: MakeLevels,
        threads: int,
        *,
        state: StateStore,
        sizes: str,
        defaults: Mapping[str, SymbolicType],
    ) -> None:
        """Show *executable*, whose border is *border*; *levels* is called at first use."""
        self._border, self._make_levels, self._threads = border, levels, threads
        self._state, self.sizes, self._default_types = state, sizes, defaults
        self.executable = executable

    @cached_property
    def _levels(self) -> Levels:
        return self._make_levels()

    @property
    def name(self) -> str:
        """The name of the program."""
        return self._border.name

    @property
    def border(self) -> Border:
        """Its inputs and outputs."""
        return self._border

    @property
    def guards(self) -> tuple[Guard, ...]:
        """The comparisons of open sizes for which the network is right, beside their ranges."""
        found: tuple[Guard, ...] = getattr(self.executable, "guards", ())
        return found

    @property
    @override
    def state(self) -> StateStore:
        return self._state

    @property
    @override
    def program(self) -> Program:
        return self._levels.program

    @property
    @override
    def function(self) -> Function | None:
        return self._levels.function

    @property
    @override
    def threads(self) -> int:
        return self._threads

    @property
    @override
    def inputs(self) -> dict[str, TensorType]:
        """Name and type of each input, in order."""
        return dict(self._border.inputs)

    @property
    @override
    def defaults(self) -> dict[str, SymbolicType]:
        return dict(self._default_types)

    @property
    @override
    def outputs(self) -> dict[str, TensorType]:
        """Name and type of each output, in order; ``int64<<=12 x 3>`` has at most 12 rows."""
        return visible_types(self._border.outputs, self._border.counted)

    @property
    @override
    def memory(self) -> MemoryReport:
        """The memory that the network needs."""
        from glow_nb.network.memory_report import report_memory

        return report_memory(self.program, self.executable, self.sizes)

    @property
    @override
    def pipeline(self) -> Pipeline:
        return self._levels.pipeline

    @property
    @override
    def precision(self) -> PrecisionReport:
        from glow_nb.base.precision import PrecisionReport
        from glow_nb.network.integer_weights import instructions_with_integer_weights

        found = self._levels.precision
        known = PrecisionReport() if found is None else found
        return replace(known, integer_instructions=instructions_with_integer_weights(self.program))

    @property
    @override
    def kernels(self) -> KernelList:
        """What was generated for each instruction, and of which nodes, in execution order."""
        from glow_nb.base.kernel_report import KernelList

        return KernelList(self.executable.kernels, self.sizes)

    @property
    def debug_folder(self) -> Path | None:
        """Sources, code with debug information, and commands of gdb, if ``debug=True`` was said."""
        folder: Path | None = getattr(self.executable, "debug_folder", None)
        return folder

    @property
    @override
    def source(self) -> str:
        """The generated source: the entry and every kernel once."""
        speaks_of = f"# for {self.sizes}\n" if self.sizes else ""
        return speaks_of + self.executable.source

    @override
    def _title(self) -> str:
        from glow_nb.base.text import format_name

        return f"CompiledNetwork {format_name(self.name)}: {self.memory}"

    @override
    def __repr__(self) -> str:
        from glow_nb.base.text import format_name

        name = format_name(self.name)
        return f"<CompiledNetwork {name} {self._show_types()}, {self.memory}>"
